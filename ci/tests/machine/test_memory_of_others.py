"""StartUp as an ordinary user whose runtime has processes of somebody else: sudo, or a program that is setuid."""

from __future__ import annotations

import re
import shutil

import pytest
from conftest import REPOSITORY
from users import ALICE, BOB, home_of, need_root, open_directory, run_as

SYSTEM_PYTHON = shutil.which("python3", path="/usr/bin:/bin")
pytestmark = [need_root, pytest.mark.skipif(not SYSTEM_PYTHON, reason="needs the system's python3")]


def memory(output):
    return [float(megabytes) for megabytes in re.findall(r"memory (\S+) MB", output)]


def test_memory_is_estimated_where_its_pages_may_not_be_looked_at():
    """The kernel refuses smaps_rollup of a process with another user's rights."""
    with open_directory() as place:
        home = home_of(ALICE, place)
        program = place / "startup.py"
        shutil.copy(REPOSITORY / "checks" / "src" / "startup" / "startup.py", program)
        # Python, because it has pages of its own. The one that tests run with may lie where ALICE cannot look.
        python = place / "python"
        shutil.copy(SYSTEM_PYTHON, python)
        program.chmod(0o644)
        copying = (python, "-E", "-c", "import sys; print(sys.stdin.readline(), end='', flush=True); sys.stdin.read()")
        command = (SYSTEM_PYTHON, program, "--repeats", "1", "--", *copying)
        python.chmod(0o755)
        own = run_as(ALICE, home, *command)
        shutil.chown(python, BOB)
        python.chmod(0o4755)
        other = run_as(ALICE, home, *command)
    assert own.returncode == other.returncode == 0, own.stderr + other.stderr
    # Its libraries are others' too, which an estimate counts whole.
    assert memory(other.stdout) == pytest.approx(memory(own.stdout), abs=6)
    assert memory(other.stdout) > memory(own.stdout)
