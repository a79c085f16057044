"""Locks between all processes on one machine that measure or build, and the files that the locks are taken on.

A lock is the kernel's, on a file that is opened for writing: NFS grants an exclusive lock on nothing else. On a file
system without locks, a directory takes the file's place (lock_directories.py). Every user who may make files beside a
lock may take it, and may hold it for ever: so every wait has an end, and its message names the holder.

Standard library only, Python 3.6 or newer.
"""

import contextlib
import errno
import fcntl
import os
import pwd
import re
import stat
import threading
import time
from pathlib import Path
from typing import ContextManager, Iterator, List, Optional, Tuple

from containercheck.node import lock_directories

#: Variable that names another directory for the machine's locks: that of tests in parallel, which measure nothing.
OTHER_DIRECTORY = "CONTAINERCHECK_LOCKS"
#: Directory of the machine's locks: the same for all users, therefore not below TMPDIR, and for jobs with a private
#: /tmp, as on the virtual cluster and under many a Slurm.
_DIRECTORY = os.environ.get(OTHER_DIRECTORY) or next(
    (path for path in ("/var/tmp", "/tmp") if os.access(path, os.W_OK)), "/tmp"
)
#: Lock of the machine: a measurement holds it alone, builds share it.
MACHINE_LOCK = Path(_DIRECTORY, "containercheck.lock")
#: Lock that is held while waiting for the machine's.
TURN_LOCK = Path(_DIRECTORY, "containercheck.turn.lock")
#: Longest wait for a lock, in seconds: a compiler takes hours to build.
PATIENCE = 6 * 3600.0
#: Errors of the kernel where a file system has no locks.
NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EBADF, errno.EINVAL, errno.ENOLCK)
#: Longest time in seconds between the making of a file and the setting of its mode.
_YOUNG = 2.0
#: Seconds after which a wait is announced again: whoever watches the session sees what it waits for.
AGAIN = 25.0


class LockError(OSError):
    """A lock that cannot be taken; the message says who has it, or what is in its place, and what to do."""


@contextlib.contextmanager
def flocked(path: Path, shared: bool, waiting: str, patience: Optional[float] = None) -> Iterator[bool]:
    """Hold a lock on ``path``, which is made where it does not exist; give whether it had to wait.

    :param shared: several holders of a shared lock exclude one exclusive holder, and not each other; on a file system
        without locks they do.
    :param waiting: message to print for each holder before it in turn, with the holder's name; empty for no message.
    :param patience: seconds to wait, :data:`PATIENCE` by default.
    :raises LockError: the lock was held for longer than that, or ``path`` is no file that can be locked.
    :raises OSError: the file cannot be made or opened.
    """
    wait = _Wait(path, waiting, PATIENCE if patience is None else patience)
    with contextlib.ExitStack() as held:
        _take(path, shared, wait, held)
        wait.finish()
        yield wait.began is not None


class _Wait:
    """The wait for a lock, which is announced and has an end."""

    def __init__(self, path: Path, waiting: str, patience: float) -> None:
        self._path, self._waiting, self._patience = path, waiting, patience
        self.began: Optional[float] = None
        self._announced, self._printed = "", 0.0

    def announce(self, holder: str) -> float:
        """Print the holder, and again as long as it has the lock; return the seconds that are left.

        :raises LockError: no time is left.
        """
        now = time.monotonic()
        if self.began is None:
            self.began = now
        is_new = holder != self._announced
        if self._waiting and (is_new or now >= self._printed + AGAIN):
            waited = "" if is_new else f", for {now - self.began:.0f} s"
            print(f"{self._waiting} ({holder}){waited}", flush=True)
            self._printed = now
        self._announced = holder
        left = self.began + self._patience - now
        if left <= 0:
            raise self.too_long(holder)
        return left

    def too_long(self, holder: str) -> LockError:
        """Return the error of a wait that took too long."""
        return LockError(
            f"waited {self._patience:.0f} s for the lock {self._path}, held by {holder}: have that ended, or try again "
            "later"
        )

    def finish(self) -> None:
        """Print how long the wait took."""
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
            if error.errno not in NO_LOCKS:
                raise
            _take_directory(path, wait, held)
            return
        # A cleaner of old files may have removed it meanwhile: then others lock another file of that name.
        if _is_at(descriptor, path):
            held.callback(os.close, descriptor)
            _write_holder(descriptor, shared)
            return
        os.close(descriptor)


def _flock_within(descriptor: int, operation: int, wait: _Wait) -> None:
    """Wait for the kernel's lock in a thread: the kernel serves those who wait in turn, but knows no time limit.

    :raises LockError: the time is up; a thread that gets the lock after that releases it.
    """
    holder = holder_of(descriptor)
    end = time.monotonic() + wait.announce(holder)
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
        while waiter.is_alive() and time.monotonic() < end:
            waiter.join(min(AGAIN, end - time.monotonic()))
            if waiter.is_alive() and time.monotonic() < end:
                wait.announce(holder_of(descriptor))
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
        time.sleep(min(lock_directories.LOOK, wait.announce(process_name(host, process))))
    held.callback(directory.release)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(str(path)))
    except OSError:
        return False


