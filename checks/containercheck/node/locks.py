"""Locks between everything on one machine that measures or builds.

A lock is the kernel's on a file that is opened for writing: NFS grants an exclusive one on nothing else. Where a file
system has none, a directory stands for it (:mod:`lock_directories`). Whoever may make files beside a lock may take it,
and so may hold it for ever: every wait has an end, and says who holds what it waited for.

Standard library only, Python 3.6 or newer.
"""

import contextlib
import errno
import fcntl
import os
import threading
import time
from pathlib import Path
from typing import ContextManager, Iterator, List, Optional

from containercheck.node import lock_directories
from containercheck.node.lock_files import LockError, holder_of, named, note_of, open_lock_file

#: Of the machine: for all its users, therefore not below TMPDIR, and for jobs that have a /tmp of their own, as those
#: of the virtual cluster and of many a Slurm.
_PLACE = next((place for place in ("/var/tmp", "/tmp") if os.access(place, os.W_OK)), "/tmp")
MACHINE_LOCK = Path(_PLACE, "containercheck.lock")
#: Held while waiting for the other.
TURN_LOCK = Path(_PLACE, "containercheck.turn.lock")
#: Seconds that a lock is waited for: a compiler takes hours to build.
PATIENCE = 6 * 3600.0
#: What the kernel says where a file system has no locks.
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EBADF, errno.EINVAL, errno.ENOLCK)


@contextlib.contextmanager
def flocked(path: Path, shared: bool, waiting: str, patience: Optional[float] = None) -> Iterator[bool]:
    """Hold a lock on ``path``, which is made where it does not exist; tell whether that took a wait.

    :param shared: several holders of a shared lock exclude one exclusive holder, and not each other; on a file system
        without locks they do.
    :param waiting: printed for each holder that is waited for, with who that is; an empty text for silence.
    :param patience: seconds to wait, :data:`PATIENCE` by default.
    :raises LockError: it was held for longer than that, or what has its name is no file that can be locked.
    :raises OSError: the file cannot be made or opened.
    """
    wait = _Wait(path, waiting, PATIENCE if patience is None else patience)
    with contextlib.ExitStack() as held:
        _take(path, shared, wait, held)
        wait.finish()
        yield wait.began is not None


class _Wait:
    """The wait for a lock: it is announced, and it has an end."""

    def __init__(self, path: Path, waiting: str, patience: float) -> None:
        self._path, self._waiting, self._patience = path, waiting, patience
        self.began: Optional[float] = None
        self._told = ""

    def announce(self, holder: str) -> float:
        """Say whom we wait for, once for each, and return the seconds that are left.

        :raises LockError: none are left.
        """
        if self.began is None:
            self.began = time.monotonic()
        if self._waiting and holder != self._told:
            print(f"{self._waiting} ({holder})", flush=True)
        self._told = holder
        left = self.began + self._patience - time.monotonic()
        if left <= 0:
            raise self.too_long(holder)
        return left

    def too_long(self, holder: str) -> LockError:
        """Return the error of a wait that came to no end."""
        return LockError(
            f"waited {self._patience:.0f} s for the lock {self._path}, held by {holder}: have that ended, or try again "
            "later"
        )

    def finish(self) -> None:
        """Say how long it took."""
        if self._waiting and self.began is not None:
            print(f"waited {time.monotonic() - self.began:.1f} s", flush=True)


def _take(path: Path, shared: bool, wait: _Wait, held: contextlib.ExitStack) -> None:
    operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    while True:
        descriptor = open_lock_file(path)
        try:
            fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            _flock_within(descriptor, operation, wait)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in _NO_LOCKS:
                raise
            _take_directory(path, wait, held)
            return
        # What cleans up old files may have removed it meanwhile: then others lock another file of that name.
        if _is_at(descriptor, path):
            held.callback(os.close, descriptor)
            _write_holder(descriptor, shared)
            return
        os.close(descriptor)


def _flock_within(descriptor: int, operation: int, wait: _Wait) -> None:
    """Wait in a thread for a lock of the kernel's, which waits in its turn, but without end.

    :raises LockError: it came to no end in time; the thread lets the lock go where it gets it after all.
    """
    holder = holder_of(descriptor)
    left = wait.announce(holder)
    guard, state = threading.Lock(), {"done": False, "left": False}
    errors: List[OSError] = []

    def get() -> None:
        try:
            fcntl.flock(descriptor, operation)
        except OSError as error:
            errors.append(error)
        with guard:
            state["done"] = True
            if state["left"]:
                os.close(descriptor)

    waiter = threading.Thread(target=get, daemon=True)
    waiter.start()
    try:
        waiter.join(left)
    finally:
        with guard:
            state["left"] = not state["done"]
    if state["left"]:
        raise wait.too_long(holder_of(descriptor))
    if errors:
        os.close(descriptor)
        raise errors[0]


def _take_directory(path: Path, wait: _Wait, held: contextlib.ExitStack) -> None:
    directory = lock_directories.LockDirectory(path)
    while not directory.take():
        host, process = (directory.holder().split() + ["", ""])[:2]
        time.sleep(min(lock_directories.LOOK, wait.announce(named(host, process))))
    held.enter_context(lock_directories.taken(directory))


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(str(path)))
    except OSError:
        return False


def _write_holder(descriptor: int, shared: bool) -> None:
    """Write down who holds a lock; what cleans up old files sees that it is in use."""
    with contextlib.suppress(OSError):
        os.utime(descriptor)
    if not shared and (not os.fstat(descriptor).st_size or note_of(descriptor)):
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.uname().nodename} {os.getpid()}\n".encode(), 0)


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
