"""Files and directories: what is in them, and how they are removed. Standard library only, Python 3.6 or newer."""

import contextlib
import hashlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

from containercheck.node.build import ownership

#: Seconds for which a file that was changed is read each time: clocks of file systems may be that coarse, so that
#: another change would not be seen.
SETTLED = 3.0


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


def facts_of(path: Path, digest: str) -> Dict[str, Any]:
    """Return which file it is: path, digest and size, and what tells on a node whether it is still the same.

    :raises OSError: it is not there.
    """
    found = path.stat()
    known = {"path": str(path), "sha256": digest, "bytes": found.st_size}
    return {**known, "inode": found.st_ino, "mtime_ns": found.st_mtime_ns}


def known_digest_of(path: Path) -> str:
    """Return the same; a file that is what it was when it was read last is not read again.

    An image of a gigabyte takes seconds, and each case asks for it. Path, inode, size and times of change of a file are
    kept with its digest in the user's cache, a file for each path.

    :raises OSError: it cannot be read.
    """
    path = path.resolve()
    facts = path.stat()
    stamp = [str(path), facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns]
    name = hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()[:24]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "containercheck" / "digests"
    kept = cache / f"{name}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        ownership.require(kept)
        known = json.loads(kept.read_text())
        if known["stamp"] == stamp:
            return str(known["sha256"])
    digest = digest_of(path)
    if time.time() - max(facts.st_mtime, facts.st_ctime) > SETTLED:
        # Where nothing can be kept, it is read each time.
        with contextlib.suppress(OSError):
            cache.mkdir(parents=True, exist_ok=True)
            new = cache / f".{name}-{os.getpid()}"
            new.write_text(json.dumps({"stamp": stamp, "sha256": digest}))
            new.replace(kept)
    return digest


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
