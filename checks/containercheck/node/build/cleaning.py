"""Removes entries from the caches that were long not used: images, environments, jars, programs, inputs, leftovers.

    python3 checks/containercheck clean --older 90d --dry-run --stage stage

says what it would remove; without ``--dry-run`` it removes it. The time stamp of an entry's record is the time of its
last use: each build step that uses the entry touches the record, or reads it where it may not. Cleaning takes the same
locks as builds, so that no unfinished build is removed. It removes nothing that other users own, and nothing outside of
the caches (by default the user's own) but the directories of cases in the stage and output directories that are named.
A directory is a cache if it has the mark of one (``cache.MARK``), or is the user's own by its place.

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
from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set

from containercheck.node import contract, locks
from containercheck.node.build import cache, file_trees, ownership

#: Kinds of caches; all but the last are extras of a site.
KINDS = ("image", "venv", "jar", "program", "input", "spack", "easybuild", "digest")
#: Name of a build directory in a cache.
_BUILD_DIRECTORY = re.compile(r"^\.(?P<name>.+)-building-.*$")
#: Endings of logs and locks in a cache.
_LOG_OR_LOCK = (".log", ".lock")
#: File in ReFrame's stage directory that a session holds locked while it runs
#: (checks/containercheck/session/claims.py).
SESSION_LOCK = ".session.lock"
#: Functions that find something to remove in a directory.
Finders = Sequence[Callable[[Path], Iterator["Removable"]]]
#: Seconds by the unit of an age.
UNITS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
#: File in the prefix of each package that Spack installed.
_RECEIPT = Path(".spack", "spec.json")


class Removable(NamedTuple):
    """An entry, or a directory, that may be removed.

    ``paths`` are all its files and directories; ``locks`` the files whose locks its builds hold; ``stamp`` is the path
    whose time stamp is the time of the last use, and ``used`` that time, in seconds since the epoch.
    """

    paths: List[Path]
    locks: List[Path]
    stamp: Path
    used: float


def age(text: str) -> float:
    """Return the seconds of an age such as ``90d``.

    >>> [age(text) for text in ("12h", "1d", "2w")]
    [43200.0, 86400.0, 1209600.0]
    """
    match = re.fullmatch(r"(\d+)([hdw])", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text} is no age: say 90d for days, or 12h, or 8w")
    return int(match[1]) * UNITS[match[2]]


def _last_use(path: Path) -> float:
    """Return when a path was last written, or a file last read, as far as its file system records that."""
    status = os.lstat(str(path))
    # Cleaning lists directories, and so reads them.
    return status.st_mtime if stat.S_ISDIR(status.st_mode) else max(status.st_mtime, status.st_atime)


def _read_record(path: Path) -> Optional[Dict]:
    """Return the record of an entry; None where the file is none. The time of its last use stays as it is."""
    try:
        with open(os.open(str(path), os.O_RDONLY | os.O_NOATIME | os.O_NOFOLLOW)) as stream:
            record = json.load(stream)
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and "bytes" in record else None


def entries(directory: Path) -> Iterator[Removable]:
    """Yield the entries of a cache, with a record or without, and the leftovers of builds."""
    paths = {path.name: path for path in directory.iterdir() if path.name != cache.MARK}
    records = {name: _read_record(path) for name, path in paths.items() if name.endswith(".json")}
    complete = {name[: -len(".json")]: record for name, record in records.items() if record is not None}
    lock_names = [path.name[: -len(".lock")] for path in _all_locks(directory)]
    for stem, record in complete.items():
        parts = [paths[f"{stem}.json"], *(paths[name] for name in (stem, f"{stem}.sif") if name in paths)]
        yield Removable(parts, _locks(directory, stem, record.get("name"), lock_names), parts[0], _last_use(parts[0]))
    trees = set(_shared_trees(paths))
    for name, path in paths.items():
        build = _BUILD_DIRECTORY.match(name)
        stem = name[: -len(".sif")] if name.endswith(".sif") else name
        if build:
            yield Removable([path], _locks(directory, build["name"], build["name"], lock_names), path, _last_use(path))
        elif name not in records and stem not in complete and name not in trees and not name.endswith(_LOG_OR_LOCK):
            yield Removable([path], _locks(directory, stem, None, lock_names), path, _last_use(path))
        elif name.endswith(".log") or (name in records and records[name] is None):
            yield Removable([path], [], path, _last_use(path))


def _all_locks(directory: Path) -> List[Path]:
    """Return the files whose locks builds hold, without Spack's lock files, which are entries and have a record."""
    return sorted(path for path in directory.glob("*.lock") if not Path(f"{path}.json").exists())


