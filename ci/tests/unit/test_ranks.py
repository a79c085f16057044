"""The ranks of a container are started once before the rounds: what they say, and what is tried then."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import REPOSITORY, findings_of, record_of, run_of, write_commands
from containercheck.node.job import launch, rank_trial
from containercheck.node.verdict.findings import provenance
from containercheck.site import sites
from hypothesis import given
from hypothesis import strategies as st
from saved import OUTPUTS

# As printed by Open MPI 4.1.4 of Debian 12 under Open MPI 5.0.7 of Debian 13.
OLD = "library Open MPI v4.1.4\nown 4.2.2\nserver 5.0.7\n"
ALONE = OLD + "rank 0 of 1\n"
TOGETHER = "library Open MPI v4.1.4\nown 4.2.2\nserver 4.2.2\nrank {} of 2\n"


def said(*texts):
    """Return a script of two ranks that say this, one after the other."""
    return "".join(f"cat <<'END'\n{text}END\n" for text in texts)


ONE_JOB = said(*(TOGETHER.format(rank) for rank in range(2)))
SINGLETONS = said(ALONE, ALONE)
ENDED = said(OLD, OLD, "Local abort before MPI_INIT completed\n") + "exit 1\n"
NAMED = "the host starts ranks with PMIx 5.0.7 (Open MPI 5.0.7), the image's Open MPI 4.1.4 has PMIx 4.2.2"
#: The right answer where the words of the way for Open MPI 4 stand before the container.
NEEDS_WORDS = f"started='{{{{start}}}}'\nif [ -n \"$started\" ]; then\n{ONE_JOB}else\n{ENDED}fi\n"


def launcher(directory, version="mpirun (Open MPI) 5.0.7", pmix="5.0.7", greets=""):
    """Make a launcher that says its version, and starts a command with its PMIx."""
    program = directory / "launcher"
    offers = f"export PMIX_VERSION={pmix}" if pmix else "true"
    program.write_text(
        f"#!/bin/sh\n{greets}[ $1 != --version ] || {{ echo '{version}'; exit; }}\n{offers}\nexec \"$@\"\n"
    )
    program.chmod(0o755)
    return str(program)


@pytest.fixture
def start(tmp_path):
    """Run the program on scripts that stand for a launcher with a container."""

    def run(plain, inside="exit 1\n", *options, lookup="echo /usr/local/bin/mpi-ranks\n", **host):
        runs = {"run": "mpirun {{start}} apptainer hpcc", "run-inside": "apptainer mpirun hpcc"}
        write_commands(tmp_path, subject={**runs, "ranks": plain, "ranks-inside": inside, "look-up": lookup})
        program = [sys.executable, str(REPOSITORY / "checks" / "containercheck" / "node"), "ranks"]
        words = ["--ranks=2", f"--launcher={launcher(tmp_path, **host)}", *options, "subject"]
        return subprocess.run([*program, *words], cwd=tmp_path, text=True, capture_output=True, timeout=120)

    return run


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return how a run of the side is started afterwards."""
    monkeypatch.chdir(tmp_path)
    return lambda: launch.Launch("subject").run


def started(directory):
    return json.loads((directory / "subject.started.json").read_text())


def test_ranks_that_find_each_other_are_started_as_they_are(start, run, tmp_path):
    result = start(ONE_JOB)
    assert result.returncode == 0, result.stderr
    assert started(tmp_path) == {"started": "by the job's launcher", "because": ""}
    assert run() == "mpirun apptainer hpcc"


def test_open_mpi_4_gets_the_environment_that_it_needs(start, run, tmp_path):
    result = start(NEEDS_WORDS)
    assert result.returncode == 0, result.stderr
    assert run() == f"mpirun {rank_trial.AS_JSM.words} apptainer hpcc"
    found = started(tmp_path)
    assert found["started"] == rank_trial.AS_JSM.said
    assert found["because"] == f"{NAMED}: none came through MPI_Init"


def test_on_one_node_the_images_own_launcher_is_the_last_way(start, run, tmp_path):
    result = start(SINGLETONS, ONE_JOB)
    assert result.returncode == 0, result.stderr
    assert run() == "apptainer mpirun hpcc"
    assert started(tmp_path)["started"] == rank_trial.INSIDE.said


