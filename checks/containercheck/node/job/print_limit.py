"""How much a run may print (standard library only, Python 3.6 or newer).

A program that loops on an error writes as fast as the file system lets it, until that is full for everybody. A limit of
the kernel's (RLIMIT_FSIZE) would hold for the files too that IOzone measures with. So the sizes of what is printed are
looked at while the program runs, and it is ended when they are too large.
"""

import os
import threading
from pathlib import Path
from typing import Callable, Iterable

from containercheck.node import contract

#: Seconds between two looks: what a fast program prints meanwhile is some 100 MiB.
INTERVAL = 0.1
#: Bytes that are kept of what was too long, at its beginning and at its end.
KEPT = 1 << 20


def size(paths: Iterable[Path]) -> int:
    """Return the bytes of these files; what is not there has none."""
    total = 0
    for path in paths:
        try:
            total += os.lstat(str(path)).st_size
        except OSError:
            continue
    return total


class Watch:
    """Watches over the files of a run while it lasts, and ends it when they are too large.

    :param paths: the files.
    :param end: what ends the run.
    :param most: bytes.
    :ivar has_ended: whether it did.
    """

    def __init__(self, paths: Iterable[Path], end: Callable[[], None], most: int = contract.MOST_PRINTED) -> None:
        """Nothing is looked at before :meth:`start`."""
        self._paths, self._end, self._most = list(paths), end, most
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.has_ended = False

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Stop looking."""
        self._finished.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._finished.wait(INTERVAL):
            if size(self._paths) > self._most:
                self.has_ended = True
                self._end()
                return

    def is_too_much(self) -> bool:
        """Tell whether it was too much, also where the run was done before anybody looked."""
        return self.has_ended or size(self._paths) > self._most

    def cut(self) -> None:
        """Keep the beginning and the end of what is too long, so that nobody's file system is full of it."""
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