def _write_holder(descriptor: int, shared: bool) -> None:
    """Write the holder into a lock's file, and touch the file, so that cleaners of old files see that it is in use."""
    with contextlib.suppress(OSError):
        os.utime(descriptor)
    if not shared and (not os.fstat(descriptor).st_size or note_of(descriptor)):
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.uname().nodename} {os.getpid()}\n".encode(), 0)


@contextlib.contextmanager
def _machine(shared: bool, waiting: str) -> Iterator[None]:
    """Hold the machine's lock, which those who wait for it get in turn.

    Without turns, builds, which share the lock, would hand it on to each other, and the first measurement would wait
    for the last image.
    """
    with contextlib.ExitStack() as held:
        with flocked(TURN_LOCK, shared=False, waiting=waiting) as has_waited:
            held.enter_context(flocked(MACHINE_LOCK, shared=shared, waiting="" if has_waited else waiting))
        yield


def measuring() -> ContextManager[None]:
    """Hold the machine for a measurement: no other process of this library measures or builds on it meanwhile.

    :raises OSError: on entering, the lock cannot be made or opened.
    """
    return _machine(shared=False, waiting="waiting for another measurement or image build on this machine")


def building() -> ContextManager[None]:
    """Keep measurements from starting on this machine while building; builds do not exclude each other.

    Do not nest it: the inner one could wait for a measurement that waits for the outer one.

    :raises OSError: on entering, the lock cannot be made or opened.
    """
    return _machine(shared=True, waiting="waiting for a measurement on this machine to end")


def open_lock_file(path: Path) -> int:
    """Open ``path`` for locking, whoever owns it.

    :raises LockError: the file is no regular one, or this user may not open it.
    """
    # Without O_NONBLOCK a FIFO of that name would make open() wait without end.
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    began, refused = time.monotonic(), None
    while True:
        try:
            descriptor = os.open(str(path), flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            pass
        except PermissionError as error:
            refused = error
        else:
            # Whatever the umask: a lock that is made under 077 would shut out all other users.
            os.fchmod(descriptor, _mode_beside(path))
            return descriptor
        for access in (os.O_RDWR, os.O_RDONLY):
            try:
                descriptor = os.open(str(path), flags & ~os.O_RDWR | access)
            except FileNotFoundError:
                if refused:
                    raise refused from None
                break
            except PermissionError:
                continue
            except OSError as error:
                raise LockError(_defect(path) or f"the lock {path} cannot be opened: {error.strerror}") from None
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
            os.close(descriptor)
            raise LockError(_defect(path))
        else:
            # Its maker may be about to set its mode.
            if time.monotonic() - began > _YOUNG:
                raise LockError(_defect(path))
        time.sleep(0.05)


def _mode_beside(path: Path) -> int:
    """Return the mode of a lock: all users who may make files in its directory may open it."""
    mode = path.parent.stat().st_mode
    return 0o600 | (0o060 if mode & stat.S_IWGRP else 0) | (0o006 if mode & stat.S_IWOTH else 0)


def _defect(path: Path) -> str:
    """Return why the file with the name of a lock cannot be one, and what to do."""
    try:
        status = os.lstat(str(path))
    except OSError:
        return f"the lock {path} is gone again: try again"
    owner = user_name(status.st_uid)
    if stat.S_ISREG(status.st_mode):
        mode = stat.S_IMODE(status.st_mode)
        return f"the lock {path} is closed to you: it belongs to {owner}, mode {mode:03o}: have it removed"
    return f"the lock {path} is not a regular file, and belongs to {owner}: have it removed"


def refusal(path: Path) -> Optional[str]:
    """Return why a lock cannot be taken, however long one waits; None where it can, or is not there yet."""
    try:
        regular = stat.S_ISREG(os.lstat(str(path)).st_mode)
    except OSError:
        return None
    return None if regular and os.access(str(path), os.R_OK) else _defect(path)


def holder_of(descriptor: int) -> str:
    """Return the holder of the lock on an open file, for messages: as the kernel knows it, else as the file says."""
    inode = os.fstat(descriptor).st_ino
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if "->" not in words and len(words) > 5 and words[5].rpartition(":")[2] == str(inode):
                return process_name("", words[4])
    return process_name(*(note_of(descriptor) or ("", "")))


def note_of(descriptor: int) -> Optional[Tuple[str, str]]:
    """Return host and process of the last holder, from an open lock file; None where it has another content."""
    content = b""
    with contextlib.suppress(OSError):
        content = os.pread(descriptor, 200, 0)
    match = re.fullmatch(r"([\w.-]{1,64}) ([1-9]\d{0,9})\n", content.decode(errors="replace"))
    return (match[1], match[2]) if match else None


def process_name(host: str, process: str) -> str:
    """Return the name of a process for messages; text from a file is only printed where it looks like a process."""
    if not re.fullmatch(r"[1-9]\d{0,9}", process) or not re.fullmatch(r"[\w.-]{0,64}", host):
        return "a process that cannot be told"
    if host and host != os.uname().nodename:
        return f"process {process} on {host}"
    try:
        return f"process {process} of {user_name(os.stat(f'/proc/{process}').st_uid)}"
    except OSError:
        return f"process {process}"


def user_name(user: int) -> str:
    """Return the name of a user, or the number of a user without a name."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
