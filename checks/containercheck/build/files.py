"""Files and directories: what is in them, and how they are removed. Standard library only, Python 3.6 or newer."""

import contextlib
import hashlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any, Callable, Tuple

#: Seconds for which a file that was changed is read each time: clocks of file systems may be that coarse, so that
#: another change would not be seen.
SETTLED = 3.0


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal.

    :raises OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


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