@pytest.mark.parametrize(
    ("plain", "options", "came"),
    [
        (SINGLETONS, ["--nodes=2"], "2 of 2 ranks came up, each as a job of its own (singletons)"),
        (ENDED, ["--nodes=2"], "none came through MPI_Init"),
        (said(TOGETHER.format(0), OLD), ["--nodes=2"], "1 of 2 ranks came up, of a job of 2"),
        # With the host's MPI there is one way only.
        (NEEDS_WORDS, ["--host-mpi"], "none came through MPI_Init"),
        # Not even the last way helps.
        (SINGLETONS, [], "2 of 2 ranks came up, each as a job of its own (singletons)"),
    ],
)
def test_launcher_and_image_that_do_not_understand_each_other_are_named(start, tmp_path, plain, options, came):
    result = start(plain, "exit 1\n", *options)
    assert result.returncode == 1
    assert result.stderr == f"error: {NAMED}: {came}. {rank_trial.OTHER_IMAGE} {rank_trial.ADVICE}\n"
    assert not (tmp_path / "subject.started.json").exists()


def test_ranks_that_should_understand_their_launcher_are_not_helped(start):
    """What the container keeps from them is a fault of the container, and the check is there to find it."""
    alone = ALONE.replace("server 5.0.7", "server none")
    result = start(said(alone, alone), ONE_JOB, version="mpirun (Open MPI) 4.1.4", pmix="4.2.2")
    assert result.returncode == 1
    assert result.stderr == (
        "error: 2 of 2 ranks came up, each as a job of its own (singletons); what the launcher sets in their "
        "environment does not reach them (host: Open MPI 4.1.4, image: Open MPI 4.1.4, both with PMIx 4.2.2). "
        f"Check {rank_trial.ADVICE}\n"
    )


def test_a_container_that_does_not_start_says_what_it_said(start):
    result = start("echo 'FATAL: could not open image.sif' >&2\nexit 255\n", ONE_JOB)
    said = "error: the ranks cannot be started in the container (Open MPI 5.0.7): FATAL: could not open"
    assert result.stderr.startswith(said)


def test_a_launcher_without_pmix_is_named_so(start, tmp_path):
    alone = ALONE.replace("server 5.0.7", "server none")
    slurm = {"version": "slurm-wlm 22.05.8", "pmix": ""}
    why = "the host starts ranks with no PMIx (Slurm 22.05.8), the image's Open MPI 4.1.4 has PMIx 4.2.2: 2 of 2 ranks"
    assert why in start(said(alone, alone), ONE_JOB, "--nodes=2", **slurm).stderr
    assert start(said(alone, alone), ONE_JOB, **slurm).returncode == 0
    assert started(tmp_path)["started"] == rank_trial.INSIDE.said


def test_ranks_that_wait_for_each_other_are_ended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rank_trial, "PATIENCE", 0.5)
    write_commands(tmp_path, subject={"ranks": said(OLD, OLD) + "sleep 1000\n"})
    seen = rank_trial.Trial("subject", 2).start(rank_trial.PLAIN)
    assert seen.status is None
    assert "did not come up within" in rank_trial.explain(seen, 2, rank_trial.Host("Slurm 22.05.8", "4.2.2"))


def test_an_image_without_the_program_is_not_tried_and_that_is_said(start, tmp_path):
    result = start("exit 1\n", lookup="exit 127\n")
    assert result.returncode == 0, result.stderr
    assert "not tried before the rounds" in started(tmp_path)["started"]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("mpirun (Open MPI) 5.0.7\n\nReport bugs to", "Open MPI 5.0.7"),
        ("slurm 22.05.8", "Slurm 22.05.8"),
        ("slurm-wlm 22.05.8", "Slurm 22.05.8"),
        ("HYDRA build details:\n    Version:                                 4.0.2", "MPICH 4.0.2"),
    ],
)
def test_launchers_tell_their_version_and_their_pmix(tmp_path, version, expected):
    assert rank_trial.ask_host(f"{launcher(tmp_path, version)} env") == rank_trial.Host(expected, "5.0.7")
    assert rank_trial.ask_host(launcher(tmp_path, version, pmix="")) == rank_trial.Host(expected, "")
    assert rank_trial.ask_host("no-such-launcher -n 2") == rank_trial.Host("no-such-launcher", "")


#: Versions of Open MPI and PMIx in releases of Debian and Ubuntu.
RELEASES = {
    "jammy": ("4.1.2", "4.1.2"),
    "bookworm": ("4.1.4", "4.2.2"),
    "noble": ("4.1.6", "5.0.1"),
    "trixie": ("5.0.7", "5.0.7"),
}


