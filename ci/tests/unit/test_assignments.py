"""-S: what does not exist is not set silently, so that nothing else than was asked for is measured."""

from __future__ import annotations

import importlib
import json

import pytest
from conftest import PLANTED, REPOSITORY
from containercheck import ContainerCheck
from containercheck.application.assignments import UnknownVariable, require_known
from containercheck.command import run
from containercheck.session.reframe_process import Workplace
from gromacs import GROMACS
from hpcc import HPCC

WRONG = [
    ("GROMACS.image=/my.sif", "GROMACS has no variable image; in the site file it is extras: containercheck: software"),
    ("host_mpi=/my.so", "no check has a variable host_mpi; in the site file it is extras: containercheck: host_mpi"),
    ("GROMACS.second=10", "GROMACS has no variable second: did you mean seconds?"),
    ("second=10", "no check has a variable second: did you mean seconds?"),
    ("GROMACS.xyzzy=1", "GROMACS has no variable xyzzy: reframe --describe -n GROMACS lists them"),
    ("GROMAC.seconds=10", "there is no check GROMAC: did you mean GROMACS?"),
    ("ContainerCheck.rounds=2", "ContainerCheck is a base class, of which nothing is set: for all checks leave it out"),
    ("num_nodes=2", "no check has a variable num_nodes, which is a parameter: select by it, as in -n 'GROMACS%num_no"),
    ("rounds", "it needs a name and a value, as in -S rounds=10"),
]


@pytest.mark.parametrize(("word", "said"), WRONG)
@pytest.mark.parametrize("option", [["-S", "{}"], ["-S{}"], ["--setvar={}"], ["--setvar", "{}"], ["-rS", "{}"]])
def test_what_does_not_exist_is_named_with_the_nearest_name(option, word, said):
    with pytest.raises(UnknownVariable) as error:
        require_known(GROMACS, ["-c", "checks", "-n", "HPCC", *(one.format(word) for one in option), "-r"])
    assert f"-S {word}: {said}" in str(error.value)


@pytest.mark.parametrize(
    "word",
    [
        "GROMACS.rounds=2",
        "rounds=2",
        # ReFrame's own.
        "num_gpus_per_node=1",
        # Another check's: by name, and for those that have it.
        "HPCC.rounds=2",
        "full=yes",
        # Of a file that is not loaded; and in a fixture.
        "StartUp.rounds=2",
        "GROMACS.fixture.anything=1",
    ],
)
def test_what_exists_may_be_set(word):
    assert require_known(GROMACS, ["-S", word]) is None


def test_a_mistake_in_another_checks_name_is_that_checks():
    require_known(HPCC, ["-S", "GROMACS.second=10"])
    assert issubclass(HPCC, ContainerCheck)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Make a place with the planted checks."""
    (tmp_path / "checks").symlink_to(PLANTED)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY / "checks"))
    monkeypatch.delenv("RFM_SYSTEM", raising=False)
    monkeypatch.delenv("RFM_CONFIG_FILES", raising=False)
    (tmp_path / "common.py").write_text("site_configuration = {}\n")
    return Workplace(tmp_path, config=tmp_path / "common.py")


@pytest.mark.parametrize("command", ["run", "estimate", "nightly", "acceptance"])
def test_no_command_runs_anything_where_a_variable_does_not_exist(place, capsys, command):
    argv = ["-n", "Planted", "-S", "Planted.second=10"]
    module = importlib.import_module(f"containercheck.command.{command}")
    status = module.main([*(["sh", "bash"] if command == "acceptance" else []), *argv], place)
    # The others have a meaning of their own for 2.
    assert status == (2 if command in ("nightly", "acceptance") else 64)
    said = "-S Planted.second=10: Planted has no variable second: did you mean seconds?"
    assert said in capsys.readouterr().out
    assert not list(place.directory.rglob("rfm_job.sh")) and not list(place.directory.rglob("*report*.json"))


def test_the_last_session_is_kept_where_a_variable_does_not_exist(place):
    """So that --open can go on with it; which looks at its own too."""
    kept = json.dumps({"session_info": {"ci_run_arguments": ["-n", "Planted"]}, "runs": [{"testcases": []}]})
    place.report.parent.mkdir()
    place.report.write_text(kept)
    assert run.session(["-n", "Planted", "-S", "Planted.second=10"], place) == 64
    assert run.session(["--open", "-S", "Planted.second=10"], place) == 64
    assert place.report.read_text() == kept