def _shared_trees(names: Iterable[str]) -> List[str]:
    """Return the names of the trees that several entries of a cache share."""
    return [name for name in names if name == "tree" or name.startswith("tree-")]


def _locks(directory: Path, stem: str, name: Optional[str], lock_names: List[str]) -> List[Path]:
    """Return the locks that a build of an entry may hold: that of its name or, without a record, all that may fit."""
    fitting = [name] if name else [lock for lock in lock_names if stem == lock or stem.startswith(f"{lock}-")]
    return [directory / f"{lock}.lock" for lock in fitting]


def packages(directory: Path) -> Iterator[Removable]:
    """Yield the packages in shared trees, of Spack or EasyBuild, that no entry of the cache needs any more."""
    needed: Set[str] = set()
    linked: Set[str] = set()
    for path in directory.glob("*.json"):
        record = _read_record(path) or {}
        needed.update(record.get("prefixes", ()))
        with contextlib.suppress(OSError):
            linked.add(os.readlink(str(directory / path.stem / "dependencies")))
    all_locks = _all_locks(directory)
    for receipt in directory.glob(f"tree/**/{_RECEIPT}"):
        prefix = receipt.parents[1]
        if str(prefix) not in needed:
            yield Removable([prefix], all_locks, receipt, _last_use(receipt))
    for tree in directory.glob("tree-*"):
        if tree.is_dir() and str(tree) not in linked:
            yield Removable([tree], all_locks, tree, _last_use(tree))


def cases(directory: Path) -> Iterator[Removable]:
    """Yield the directories of cases below ReFrame's stage or output directory: those that have a job script.

    A session that runs there holds its lock, and keeps all of them.
    """
    for script in directory.glob(f"**/{contract.JOB}"):
        yield Removable([script.parent], [directory / SESSION_LOCK], script.parent, _last_use(script.parent))


def _remove(removable: Removable) -> Optional[str]:
    """Remove an entry, unless it is being built; return why it stays, None where it was removed."""
    with contextlib.ExitStack() as held:
        try:
            for lock in removable.locks:
                held.enter_context(locks.flocked(lock, shared=False, waiting="", patience=0.1))
            if _last_use(removable.stamp) > removable.used:
                return "it was used just now"
            for path in removable.paths:
                file_trees.remove(path)
        except OSError as error:
            return str(error)
    return None


def _size(path: Path) -> int:
    return file_trees.content_of(path)[1] if path.is_dir() and not path.is_symlink() else os.lstat(str(path)).st_size


def clean(directory: Path, before: float, dry: bool, finders: Finders = (entries, packages)) -> int:
    """Remove what was not used since ``before``, print a line for each, and return the bytes that were removed.

    :param dry: print the lines only, and remove nothing.
    :param finders: functions that find something to remove in a directory.
    """
    total = 0
    for find in finders:
        for removable in sorted(find(directory), key=lambda removable: removable.used):
            is_ours = all(os.lstat(str(path)).st_uid == os.geteuid() for path in removable.paths)
            if removable.used >= before or not is_ours:
                continue
            size, days = sum(map(_size, removable.paths)), (time.time() - removable.used) / 86400
            why = None if dry else _remove(removable)
            outcome = "would be removed" if dry else f"stays: {why}" if why else "removed"
            print(f"{removable.paths[-1]}: {size >> 20} MiB, not used for {days:.0f} days: {outcome}", flush=True)
            total += 0 if why else size
    return total


def main() -> None:
    """Remove what was long not used, or print what would be removed, and print the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--older", type=age, default="90d", help="remove what was not used for this long (%(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed, and remove nothing")
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
        why = ownership.problem(directory, shared=True)
        if why:
            sys.exit(f"error: {why}: clean it as its owner")
        total += clean(directory, before, arguments.dry_run)
    print(f"{total >> 20} MiB {'would be removed' if arguments.dry_run else 'removed'}")
