"""Every gate fails when it should: faults planted in real containers, in real sessions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import environments
import pytest
from conftest import REPOSITORY, alive_below, write_program
from containercheck.node import contract
from containercheck.node.job import rank_trial
from containercheck.verdict.record import Record

#: A partition of nodes with two GPUs, as the site file describes it.
GPU_PARTITION = {
    "scheduler": "slurm",
    "launcher": "srun",
    "processor": {"arch": "none", "num_cpus": 8, "num_cpus_per_core": 1, "num_cpus_per_socket": 8, "num_sockets": 1},
    "devices": [{"type": "gpu", "arch": "sm_70", "num_devices": 2}],
    "resources": [{"name": "_rfm_gpu", "options": ["--gres=gpu:{num_gpus_per_node}"]}],
    "container_platforms": [{"type": "Apptainer"}],
}


def reason(case):
    return case["fail_reason"] or ""


def runs_of(result):
    """Return the sides of the record's runs, and the record: the longest, which is not of a bare check."""
    record = max(
        (json.loads(path.read_text()) for path in result.stage.rglob("rounds.json")), key=lambda one: len(one["runs"])
    )
    return [run["side"] for run in record["runs"]], record


def test_equal_runs_pass_and_end_by_themselves(session):
    result = session("-n", "Planted")
    assert result.status == 0, result.output
    case = result.case("generic")
    (row,) = case["results"]
    assert (row["verdict"], row["rounds"], row["above"]) == ("pass", 6, 0)
    # 0.5 s against 0.51 or 0.5.
    assert 100 * (0.5 / 0.51 - 1) <= row["overhead"] <= 0
    _, record = runs_of(result)
    assert record["why"] == "every figure has its verdict, or more would not tell"
    assert len(case["measured"]) == len(record["runs"]) / 2 - len(record["replaced"]) == 6
    assert {0.51, 0.5} >= {one["baseline"]["time"] for one in case["measured"]}
    assert {one["subject"]["time"] for one in case["measured"]} == {0.5}
    # The bare one, which compares nothing, ran once.
    assert len(result.case("bare")["measured"]) == 1


def test_what_is_read_afterwards_is_what_the_job_read(session):
    result = session("-n", "Planted%variant=generic", "-S", "fault=slow")
    (stage,) = [path.parent for path in result.stage.rglob("rounds.json")]
    record = Record.read(stage)
    found = record.evaluate(json.loads((stage / "facts.json").read_text()), stage)
    (pairs,) = found.pairs.values()
    (row,) = result.case("generic")["results"]
    assert (pairs.verdict, pairs.rounds, pairs.estimate) == (row["verdict"], row["rounds"], row["overhead"])
    assert (found.repeated(), found.more_would_tell()) == (None, False)
    assert record.why == "every figure has its verdict, or more would not tell"
    # The job had no reason to end before.
    without_last = replace(record, runs=[run for run in record.runs if run["round"] < record.runs[-1]["round"]])
    assert without_last.evaluate(json.loads((stage / "facts.json").read_text()), stage).more_would_tell()


def test_a_number_of_rounds_is_kept_and_a_later_session_goes_on_from_there(session, tmp_path):
    first = session("-n", "Planted%variant=generic", "-S", "rounds=4")
    (row,) = first.case("generic")["results"]
    assert (row["verdict"], row["rounds"], row["rounds_needed"]) == ("inconclusive", 4, 6)
    assert "; about 2 more rounds would tell" in first.output, first.output
    assert runs_of(first)[1]["why"] == "as many as were asked for"
    shutil.move(tmp_path / "report.json", tmp_path / "first.json")
    shutil.rmtree(first.stage)
    second = session("-n", "Planted%variant=generic", "-S", f"earlier={tmp_path / 'first.json'}")
    assert second.status == 0, second.output
    case = second.case("generic")
    (row,) = case["results"]
    assert (row["verdict"], row["rounds"]) == ("pass", 6)
    _, record = runs_of(second)
    assert len(record["runs"]) == 2 * (2 + len(record["replaced"]))
    assert case["measured"][:4] == first.case("generic")["measured"]
    assert len(case["measured"]) == 6


