"""No secret reaches a report, the database, a file that others can read, or the terminal: canaries are planted."""

from __future__ import annotations

import argparse
import os
import stat
import subprocess

import pytest
from canary import CANARY, readable
from conftest import entry_command
from containercheck.command import nightly, parsers, run
from containercheck.job import texts, variables
from containercheck.site import node_commands
from served import served  # noqa: F401


def test_a_file_that_others_can_read_is_found(tmp_path):
    path = tmp_path / "some" / "file"
    path.parent.mkdir()
    path.write_text(CANARY)
    path.chmod(0o644)
    assert readable(tmp_path) == [str(path)]
    path.chmod(0o600)
    assert readable(tmp_path) == []
    path.chmod(0o644)
    path.parent.chmod(0o700)
    assert readable(tmp_path) == []


def test_fingerprints_tell_values_apart_in_one_job_and_say_nothing_in_another():
    first, same, other = (variables.redacted("TOKEN", value, b"job") for value in ("1", "1", "2"))
    assert first == same != other
    assert variables.redacted("TOKEN", "1", b"another job") != first
    assert variables.redacted("OMP_PLACES", "cores", b"job") == "cores"
    assert variables.redacted("OMP_DISPLAY", "https://me:secret@host/a", b"job") == "https://host/a"


@pytest.mark.parametrize(
    "name", ["CI_JOB_TOKEN", "SLURM_JWT", "APPTAINER_DOCKER_PASSWORD", "OMPI_MCA_orte_precondition_transports", "FOO"]
)
def test_a_name_that_may_be_a_secret_is_hidden(name):
    assert not variables.is_public(name)
    assert "value" not in "\n".join(node_commands.exports({name: "value"}))
    assert node_commands.private_exports({name: "two values"}) == f"export {name}='two values'\n"


def test_a_private_file_is_private_whatever_was_there(tmp_path):
    path, elsewhere = tmp_path / "file", tmp_path / "elsewhere"
    elsewhere.write_text("as it was")
    path.symlink_to(elsewhere)
    before = os.umask(0)
    try:
        variables.write_private(path, CANARY)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600 and path.read_text() == CANARY
    assert elsewhere.read_text() == "as it was"


@pytest.mark.parametrize(
    "text", ["https://me:secret@host/a#sha256=0", "https://host/a?X-Amz-Signature=secret#sha256=0"]
)
def test_a_message_has_the_address_without_its_secrets(text, tmp_path):
    parts = {"directory": tmp_path, "link": tmp_path / "link"}
    download = entry_command("download", reference=text, **parts)
    pull = entry_command("pull", reference=text.replace("#sha256=0", "@sha256:0"), runtime="apptainer", **parts)
    for command in (download, pull):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1 and "is not pinned" in done.stderr
        assert "https://host/a" in done.stderr and "secret" not in done.stderr


def test_the_end_of_a_message_hides_addresses_in_what_programs_say():
    said = texts.sanitized("fatal: cannot read https://me:secret@host/a.git\x1b[2J")
    assert said == "fatal: cannot read https://host/a.git\\x1b[2J"


@pytest.mark.parametrize("word", ["published=https://me:secret@host/a#sha256=0", "images=https://host/a?token=secret"])
@pytest.mark.parametrize("asked", [run.asked, nightly.asked])
def test_an_address_with_a_secret_is_refused_on_the_command_line(asked, word, capsys):
    with pytest.raises(SystemExit) as caught:
        asked(["-S", word])
    assert caught.value.code == 64 and "put it into the site file" in capsys.readouterr().err
    words = ["-S", "a=https://host/a?download=1#sha256=0", "-S", "b=docker://alpine@sha256:0", "-n", "HPCC@here"]
    parsers.refuse_secrets(argparse.ArgumentParser(), words)


def test_a_lasting_fingerprint_is_the_users_own_and_there_is_none_of_a_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    key = variables.lasting_key()
    assert key and variables.lasting_key() == key
    (path,) = tmp_path.rglob("*.key")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (
        variables.lasting("NAME", "a", key)
        == variables.lasting("NAME", "a", key)
        != variables.lasting("NAME", "b", key)
    )
    assert variables.lasting("NAME", "a", b"another") != variables.lasting("NAME", "a", key)
    assert variables.lasting("CI_JOB_TOKEN", "a", key) == "" == variables.lasting("NAME", "a", b"")
    # Where nothing can be kept there are no fingerprints, and no error.
    monkeypatch.setenv("XDG_STATE_HOME", str(path))
    assert variables.lasting_key() == b""