@pytest.mark.parametrize("host", RELEASES)
@pytest.mark.parametrize("image", sites.RELEASES)
def test_what_is_tried_on_each_host_with_each_image(host, image):
    (host_mpi, host_pmix), (image_mpi, image_pmix) = RELEASES[host], RELEASES[image]
    seen = rank_trial.Seen(1, [], f"Open MPI v{image_mpi}", image_pmix, host_pmix, "abort")
    found = rank_trial.ways(seen, rank_trial.Host(f"Open MPI {host_mpi}", host_pmix), 1)
    assert (rank_trial.AS_JSM in found) == ((host, image) == ("trixie", "bookworm"))
    assert (rank_trial.INSIDE in found) == (host_pmix[0] != image_pmix[0])


def test_the_results_say_which_way_was_taken(tmp_path):
    known = {"started": "by other means", "because": "of this"}
    (tmp_path / "subject.started.json").write_text(json.dumps(known))
    record = record_of(run_of("baseline", "a"), run_of("subject", "b"))
    assert provenance(record, {}, tmp_path)["started"] == {"subject": "by other means"}
    assert findings_of(record, [], tmp_path).remarks() == ["ranks are started by other means, because of this"]
    (tmp_path / "subject.started.json").write_text(json.dumps({**known, "because": ""}))
    assert findings_of(record, [], tmp_path).remarks() == []


def test_the_version_of_mpich_is_told_in_words():
    assert rank_trial.read("library MPICH Version:\t4.0.2\n", 0).library == "MPICH 4.0.2"


def test_a_variable_that_keeps_the_ranks_apart_is_named_and_proven(start, tmp_path, monkeypatch):
    monkeypatch.setenv("APPTAINER_CLEANENV", "1")
    monkeypatch.setenv("APPTAINER_CACHEDIR", "/tmp")
    apart = f"case '{{{{start}}}}' in *'-u APPTAINER_CLEANENV'*)\n{ONE_JOB};;\n*)\n{SINGLETONS};;\nesac\n"
    done = start(apart, pmix="4.2.2", version="mpirun (Open MPI) 4.1.4")
    assert done.returncode == 1
    assert "APPTAINER_CLEANENV is the cause, proven: without it they come up as one job" in done.stderr


def test_a_variable_of_the_job_that_the_images_mpi_does_not_take_is_named_and_proven(start, monkeypatch):
    """The host's MPI takes it: bare is well."""
    monkeypatch.setenv("OMPI_MCA_pml", "cm")
    apart = f"case '{{{{start}}}}' in *'-u OMPI_MCA_pml'*)\n{ONE_JOB};;\n*)\n{SINGLETONS};;\nesac\n"
    done = start(apart, pmix="4.2.2", version="mpirun (Open MPI) 4.1.4")
    assert done.returncode == 1
    assert "OMPI_MCA_pml is the cause, proven: without it they come up as one job" in done.stderr


def test_a_variable_without_which_nothing_changes_is_not_named(start, monkeypatch):
    monkeypatch.setenv("APPTAINER_CONTAIN", "1")
    done = start(SINGLETONS, pmix="4.2.2", version="mpirun (Open MPI) 4.1.4")
    assert done.returncode == 1
    assert "APPTAINER_CONTAIN" not in done.stderr
    assert "proven" not in done.stderr


@pytest.mark.parametrize(
    ("working", "options", "said_of"),
    [
        ("pmix", [], "with --mpi=pmix they come up as one job. Put it into the site's extras: image_launcher_options"),
        ("pmix", ["--host-mpi"], "Put it into the partition's env_vars: [['SLURM_MPI_TYPE', 'pmix']]"),
        ("pmix_v9", [], ""),
    ],
)
def test_another_pmi_plugin_is_tried_and_proven(run, tmp_path, working, options, said_of):
    """The script stands for a real srun, which test_like.py has."""
    plain = "./srun --mpi=pmi2 {{start}} -n 2 mpi-ranks"
    write_commands(tmp_path, subject={"run": plain, "ranks": plain, "look-up": "true"})
    srun = tmp_path / "srun"
    srun.write_text(
        "#!/bin/sh\ncase $1 in\n"
        "--version) echo 'slurm 22.05.8' ;;\n"
        "--mpi=list) printf 'MPI plugin types are...\\n\\tnone\\n\\tpmi2\\n\\tpmix\\n\\tcray_shasta\\n' ;;\n"
        f"--mpi={working}) {ONE_JOB};;\n*) {SINGLETONS};;\nesac\n"
    )
    srun.chmod(0o755)
    program = [
        sys.executable,
        str(REPOSITORY / "checks" / "containercheck" / "node"),
        "ranks",
        "--ranks=2",
        "--nodes=2",
    ]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [*program, f"--launcher={srun} --mpi=pmi2 -n 2", *options, "subject"],
        cwd=tmp_path,
        env=environment,
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert ("The PMI plugin of srun is the cause, proven" in done.stderr) == bool(said_of), done.stderr
    assert said_of in done.stderr
    # What the rounds would run is as it was.
    assert run() == "./srun --mpi=pmi2 -n 2 mpi-ranks"


