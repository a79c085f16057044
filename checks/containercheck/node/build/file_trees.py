"""Digests and sizes of files and directories, and their removal. Standard library only, Python 3.6 or newer."""

import contextlib
import hashlib
import json
import os
import shutil
import stat
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Tuple

from containercheck.node.build import ownership

#: Age in seconds below which a digest is not kept: the clock of a file system may be so coarse that two changes within
#: that time have the same time stamp.
SETTLED = 3.0


def _ignore(_path: Path, _status: os.stat_result) -> None:
    """Do nothing."""


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    :raises OSError: the file cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def facts_of(path: Path, digest: str) -> Dict[str, Any]:
    """Return path, digest and size of a file, and inode and time stamp, by which a node sees that it has not changed.

    Of a directory these are path and digest, and the stamp of its files.

    :raises OSError: the file does not exist.
    """
    if path.is_dir():
        return {"path": str(path), "sha256": digest, "stamp": stamp_of_tree(path)}
    status = path.stat()
    facts = {"path": str(path), "sha256": digest, "bytes": status.st_size}
    return {**facts, "inode": status.st_ino, "mtime_ns": status.st_mtime_ns}


def known_digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal, without reading the file if it has not changed since the last call.

    For an image that is a directory, only its files count: jobs make mount points in it.

    An image of a gigabyte takes seconds, and each case asks for its digest. Path, inode, size and time stamps of a file
    are kept with its digest in the user's cache, in one file for each path.

    :raises OSError: the file cannot be read.
    """
    path = path.resolve()
    status = path.stat()
    stamp = [str(path), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    if path.is_dir():
        stamp = [str(path), stamp_of_tree(path)]
    name = hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()[:24]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "containercheck" / "digests"
    kept = cache / f"{name}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        ownership.require(kept)
        record = json.loads(kept.read_text())
        if record["stamp"] == stamp:
            return str(record["sha256"])
    digest = digest_of_tree(path, directories=False) if path.is_dir() else digest_of(path)
    if time.time() - max(status.st_mtime, status.st_ctime) > SETTLED:
        # Where the digest cannot be kept, each call reads the file.
        with contextlib.suppress(OSError):
            cache.mkdir(parents=True, exist_ok=True)
            new = cache / f".{name}-{os.getpid()}"
            new.write_text(json.dumps({"stamp": stamp, "sha256": digest}))
            new.replace(kept)
    return digest


def content_of(directory: Path, look: Callable[[Path, os.stat_result], None] = _ignore) -> Tuple[int, int]:
    """Return the number of files below a directory and their size in bytes, without Python's ``__pycache__``.

    :param look: function that is called with the path and the status of every file and directory, ``__pycache__``
        included.
    """
    files = size = 0
    for parent, _, names in os.walk(directory):
        look(Path(parent), os.lstat(parent))
        counts = "__pycache__" not in Path(parent).relative_to(directory).parts
        for name in names:
            path = Path(parent, name)
            status = os.lstat(path)
            look(path, status)
            if counts:
                files += 1
                size += status.st_size
    return files, size


def _entries(directory: Path) -> Iterator[Tuple[str, Path]]:
    """Yield all that is below a directory, with its path from there."""
    for parent, directories, names in os.walk(str(directory)):
        for path in (Path(parent, name) for name in (*directories, *names)):
            yield path.relative_to(directory).as_posix(), path


def stamp_of_tree(directory: Path) -> str:
    """Return a digest of names, sizes, inodes and time stamps of the files below a directory, which reads none of them.

    :raises OSError: a file is gone again.
    """
    stamps = []
    for relative, path in _entries(directory):
        status = os.lstat(str(path))
        if not stat.S_ISDIR(status.st_mode):
            stamps.append(f"{relative} {status.st_size} {status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns}")
    return hashlib.sha256("\n".join(sorted(stamps)).encode(errors="surrogateescape")).hexdigest()


def digest_of_tree(directory: Path, directories: bool = True) -> str:
    """Return the SHA-256 of a directory: of all names, targets of links, and contents of files below it.

    :param directories: whether the names of directories count.
    :raises OSError: a file cannot be read.
    """
    lines = []
    for relative, path in _entries(directory):
        if path.is_symlink():
            lines.append(f"{relative} -> {os.readlink(str(path))}")
        elif directories or not path.is_dir():
            # A container of this user cannot read it either.
            lines.append(f"{relative} {digest_of(path) if path.is_file() and os.access(str(path), os.R_OK) else ''}")
    return hashlib.sha256("\n".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()


def remove(path: Path) -> None:
    """Remove a file or a directory, including directories without the permission to write.

    :raises OSError: it cannot be removed.
    """

    def unlock(function: Callable[[str], None], entry: str, info: Any) -> None:
        # A change of mode helps against missing permissions only, also those to list a directory.
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
