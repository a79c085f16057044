"""A lock for file systems without locks: a directory that only one can make, with a file that says who did.

It is used where the kernel refuses its own (Lustre that is mounted without ``flock``, NFS without its lock daemon). The
holder touches the file from time to time. A holder of this machine that is gone is told by its process, one of another
machine by a file that nobody touches any more; no two machines' clocks are compared.

Standard library only, Python 3.6 or newer.
"""

import contextlib
import errno
import os
import threading
import time
import zlib
from pathlib import Path
from typing import Iterator, Optional

#: Seconds between two touches, and without one before a holder elsewhere is taken for dead.
BEAT, DEAD = 20.0, 300.0
#: Seconds between two looks at a directory that somebody else holds.
LOOK = 0.5
#: File in the directory: host, process, its start and the boot that this is of.
HOLDER = "holder"
#: What renaming onto a directory that is held fails with: the last two in a directory like /tmp, where it is another
#: user's.
_HELD = (errno.EEXIST, errno.ENOTEMPTY, errno.EPERM, errno.EACCES)


def start_of(process: int) -> Optional[str]:
    """Return when a process of this machine started, in the kernel's ticks; None where there is none."""
    try:
        return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _boot() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return "unknown"


class LockDirectory:
    """The directory that stands for the lock of a path; only one at a time has it, whatever kind of lock was wanted.

    :ivar path: the directory; it is there while somebody holds the lock.
    """

    def __init__(self, path: Path) -> None:
        """Nothing is made yet."""
        self.path = path.with_name(path.name + ".held")
        process, host = os.getpid(), os.uname().nodename
        self._mine = f"{host} {process} {start_of(process)} {_boot()} {threading.get_ident()}"
        self._work = path.with_name(f".{path.name}.{host}.{process}.{threading.get_ident()}")
        #: What was last seen of another's: who it is, when its file was touched, and since when that is so.
        self._seen = ("", 0.0)
        self._since = 0.0
        self._released = threading.Event()

    def take(self) -> bool:
        """Take the lock if nobody has it; what a dead holder left is removed on the way.

        :raises OSError: the directory cannot be made, or what has its name is none.
        """
        self._clear(self._work)
        self._work.mkdir(mode=0o755)
        (self._work / HOLDER).write_text(self._mine + "\n")
        try:
            # One step for the directory with its holder: nobody ever sees it empty.
            os.rename(str(self._work), str(self.path))
        except OSError as error:
            self._clear(self._work)
            if error.errno not in _HELD or not self.path.is_dir():
                raise
            self._bury()
            return False
        threading.Thread(target=self._touch, daemon=True).start()
        return True

    def release(self) -> None:
        """Give the lock back."""
        self._released.set()
        if self.holder() == self._mine:
            with contextlib.suppress(OSError):
                os.rename(str(self.path), str(self._work))
                self._clear(self._work)

    def holder(self) -> str:
        """Return what the holder wrote of itself; an empty text where nobody has the lock."""
        try:
            with (self.path / HOLDER).open(errors="replace") as stream:
                return stream.read(500).strip()
        except OSError:
            return ""

    def _touch(self) -> None:
        while not self._released.wait(BEAT):
            with contextlib.suppress(OSError):
                os.utime(str(self.path / HOLDER))

    def _bury(self) -> None:
        """Remove the directory of a holder that is dead."""
        holder = self.holder()
        if not holder or not self._is_dead(holder):
            return
        # Of all who see this holder dead only one may remove it: it could be another's by the time the next does.
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
        host, process, started, boot = (holder.split() + 4 * [""])[:4]
        if (host, boot) == (os.uname().nodename, _boot()) and process.isdigit():
            return start_of(int(process)) != started
        try:
            seen = (holder, (self.path / HOLDER).stat().st_mtime)
        except OSError:
            return False
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
        return time.monotonic() - self._since > DEAD

    @staticmethod
    def _clear(place: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            (place / HOLDER).unlink()
        with contextlib.suppress(FileNotFoundError):
            place.rmdir()


@contextlib.contextmanager
def taken(directory: LockDirectory) -> Iterator[None]:
    """Give a lock that was taken back at the end."""
    try:
        yield
    finally:
        directory.release()
