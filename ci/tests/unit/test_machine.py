"""What a machine's own configuration says is found, on a machine whose apt and Python are the test's."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys

import pytest
from conftest import REPOSITORY, write_program
from containercheck.job.build import machine
from containercheck.job.build.cache import CacheError

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
    command = [sys.executable, str(REPOSITORY / "checks" / "containercheck" / "job"), "machine", question]
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


def test_the_newest_python_on_the_path_is_taken(tmp_path):
    """On RHEL 9 the system's is 3.9, and ReFrame does not take it."""
    for name in ("3.9", "3.98", "3.100-config"):
        write_program(tmp_path / f"python{name}", f"echo {name[:5]}")
    # This one makes no environments.
    write_program(tmp_path / "python3.99", "exit 1")
    (tmp_path / "python3").symlink_to("python3.9")
    result = ask("python", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert result.stdout == f"{tmp_path}/python3.98\n", result.stderr


def test_the_systems_python_comes_first_among_those_of_a_version(tmp_path):
    ask_version = ["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    version = subprocess.run(ask_version, capture_output=True, text=True).stdout.strip()
    write_program(tmp_path / f"python{version}", f"echo {version}")
    assert ask("python", PATH=str(tmp_path)).stdout == "/usr/bin/python3\n"


def test_a_python_that_is_too_old_is_one_line(monkeypatch):
    monkeypatch.setattr(machine, "_version_of", lambda _name: "3.9")
    with pytest.raises(CacheError, match=r"no Python 3\.10 or newer .* \(found: 3\.9\): install one, such as"):
        machine.newest_python()


def test_the_package_asks_for_the_python_that_set_up_takes():
    oldest = ".".join(map(str, machine.OLDEST_FOR_REFRAME))
    assert f'requires-python = ">={oldest}"' in (REPOSITORY / "pyproject.toml").read_text()
    assert f"Python {oldest} or newer" in (REPOSITORY / ".github" / "CONTRIBUTING.md").read_text()
    assert f"--python-version {oldest} " in (REPOSITORY / "ci" / "lock").read_text()


def test_shell_scripts_ask_the_same_program(tmp_path):
    def asked(path):
        command = ["/bin/bash", "-c", f". {REPOSITORY}/ci/lib.sh; PATH={path}; machine python"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert asked(os.environ["PATH"]).stdout == ask("python").stdout
    without = asked(tmp_path)
    assert without.returncode == 1
    assert without.stderr == "bash: error: no python3 on the PATH: install Python 3.10 or newer with its venv module\n"


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Return what an image would be told, from a configuration file of pip."""

    def run(text):
        (tmp_path / "pip.conf").write_text(text)
        for name in [name for name in os.environ if name.startswith("PIP_")] + ["REQUESTS_CA_BUNDLE"]:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
        machine.copy_pip_settings(tmp_path / "copy", "/mnt")
        reader = configparser.RawConfigParser()
        reader.read(tmp_path / "copy" / "pip.conf")
        return reader

    return run


def test_the_index_goes_along_and_places_of_this_machine_do_not(copied, tmp_path):
    (tmp_path / "ca.pem").write_text("certificate\n")
    told = copied(f"""[global]
index-url = https://packages.example/simple
cert = {tmp_path / "ca.pem"}
cache-dir = /home/somebody/cache
[install]
user = true
find-links = https://packages.example/wheels /nowhere/at/all
""")
    assert told["global"]["index-url"] == "https://packages.example/simple"
    assert "cache-dir" not in told["global"]
    assert "user" not in told["install"]
    assert told["install"]["find-links"] == "https://packages.example/wheels"
    name = told["global"]["cert"].removeprefix("/mnt/")
    assert (tmp_path / "copy" / name).read_text() == "certificate\n"


def test_the_environment_outranks_the_file(monkeypatch, tmp_path):
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://file.example/simple\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://environment.example/simple")
    assert machine.pip_settings()["global"]["index-url"] == "https://environment.example/simple"


def test_the_file_is_for_its_owner_only(copied, tmp_path):
    copied("[global]\nindex-url = https://user:secret@packages.example/simple\n")
    assert (tmp_path / "copy" / "pip.conf").stat().st_mode & 0o077 == 0
