"""Images and programs are built by the case that needs them first, here or as a job: with ReFrame, and made checks."""

from __future__ import annotations

import platform
import re
import shutil
import signal
import sys
from pathlib import Path

import made
import pytest
from conftest import eventually, file_of
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


@pytest.mark.parametrize(
    ("extras", "options", "on_node"),
    [
        ({}, (), False),
        ({"build_on_node": True}, (), True),
        # ReFrame's own word for it.
        ({}, ("-S", "build_locally=no"), True),
    ],
)
def test_the_build_step_is_a_job_where_there_is_something_to_build(session, site, extras, options, on_node):
    processor = {
        "arch": platform.machine(),
        "num_cpus": 2,
        "num_cpus_per_core": 1,
        "num_cpus_per_socket": 2,
        "num_sockets": 1,
    }
    facts = {"scheduler": "squeue", "launcher": "srun", "access": ["--partition=fat"], "processor": processor}
    facts["container_platforms"] = [{"type": "Apptainer"}]
    settings = site(**facts, time_limit="30m", extras={"python": "/opt/python3", **extras})
    words = ("-n", "HPCC%variant=(bare|generic)", *options)
    result = session("--dry-run", "-C", settings, *words, checks=file_of("HPCC"))
    assert result.status == 0, result.output
    for variant in ("bare", "generic"):
        script = Path(result.case(variant)["stagedir"], "rfm_build.sh").read_text()
        # Bare HPCC is the host's.
        expected = on_node and variant == "generic"
        assert bool(re.search("^#SBATCH --partition=fat$", script, re.MULTILINE)) is expected
        assert bool(re.search("^#SBATCH --time=0:30:0$", script, re.MULTILINE)) is expected
        assert ("/opt/python3 /" in script) is expected
        assert "--exclusive" not in script
        # .venv may be a link, and ReFrame's own script names what it leads to.
        python = Path(sys.executable).parent.resolve() / Path(sys.executable).name
        assert (f"{python} " in script) is (variant == "generic" and not on_node)


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