def test_an_earlier_report_that_is_not_there_is_named(session, tmp_path):
    result = session("-n", "Planted%variant=generic", "-S", "earlier=/nowhere.json")
    assert result.status != 0
    assert "cannot read the earlier session's report /nowhere.json" in result.output


def test_who_disturbed_a_check_is_in_its_case_and_in_the_output(session, tmp_path):
    program = tmp_path / "other-work"
    shutil.copy(shutil.which("bash"), program)
    disturber = subprocess.Popen([str(program), "-c", "while :; do :; done"], start_new_session=True)
    try:
        result = session("-n", "Planted%variant=generic", "-S", "lasts=0.3")
    finally:
        disturber.kill()
        disturber.wait()
    assert result.status == 0, result.output
    case = result.case("generic")
    who = rf".*other-work \(pid {disturber.pid}\).*"
    replaced, busy = case["notes"]
    assert re.fullmatch(rf"3 of 9 rounds disturbed by {who} and replaced", replaced)
    assert re.fullmatch(rf"the machine is busy: {who}\. Rounds were counted all the same: they spread more", busy)
    assert replaced in result.output
    assert len(case["measured"]) == 6


def test_the_site_says_what_it_accepts(session, site):
    settings = site(extras={"tolerances": {"Planted": {"time": 25}, "Singletons": {"time": 1.0}}})
    result = session("-C", settings, "-n", "Planted%variant=generic", "-S", "fault=slow", "-S", "rounds=6")
    assert result.status == 0, result.output
    (row,) = result.case("generic")["results"]
    assert (row["verdict"], row["accepted"], row["above"]) == ("pass", [None, 25], 0)


def test_a_dry_run_writes_the_job_and_runs_nothing(session, site):
    result = session("--dry-run", "-C", site(**GPU_PARTITION), "-n", "Planted", "-S", "gpu=yes")
    assert result.status == 0, result.output
    scripts = [path.read_text() for path in result.stage.rglob("rfm_job.sh")]
    assert len(scripts) == 2
    assert all("#SBATCH --gres=gpu:2\n" in script for script in scripts)
    assert any(
        re.search(r"^\$\(cat subject.start\) apptainer exec .*--nv .* sh work.sh none$", script, re.MULTILINE)
        for script in scripts
    )
    assert not list(result.stage.rglob("rounds.json"))


def test_slow_container_fails_with_figure_and_interval(session):
    result = session("-n", "Planted%variant=generic", "-S", "fault=slow")
    assert result.status != 0
    case = result.case("generic")
    assert case["fail_phase"] == "performance"
    said = r"time is \S+ % ± \S+ % worse than bare in this session \(tolerance 5 %; above it in (\d+) of \1 rounds\)"
    assert re.search(said, reason(case)), reason(case)
    (row,) = case["results"]
    # As early as its ranks can tell: 0.6 s against 0.51 or 0.5, and nobody knows how its rounds spread.
    assert (row["verdict"], row["rounds"]) == ("fail", 9)
    assert 100 * (0.6 / 0.51 - 1) - 1e-6 <= row["overhead"] <= 20 + 1e-6


@pytest.mark.parametrize(("fault", "rounds"), [("slow", []), ("slow", ["-S", "rounds=8"]), ("none", [])])
def test_where_processors_are_emulated_an_overhead_is_reported_and_not_judged(session, site, fault, rounds):
    """Two rounds do, where nobody asks for more; the same fault fails elsewhere, after nine."""
    settings = site(extras={"emulated": True})
    result = session("-C", settings, "-n", "Planted%variant=generic", "-S", f"fault={fault}", *rounds)
    assert result.status == 0, result.output
    case = result.case("generic")
    (row,) = case["results"]
    assert (row["verdict"], row["emulated"], row["rounds"]) == ("emulated", True, 8 if rounds else 2)
    assert (row["overhead"] > 15) is (fault == "slow")
    assert "emulated: overheads are reported, not judged" in result.output


