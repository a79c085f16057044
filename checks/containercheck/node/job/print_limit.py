"""Limit how much a run may print (standard library only, Python 3.6 or newer).

A program that loops on an error prints as fast as it can, until the file system is full for all users. The kernel's
limit (RLIMIT_FSIZE) would also apply to the files that IOzone measures with. So the sizes of the output files are
sampled while the program runs, and it is ended when they are too large.
"""

import os
import threading
from pathlib import Path
from typing import Callable, Iterable

from containercheck.node import contract

#: Seconds between two samples: a fast program prints about 100 MiB meanwhile.
INTERVAL = 0.1
#: Bytes that are kept of too long a file, at its beginning and at its end.
KEPT = 1 << 20


def size(paths: Iterable[Path]) -> int:
    """Return the bytes of these files together; a missing file has none."""
    total = 0
    for path in paths:
        try:
            total += os.lstat(str(path)).st_size
        except OSError:
            continue
    return total


class Watch:
    """A thread that ends a run when its files become too large.

    :param paths: the files.
    :param end: function that ends the run.
    :param most: bytes of all files together.
    :ivar has_ended: whether it ended the run.
    """

    def __init__(self, paths: Iterable[Path], end: Callable[[], None], most: int = contract.MOST_PRINTED) -> None:
        """Prepare the thread, which :meth:`start` starts."""
        self._paths, self._end, self._most = list(paths), end, most
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.has_ended = False

    def start(self) -> None:
        """Start sampling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling."""
        self._finished.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._finished.wait(INTERVAL):
            if size(self._paths) > self._most:
                self.has_ended = True
                self._end()
                return

    def is_too_much(self) -> bool:
        """Tell whether the files are too large, even if the run ended before the first sample."""
        return self.has_ended or size(self._paths) > self._most

    def cut(self) -> None:
        """Keep only the beginning and the end of files that are too long."""
        for path in self._paths:
            if size([path]) > 2 * KEPT and path.is_file() and not path.is_symlink():
                _cut(path)


def _cut(path: Path) -> None:
    with path.open("r+b") as stream:
        length = stream.seek(0, os.SEEK_END)
        stream.seek(length - KEPT)
        end = stream.read(KEPT)
        stream.seek(KEPT)
        stream.write(f"\n... ({length - 2 * KEPT} bytes were left out here) ...\n".encode() + end)
        stream.truncate()
