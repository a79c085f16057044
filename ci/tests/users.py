"""Two ordinary users of this machine, as whom tests run programs; they need root for that, and nothing else."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

CI = Path(__file__).resolve().parents[1]
#: User ids that no account has: what is asked of the machine's list of users finds nothing.
ALICE, BOB = 61001, 61002

#: For tests that run as one of them.
need_root = pytest.mark.skipif(os.geteuid() != 0, reason="running programs as other users needs root")


def words_as(user: int, *command: object) -> list[str]:
    """Return the command that runs a command as a user, with a group of the same number and no other."""
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--", *map(str, command)]


def with_ids(user: int, place: Path) -> list[str]:
    """Return words before a command of :func:`words_as`: the user then has a name, and ids as ci/setup gives them.

    The machine's own list of users stays as it is: the command has a copy of /etc.

    :param place: directory for that copy.
    """
    etc = place / "etc"
    shutil.copytree("/etc", etc, symlinks=True, ignore=shutil.ignore_patterns("ssl"))
    for name, line in (("passwd", f"user{user}:x:{user}:{user}::{place}:/bin/sh"), ("group", f"user{user}:x:{user}:")):
        with (etc / name).open("a") as stream:
            stream.write(f"{line}\n")
    own = 'mount --bind "$0" /etc; exec "$@"'
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", own, str(etc)]
    give = f'. "{CI}/lib.sh"; . "{CI}/subids.sh"; give_range user{user}'
    subprocess.run([*words, "bash", "-euc", give], check=True, stdin=subprocess.DEVNULL)
    return words


@contextlib.contextmanager
def open_directory() -> Iterator[Path]:
    """Have a directory that all users can enter: those that pytest makes are closed to others."""
    place = Path(tempfile.mkdtemp(prefix="containercheck-tests-", dir="/var/tmp"))
    place.chmod(0o755)
    try:
        yield place
    finally:
        shutil.rmtree(place)


def home_of(user: int, place: Path) -> Path:
    """Return the home of a user below an open directory; it is made where it is not there."""
    home = place / f"home-{user}"
    if not home.exists():
        home.mkdir(mode=0o755)
        os.chown(home, user, user)
    return home


def environment_of(home: Path, **variables: str) -> dict[str, str]:
    """Return what a user has just after logging in."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **variables}


def run_as(user: int, home: Path, *command: object, patience: float = 120, **variables: str):
    """Run a command as a user, and return it with what it printed.

    :param patience: seconds; a command that takes longer hangs.
    """
    return subprocess.run(
        words_as(user, *command),
        env=environment_of(home, **variables),
        cwd=home,
        stdin=subprocess.DEVNULL,
        text=True,
        capture_output=True,
        timeout=patience,
    )


def start_as(user: int, home: Path, *command: object, **variables: str) -> subprocess.Popen:
    """Start a command as a user in a process group of its own; its output can be read."""
    return subprocess.Popen(
        words_as(user, *command),
        env=environment_of(home, **variables),
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
