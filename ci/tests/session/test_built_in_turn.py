"""Images and programs are built by the case that needs them first, here or as a job: with ReFrame, and made checks."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

import made
import pytest
from conftest import eventually
from containercheck.session import reframe_process, session
from places import place, run, start  # noqa: F401

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
    # One after the other.
    words = re.findall(r"\[ *(RUN|OK) *\]", re.sub(r"\x1b\[[0-9;]*m", "", output))
    assert words == ["RUN", "OK"] * 3
    # The person's own choice counts.
    status, output = run(building, "-n", "First|Second", "--exec-policy=async")
    words = re.findall(r"\[ *(RUN|OK) *\]", re.sub(r"\x1b\[[0-9;]*m", "", output))
    assert words[:3] == ["RUN"] * 3


def test_a_signal_ends_a_build_and_nothing_is_run(building):
    process = start(building, "-n", "Hangs")
    written = Path(building.directory, "journal")
    assert eventually(lambda: written.exists() and "hangs" in str(journal(building)), of=process)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "run: error: stopped by SIGTERM\n" in output
    assert not any(line.startswith("run ") for line in journal(building))
    pid = next(line.split()[1] for line in journal(building) if line.startswith("hangs"))
    assert not Path("/proc", pid).exists()


def case(name, **facts):
    (found,) = made.cases([made.case(name, hashcode=f"{name}{name}", **facts)])
    return found


def test_cases_are_selected_by_their_hash_and_nothing_else_runs():
    here, there = case("A"), case("A", partition="two")
    whole = session.selected([here, there, case("B")], [here, there, case("B"), case("C")])
    assert whole == [([here, there, case("B")], ["-n", "/AA", "-n", "/BB"])]
    parts = session.selected([here, case("B")], [here, there, case("B")])
    assert parts == [([here, case("B")], ["--system=cluster:compute", "-p", "^builtin$", "-n", "/AA", "-n", "/BB"])]
    several = [words[0] for _, words in session.selected([here, case("B", partition="two")], [here, there])]
    assert several == ["--system=cluster:compute", "--system=cluster:two"]
    words = ["-n", "GROMACS", "--name=HPL", "-nDB12", "-S", "x=1", "-v"]
    assert reframe_process.without_names(words) == ["-S", "x=1", "-v"]