def fails_at(number, otherwise=ONE_JOB):
    """Return a script of ranks that do not find each other in one of its starts."""
    return f"echo x >>starts\nif [ $(wc -l <starts) = {number} ]; then\n{SINGLETONS}else\n{otherwise}fi\n"


def test_a_start_that_fails_only_sometimes_proves_nothing(start, monkeypatch):
    """The first start fails. The one without the variable succeeds, and so does the next one with it."""
    monkeypatch.setenv("APPTAINER_CLEANENV", "1")
    done = start(fails_at(1), pmix="4.2.2", version="mpirun (Open MPI) 4.1.4")
    assert done.returncode == 1
    assert "APPTAINER_CLEANENV" not in done.stderr
    assert "they came up: the start fails only sometimes, and nothing is proven" in done.stderr


def test_a_remedy_that_helps_only_sometimes_proves_nothing(start, tmp_path, monkeypatch):
    """Without it all starts fail; with it, the second one."""
    monkeypatch.setenv("APPTAINER_CLEANENV", "1")
    script = f"case '{{{{start}}}}' in *'-u APPTAINER_CLEANENV'*)\n{fails_at(2)};;\n*)\n{SINGLETONS};;\nesac\n"
    done = start(script, pmix="4.2.2", version="mpirun (Open MPI) 4.1.4")
    assert done.returncode == 1
    assert "proven" not in done.stderr
    assert (tmp_path / "starts").read_text().count("x") == 2


def test_chance_proves_a_remedy_of_the_start_in_less_than_a_hundredth_of_all_jobs():
    """Of starts that fail with any probability, whatever is tried: all remedies do nothing."""

    def wrong(p, left):
        """Return the probability that one of the remedies that are left is proven."""
        if not left:
            return 0.0
        goes_on = sum(p * ((1 - p) * p) ** count for count in range(rank_trial.TIMES))
        return (p * (1 - p)) ** rank_trial.TIMES + goes_on * wrong(p, left - 1)

    tried = rank_trial.MOST_TRIED + rank_trial.MOST_PLUGINS
    assert max(p * wrong(p, tried) for p in (step / 1000 for step in range(1001))) < 0.01


def test_what_the_ranks_printed_comes_first_and_equal_versions_are_no_reason(start):
    """Sixteen open files in the container; the same Open MPI on both sides."""
    saved = OUTPUTS / "reasons/openmpi4/open_files"
    plain = f"cat {saved}/out\ncat {saved}/err >&2\nexit 139\n"
    done = start(plain, pmix="4.2.2", version="mpirun (Open MPI) 4.1.4")
    assert done.returncode == 1
    assert done.stderr == (
        "error: the ranks printed: [warn] evutil_make_internal_pipe_: pipe: Too many open files; none came through "
        "MPI_Init (host: Open MPI 4.1.4, image: Open MPI 4.1.4, both with PMIx 4.2.2). "
        f"Check {rank_trial.ADVICE}\n"
    )


@given(st.sampled_from(["", "4.2.2", "5.0.7"]), st.sampled_from(["", "4.2.2", "5.0.7"]), st.lists(st.just(1)))
def test_versions_are_a_reason_only_where_they_differ(host, image, sizes):
    seen = rank_trial.Seen(1, sizes, "Open MPI v4.1.4", image, host, "last", "an error")
    said = rank_trial.explain(seen, 2, rank_trial.Host("Open MPI 4.1.4", host))
    assert said.startswith("the ranks printed: an error; ")
    assert ("the host starts ranks with" in said) == (host != image)


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_a_line_that_is_no_utf_8_ends_no_start(start, tmp_path, monkeypatch, locale):
    """A node's message of the day, in Latin-1, from the launcher and from the ranks."""
    monkeypatch.setenv("LC_ALL", locale)
    greeting = r"printf 'Gr\374\337e von \377\n'"
    done = start(f"{greeting}\n{greeting} >&2\n" + NEEDS_WORDS, greets=f"{greeting}\n")
    assert done.returncode == 0, done.stderr
    assert started(tmp_path)["because"] == f"{NAMED}: none came through MPI_Init"
