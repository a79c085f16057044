"""What a machine's own configuration says is found, on a machine whose apt and Python are the test's."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys

import pytest
from conftest import PROGRAMS, REPOSITORY, write_program
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
        write_program(tmp_path / "apt-get", "\n".join(f"echo '{source}'" for source in sources))
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setattr(machine, "own_codename", lambda: codename)
        return machine.mirror()

    return run


@pytest.mark.parametrize(
    ("sources", "codename"),
    [
        ([SECURITY, RELABELLED, OTHERS, UNSTABLE, UPDATES, OWN], "bookworm"),
        ([UBUNTU, OWN], "jammy"),
        ([OWN, UNSTABLE], ""),
    ],
)
def test_the_mirror_is_debians_and_that_of_the_own_release(mirror, sources, codename):
    assert mirror(*sources, codename=codename) == "http://own.example/debian"


@pytest.mark.parametrize("sources", [[], [UBUNTU, SECURITY, OTHERS], ["|||http://own.example/debian"]])
def test_no_mirror_is_an_error(mirror, sources):
    with pytest.raises(CacheError, match="knows no Debian mirror"):
        mirror(*sources)


def test_the_python_that_is_named_makes_environments(tmp_path):
    asked = subprocess.run([sys.executable, PROGRAMS, "machine", "python"], capture_output=True, text=True, timeout=60)
    subprocess.run([asked.stdout.strip(), "-m", "venv", str(tmp_path / "venv")], check=True, timeout=120)
    assert (tmp_path / "venv" / "bin" / "pip").exists()


def test_where_the_systems_python_is_too_old_one_on_the_path_is_taken(tmp_path, monkeypatch):
    """On RHEL 9 the system's is 3.9, and ReFrame does not take it."""
    versions = {"/usr/bin/python3": "3.9", f"{tmp_path}/python3": "3.9", f"{tmp_path}/python3.98": "3.98"}
    # Another one makes no environments, and one is not a Python.
    for name in ("python3", "python3.98", "python3.99", "python3.98-config"):
        (tmp_path / name).touch()
    monkeypatch.setattr(machine, "_version_of", lambda name: versions.get(name, ""))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.python(oldest=(3, 10)) == (f"{tmp_path}/python3.98", "3.98")
    assert machine.python() == ("/usr/bin/python3", "3.9")


def test_a_python_that_is_too_old_is_one_line(monkeypatch):
    monkeypatch.setattr(machine, "_version_of", lambda _name: "3.9")
    with pytest.raises(CacheError, match=r"no Python 3\.10 or newer .* \(found: 3\.9\): install one, such as"):
        machine.python(oldest=machine.OLDEST_FOR_REFRAME)


def test_the_package_asks_for_the_python_that_set_up_takes():
    oldest = ".".join(map(str, machine.OLDEST_FOR_REFRAME))
    assert f'requires-python = ">={oldest}"' in (REPOSITORY / "pyproject.toml").read_text()
    assert f"Python {oldest} or newer" in (REPOSITORY / ".github" / "CONTRIBUTING.md").read_text()
    assert f"--python-version {oldest} " in (REPOSITORY / "ci" / "lock").read_text()


def test_an_image_gets_the_index_and_the_certificates_of_this_machines_pip_and_nothing_else(tmp_path, monkeypatch):
    (tmp_path / "ca.pem").write_text("certificate\n")
    (tmp_path / "pip.conf").write_text(f"""[global]
index-url = https://file.example/simple
extra-index-url =
    https://one.example/simple
    https://two.example/simple
cert = {tmp_path / "ca.pem"}
cache-dir = /home/somebody/cache
[install]
user = true
""")
    for name in [name for name in os.environ if name.startswith("PIP_")] + ["REQUESTS_CA_BUNDLE"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    # The environment outranks the file.
    monkeypatch.setenv("PIP_INDEX_URL", "https://user:secret@environment.example/simple")
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://proxy.example:3128")
    machine.copy_pip_settings(tmp_path / "copy", "/mnt")
    reader = configparser.RawConfigParser()
    reader.read(tmp_path / "copy" / "pip.conf")
    assert reader.sections() == ["global"] and dict(reader["global"]) == {
        "index-url": "https://user:secret@environment.example/simple",
        "extra-index-url": "\nhttps://one.example/simple\nhttps://two.example/simple",
        "cert": "/mnt/certificates.pem",
        "proxy": "http://proxy.example:3128",
    }
    assert (tmp_path / "copy" / "certificates.pem").read_text() == "certificate\n"
    assert (tmp_path / "copy" / "pip.conf").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("PIP_CERT", "/no/such.pem")
    with pytest.raises(CacheError, match="pip's certificates, /no/such.pem, cannot be read: No such file"):
        machine.copy_pip_settings(tmp_path / "again", "/mnt")
