"""Gates that need a session of their own: what is wrong around the checks, and not in a container."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import PLANTED, REPOSITORY, file_of, write_program
from containercheck.command import main
from containercheck.job.container_runtimes import RUNTIMES
from containercheck.session.reframe_process import Workplace


def test_a_mistake_in_the_sites_extras_stops_the_session_with_one_line(session, site):
    result = session("-C", site(extras={"software": {"Plantde": {}}}), "-n", "Planted")
    assert result.status != 0
    (line,) = [line for line in result.output.splitlines() if line.startswith("containercheck: ")]
    said = "software: unknown 'Plantde': did you mean 'Planted'?"
    assert line.startswith(f"containercheck: site file, extras of here:only: containercheck: {said}")
    assert "Traceback" not in result.output
    assert "PASSED" not in result.output


def test_a_missing_runtime_skips_with_the_reason_and_numpy_is_not_needed(session, tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys; sys.modules['numpy'] = None\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    for directory in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(directory).iterdir():
            link = programs / program.name
            # There may be links to nothing among them.
            taken = os.path.lexists(link)
            if program.name not in {runtime.command for runtime in RUNTIMES} and not taken:
                link.symlink_to(program)
    path = f"{hidden}:{REPOSITORY / 'checks'}"
    result = session("-n", "^Planted", "-S", "rounds=1", PATH=str(programs), PYTHONPATH=path)
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


#: A runtime whose ranks all run on the first core, as a second binding in a job script has them.
ONE_CORE = """case " $* " in *" hpcc "*) exec taskset -c 0 {apptainer} "$@" ;; esac
exec {apptainer} "$@\""""


@pytest.mark.long
def test_a_run_that_hangs_as_its_ranks_share_a_core_is_said_to(session, tmp_path):
    write_program(tmp_path / "apptainer", ONE_CORE.format(apptainer=shutil.which("apptainer")))
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    result = session("-n", "^HPL%variant=generic", "-S", "run_limit=15", checks=file_of("HPL"), **path)
    reason = result.case("generic", "HPL")["fail_reason"] or ""
    assert "hangs: killed at its limit of 15 s" in reason
    assert "its ranks share cores: they are bound to 0 | 0" in reason
    (record,) = result.stage.rglob("rounds.json")
    assert max(run["round"] for run in json.loads(record.read_text())["runs"]) <= 2


# Errors in a site file: each is one line with its place and a remedy


def test_an_mpi_that_is_not_there_is_one_line_before_the_rounds(session, site):
    settings = site(extras={"host_mpi": "/nowhere/lib/libmpi.so.40"})
    result = session("-C", settings, "-n", "PingPong%variant=integrated", "-S", "rounds=1", checks=file_of("PingPong"))
    reason = result.case("integrated")["fail_reason"]
    assert "no /nowhere/lib/libmpi.so.40 on" in reason and "the site's extras, host_mpi, name it" in reason
    assert [json.loads(path.read_text())["runs"] for path in result.stage.rglob("rounds.json")] == [[]]


#: A scheduler of another name, with which a partition is not this machine, though its jobs run here.
ELSEWHERE = """
from reframe.core.backends import register_scheduler
from reframe.core.schedulers.local import LocalJobScheduler

@register_scheduler("elsewhere")
class Elsewhere(LocalJobScheduler):
    pass

"""


def test_a_node_without_python_is_one_line(session, site):
    settings = Path(site(scheduler="elsewhere", extras={"python": "/nowhere/python3"}))
    settings.write_text(ELSEWHERE + settings.read_text())
    result = session("-C", str(settings), "-n", "Planted%variant=bare", checks=PLANTED)
    (case,) = result.cases
    said = f"no /nowhere/python3 on {os.uname().nodename}: install Python 3.6 or newer there, or name it: "
    assert said in case["fail_reason"], result.output
    assert len(case["fail_reason"].strip().splitlines()) == 1
    assert "Traceback" not in result.output


def test_rounds_get_no_more_time_than_the_limit_of_the_partition(session, site):
    """However long they are wanted to go on."""
    settings = site(time_limit="0h1m0s")
    options = ("-S", "seconds=600", "-S", "run_limit=60")
    result = session("--dry-run", "-C", settings, "-n", "Planted%variant=generic", *options, checks=PLANTED)
    script = next(result.stage.rglob("rfm_job.sh")).read_text()
    assert 0 < float(re.search(r" rounds --seconds=(\S+)", script)[1]) < 60


