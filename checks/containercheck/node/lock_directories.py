"""Locks for file systems without locks: a directory that only one process can make, with a file that names it.

Used where the kernel grants no lock (Lustre that is mounted without ``flock``, NFS without its lock daemon). The holder
touches the file from time to time. A dead holder on this machine is recognised by its process, one on another machine
by a file that is no longer touched; the clocks of two machines are never compared.

Standard library only, Python 3.6 or newer.
"""

import contextlib
import errno
import os
import threading
import time
import uuid
import zlib
from pathlib import Path
from typing import Optional

#: Seconds between two touches, and seconds without a touch after which a holder on another machine counts as dead.
BEAT, DEAD = 20.0, 300.0
#: Seconds between two attempts to take a directory that another process holds.
LOOK = 0.5
#: File in the directory with host, process, start of the process, boot and PID namespace, and thread.
HOLDER = "holder"
#: Errors of a renaming onto a directory that is held: the last two in a directory like /tmp, where another user holds
#: it.
_HELD = (errno.EEXIST, errno.ENOTEMPTY, errno.EPERM, errno.EACCES)


def start_of(process: int) -> Optional[str]:
    """Return when a process of this machine started, in the kernel's ticks; None where there is no such process."""
    try:
        return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def namespace() -> str:
    """Return the PID namespace in which the numbers of processes that this process sees are valid."""
    with contextlib.suppress(OSError):
        # Otherwise /proc shows the processes of another namespace.
        if os.readlink("/proc/self") == str(os.getpid()):
            return os.readlink("/proc/self/ns/pid")
    # Equal to no other: processes cannot be looked up.
    return uuid.uuid4().hex


def _system() -> str:
    """Return the boot of this machine, and the PID namespace."""
    boot = "unknown"
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{namespace()}"


class LockDirectory:
    """The directory that stands for the lock of a path: always exclusive, also where a shared lock was wanted.

    :ivar path: the directory; it exists while the lock is held.
    """

    def __init__(self, path: Path) -> None:
        """Choose the names; nothing is made yet."""
        self.path = path.with_name(path.name + ".held")
        process, host = os.getpid(), os.uname().nodename
        self._mine = f"{host} {process} {start_of(process)} {_system()} {threading.get_ident()}"
        self._work = path.with_name(f".{path.name}.{host}.{process}.{threading.get_ident()}")
        #: Another holder and the time of its last touch, and since when both are unchanged.
        self._seen = ("", 0.0)
        self._since = 0.0
        self._released = threading.Event()

    def take(self) -> bool:
        """Take the lock if it is free, and tell whether it was; remove the directory of a dead holder.

        :raises OSError: the directory cannot be made, or its name belongs to something else.
        """
        self._clear(self._work)
        self._work.mkdir(mode=0o755)
        (self._work / HOLDER).write_text(self._mine + "\n")
        try:
            # One step for the directory with its holder: no other process ever sees it empty.
            os.rename(str(self._work), str(self.path))
        except OSError as error:
            self._clear(self._work)
            if error.errno not in _HELD or not self.path.is_dir():
                raise
            self._remove_dead()
            return False
        threading.Thread(target=self._touch, daemon=True).start()
        return True

    def release(self) -> None:
        """Release the lock."""
        self._released.set()
        if self.holder() == self._mine:
            with contextlib.suppress(OSError):
                os.rename(str(self.path), str(self._work))
                self._clear(self._work)

    def holder(self) -> str:
        """Return the text of the holder's file; empty where the lock is free."""
        try:
            with (self.path / HOLDER).open(errors="replace") as stream:
                return stream.read(500).strip()
        except OSError:
            return ""

    def _touch(self) -> None:
        while not self._released.wait(BEAT):
            with contextlib.suppress(OSError):
                os.utime(str(self.path / HOLDER))

    def _remove_dead(self) -> None:
        """Remove the directory of a dead holder."""
        holder = self.holder()
        if not holder or not self._is_dead(holder):
            return
        # Only one of those who see the dead holder may remove its directory: the next could remove a new holder's.
        guard = self.path.with_name(f".{self.path.name}.dead-{zlib.crc32(holder.encode()):08x}")
        with contextlib.suppress(OSError):
            guard.mkdir()
            try:
                if self.holder() == holder:
                    os.rename(str(self.path), str(self._work))
                    self._clear(self._work)
            finally:
                guard.rmdir()

    def _is_dead(self, holder: str) -> bool:
        host, process, started, system = (holder.split() + 4 * [""])[:4]
        if (host, system) == (os.uname().nodename, _system()) and process.isdigit():
            return start_of(int(process)) != started
        try:
            seen = (holder, (self.path / HOLDER).stat().st_mtime)
        except OSError:
            return False
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        return time.monotonic() - self._since > DEAD

    @staticmethod
    def _clear(directory: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            (directory / HOLDER).unlink()
        with contextlib.suppress(FileNotFoundError):
            directory.rmdir()
