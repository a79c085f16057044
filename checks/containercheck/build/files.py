"""Files and directories: what is in them, and how they are removed. Standard library only, Python 3.6 or newer."""

import contextlib
import hashlib
import os
import shutil
from pathlib import Path
from typing import Any, Callable, Tuple


def _nothing(_path: Path, _found: os.stat_result) -> None:
    """Look at nothing."""


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    :raises OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def content_of(directory: Path, look: Callable[[Path, os.stat_result], None] = _nothing) -> Tuple[int, int]:
    """Return the number of files and their bytes; without what Python compiles by itself whenever it likes.

    :param look: is given every file and directory, those of Python's too, and what ``lstat`` says of it.
    """
    files = size = 0
    for place, _, names in os.walk(directory):
        look(Path(place), os.lstat(place))
        counts = "__pycache__" not in Path(place).relative_to(directory).parts
        for name in names:
            path = Path(place, name)
            found = os.lstat(path)
            look(path, found)
            if counts:
                files += 1
                size += found.st_size
    return files, size


def digest_of_tree(directory: Path) -> str:
    """Return the SHA-256 of a directory: of the names in it, what links lead to, and what is in files.

    :raises OSError: a file cannot be read.
    """
    lines = []
    for place, directories, names in os.walk(directory):
        for path in sorted(Path(place, name) for name in (*directories, *names)):
            kind = path.relative_to(directory).as_posix()
            if path.is_symlink():
                lines.append(f"{kind} -> {os.readlink(path)}")
            else:
                lines.append(f"{kind} {digest_of(path) if path.is_file() else ''}")
    return hashlib.sha256("\n".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()


def remove(path: Path) -> None:
    """Remove what a build left, directories without the right to write included; what is above it stays as it is.

    :raises OSError: it cannot be removed.
    """

    def unlock(function: Callable[[str], None], entry: str, info: Any) -> None:
        # Also where a whole directory could not be listed: what else went wrong is not for a mode to mend.
        if not isinstance(info[1], PermissionError):
            raise info[1]
        for inside in (Path(entry).parent, Path(entry)):
            if path in (inside, *inside.parents) and not inside.is_symlink():
                inside.chmod(0o700)
        if function in (os.open, os.scandir):
            shutil.rmtree(entry)
        else:
            function(entry)

    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, onerror=unlock)
    else:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
