"""Images and programs are built by the case that needs them first: with ReFrame, and with checks made here."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

import pytest
from conftest import eventually
from containercheck.results.cases import collect
from containercheck.session import reframe_process, session
from session_place import place, run, start  # noqa: F401

HERE = "built_checks.py"


@pytest.fixture
def building(place, request):
    """Make a place with checks that build."""
    shutil.copy(request.path.parents[1] / HERE, place.directory / "checks" / "made.py")
    return place


def journal(place):
    return (place.directory / "journal").read_text().splitlines()


def test_what_is_missing_is_built_once_and_while_nothing_is_measured(building):
    status, output = run(building, "-n", "First|Second")
    assert status == 0, output
    assert journal(building) == ["build image", "run First", "run First", "build program", "run Second"]


def test_what_measures_here_is_measured_one_after_the_other(building):
    status, output = run(building, "-n", "First|Second")
    assert status == 0, output
    words = re.findall(r"\[ *(RUN|OK) *\]", re.sub(r"\x1b\[[0-9;]*m", "", output))
    assert words == ["RUN", "OK"] * 3
    # The person's own choice counts.
    status, output = run(building, "-n", "First|Second", "--exec-policy=async")
    words = re.findall(r"\[ *(RUN|OK) *\]", re.sub(r"\x1b\[[0-9;]*m", "", output))
    assert words[:3] == ["RUN"] * 3


def test_a_signal_ends_a_build_and_nothing_is_run(building):
    process = start(building, "-n", "Hangs")
    assert eventually(lambda: Path(building.directory, "journal").exists() and "hangs" in str(journal(building)))
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "run: error: stopped by SIGTERM\n" in output
    assert not any(line.startswith("run ") for line in journal(building))
    pid = next(line.split()[1] for line in journal(building) if line.startswith("hangs"))
    assert not Path("/proc", pid).exists()


def case(name, **facts):
    head = {
        "name": name,
        "unique_name": name,
        "system": "here",
        "partition": "one",
        "environ": "builtin",
        "result": "pass",
    }
    more = {"hashcode": f"{name}{name}"}
    return collect([{"runs": [{"testcases": [{**head, **more, **facts}]}]}])[0]


def test_cases_are_selected_by_their_hash_and_nothing_else_runs():
    here, there = case("A"), case("A", partition="two")
    whole = session.selected([here, there, case("B")], [here, there, case("B"), case("C")])
    assert whole == [([here, there, case("B")], ["-n", "/AA", "-n", "/BB"])]
    parts = session.selected([here, case("B")], [here, there, case("B")])
    assert parts == [([here, case("B")], ["--system=here:one", "-p", "^builtin$", "-n", "/AA", "-n", "/BB"])]
    several = [words[0] for _, words in session.selected([here, case("B", partition="two")], [here, there])]
    assert several == ["--system=here:one", "--system=here:two"]
    words = ["-n", "GROMACS", "--name=HPL", "-nDB12", "-S", "x=1", "-v"]
    assert reframe_process.without_names(words) == ["-S", "x=1", "-v"]