def test_where_processors_are_emulated_no_absolute_reference_counts(session, site, tmp_path):
    index = "  $index: [$partition, variant, num_nodes]\n"
    (tmp_path / "Planted.yaml").write_text(
        f"Planted:\n{index}  'here:only':\n    bare:\n      1: {{time: [5.0, -0.1, 0.1, s]}}\n"
    )
    chosen = ("-n", "Planted%variant=bare")
    real, emulated = (
        session("-C", site(extras={"references": str(tmp_path), **more}), *chosen) for more in ({}, {"emulated": True})
    )
    assert real.case("bare")["fail_phase"] == "performance", real.output
    assert (emulated.status, emulated.case("bare")["result"]) == (0, "pass"), emulated.output
    assert emulated.case("bare")["results"][0]["emulated"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [("wrong", "answers differ: sum is 43.0, bare 42.0"), ("crash", "exit status 3: FATAL: it broke")],
)
def test_where_processors_are_emulated_wrong_answers_and_failed_runs_fail(session, site, fault, said):
    result = session("-C", site(extras={"emulated": True}), "-n", "Planted%variant=generic", "-S", f"fault={fault}")
    case = result.case("generic")
    assert (result.status != 0, case["fail_phase"]) == (True, "sanity"), result.output
    assert said in reason(case)


def test_wrong_answer_fails_though_it_is_fast(session):
    result = session("-n", "Planted%variant=generic", "-S", "fault=wrong", "-S", "rounds=2")
    case = result.case("generic")
    assert (result.status != 0, case["fail_phase"]) == (True, "sanity")
    assert "answers differ: sum is 43.0, bare 42.0" in reason(case)


def test_hang_is_killed_and_named_and_the_other_rounds_finish(session):
    result = session("-n", "Planted%variant=generic", "-S", "fault=hang", "-S", "rounds=3", "-S", "run_limit=10")
    case = result.case("generic")
    assert result.status != 0
    assert "round 2, subject: hangs: killed at its limit of 10 s" in reason(case)
    _, record = runs_of(result)
    assert record["complete"]
    timed_out = [(run["round"], run["side"]) for run in record["runs"] if run["timed_out"]]
    assert timed_out == [(2, "subject")]
    assert len(record["runs"]) == 2 * (3 + len(record["replaced"]))
    assert not alive_below(result.stage), "the hanging run's children live on"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("wrong", "rounds 1 and 2: answers differ: sum is 43.0, bare 42.0"),
        ("crash", "rounds 1 and 2, subject: exit status 3: FATAL: it broke"),
        ("hangs", "rounds 1 and 2, subject: hangs: killed at its limit of 10 s"),
    ],
)
def test_the_second_failure_of_the_same_kind_ends_the_rounds(session, fault, said):
    options = ("-S", f"fault={fault}", "-S", "rounds=5", "-S", "run_limit=10")
    result = session("-n", "Planted%variant=generic", *options)
    assert result.status != 0
    assert said in reason(result.case("generic"))
    sides, record = runs_of(result)
    assert sides.count("subject") == 2
    assert record["complete"]


def test_processes_that_only_the_container_leaves_behind_fail_by_name_and_are_ended(session):
    result = session("-n", "Planted%variant=generic", "-S", "fault=leaves", "-S", "rounds=2")
    case = result.case("generic")
    assert (result.status != 0, case["fail_phase"]) == (True, "sanity"), result.output
    assert "subject leaves processes behind when it ends, which bare does not: sleep" in reason(case)
    assert not alive_below(result.stage), "what the container left lives on"


def test_unreadable_figure_fails(session):
    result = session("-n", "Planted%variant=generic", "-S", "fault=unreadable", "-S", "rounds=1")
    assert result.status != 0
    assert "figure time not found in" in reason(result.case("generic"))


def test_where_bare_cannot_be_read_no_container_is_run_beside_it(session):
    result = session("-n", "^Misread", "--exec-policy=serial", "-S", "rounds=4")
    assert "figure time not found in" in reason(result.case("bare"))
    case = result.case("generic")
    assert case["fail_phase"] == "setup"
    assert "bare could not be read, and so no container is run beside it: round 1, baseline: figure" in reason(case)
    assert len(list(result.stage.rglob("rounds.json"))) == 1


def test_crash_fails_with_what_the_program_said(session):
    result = session("-n", "Planted%variant=generic", "-S", "fault=crash", "-S", "rounds=1")
    assert result.status != 0
    assert "exit status 3: FATAL: it broke" in reason(result.case("generic"))


#: A runtime that fails to clean up behind the third run (apptainer#2713).
NO_INSTANCE = """{apptainer} "$@"
status=$?
case "$*" in *work.sh*)
    echo >>{count}
    [ "$(wc -l <{count})" != 3 ] || {{
        echo 'ERROR:   container cleanup failed: no instance found with name sharens_instance_4711' >&2
        exit 148
    }}
esac
exit $status"""


