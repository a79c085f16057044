"""Files and directories: what is in them, and how they are removed. Standard library only, Python 3.6 or newer."""

import contextlib
import hashlib
import os
import shutil
from pathlib import Path
from typing import Any, Callable, Tuple


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    :raises OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def content_of(directory: Path) -> Tuple[int, int]:
    """Return the number of files and their bytes; without what Python compiles by itself whenever it likes."""
    files = size = 0
    for place, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if name != "__pycache__"]
        for name in names:
            files += 1
            size += os.lstat(os.path.join(place, name)).st_size
    return files, size


def remove(path: Path) -> None:
    """Remove what a build left, directories without the right to write included.

    :raises OSError: it cannot be removed.
    """

    def unlock(function: Callable[[str], None], entry: str, _info: Any) -> None:
        os.chmod(os.path.dirname(entry), 0o700)
        os.chmod(entry, 0o700)
        function(entry)

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, onerror=unlock)
    else:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
