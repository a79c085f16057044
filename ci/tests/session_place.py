"""A directory with made checks, where sessions of ci/run run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import start_made
from containercheck.session.reframe_process import Workplace

RUN = """
import sys
from containercheck.command import main
from containercheck.session import progress, reframe_process
from pathlib import Path
progress.HEARTBEAT, reframe_process.INTERVAL, reframe_process.GRACE = 0.5, 0.1, 2.0
place = reframe_process.Workplace(Path({directory!r}), config=Path({config!r}))
sys.exit(main.run("run", {shown}sys.argv[1:], place))
"""
#: What ReFrame prints, and all metrics: most tests read one of them.
ALL = RUN.replace("{shown}", '["--verbose"] + ')
#: What a person sees who asks for nothing.
PLAIN = RUN.replace("{shown}", "")


@pytest.fixture
def place(tmp_path):
    """Make a place with checks and a configuration."""
    (tmp_path / "checks").mkdir()
    shutil.copy(Path(__file__).parent / "slow_checks.py", tmp_path / "checks" / "made.py")
    (tmp_path / "config.py").write_text("site_configuration = {}\n")
    return Workplace(tmp_path, config=tmp_path / "config.py")


def start(place, *arguments, **environment):
    return start_made(ALL, place, *arguments, **environment)


def run(place, *arguments, program=ALL, **environment):
    """Run a session; return its exit status and what it printed."""
    process = start_made(program, place, *arguments, **environment)
    output, _ = process.communicate(timeout=300)
    return process.returncode, output


def table(output):
    """Return what comes after ReFrame's own output."""
    return output.rpartition("\n\n")[2].splitlines()


def running(stage):
    """Return the processes that work below the stage directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if str(path.readlink()).startswith(str(stage)):
                found.append(path.parent.name)
        except OSError:
            continue
    return found
