"""Files that locks are taken on: how one is made and opened, whoever owns it, and who holds it.

Standard library only, Python 3.6 or newer.
"""

import contextlib
import os
import pwd
import re
import stat
import time
from pathlib import Path
from typing import Optional, Tuple

#: Seconds that a file may take to get its mode, after it was made.
_YOUNG = 2.0


class LockError(OSError):
    """A lock cannot be had; the message says who has it, or what is in its place, and what to do."""


def open_lock_file(path: Path) -> int:
    """Open ``path`` for locking, whoever owns it.

    :raises LockError: it is no regular file, or closed to this user.
    """
    # Without O_NONBLOCK a FIFO in its place would be waited for without end.
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
            # Whatever the umask: a lock that was made under 077 shut all others out.
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
                raise LockError(in_the_way(path) or f"the lock {path} cannot be opened: {error.strerror}") from None
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return descriptor
            os.close(descriptor)
            raise LockError(in_the_way(path))
        else:
            # Its maker may be about to open it to others.
            if time.monotonic() - began > _YOUNG:
                raise LockError(in_the_way(path))
        time.sleep(0.05)


def _mode_beside(path: Path) -> int:
    """Return the mode of a lock: whoever may make files in its directory may open it."""
    there = path.parent.stat().st_mode
    return 0o600 | (0o060 if there & stat.S_IWGRP else 0) | (0o006 if there & stat.S_IWOTH else 0)


def in_the_way(path: Path) -> str:
    """Return what is wrong with what has the name of a lock."""
    try:
        found = os.lstat(str(path))
    except OSError:
        return f"the lock {path} is gone again: try again"
    if stat.S_ISREG(found.st_mode):
        mode = stat.S_IMODE(found.st_mode)
        return (
            f"the lock {path} is closed to you: it belongs to {name_of(found.st_uid)}, mode {mode:03o}: have it removed"
        )
    return f"the lock {path} is not a regular file, and belongs to {name_of(found.st_uid)}: have it removed"


def refusal(path: Path) -> Optional[str]:
    """Return why a lock cannot be taken, whatever the wait; None where it can, or is not there yet."""
    try:
        regular = stat.S_ISREG(os.lstat(str(path)).st_mode)
    except OSError:
        return None
    return None if regular and os.access(str(path), os.R_OK) else in_the_way(path)


def holder_of(descriptor: int) -> str:
    """Return who holds the lock on an open file, for messages: the kernel's word, else what the file says."""
    number = os.fstat(descriptor).st_ino
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if "->" not in words and len(words) > 5 and words[5].rpartition(":")[2] == str(number):
                return named("", words[4])
    return named(*(note_of(descriptor) or ("", "")))


def note_of(descriptor: int) -> Optional[Tuple[str, str]]:
    """Return the host and the process that an open file says it was locked by; None where it says anything else."""
    said = b""
    with contextlib.suppress(OSError):
        said = os.pread(descriptor, 200, 0)
    match = re.fullmatch(r"([\w.-]{1,64}) ([1-9]\d{0,9})\n", said.decode(errors="replace"))
    return (match[1], match[2]) if match else None


def named(host: str, process: str) -> str:
    """Return a process as people name it. What others wrote is not printed unless it looks like that."""
    if not re.fullmatch(r"[1-9]\d{0,9}", process) or not re.fullmatch(r"[\w.-]{0,64}", host):
        return "a process that cannot be told"
    if host and host != os.uname().nodename:
        return f"process {process} on {host}"
    try:
        return f"process {process} of {name_of(os.stat(f'/proc/{process}').st_uid)}"
    except OSError:
        return f"process {process}"


def name_of(user: int) -> str:
    """Return the name of a user; of one without a name the number."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"
