"""A fresh machine on this one: made for real, by root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from conftest import REPOSITORY, alive, write_program
from containercheck.job.locks import flocked
from users import ALICE, open_directory

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


def test_its_only_words_are_a_release_and_a_command():
    result = fresh_machine("--help")
    assert result.returncode == 0 and "ci/fresh-machine [--user] RELEASE [COMMAND...]" in result.stdout
    for name in ("", "-x", "book;worm", "../etc"):
        result = fresh_machine(name)
        assert result.returncode in (1, 2)
        assert "RELEASE" in result.stderr or f"'{name}' is not the code name of a Debian release" in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make one")
def test_only_root_can_make_one():
    # The checkout may lie in root's home, which is closed to others.
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.chmod(place, 0o755)
        for name in (SCRIPT.name, "lib.sh"):
            shutil.copy(SCRIPT.parent / name, place)
        result = fresh_machine("bookworm", "true", script=Path(place, SCRIPT.name), user="nobody", cwd="/")
    assert (result.returncode, result.stdout) == (1, "")
    assert "needs root" in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make one")
def test_two_at_once_need_a_directory_of_downloads_each(tmp_path):
    with flocked(tmp_path / "lock", shared=False, waiting=""):
        result = fresh_machine("bookworm", "true", env={**os.environ, "FRESH_MACHINE_CACHE": str(tmp_path)})
    assert (result.returncode, result.stdout) == (1, "")
    assert f"another fresh machine downloads to {tmp_path}: wait for it" in result.stderr


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


#: Makes no Debian, and says which of its places another user can enter.
DEBOOTSTRAP = f"""
for word; do
    case $word in
        --cache-dir=*) place=${{word#*=}} ;;
        /var/tmp/*) place=$word ;;
        *) continue ;;
    esac
    echo "asked $(setpriv --reuid={ALICE} --regid={ALICE} --clear-groups ls -d "$place/." 2>/dev/null)"
done
exit 1"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make one")
def test_other_users_reach_neither_the_tree_nor_the_downloads(tmp_path):
    """Programs of the one run as root, and packages of the other are installed as root."""
    write_program(tmp_path / "debootstrap", DEBOOTSTRAP)
    with open_directory() as place:
        (place / "downloads" / "archives").mkdir(parents=True)
        variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FRESH_MACHINE_CACHE": f"{place}/downloads"}
        result = fresh_machine("--user", "bookworm", "true", env={**os.environ, **variables})
    assert [line.strip() for line in result.stderr.splitlines() if line.startswith("asked")] == ["asked", "asked"]


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
