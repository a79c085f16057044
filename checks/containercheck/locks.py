"""Locks between everything on one machine that measures or builds.

Standard library only, Python 3.6 or newer.
"""

import contextlib
import fcntl
import os
import stat
import time
from pathlib import Path
from typing import ContextManager, Iterator

#: Of the machine: for all its users, therefore not below TMPDIR, and for jobs that have a /tmp of their own, as those
#: of the virtual cluster and of many a Slurm.
_PLACE = next((place for place in ("/var/tmp", "/tmp") if os.access(place, os.W_OK)), "/tmp")
MACHINE_LOCK = Path(_PLACE, "containercheck.lock")
#: Held while waiting for the other.
TURN_LOCK = Path(_PLACE, "containercheck.turn.lock")


def _open_shared_file(path: Path) -> int:
    """Open ``path`` for locking, whoever owns it; flock needs no right to write."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileExistsError, PermissionError):
        os.close(os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o444))
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file: remove it")
    return descriptor


@contextlib.contextmanager
def flocked(path: Path, shared: bool, waiting: str) -> Iterator[bool]:
    """Hold a lock on ``path``, which is made where it does not exist; tell whether that took a wait.

    :param shared: several holders of a shared lock exclude one exclusive holder, and not each other.
    :param waiting: printed once when somebody else holds the lock; an empty text for silence.
    :raises OSError: the file cannot be made or opened.
    """
    descriptor = _open_shared_file(path)
    operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    waited = False
    try:
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            waited = True
            if waiting:
                print(waiting, flush=True)
            started = time.monotonic()
            fcntl.flock(descriptor, operation)
            if waiting:
                print(f"waited {time.monotonic() - started:.1f} s", flush=True)
        yield waited
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _machine(shared: bool, waiting: str) -> Iterator[None]:
    """Hold the machine's lock, which goes to those who wait for it in turn.

    Without turns builds, which share the lock, would hand it on among themselves until the last image is there, and
    the first measurement would come after it.
    """
    with contextlib.ExitStack() as held:
        with flocked(TURN_LOCK, shared=False, waiting=waiting) as told:
            held.enter_context(flocked(MACHINE_LOCK, shared=shared, waiting="" if told else waiting))
        yield


def measuring() -> ContextManager[None]:
    """Hold the machine for a measurement: nothing else of this library measures or builds on it meanwhile.

    :raises OSError: on entering, the lock cannot be made or opened.
    """
    return _machine(shared=False, waiting="waiting for another measurement or image build on this machine")


def building() -> ContextManager[None]:
    """Hold off measurements on this machine while building; builds do not exclude each other.

    Not to be nested: the inner one could wait for a measurement that waits for the outer one.

    :raises OSError: on entering, the lock cannot be made or opened.
    """
    return _machine(shared=True, waiting="waiting for a measurement on this machine to end")
