"""The ranks of a container are started once before the rounds; what keeps them from it is tried, and proven."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path

import pytest
from conftest import BARE, GENERIC, facts_of, findings_of, record_of, run_of, write_commands, write_program
from containercheck.job import confirmation, launch, observation, rounds, single_run, start_ranks
from containercheck.job.explain import explanation
from containercheck.job.explain.causes import ENDED_BEFORE, ENDING_WELL, MOST
from containercheck.job.outputs.facts import Facts
from containercheck.job.rounds import conclude_start
from containercheck.job.runner import Runner
from containercheck.job.verdict.builds import provenance
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
    offers = f"export PMIX_VERSION={pmix}" if pmix else "true"
    commands = f"{greets}[ $1 != --version ] || {{ echo '{version}'; exit; }}\n{offers}\nexec \"$@\""
    write_program(directory / "launcher", commands)
    return str(directory / "launcher")


@pytest.fixture
def prepare(tmp_path, monkeypatch):
    """Write the commands of a container, scripts that stand for a launcher with it, and go to their directory."""
    monkeypatch.chdir(tmp_path)

    def write(plain, inside="exit 1", lookup="true", words="", **facts):
        runs = {"run": "mpirun {{start}} apptainer hpcc", "run-inside": "apptainer mpirun hpcc"}
        write_commands(tmp_path, subject={**runs, "ranks": plain, "ranks-inside": inside, "look-up": lookup})
        known = {"ranks": 2, "nodes": 1, "launcher": words, "host_mpi": False, "own_network": False, **facts}
        stored = json.loads(Path("commands.json").read_text())
        stored["subject"]["container"]["ranks"] = known
        Path("commands.json").write_text(json.dumps(stored))

    return write


@pytest.fixture
def start(prepare, tmp_path):
    """Find a way for the ranks; return the reason why there is none, or how they start and how a run does."""

    def find(plain, inside="exit 1", lookup="true", facts=(), **host):
        prepare(plain, inside, lookup, launcher(tmp_path, **host), **dict(facts))
        try:
            started = start_ranks.RankStart("subject").find()
        except start_ranks.NotStarted as error:
            return str(error)
        return started["started"], started["because"], launch.Launch("subject").run

    return find


#: What both sides see: nothing that differs.
SEES = json.dumps({"host": "node1", "environment": {}})


@pytest.fixture
def explained(prepare, tmp_path, monkeypatch):
    """Play a job whose container cannot start; return the lines that explain it."""

    def play(plain, words="", remedies=MOST, **facts):
        prepare(plain, words=words or launcher(tmp_path, "mpirun (Open MPI) 4.1.4", "4.2.2"), **facts)
        for name in ("baseline", "subject"):
            Path(f"{name}.observed.json").write_text(SEES)
        record = lambda name, ranks, patience: Path(f"{name}.observed.json").write_text(SEES)  # noqa: E731
        monkeypatch.setattr(observation, "record", record)
        known = Facts(facts_of(sides=[BARE, {**GENERIC, "contained": True}], remedies=remedies))
        arguments = rounds.parse(["--seconds=60", "--limit=60", "--local-ranks=0"])
        not_started = start_ranks.start_all(known)
        runner = Runner(arguments, known, time.monotonic())
        first = rounds.Rounds(arguments, known, runner)
        assert first.has_nothing_to_judge()
        second = confirmation.Confirmation(arguments, known, runner, first, not_started)
        second.run(0)
        conclude_start(runner.record, second)
        return "\n".join(runner.record["verdict"]["explained"])

    return play


NO_PMIX = {"version": "slurm-wlm 22.05.8", "pmix": ""}
NO_SERVER = said(*[ALONE.replace("server 5.0.7", "server none")] * 2)
OWN = {"own_network": True}


@pytest.mark.parametrize(
    ("plain", "inside", "facts", "host", "label"),
    [
        (ONE_JOB, "exit 1", {}, {}, start_ranks.PLAIN.label),
        (NEEDS_WORDS, "exit 1", {}, {}, start_ranks.AS_JSM.label),
        # On one node the image's own launcher is the last way.
        (SINGLETONS, ONE_JOB, {}, {}, start_ranks.INSIDE.label),
        (NO_SERVER, ONE_JOB, {}, NO_PMIX, start_ranks.INSIDE.label),
        (ONE_JOB, "exit 1", OWN, {}, start_ranks.OWN_NETWORK.label),
    ],
)
def test_a_way_to_start_the_ranks_is_found_and_taken(start, plain, inside, facts, host, label):
    started, because, run = start(plain, inside, facts=facts, **host)
    assert started == label
    assert because.startswith(NAMED) or bool(because) == (host is NO_PMIX)
    runs = {start_ranks.AS_JSM.label: f"mpirun {start_ranks.AS_JSM.words} apptainer hpcc"}
    runs[start_ranks.INSIDE.label] = "apptainer mpirun hpcc"
    assert run == runs.get(label, "mpirun apptainer hpcc")


def test_an_image_without_the_program_is_not_tried_and_that_is_said(start):
    assert "not tried before the rounds" in start("exit 1", lookup="exit 127")[0]


NO_IMAGE = "echo 'FATAL: could not open image.sif' >&2\nexit 255\n"
NO_START = "the ranks cannot be started in the container (Open MPI 5.0.7): FATAL: could not open"
BY_SLURM = "the host starts ranks with no PMIx (Slurm 22.05.8), the image's Open MPI 4.1.4 has PMIx 4.2.2: 2 of 2 ranks"


@pytest.mark.parametrize(
    ("plain", "facts", "host", "reason"),
    [
        (NO_IMAGE, {}, {}, NO_START),
        (NO_SERVER, {"nodes": 2}, NO_PMIX, BY_SLURM),
        (ENDED, OWN, {}, f"{start_ranks.OWN_NETWORK.label}: none came through"),
    ],
)
def test_a_container_that_does_not_start_says_why(start, plain, facts, host, reason):
    assert start(plain, facts=facts, **host).startswith(reason)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("mpirun (Open MPI) 5.0.7\n\nReport bugs to", "Open MPI 5.0.7"),
        ("slurm 22.05.8", "Slurm 22.05.8"),
        ("HYDRA build details:\n    Version:                                 4.0.2", "MPICH 4.0.2"),
    ],
)
def test_launchers_tell_their_version_and_their_pmix(tmp_path, version, expected):
    assert start_ranks.ask_host(f"{launcher(tmp_path, version)} env") == start_ranks.Host(expected, "5.0.7")
    assert start_ranks.ask_host("no-such-launcher -n 2") == start_ranks.Host("no-such-launcher", "")


@pytest.mark.parametrize(
    ("plain", "facts", "came"),
    [
        (SINGLETONS, {"nodes": 2}, "2 of 2 ranks came up, each as a job of its own (singletons)"),
        (ENDED, {"nodes": 2}, "none came through MPI_Init"),
        (said(TOGETHER.format(0), OLD), {"nodes": 2}, "1 of 2 ranks came up, of a job of 2"),
        # With the host's MPI there is one way only.
        (NEEDS_WORDS, {"host_mpi": True}, "none came through MPI_Init"),
        # Not even the last way helps.
        (SINGLETONS, {}, "2 of 2 ranks came up, each as a job of its own (singletons)"),
    ],
)
def test_launcher_and_image_that_do_not_understand_each_other_are_named(start, plain, facts, came):
    assert start(plain, facts=facts) == f"{NAMED}: {came}. {start_ranks.OTHER_IMAGE} {start_ranks.ADVICE}"
    assert launch.Launch("subject").run == "mpirun apptainer hpcc"


def test_ranks_that_should_understand_their_launcher_are_not_helped(start):
    """What the container keeps from them is a fault of the container, and the check is there to find it."""
    alone = ALONE.replace("server 5.0.7", "server none")
    assert start(said(alone, alone), ONE_JOB, version="mpirun (Open MPI) 4.1.4", pmix="4.2.2") == (
        "2 of 2 ranks came up, each as a job of its own (singletons); the launcher's variables do not "
        "reach them (host: Open MPI 4.1.4, image: Open MPI 4.1.4, both with PMIx 4.2.2). "
        f"Check {start_ranks.ADVICE}"
    )


def test_ranks_that_wait_for_each_other_are_ended(start, monkeypatch):
    monkeypatch.setattr(start_ranks, "PATIENCE", 0.5)
    monkeypatch.setattr(single_run, "GRACE", 0.2)
    monkeypatch.setattr(single_run, "SETTLE", 0.2)
    assert "did not come up within" in start(said(OLD, OLD) + "sleep 1000\n", facts={"nodes": 2})


def test_the_results_say_which_way_was_taken(tmp_path):
    known = {"started": "by other means", "because": "of this"}
    (tmp_path / "subject.started.json").write_text(json.dumps(known))
    record = record_of(run_of("baseline", "a"), run_of("subject", "b"))
    assert provenance(record, {}, tmp_path)["started"] == {"subject": "by other means"}
    assert findings_of(record, [], tmp_path).remarks() == ["ranks are started by other means, because of this"]
    (tmp_path / "subject.started.json").write_text(json.dumps({**known, "because": ""}))
    assert findings_of(record, [], tmp_path).remarks() == []


def apart(variable, otherwise=ONE_JOB):
    """Return a script of ranks that find each other only without a variable of the job."""
    return f"case '{{{{start}}}}' in *'-u {variable}'*)\n{otherwise};;\n*)\n{SINGLETONS};;\nesac\n"


# That of the runtime, and one that the host's MPI takes and the image's does not: bare is well.
@pytest.mark.parametrize(("variable", "value"), [("APPTAINER_CLEANENV", "1"), ("OMPI_MCA_pml", "cm")])
def test_a_variable_that_keeps_the_ranks_apart_is_named_and_proven(explained, monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    monkeypatch.setenv("APPTAINER_CACHEDIR", "/tmp")
    proof = "all of 5 runs ended well, and 0 of 3 without"
    assert explained(apart(variable)).splitlines() == [
        f"the cause: {variable}={value} is set for the job",
        f"proven: with {variable} unset for the job {proof}",
        "do: unset it in the environment of jobs: a module, a profile or the site's file sets it "
        "(found by halving all differences)",
    ]


def test_without_remedies_a_start_that_fails_is_not_explained(explained, monkeypatch):
    monkeypatch.setenv("APPTAINER_CLEANENV", "1")
    assert explained(apart("APPTAINER_CLEANENV"), remedies=0) == explanation.UNSEEN


#: What is said where no difference explains that ranks do not start.
IN_VAIN = "generic: differences in variables, limits and start (1) were taken back in vain"


def fails_at(number, otherwise=ONE_JOB):
    """Return a script of ranks that do not find each other in one of its starts."""
    return f"echo x >>starts\nif [ $(wc -l <starts) = {number} ]; then\n{SINGLETONS}else\n{otherwise}fi\n"


@pytest.mark.parametrize(
    ("plain", "patience", "line"),
    [
        # Without it nothing changes.
        (SINGLETONS, 300.0, IN_VAIN),
        # The first start fails; the next one, the same again, does not.
        (fails_at(1), 300.0, "generic: started again in the same way, its ranks came up: the start fails at times"),
        # Without it all starts fail; with it, the second one.
        (apart("APPTAINER_CLEANENV", fails_at(2)), 300.0, ""),
        # There is no time.
        (apart("APPTAINER_CLEANENV"), 0.0, ""),
    ],
)
def test_a_variable_that_keeps_no_ranks_apart_or_only_sometimes_is_not_proven(
    explained, monkeypatch, plain, patience, line
):
    monkeypatch.setenv("APPTAINER_CLEANENV", "1")
    monkeypatch.setattr(confirmation, "PATIENCE", patience)
    lines = explained(plain)
    assert "proven" not in lines and (not line or lines == line)


@pytest.mark.parametrize(
    ("working", "host_mpi", "advice"),
    [
        ("pmix", False, "do: put it into the site's extras: image_launcher_options: ['--mpi=pmix']"),
        ("pmix", True, "do: put it into the partition's env_vars: [['SLURM_MPI_TYPE', 'pmix']]"),
        ("pmix_v9", False, ""),
    ],
)
def test_another_pmi_plugin_is_tried_and_proven(explained, tmp_path, monkeypatch, working, host_mpi, advice):
    """The script stands for a real srun, which test_like.py has."""
    srun = tmp_path / "srun"
    write_program(
        srun,
        "case $1 in\n"
        "--version) echo 'slurm 22.05.8' ;;\n"
        "--mpi=list) printf 'MPI plugin types are...\\n\\tnone\\n\\tpmi2\\n\\tpmix\\n\\tcray_shasta\\n' ;;\n"
        f"--mpi={working}) {ONE_JOB};;\n*) {SINGLETONS};;\nesac",
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    start = "./srun --mpi=pmi2 {{start}} -n 2 mpi-ranks"
    lines = explained(start, f"{shlex.quote(str(srun))} --mpi=pmi2 -n 2", nodes=2, host_mpi=host_mpi)
    assert ("proven: with srun's PMI plugin pmix all of 5 runs ended well, and 0 of 3 without" in lines) == bool(advice)
    assert advice in lines


@pytest.mark.parametrize("most", [MOST, confirmation.MOST_OF_START])
def test_chance_proves_a_remedy_in_less_than_a_hundredth_of_all_jobs(most):
    """Runs and starts that end badly with any probability, while no remedy does anything."""

    def wrong(p, left):
        """Return the probability that one of the remedies that are left is proven."""
        well = (1 - p) ** ENDING_WELL
        # The run without the remedy ends badly too, or nothing else is tried.
        return p * (well + (1 - well) * wrong(p, left - 1)) if left else 0.0

    assert max(p**ENDED_BEFORE * wrong(p, most) for p in (step / 1000 for step in range(1001))) < 0.01


def test_what_the_ranks_printed_comes_first_and_equal_versions_are_no_reason(start):
    """Sixteen open files in the container; the same Open MPI on both sides."""
    saved = OUTPUTS / "reasons/openmpi4/open_files"
    plain = f"cat {saved}/out\ncat {saved}/err >&2\nexit 139\n"
    assert start(plain, pmix="4.2.2", version="mpirun (Open MPI) 4.1.4") == (
        "the ranks printed: [warn] evutil_make_internal_pipe_: pipe: Too many open files; none came through MPI_Init "
        f"(host: Open MPI 4.1.4, image: Open MPI 4.1.4, both with PMIx 4.2.2). Check {start_ranks.ADVICE}"
    )


@given(st.sampled_from(["", "4.2.2", "5.0.7"]), st.sampled_from(["", "4.2.2", "5.0.7"]), st.lists(st.just(1)))
def test_versions_are_a_reason_only_where_they_differ(host, image, sizes):
    seen = start_ranks.Seen(1, sizes, "Open MPI v4.1.4", image, host, "last", "an error")
    said = start_ranks.explain(seen, 2, start_ranks.Host("Open MPI 4.1.4", host))
    assert said.startswith("the ranks printed: an error; ")
    assert ("the host starts ranks with" in said) == (host != image)


def test_a_line_that_is_no_utf_8_ends_no_start(start):
    """A node's message of the day, in Latin-1, from the launcher and from the ranks."""
    greeting = r"printf 'Gr\374\337e von \377\n'"
    _, because, _ = start(f"{greeting}\n{greeting} >&2\n" + NEEDS_WORDS, greets=f"{greeting}\n")
    assert because == f"{NAMED}: none came through MPI_Init"
