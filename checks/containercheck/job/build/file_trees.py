"""Compute digests and sizes of files and directories, check their owners, and remove them.

A file that another user can write may change at any moment after its digest was checked. So files of a cache may belong
only to this user, to root, and to the users and groups that the site trusts. No other user may write them.

Standard library only, Python 3.6 or newer.
"""

import contextlib
import functools
import grp
import hashlib
import json
import os
import pwd
import re
import shutil
import stat
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, Optional, Set, Tuple

from containercheck.job import contract, locks, texts

#: Names of shared libraries, with or without a version.
SHARED_LIBRARY = re.compile(r"\.so(\.\d+)*$")


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names, targets of links, and contents of all files below a directory.

    :raises OSError: a file cannot be read.
    """
    if path.is_dir():
        return _digest_of_lines(_content(file, status, path) for file, status in below(path))
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _content(path: Path, status: os.stat_result, directory: Path) -> str:
    """Return a line about the content of a file below a directory."""
    name = path.relative_to(directory).as_posix()
    if stat.S_ISLNK(status.st_mode):
        return f"{name} -> {os.readlink(str(path))}"
    # A container of this user cannot read more of an image than this user.
    is_readable = stat.S_ISREG(status.st_mode) and os.access(str(path), os.R_OK)
    return f"{name} {digest_of(path) if is_readable else ''}"


def below(directory: Path) -> Iterator[Tuple[Path, os.stat_result]]:
    """Yield the path and the status of all files below a directory, links included, without Python's ``__pycache__``.

    Directories are not among them: jobs make mount points in images.

    :raises OSError: a file is gone again.
    """
    for parent, directories, names in os.walk(str(directory)):
        directories[:] = [name for name in directories if name != "__pycache__"]
        for path in (Path(parent, name) for name in (*directories, *names)):
            status = os.lstat(str(path))
            if not stat.S_ISDIR(status.st_mode):
                yield path, status


def size_of(path: Path) -> int:
    """Return the size in bytes of a file, or of all files below a directory."""
    if path.is_dir() and not path.is_symlink():
        return sum(status.st_size for _, status in below(path))
    return os.lstat(str(path)).st_size


def stamp_of(path: Path) -> str:
    """Return a digest of names, sizes, inodes and time stamps of a file, or of the files below a directory.

    No file is read for it.

    :raises OSError: a file is gone again.
    """
    files = below(path) if path.is_dir() else [(path, path.stat())]
    return _digest_of_lines(
        f"{os.path.relpath(str(file), str(path))} {status.st_size} {status.st_ino} {status.st_mtime_ns} "
        f"{status.st_ctime_ns}"
        for file, status in files
    )


def _digest_of_lines(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()


def known_digest_of(path: Path) -> str:
    """Return the SHA-256 of a file or directory, without reading it if it has not changed since the last call.

    An image of a gigabyte takes seconds, and each case asks for its digest. The digest is kept with the path's stamp in
    the user's cache, in one file for each path.

    :raises OSError: a file cannot be read.
    """
    path = path.resolve()
    name = hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()[:24]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "containercheck" / "digests"
    kept, stamp = cache / f"{name}.json", stamp_of(path)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        require(kept)
        record = json.loads(kept.read_text())
        if record["stamp"] == stamp:
            return str(record["sha256"])
    digest = digest_of(path)
    # If the digest cannot be kept, each call reads the file.
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        texts.write(kept, json.dumps({"stamp": stamp, "sha256": digest}))
    return digest


def facts_of(path: Path, digest: str) -> Dict[str, Any]:
    """Return path and digest of a file or directory, its stamp, and the size of a file; None for a directory.

    By the stamp a node sees that it has not changed.

    :raises OSError: the file does not exist.
    """
    size = None if path.is_dir() else path.stat().st_size
    return {"path": str(path), "sha256": digest, "stamp": stamp_of(path), "bytes": size}


def remove(path: Path) -> None:
    """Remove a file or a directory, including directories without the permission to write.

    :raises OSError: it cannot be removed.
    """
    if path.is_symlink() or not path.is_dir():
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        return
    path.chmod(0o700)
    for parent, names, _ in os.walk(str(path)):
        for directory in (Path(parent, name) for name in names):
            if not directory.is_symlink():
                directory.chmod(0o700)
    shutil.rmtree(str(path))


class NotTrustedError(OSError):
    """Report a file that belongs to another user, or that others can write; the message names the file and the user."""


@functools.lru_cache(maxsize=None)
def _trusted(user: int, names: str) -> Tuple[Set[int], Set[int]]:
    """Return the ids of the trusted users and groups: a user, root, and those that the site trusts.

    :param names: users and groups of the site, the latter with an ``@``; names that this machine does not know are left
        out.
    """
    users: Set[int] = {user, 0}
    groups: Set[int] = set()
    for name in names.split(","):
        with contextlib.suppress(KeyError):
            if name.startswith("@"):
                groups.add(int(name[1:]) if name[1:].isdigit() else grp.getgrnam(name[1:]).gr_gid)
            elif name:
                users.add(int(name) if name.isdigit() else pwd.getpwnam(name).pw_uid)
    return users, groups


def require(path: Path, shared: bool = False) -> None:
    """Refuse a file or directory that another user owns or can write. A link is not followed.

    :param shared: whether others may put files of their own into the directory, as into /tmp.
    :raises NotTrustedError: another user owns it, or can write it.
    :raises OSError: the path does not exist.
    """
    status = os.lstat(str(path))
    users, groups = _trusted(os.geteuid(), os.environ.get(contract.CACHE_OWNERS, ""))
    if status.st_uid not in users:
        raise NotTrustedError(f"{path} belongs to {locks.user_name(status.st_uid)}")
    if stat.S_ISLNK(status.st_mode) or (shared and status.st_mode & stat.S_ISVTX):
        return
    by_group = status.st_mode & stat.S_IWGRP and status.st_gid not in groups
    if status.st_mode & stat.S_IWOTH or by_group:
        writer = "others" if status.st_mode & stat.S_IWOTH else "its group"
        raise NotTrustedError(f"{path} can be written by {writer} (mode {stat.S_IMODE(status.st_mode):o})")


def require_all(directory: Path, paths: Optional[Iterable[Path]] = None) -> None:
    """Refuse paths below a directory, by default all, if another user owns or can write them or a directory between.

    Paths outside of the directory are not checked.

    :raises NotTrustedError: another user owns or can write one of them.
    :raises OSError: a path does not exist.
    """
    checked: Set[Path] = {directory}
    for path in Path(directory).rglob("*") if paths is None else paths:
        if directory in path.parents:
            for part in (path, *path.parents):
                if part in checked:
                    break
                require(part)
                checked.add(part)
