"""What a machine's own configuration says is found, on a machine whose apt and Python are the test's."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import REPOSITORY
from containercheck.node.build import machine
from containercheck.node.build.cache import CacheError

OWN = "Debian|Debian|bookworm|http://own.example/debian"
UPDATES = "Debian|Debian|bookworm-updates|http://own.example/debian"
UNSTABLE = "Debian|Debian|sid|http://other.example/debian"
SECURITY = "Debian|Debian-Security|bookworm-security|http://security.example"
RELABELLED = "Debian|Debian|bookworm-security|http://own.example/debian-security/"
OTHERS = "Docker|Docker CE|bookworm|http://docker.example"
UBUNTU = "Ubuntu|Ubuntu|jammy|http://ubuntu.example/ubuntu"


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """Return the mirror of a machine whose apt lists these sources."""

    def run(*sources, codename="bookworm"):
        apt = tmp_path / "apt-get"
        apt.write_text("#!/bin/sh\n" + "".join(f"echo '{source}'\n" for source in sources))
        apt.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setattr(machine, "own_codename", lambda: codename)
        return machine.mirror()

    return run


@pytest.mark.parametrize(
    ("sources", "codename"),
    [
        ([OWN, UPDATES, SECURITY], "bookworm"),
        ([SECURITY, RELABELLED, OTHERS, OWN], "bookworm"),
        ([UNSTABLE, OWN], "bookworm"),
        ([UBUNTU, OWN], "jammy"),
        ([OWN, UNSTABLE], ""),
    ],
)
def test_the_mirror_is_debians_and_that_of_the_own_release(mirror, sources, codename):
    assert mirror(*sources, codename=codename) == "http://own.example/debian"


@pytest.mark.parametrize("sources", [[], [UBUNTU], [SECURITY, OTHERS], ["|||http://own.example/debian"]])
def test_no_mirror_is_an_error(mirror, sources):
    with pytest.raises(CacheError, match="knows no Debian mirror"):
        mirror(*sources)


def ask(question, **environment):
    command = [sys.executable, str(REPOSITORY / "checks" / "containercheck" / "node"), "machine", question]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60)


def test_a_machine_without_apt_gets_one_line(tmp_path):
    result = ask("mirror", PATH=str(tmp_path))
    assert result.returncode == 1
    assert result.stderr.startswith("error: apt on this machine knows no Debian mirror: ")
    assert result.stderr.count("\n") == 1


def test_the_python_that_is_named_makes_environments(tmp_path):
    python = ask("python").stdout.strip()
    subprocess.run([python, "-m", "venv", str(tmp_path / "venv")], check=True, timeout=120)
    assert (tmp_path / "venv" / "bin" / "pip").exists()


def test_shell_scripts_ask_the_same_program(tmp_path):
    def asked(path):
        command = ["/bin/bash", "-c", f". {REPOSITORY}/ci/lib.sh; PATH={path}; machine python"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert asked(os.environ["PATH"]).stdout == ask("python").stdout
    without = asked(tmp_path)
    assert without.returncode == 1
    assert without.stderr == "bash: error: no python3 on the PATH: install Python 3.9 or newer with its venv module\n"
