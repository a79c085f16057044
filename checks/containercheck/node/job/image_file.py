"""The image that a job runs is the one that was built or found for it (standard library only; in the job).

The build step wrote down which that is. Between it and the job hours may pass, in which the file may have become
another: where size, inode or time of change differ, its digest decides.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any, Dict, Optional

from containercheck.node.job import own_directories


def verify(link: Path) -> None:
    """Compare an image with what the build step wrote beside the link to it.

    :raises SystemExit: it is another one, or is gone.
    """
    known = _record(link)
    if not known.get("sha256"):
        # A directory.
        return
    try:
        found = os.stat(str(link))
        if [found.st_size, found.st_ino, found.st_mtime_ns] != [known["bytes"], known["inode"], known["mtime_ns"]]:
            _refuse_other(link, known, _copy(link, None))
    except OSError as error:
        sys.exit(f"error: the image {known['path']} cannot be read on {os.uname().nodename}: {error.strerror}")


def copy(link: Path, target: Path) -> None:
    """Copy an image into a directory of this job's own, and compare what was copied.

    :raises SystemExit: it is another one, or there is no room for it.
    """
    known = _record(link)
    own_directories.make(target.parent)
    try:
        _refuse_other(link, known, _copy(link, target))
    except OSError as error:
        sys.exit(f"error: the image {known['path']} cannot be copied to {target}: {error.strerror}")


def _record(link: Path) -> Dict[str, Any]:
    try:
        return json.loads(link.with_suffix(".json").read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"error: it is not known which image {link} is to be: {error}")


def _copy(link: Path, target: Optional[Path]) -> str:
    """Return the SHA-256 of an image, and copy it on the way."""
    digest = hashlib.sha256()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with link.open("rb") as source, open(os.open(str(target), flags, 0o600) if target else os.devnull, "wb") as copied:
        for block in iter(lambda: source.read(1 << 20), b""):
            digest.update(block)
            copied.write(block)
    return digest.hexdigest()


def _refuse_other(link: Path, known: Dict[str, Any], digest: str) -> None:
    if digest != known["sha256"]:
        sys.exit(
            f"error: {os.path.realpath(str(link))} is not the image that the build step found: its SHA-256 is "
            f"{digest}, not {known['sha256']}\nit was replaced: run the check again, and look at who can write there"
        )
