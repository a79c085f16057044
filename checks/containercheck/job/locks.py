"""Lock the machine or a directory between processes that measure, build, or write.

A lock is the kernel's, on a file that is opened for writing: NFS grants exclusive locks on no other file. If a file
system has no locks, a line reports it, and nothing is locked. Every user with permission to make files next to a lock
may take it, and hold it for ever. So every wait has an end, and its message names the holder.

Standard library only, Python 3.6 or newer.
"""

import contextlib
import errno
import fcntl
import os
import pwd
import stat
import time
from pathlib import Path
from typing import ContextManager, Iterator, Optional

#: Variable with another directory for the machine's locks, for parallel tests that measure nothing.
OTHER_DIRECTORY = "CONTAINERCHECK_LOCKS"
#: Directory of the machine's locks. It is the same for all users, so it is not below TMPDIR. It is the same for jobs
#: with a private /tmp, as on the virtual cluster and with many Slurm installations.
_DIRECTORY = os.environ.get(OTHER_DIRECTORY) or next(
    (path for path in ("/var/tmp", "/tmp") if os.access(path, os.W_OK)), "/tmp"
)
#: Lock of the machine: a measurement holds it alone, builds share it.
MACHINE_LOCK = Path(_DIRECTORY, "containercheck.lock")
#: Longest wait for a lock, in seconds: a compiler takes hours to build.
PATIENCE = 6 * 3600.0
#: Seconds between two attempts to take a lock.
LOOK = 0.25
#: Seconds after which a wait is announced again.
AGAIN = 25.0
#: Errors of the kernel for a file system without locks.
NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EBADF, errno.EINVAL, errno.ENOLCK)


class LockError(OSError):
    """Report that a lock cannot be taken; the message names the holder or the obstacle, and a remedy."""


class HeldError(LockError):
    """Report that another process held a lock longer than the wait for it.

    :ivar holder: name of that process.
    """

    def __init__(self, path: Path, holder: str, waited: float) -> None:
        """Make the message, with a remedy."""
        super().__init__(
            f"waited {waited:.0f} s for the lock {path}, held by {holder}: have that ended, or try again later"
        )
        self.holder = holder


@contextlib.contextmanager
def flocked(path: Path, shared: bool, waiting: str, patience: Optional[float] = None) -> Iterator[None]:
    """Hold a lock on ``path``, which is made if missing.

    :param shared: several holders of a shared lock exclude an exclusive holder, but not each other.
    :param waiting: message to print, with the holder's name, and again as long as the wait lasts; empty for none.
    :param patience: seconds to wait, :data:`PATIENCE` by default.
    :raises HeldError: the lock was held for longer than that.
    :raises LockError: ``path`` is not a file that can be locked.
    :raises OSError: the file cannot be made or opened.
    """
    operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    patience = PATIENCE if patience is None else patience
    began, announced = time.monotonic(), -AGAIN
    descriptor = open_lock_file(path)
    try:
        while not _try(descriptor, operation, path):
            waited = time.monotonic() - began
            if waiting and waited >= announced + AGAIN:
                print(f"{waiting} ({holder_of(descriptor)}), for {waited:.0f} s", flush=True)
                announced = waited
            if waited >= patience:
                raise HeldError(path, holder_of(descriptor), patience)
            time.sleep(LOOK)
        yield
    finally:
        os.close(descriptor)


def _try(descriptor: int, operation: int, path: Path) -> bool:
    """Lock an open file unless another process holds it; return whether it is now locked, or cannot be locked."""
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        print(f"{path}: its file system has no locks, and nothing keeps two processes apart", flush=True)
    return True


def measuring() -> ContextManager[None]:
    """Hold the machine for a measurement: no other process of this library measures or builds on it meanwhile.

    :raises OSError: on entering, the lock cannot be made or opened.
    """
    waiting = "waiting for another measurement or image build on this machine"
    return flocked(MACHINE_LOCK, shared=False, waiting=waiting)


def building() -> ContextManager[None]:
    """Keep measurements from starting on this machine while building; builds do not exclude each other.

    Do not nest it: the inner one could wait for a measurement that waits for the outer one.

    :raises OSError: on entering, the lock cannot be made or opened.
    """
    return flocked(MACHINE_LOCK, shared=True, waiting="waiting for a measurement on this machine to end")


def open_lock_file(path: Path) -> int:
    """Open ``path`` for locking, also if another user owns it.

    :raises LockError: the file is not a regular one, or this user may not open it.
    :raises OSError: the file cannot be made.
    """
    # Without O_NONBLOCK, a FIFO of that name would make open() wait without end.
    flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    # With permission to make files next to a lock, any user may open it, for any umask of its maker.
    mode = path.parent.stat().st_mode
    others = (0o060 if mode & stat.S_IWGRP else 0) | (0o006 if mode & stat.S_IWOTH else 0)
    umask = os.umask(0)
    try:
        return os.open(str(path), flags | os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600 | others)
    except OSError:
        if not os.path.lexists(str(path)):
            raise
    finally:
        os.umask(umask)
    for access in (os.O_RDWR, os.O_RDONLY):
        with contextlib.suppress(OSError):
            descriptor = os.open(str(path), flags | access)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
            os.close(descriptor)
    owner = user_name(os.lstat(str(path)).st_uid)
    raise LockError(f"the lock {path} is not a regular file that you may open; it belongs to {owner}: have it removed")


def holder_of(descriptor: int) -> str:
    """Return the name of the process that holds the lock on an open file, from the kernel's list."""
    inode = str(os.fstat(descriptor).st_ino)
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if "->" not in words and len(words) > 5 and words[5].rpartition(":")[2] == inode:
                return f"process {words[4]} of {user_name(os.stat(f'/proc/{words[4]}').st_uid)}"
    return "an unknown process"


def user_name(user: int) -> str:
    """Return the name of a user, or the number of a user without a name."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
