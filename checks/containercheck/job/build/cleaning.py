"""Removes entries from the caches that were not used for long: images, environments, jars, programs, inputs, leftovers.

    python3 checks/containercheck/job clean --older 90d --dry-run --stage stage

prints what it would remove; without ``--dry-run`` it removes it. The time stamp of an entry's record is the time of its
last use: each build step that uses the entry touches the record, or reads it where it may not. Cleaning takes the locks
of all builds in a cache, and leaves the cache alone while something is built there. It removes nothing that other users
own, and nothing outside of the caches (by default the user's own) but the directories of cases in the stage and output
directories that are named. A directory is a cache if it has the mark of one (``cache.MARK``), or is the user's own by
its place.

Standard library only, Python 3.6 or newer.
"""

import argparse
import contextlib
import json
import os
import re
import shlex
import stat
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Set

from containercheck.job import contract, locks
from containercheck.job.build import cache, file_trees

#: Kinds of caches; all but the last are extras of a site.
KINDS = ("image", "venv", "jar", "program", "input", "spack", "easybuild", "digest")
#: Seconds by the unit of an age.
UNITS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


class Removable(NamedTuple):
    """An entry, or a directory, that may be removed.

    ``paths`` are all its files and directories; ``stamp`` is the path whose time stamp is the time of the last use, and
    ``used`` that time, in seconds since the epoch.
    """

    paths: List[Path]
    stamp: Path
    used: float


#: Function that finds all that may be removed in a directory.
Finder = Callable[[Path], Iterator[Removable]]


def age(text: str) -> float:
    """Return the seconds of an age such as ``90d``.

    >>> [age(text) for text in ("12h", "1d", "2w")]
    [43200.0, 86400.0, 1209600.0]
    """
    match = re.fullmatch(r"(\d+)([hdw])", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text} is not an age: write 90d for days, or 12h, or 8w")
    return int(match[1]) * UNITS[match[2]]


def _last_use(path: Path) -> float:
    """Return when a path was last written, or a file last read, as far as its file system records that."""
    status = os.lstat(str(path))
    # Cleaning lists directories, and so reads them.
    return status.st_mtime if stat.S_ISDIR(status.st_mode) else max(status.st_mtime, status.st_atime)


def _read_record(path: Path) -> Dict[str, Any]:
    """Return the record of an entry; empty where the file is none. The time of its last use stays as it is."""
    try:
        with open(os.open(str(path), os.O_RDONLY | os.O_NOATIME | os.O_NOFOLLOW)) as stream:
            record = json.load(stream)
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and "bytes" in record else {}


def entries(directory: Path) -> Iterator[Removable]:
    """Yield the entries of a cache, with a record or without, and the leftovers of builds."""
    paths = {path.name: path for path in directory.iterdir() if path.name != cache.MARK}
    recorded: Set[str] = set()
    for name, path in paths.items():
        stem = name[: -len(".json")]
        if name.endswith(".json") and _read_record(path):
            parts = [path, *(paths[part] for part in (stem, f"{stem}.sif") if part in paths)]
            recorded.update(part.name for part in parts)
            yield Removable(parts, path, _last_use(path))
    for name in paths.keys() - recorded:
        is_shared_tree = name == "tree" or name.startswith("tree-")
        if not is_shared_tree and not name.endswith(".lock"):
            yield Removable([paths[name]], paths[name], _last_use(paths[name]))


def packages(directory: Path) -> Iterator[Removable]:
    """Yield the packages in shared trees, of Spack or EasyBuild, that no entry of the cache needs any more."""
    needed: Set[str] = set()
    for path in directory.glob("*.json"):
        needed.update(_read_record(path).get("prefixes", ()))
        with contextlib.suppress(OSError):
            needed.add(os.readlink(str(directory / path.stem / contract.EASYBUILD_DEPENDENCIES)))
    # Spack writes a receipt into the prefix of each package.
    found = {receipt.parents[1]: receipt for receipt in directory.glob("tree/**/.spack/spec.json")}
    found.update((tree, tree) for tree in directory.glob("tree-*") if tree.is_dir())
    for path, stamp in found.items():
        if str(path) not in needed:
            yield Removable([path], stamp, _last_use(stamp))


