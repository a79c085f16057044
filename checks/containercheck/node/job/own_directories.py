"""Make directories for a job alone where all users may write, such as /dev/shm (standard library only; in the job).

    python3 checks/containercheck/node place /dev/shm/containercheck-1000-0123456789abcdef

makes this directory, which must not exist before, and removes directories there of our own jobs that were killed.
"""

import argparse
import contextlib
import os
import re
import shutil
import sys
import time
from pathlib import Path

from containercheck.node import locks

#: Name of such a directory: the number of its user, and a random part that cannot be guessed.
NAME = re.compile(r"containercheck-(\d+)-[0-9a-f]{16}")
#: File in it that names its job, and age in seconds at which a job of another machine or PID namespace counts as ended.
JOB, OLD = ".job", 7 * 86400.0


def make(directory: Path) -> None:
    """Make a directory for this job, unless it has it already, and remove those of our ended jobs beside it.

    :raises SystemExit: another job or user made it.
    """
    _sweep(directory.parent)
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        status = os.lstat(str(directory))
        if status.st_uid != os.geteuid() or not (directory / JOB).is_file():
            owner = locks.user_name(status.st_uid)
            sys.exit(f"error: {directory} is there already, and belongs to {owner}: it was not made by this job")
        return
    except OSError as error:
        sys.exit(f"error: {directory} cannot be made: {error.strerror}")
    # The job is identified by the first process of its session, from which its other processes descend.
    # In a PID namespace it may have no number; then the first process of the namespace stands for it.
    first = os.getsid(0) or 1
    facts = (os.uname().nodename, first, locks.start_of(first), locks.namespace())
    (directory / JOB).write_text(" ".join(map(str, facts)) + "\n")


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
        host, process, started, namespace = (directory / JOB).read_text().split()
    except (OSError, ValueError):
        return age > OLD
    if (host, namespace) == (os.uname().nodename, locks.namespace()):
        return locks.start_of(int(process)) != started
    return age > OLD


def main() -> None:
    """Make a directory, or print one error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    make(parser.parse_args().directory)