# Variables that do not exist


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Make a place with the planted checks."""
    (tmp_path / "checks").symlink_to(PLANTED)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "checks"))
    monkeypatch.delenv("RFM_SYSTEM", raising=False)
    monkeypatch.delenv("RFM_CONFIG_FILES", raising=False)
    (tmp_path / "common.py").write_text("site_configuration = {}\n")
    return Workplace(tmp_path, config=tmp_path / "common.py")


@pytest.mark.parametrize(
    "words", [["run", "-n", "Planted"], ["run", "--resume"], ["nightly", "-n", "Planted"], ["acceptance", "sh", "bash"]]
)
def test_no_command_runs_anything_where_a_variable_does_not_exist(place, capsys, words):
    """The last session is kept, so that --resume can go on with it; which looks at its own too."""
    kept = json.dumps({"session_info": {"ci_run_arguments": ["-n", "Planted"]}, "runs": [{"testcases": []}]})
    place.report.parent.mkdir()
    place.report.write_text(kept)
    command, *others = words
    assert main.run(command, [*others, "-S", "Planted.second=10"], place) == 64
    said = "-S Planted.second=10: there is no such variable: did you mean seconds?"
    assert said in capsys.readouterr().err
    assert place.report.read_text() == kept
    assert not list(place.directory.rglob("rfm_job.sh"))
    assert list(place.directory.rglob("*report*.json")) == [place.report]


@pytest.mark.parametrize(
    ("word", "failed"), [("NoSoftware.second=10", {"NoSoftware"}), ("Plantde.rounds=2", {"NoSoftware", "Planted"})]
)
def test_under_reframe_alone_the_checks_that_it_concerns_fail(session, word, failed):
    result = session("-n", "NoSoftware%variant=bare|Planted%variant=bare", "-S", word, "-S", "rounds=1")
    assert result.status == 1
    # A check that would be skipped, too: nobody looks for the reason of a skip.
    assert {case["name"].split()[0] for case in result.cases if case["result"] == "fail"} == failed
    assert f"-S {word}: " in next(case["fail_reason"] for case in result.cases if case["result"] == "fail")


# An application file that would compare nothing


CHECK = """
import reframe as rfm
from containercheck import Answer, ContainerCheck, Metric
from reframe.core.builtins import parameter, run_before

@rfm.simple_test
class Melt(ContainerCheck):
    variant = parameter(["bare"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    executable = "true"
    recipe = "mpi"
    ranks_per_node = 1
    {facts}
"""


METRICS = 'metrics = [Metric("rate", r"^rate (\\S+)", "x")]'


HOOK = """
    @run_before("run")
    def give_metrics(self):
        {does}
"""


@pytest.fixture
def loaded(session, tmp_path):
    """Load a check that declares this, and look at it without running it."""

    def load(facts):
        path = tmp_path / "melt.py"
        path.write_text(CHECK.format(facts=facts))
        return session("--dry-run", checks=path)

    return load


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (METRICS.replace("metrics", "metric"), "sets 'metric', which nothing reads: did you mean 'metrics'?"),
        # ReFrame's own.
        (f'{METRICS}\n    env_var = {{"A": "1"}}', "sets 'env_var', which nothing reads: did you mean 'env_vars'?"),
    ],
)
def test_a_check_that_compares_nothing_stops_the_session_with_one_line(loaded, facts, said):
    result = loaded(facts)
    assert result.status != 0
    (line,) = [line for line in result.output.splitlines() if line.startswith("containercheck: ")]
    assert f"melt.py: Melt {said}" in line
    assert "Traceback" not in result.output and "PASSED" not in result.output


def test_a_container_without_an_image_stops_the_session(session, tmp_path):
    path = tmp_path / "melt.py"
    path.write_text(CHECK.replace('["bare"]', '["generic"]').replace('recipe = "mpi"', "").format(facts=METRICS))
    result = session("--dry-run", checks=path)
    assert result.status != 0
    assert "melt.py: Melt has no recipe: state the definition file of its image" in result.output


#: What a check states, and whether it compares something, or says that it does not.
STATED = {
    "Smoke": ("smoke_test = True", True),
    "Late": (HOOK.format(does=f"self.{METRICS}"), True),
    "Nothing": ("", False),
    "Emptied": (f"{METRICS}{HOOK.format(does='self.metrics = []')}", False),
}


def test_a_check_that_states_no_metrics_fails(session, tmp_path):
    head, _, check = CHECK.partition("\n@")
    path = tmp_path / "melt.py"
    checks = [f"@{check.replace('Melt', name).format(facts=facts)}" for name, (facts, _) in STATED.items()]
    path.write_text("\n".join([head, *checks]))
    result = session("--dry-run", checks=path)
    reasons = {case["name"].split()[0]: case["fail_reason"] for case in result.cases}
    assert {name: reason is None for name, reason in reasons.items()} == {
        name: is_fine for name, (_, is_fine) in STATED.items()
    }, result.output
    for name in ("Nothing", "Emptied"):
        assert f"{name} has no metrics: it would pass with nothing measured" in reasons[name]
