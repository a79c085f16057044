"""Directories of a job's own in places that all users share, such as /dev/shm (standard library only; in the job).

    python3 checks/containercheck/node place /dev/shm/containercheck-1000-0123456789abcdef

makes this one, which nobody may have made before, and removes what our own jobs left there that were killed.
"""

import argparse
import contextlib
import os
import re
import shutil
import sys
import time
from pathlib import Path

from containercheck.node import lock_directories, locks

#: What such a directory is called: whose it is, and what nobody can foresee.
NAME = re.compile(r"containercheck-(\d+)-[0-9a-f]{16}")
#: File in it that says which job's it is, and seconds after which nobody waits for a job of another machine.
JOB, OLD = ".job", 7 * 86400.0


def make(directory: Path) -> None:
    """Make a directory for this job, where it does not have it yet, and remove what dead jobs of ours left beside it.

    :raises SystemExit: somebody else made it.
    """
    _sweep(directory.parent)
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        found = os.lstat(str(directory))
        if found.st_uid != os.geteuid() or not (directory / JOB).is_file():
            owner = locks.user_name(found.st_uid)
            sys.exit(f"error: {directory} is there already, and belongs to {owner}: it was not made by this job")
        return
    except OSError as error:
        sys.exit(f"error: {directory} cannot be made: {error.strerror}")
    # The job is the process that all others of it descend from: its session's first.
    first = os.getsid(0)
    (directory / JOB).write_text(f"{os.uname().nodename} {first} {lock_directories.start_of(first)}\n")


def _sweep(place: Path) -> None:
    with contextlib.suppress(OSError):
        for path in place.iterdir():
            match = NAME.fullmatch(path.name)
            if match and match[1] == str(os.geteuid()):
                with contextlib.suppress(OSError):
                    if os.lstat(str(path)).st_uid == os.geteuid() and _is_dead(path):
                        shutil.rmtree(str(path))


def _is_dead(directory: Path) -> bool:
    age = time.time() - os.lstat(str(directory)).st_mtime
    try:
        host, process, started = (directory / JOB).read_text().split()
    except (OSError, ValueError):
        return age > OLD
    if host == os.uname().nodename:
        return lock_directories.start_of(int(process)) != started
    return age > OLD


def main() -> None:
    """Make a directory, or print one error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    make(parser.parse_args().directory)
