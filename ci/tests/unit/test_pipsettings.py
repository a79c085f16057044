"""What pip is told on this machine reaches a pip in an image, and nothing that means this machine only."""

from __future__ import annotations

import configparser
import os

import pytest
from containercheck.node.build import pip_settings


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """Return what an image would be told, from a configuration file of pip."""

    def run(text):
        (tmp_path / "pip.conf").write_text(text)
        for name in [name for name in os.environ if name.startswith("PIP_")] + ["REQUESTS_CA_BUNDLE"]:
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
        pip_settings.copy(tmp_path / "copy", "/mnt")
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
    assert pip_settings.settings()["global"]["index-url"] == "https://environment.example/simple"


def test_the_file_is_for_its_owner_only(copied, tmp_path):
    copied("[global]\nindex-url = https://user:secret@packages.example/simple\n")
    assert (tmp_path / "copy" / "pip.conf").stat().st_mode & 0o077 == 0
