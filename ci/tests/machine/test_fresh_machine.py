"""A fresh machine on this one: made for real, by root."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest
from conftest import REPOSITORY, alive

SCRIPT = REPOSITORY / "ci" / "fresh-machine"
#: Seconds; debootstrap downloads a hundred megabytes the first time.
PATIENCE = 900


def fresh_machine(*words, script=SCRIPT, **options):
    """Run the script; return what it said and its exit status."""
    return subprocess.run([script, *words], capture_output=True, text=True, timeout=PATIENCE, **options)


def left_behind():
    """Return what a run may leave: its tree, and what is mounted there."""
    mounted = [line for line in Path("/proc/mounts").read_text().splitlines() if "fresh-machine." in line]
    return [*Path("/var/tmp").glob("fresh-machine.*"), *mounted]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make one")
def test_a_user_there_can_do_what_a_user_can_and_leaves_nothing_behind():
    before = left_behind()
    ask = (
        "id -un; . /etc/os-release; echo $VERSION_CODENAME; hostname; git log --format=%s -1; "
        "unshare --user --map-root-user id -u; sudo id -un; ls -d /root/.ssh 2>/dev/null; id -u; "
        "sleep 1000 & exit 7"
    )
    result = fresh_machine("--user", "bookworm", "bash", "-c", ask)
    subject = subprocess.run(["git", "log", "--format=%s", "-1"], cwd=REPOSITORY, capture_output=True, text=True).stdout
    told = [line for line in result.stdout.splitlines() if not line.startswith("fresh-machine: ")]
    # No user of this machine has that number, and could end or change what tester runs, who has sudo.
    number = int(told.pop())
    assert number > 60000
    with pytest.raises(KeyError):
        pwd.getpwuid(number)
    assert told == ["tester", "bookworm", "fresh-bookworm", subject.strip(), "0", "root"], result.stderr
    assert result.returncode == 7
    assert "exit status 7 after" in result.stdout
    assert left_behind() == before


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make one")
def test_one_that_is_stopped_leaves_nothing_behind():
    before = left_behind()
    process = subprocess.Popen(
        [SCRIPT, "bookworm", "bash", "-c", "echo there; exec sleep 4242"], stdout=subprocess.PIPE
    )
    while process.stdout.readline() != b"there\n":
        assert process.poll() is None
    process.terminate()
    assert process.wait(timeout=PATIENCE) == 143
    assert left_behind() == before
    assert not alive("sleep 4242")
