"""Check that a job runs the image that was built or found for it (standard library only; in the job).

The build step recorded the image. The job may run hours later, and the file may have been replaced meanwhile: if size,
inode or time of change differ, of it or of a file of an image that is a directory, its digest decides.
"""

import hashlib
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any, Dict, Optional

from containercheck.node.build import file_trees
from containercheck.node.job import own_directories


def verify(link: Path) -> None:
    """Compare an image with the record that the build step wrote beside the link to it.

    :raises SystemExit: it is another image, or is gone.
    """
    record = _record(link)
    try:
        now = os.stat(str(link))
        if stat.S_ISDIR(now.st_mode):
            if file_trees.stamp_of(link) != record["stamp"]:
                _refuse_other(link, record, file_trees.digest_of_tree(link))
        elif [now.st_size, now.st_ino, now.st_mtime_ns] != [record["bytes"], record["inode"], record["mtime_ns"]]:
            _refuse_other(link, record, _copy(link, None))
    except OSError as error:
        sys.exit(f"error: the image {record['path']} cannot be read on {os.uname().nodename}: {error.strerror}")


def copy(link: Path, target: Path) -> None:
    """Copy an image into a directory of this job alone, and compare the copy with the record.

    :raises SystemExit: it is another image, or there is no space for it.
    """
    record = _record(link)
    own_directories.make(target.parent)
    try:
        _refuse_other(link, record, _copy(link, target))
    except OSError as error:
        sys.exit(f"error: the image {record['path']} cannot be copied to {target}: {error.strerror}")


def _record(link: Path) -> Dict[str, Any]:
    try:
        return json.loads(link.with_suffix(".json").read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"error: it is not known which image {link} is to be: {error}")


def _copy(link: Path, target: Optional[Path]) -> str:
    """Return the SHA-256 of an image; copy it if there is a target."""
    digest = hashlib.sha256()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with link.open("rb") as source, open(os.open(str(target), flags, 0o600) if target else os.devnull, "wb") as copied:
        for block in iter(lambda: source.read(1 << 20), b""):
            digest.update(block)
            copied.write(block)
    return digest.hexdigest()


def _refuse_other(link: Path, record: Dict[str, Any], digest: str) -> None:
    if digest != record["sha256"]:
        sys.exit(
            f"error: {os.path.realpath(str(link))} is not the image that the build step found: its SHA-256 is "
            f"{digest}, not {record['sha256']}\nit was replaced: run the check again, and look at who can write there"
        )