def cases(directory: Path) -> Iterator[Removable]:
    """Yield the directories of cases below ReFrame's stage or output directory: those that have a job script."""
    for script in directory.glob(f"**/{contract.JOB}"):
        yield Removable([script.parent], script.parent, _last_use(script.parent))


def clean(directory: Path, before: float, dry: bool, finders: Sequence[Finder] = (entries, packages)) -> int:
    """Remove entries that were not used since ``before``, print a line for each, and return the bytes removed.

    A build in a cache holds its lock, and so does a session in a stage directory: then all that is there stays.

    :param dry: print the lines only, and remove nothing.
    """
    with contextlib.ExitStack() as held:
        try:
            for lock in () if dry else sorted(directory.glob("*.lock")):
                held.enter_context(locks.flocked(lock, shared=False, waiting="", patience=0))
        except OSError as error:
            print(f"{directory}: stays: {error}", flush=True)
            return 0
        # Packages that an entry needed are found once the entry is gone.
        return sum(_remove(each, dry) for find in finders for each in _old(find(directory), before))


def _old(found: Iterator[Removable], before: float) -> List[Removable]:
    """Return what is this user's and was not used since ``before``, the oldest first."""
    ours = [each for each in found if all(os.lstat(str(path)).st_uid == os.geteuid() for path in each.paths)]
    return sorted((each for each in ours if each.used < before), key=lambda each: each.used)


def _remove(removable: Removable, dry: bool) -> int:
    """Remove an entry, unless it was used meanwhile; print a line, and return the bytes that were removed."""
    size, days = sum(map(file_trees.size_of, removable.paths)), (time.time() - removable.used) / 86400
    reason = ""
    try:
        if _last_use(removable.stamp) > removable.used:
            reason = "it was used just now"
        for path in () if dry or reason else removable.paths:
            file_trees.remove(path)
    except OSError as error:
        reason = str(error)
    outcome = f"stays: {reason}" if reason else "would be removed" if dry else "removed"
    print(f"{removable.paths[-1]}: {size >> 20} MiB, not used for {days:.0f} days: {outcome}", flush=True)
    return 0 if reason else size


def main() -> None:
    """Remove what was not used for long, or print what would be removed, and print the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--older", type=age, default="90d", help="remove what was not used for this long (%(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="print what would be removed, and remove nothing")
    parser.add_argument("--stage", action="append", default=[], type=Path, help="ReFrame's stage or output directory")
    parser.add_argument("cache", nargs="*", type=Path, help="directories; by default all of the user's own")
    arguments = parser.parse_args()
    directories, stages = ([path.resolve() for path in paths] for paths in (arguments.cache, arguments.stage))
    absent = [str(path) for path in [*directories, *stages] if not path.is_dir()]
    if absent:
        sys.exit(f"error: no directory {absent[0]}")
    user_caches = [cache.private_directory(f"{kind}_cache").resolve() for kind in KINDS]
    for directory in directories:
        if directory not in user_caches and not (directory / cache.MARK).is_file():
            sys.exit(
                f"error: {directory} does not have the mark of a cache: nothing was removed. If an older version made "
                f"it, and all that is in it may go, mark it: touch {shlex.quote(str(directory / cache.MARK))}"
            )
    before = time.time() - arguments.older
    total = sum(clean(directory, before, arguments.dry_run, (cases,)) for directory in stages)
    for directory in directories or [path for path in user_caches if path.is_dir()]:
        reason = file_trees.distrust(directory, shared=True)
        if reason:
            sys.exit(f"error: {reason}: clean it as its owner")
        total += clean(directory, before, arguments.dry_run)
    print(f"{total >> 20} MiB {'would be removed' if arguments.dry_run else 'removed'}")
