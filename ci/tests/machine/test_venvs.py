"""Python environments are made once, or not at all: with the machine's own pip, from one small pinned package."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
from conftest import REPOSITORY

PROGRAM = REPOSITORY / "checks" / "containercheck" / "job"
HERE = platform.machine()
PINNED = "six==1.16.0\n"


@pytest.fixture
def make(tmp_path):
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(PINNED)

    def run(text=None, architecture=HERE, path=requirements):
        if text is not None:
            requirements.write_text(text)
        options = ["--requirements", path, "--architecture", architecture]
        options += ["--cache", tmp_path / "cache", "--link", tmp_path / "venv", "tiny"]
        command = [sys.executable, str(PROGRAM), "venv", *map(str, options)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    return run


def test_an_environment_is_made_once_and_made_again_when_it_is_damaged(make, tmp_path):
    first = make()
    assert first.returncode == 0, first.stderr
    assert "built in" in first.stdout
    python = tmp_path / "venv" / "bin" / "python"
    version = subprocess.run(
        [python, "-c", "import six; print(six.__version__)"], capture_output=True, text=True, check=True
    )
    assert version.stdout == "1.16.0\n"
    again = make()
    assert "built in" not in again.stdout
    assert again.stdout.splitlines()[-1] == first.stdout.splitlines()[-1]
    next((tmp_path / "venv").resolve().glob("lib/*/site-packages/six.py")).unlink()
    assert "is corrupt, building it again" in make().stdout


def test_a_package_that_does_not_exist_leaves_no_environment(make, tmp_path):
    result = make("containercheck-has-no-such-package==1.0\n")
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert "containercheck-has-no-such-package" in result.stderr
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == []
    assert not (tmp_path / "venv").exists()


def test_requirements_for_other_machines_are_told_by_the_exit_status(make):
    result = make(f"# only for: pdp11\n{PINNED}")
    assert result.returncode == 3
    assert result.stderr.startswith("error: no software: tiny is pinned for pdp11, and the partition is ")
    result = make(f"# only for: {HERE}; Python 3.99, 4.0\n{PINNED}")
    assert result.returncode == 3
    assert "it is pinned for Python 3.99, 4.0, and found was only 3." in result.stderr
    own = ".".join(platform.python_version_tuple()[:2])
    assert make(f"# only for: {HERE}; Python {own}\n{PINNED}").returncode == 0