def test_a_tear_down_that_fails_after_the_run_is_told_as_that_and_how_often(session, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    text = NO_INSTANCE.format(apptainer=shutil.which("apptainer"), count=tmp_path / "count")
    write_program(programs / "apptainer", text)
    path = f"{programs}:{os.environ['PATH']}"
    result = session("-n", "Planted%variant=generic", "-S", "rounds=5", PATH=path)
    assert result.status != 0
    said = (
        "subject: exit status 148 after the program had ended and its figures were complete: ERROR: container cleanup "
    )
    said += "failed: no instance found with name sharens_instance_4711 "
    found = re.escape(said) + r"\(1 of \d+ runs; its output: \S+-subject\)$"
    assert re.search(r"\bround \d+, " + found, reason(result.case("generic"))), result.output


def test_singletons_instead_of_ranks_fail(session):
    result = session("-n", "Singletons", "-S", "rounds=1")
    if result.status == 0:
        # Where the host's PMIx is of another major version than the image's, a way to start them was found.
        (started,) = (json.loads(path.read_text()) for path in result.stage.rglob(contract.started_file("subject")))
        assert started["started"] == rank_trial.INSIDE.said
        assert re.search(r"PMIx (\d+)\..* has PMIx (?!\1\.).*\(singletons\)", started["because"]), started
        return
    said = reason(result.case("generic"))
    assert re.search(
        r"the host starts ranks with PMIx [\d.]+ \(Open MPI [\d.]+\), the image's Open MPI [\d.]+ has", said
    )
    assert "ranks came up, each as a job of its own (singletons); what the launcher sets in their environment" in said
    assert not list(result.stage.rglob("rounds.json")), "not before the rounds"


#: Settings of the host's MPI, loader and Python, as modules make them.
SETTINGS = {
    "OMPI_MCA_btl_tcp_if_include": "eth7",
    "OPAL_PREFIX": "/opt/openmpi",
    "PRTE_MCA_plm": "ssh",
    "PMIX_MCA_psec": "native",
    "UCX_TLS": "rc",
    "FI_PROVIDER": "verbs",
    "I_MPI_FABRICS": "ofi",
    "MPICH_ASYNC_PROGRESS": "1",
    "LD_BIND_NOW": "1",
    "LD_LIBRARY_PATH": "/opt/openmpi/lib",
    "PYTHONPATH": "/opt/python",
}


def test_settings_of_the_host_do_not_reach_a_generic_container(session):
    planted = ",".join(f"{name}:{value}" for name, value in {**SETTINGS, "SITE_OWN": "stays"}.items())
    options = ("-S", "fault=environment", "-S", "rounds=1", "-S", f"env_vars={planted}")
    result = session("-n", "Planted%variant=generic", *options)
    (said,) = result.stage.rglob("rounds/01-subject/out")
    seen = dict(line.partition("=")[::2] for line in said.read_text().splitlines())
    assert seen["SITE_OWN"] == "stays"
    # The container has one of its own.
    assert seen.pop("LD_LIBRARY_PATH", "") != SETTINGS["LD_LIBRARY_PATH"]
    assert not SETTINGS.keys() & seen.keys()


def test_ranks_that_share_a_core_in_the_container_fail(session):
    result = session("-n", "Crowded", "-S", "rounds=2")
    said = "its ranks share cores: they are bound to 0 | 0, those of baseline to 0 | 1"
    assert said in reason(result.case("generic")), result.output


def test_missing_software_skips_with_the_reason(session):
    result = session("-n", "NoSoftware")
    assert [case["result"] for case in result.cases] == ["skip"] * 3
    said = (
        "install no-such-package (ci/setup does on Debian and Ubuntu), or name it in the site's extras, software: NoS"
    )
    where = "no software: no-such-program is not on the PATH of this machine: "
    assert f"{where}{said}" in result.case("bare")["skip_reason"]


def test_software_that_a_module_should_bring_is_looked_for_in_the_build_step(session):
    result = session("-n", "NoSoftware%variant=bare", "-S", "modules=planted")
    case = result.case("bare")
    assert (result.status, case["result"]) == (0, "skip"), result.output
    assert case["skip_reason"].startswith(
        f"no software: no-such-program is not on the PATH of {os.uname().nodename}: install no-such-package ("
    )
    assert not list(result.stage.rglob("rfm_job.sh")), "before the job"


def test_what_the_job_finds_that_cannot_run_skips_with_the_reason(session):
    found = "input_commands=echo error: no software: this one is too old >&2; exit 3"
    result = session("-n", "Planted%variant=generic", "-S", "rounds=1", "-S", found)
    case = result.case("generic")
    assert (result.status, case["result"]) == (0, "skip"), result.output
    assert case["skip_reason"] == "no software: this one is too old"


def test_software_for_other_machines_skips_with_the_reason(session):
    result = session("-n", "OtherMachine")
    assert [case["result"] for case in result.cases] == ["skip"] * 2
    for variant in ("bare", "generic"):
        assert "no software: src is pinned for pdp11, and the partition is" in result.case(variant)["skip_reason"]
    assert not list(result.stage.rglob("rfm_*.sh")), "before the build step"


def failed_before_its_job(result, variant, said):
    assert (result.status, result.case(variant)["result"]) == (1, "fail"), result.output
    assert f"misconfigured: no {said}" in result.case(variant)["fail_reason"]
    assert not list(result.stage.rglob("rfm_job.sh"))
    return True


def test_a_recipe_that_is_not_there_fails_with_the_reason(session):
    said = "image: there is no definition file images/no-such-recipe.def, which NoImage names as its recipe"
    assert failed_before_its_job(session("-n", "NoImage"), "generic", said)


@pytest.mark.parametrize(
    ("extras", "variant", "said"),
    [
        (
            {"images": {"mpi": "/nowhere/openmpi.sif"}},
            "generic",
            "image: /nowhere/openmpi.sif, which the site's extras",
        ),
        (
            {"software": {"Planted": {"image": "/nowhere.sif"}}},
            "generic",
            "image: /nowhere.sif, which the site's extras",
        ),
        (
            {"software": {"Planted": {"executable": "/no/sh"}}},
            "bare",
            "software: this machine has no /no/sh; the site's",
        ),
        (
            {"software": {"Planted": {"executable": "no-sh"}}},
            "bare",
            "software: no-sh is not on the PATH of this machine",
        ),
        ({"software": {"Planted": {"spack": "none"}}}, "bare", "software: there is no "),
        (
            {"inputs": {"Planted": "/no/input"}},
            "bare",
            "input: /no/input, set as 'published' or in the site's extras, ",
        ),
    ],
)
def test_what_the_site_names_and_does_not_have_fails_with_the_reason(session, site, extras, variant, said):
    result = session("-C", site(extras=extras), "-n", f"Planted%variant={variant}")
    assert failed_before_its_job(result, variant, said)


def test_a_runtime_that_the_site_names_and_does_not_have_fails_with_the_reason(session, site):
    result = session("-C", site(container_platforms=[{"type": "Singularity"}]), "-n", "Planted%variant=generic")
    if shutil.which("singularity"):
        pytest.skip("there is one here")
    said = "container runtime: the site file's container_platforms name Singularity, and no singularity is on the PATH"
    assert failed_before_its_job(result, "generic", said)


def test_a_ready_image_of_the_site_is_recorded_with_what_it_really_is(session, site, tmp_path):
    built = session("-n", "Planted%variant=generic", "-S", "rounds=1").case("generic")["provenance"]
    ready = tmp_path / "ready.sif"
    shutil.copy(built["image"], ready)
    settings = site(extras={"images": {"mpi": str(ready)}})
    result = session("-C", settings, "-n", "Planted%variant=generic", "-S", "rounds=1")
    known = result.case("generic")["provenance"]
    assert (known["image"], known["image_sha256"]) == (str(ready), built["image_sha256"]), result.output
    assert known["runtimes"]["subject"]["version"]
    assert known["host"] == os.uname().nodename


def test_a_release_that_no_image_can_be_of_is_one_line(session, site):
    result = session("-n", "Planted%variant=generic", "-S", "release=bookwrm")
    assert "release is 'bookwrm', and must be one of bookworm, trixie" in reason(result.case("generic"))
    result = session("-C", site(extras={"release": "etch"}), "-n", "Planted%variant=generic")
    assert (result.status != 0, result.output.count("release is 'etch', and must be one of")) == (True, 1), (
        result.output
    )


@pytest.mark.parametrize(
    ("extras", "said"),
    [
        ({"max_node": 4}, "unknown 'max_node': did you mean 'max_nodes'?"),
        ({"max_nodes": "4"}, "max_nodes is '4', and must be of the type int"),
        ({"software": {"Planted": {"imgae": ""}}}, "software: Planted: unknown 'imgae': did you mean 'image'?"),
        ({"software": {"Plantde": {}}}, "software: unknown 'Plantde': did you mean 'Planted'?"),
    ],
)
def test_a_mistake_in_the_sites_extras_stops_the_session_with_one_line(session, site, extras, said):
    result = session("-C", site(extras=extras), "-n", "Planted")
    assert result.status != 0
    (line,) = [line for line in result.output.splitlines() if line.startswith("containercheck: ")]
    assert line.startswith(f"containercheck: site file, extras of here:only: containercheck: {said}")
    assert "Traceback" not in result.output
    assert "PASSED" not in result.output


def test_an_extra_of_another_library_does_not_stop_the_session(session, site):
    settings = Path(site())
    settings.write_text(settings.read_text().replace("'extras': {", "'extras': {'cn_memory': 500, "))
    result = session("-C", str(settings), "-n", "Planted%variant=bare")
    assert result.status == 0, result.output


def test_missing_runtime_skips_with_the_reason(session, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for directory in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(directory).iterdir():
            link = programs / program.name
            # There may be links to nothing among them.
            taken = os.path.lexists(link)
            if program.name not in ("apptainer", "singularity", "docker", "sarus", "shifter") and not taken:
                link.symlink_to(program)
    result = session("-n", "Planted", "-S", "rounds=1", PATH=str(programs))
    assert result.case("bare")["result"] == "pass"
    assert "no container runtime: none of apptainer" in result.case("generic")["skip_reason"]


def test_a_reframe_that_is_too_old_stops_the_session_with_one_line(session, tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import reframe; reframe.VERSION = '4.9.1'\n")
    result = session(PYTHONPATH=f"{hidden}:{REPOSITORY / 'checks'}")
    assert result.status != 0
    assert "ReFrame 4.9.1 is too old" in result.output
    assert "PASSED" not in result.output
    assert "Traceback" not in result.output


def test_numpy_is_not_needed(session, tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys; sys.modules['numpy'] = None\n")
    result = session("-n", "Planted%variant=bare", PYTHONPATH=f"{hidden}:{REPOSITORY / 'checks'}")
    assert result.case("bare")["result"] == "pass", result.output


@pytest.fixture
def clone(tmp_path):
    """Give a copy of the files that ci/run reads, with an environment of its own."""
    copy = tmp_path / "clone"
    copy.mkdir()
    for name in ("checks", "ci", "config", "images", "pyproject.toml"):
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, copy / name)
        else:
            shutil.copy(source, copy / name)
    environments.of_copy(copy)
    return copy


def ci_run(clone, *arguments):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RFM_")}
    return subprocess.run(
        ["bash", "ci/run", *arguments],
        cwd=clone,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
    )


def test_ci_run_ends_with_the_table(clone):
    result = ci_run(clone, "-n", "StartUp%variant=bare", "-S", "rounds=1")
    assert result.returncode == 0, result.stdout
    assert "application  variant  nodes  figure" in result.stdout
    assert json.loads((clone / "reports" / "run-report.json").read_text())["runs"]


@pytest.mark.parametrize(
    ("line", "said"),
    [("this is no Python", "broken.py: it is no Python"), ("import no_such_module", "a check file does not load")],
)
def test_ci_run_fails_when_a_check_file_does_not_load(clone, line, said):
    (clone / "checks" / "broken.py").write_text(f"import reframe as rfm\n{line}\n")
    result = ci_run(clone, "-n", "StartUp%variant=bare", "-S", "rounds=1")
    assert result.returncode != 0
    assert said in result.stdout


def test_ci_run_fails_when_nothing_matches(clone):
    result = ci_run(clone, "-n", "NoSuchCheck")
    assert result.returncode != 0
    assert "no check was run" in result.stdout
