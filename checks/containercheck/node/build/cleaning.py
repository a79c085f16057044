"""Removes from the caches what nobody has used for long: images, environments, jars, programs, inputs, leftovers.

    python3 checks/containercheck clean --older 90d --dry-run --stage stage

says what it would remove; without ``--dry-run`` it removes it. When a thing was used last, its record tells: each build
step that takes it touches that, or where it may not, reads it. It works under the same locks as builds: what is being
built stays. Of what others own nothing is removed, and nothing outside of the caches (by default the user's own) but
cases' directories in those of ReFrame that are named.

Standard library only, Python 3.6 or newer.
"""

import argparse
import contextlib
import json
import os
import re
import stat
import sys
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set

from containercheck.node import contract, locks
from containercheck.node.build import cache, file_trees, ownership

#: Kinds of caches; all but the last are extras of a site.
KINDS = ("image", "venv", "jar", "program", "input", "spack", "easybuild", "digest")
#: Names that a cache has besides things and their records: of what a build works in, of logs and of locks.
_WORK = re.compile(r"^\.(?P<name>.+)-building-.*$")
_LEFT = (".log", ".lock")
#: What a session holds locked while it runs, in ReFrame's stage directory (checks/containercheck/session/claims.py).
SESSION_LOCK = ".session.lock"
#: What finds something to remove in a directory.
Kinds = Sequence[Callable[[Path], Iterator["Found"]]]
#: Seconds by the unit of an age.
UNITS = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
#: In a tree of Spack's: what tells a package.
_RECEIPT = Path(".spack", "spec.json")


class Found(NamedTuple):
    """Something that may be removed.

    ``paths`` are all that it consists of; ``locks`` the files whose locks its builds hold; ``stamp`` says when it was
    used last, and ``used`` is that, in seconds of the system's clock.
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


def _last(path: Path) -> float:
    """Return when a path was last written, or a file read, as far as its file system keeps that."""
    found = os.lstat(str(path))
    # To list a directory, as cleaning does, is to read it.
    return found.st_mtime if stat.S_ISDIR(found.st_mode) else max(found.st_mtime, found.st_atime)


def _record_of(path: Path) -> Optional[Dict]:
    # To look at a record is not to use it.
    try:
        with open(os.open(str(path), os.O_RDONLY | os.O_NOATIME | os.O_NOFOLLOW)) as stream:
            known = json.load(stream)
    except (OSError, ValueError):
        return None
    return known if isinstance(known, dict) and "bytes" in known else None


def things(directory: Path) -> Iterator[Found]:
    """Yield what lies in a cache, with its record or without, and what builds left."""
    names = {path.name: path for path in directory.iterdir()}
    records = {name: _record_of(path) for name, path in names.items() if name.endswith(".json")}
    known = {name[: -len(".json")]: record for name, record in records.items() if record is not None}
    locked = [path.name[: -len(".lock")] for path in _all_locks(directory)]
    for stem, record in known.items():
        paths = [names[f"{stem}.json"], *(names[name] for name in (stem, f"{stem}.sif") if name in names)]
        yield Found(paths, _locks(directory, stem, record.get("name"), locked), paths[0], _last(paths[0]))
    trees = set(_trees(names))
    for name, path in names.items():
        work = _WORK.match(name)
        stem = name[: -len(".sif")] if name.endswith(".sif") else name
        if work:
            yield Found([path], _locks(directory, work["name"], work["name"], locked), path, _last(path))
        elif name not in records and stem not in known and name not in trees and not name.endswith(_LEFT):
            yield Found([path], _locks(directory, stem, None, locked), path, _last(path))
        elif name.endswith(".log") or (name in records and records[name] is None):
            yield Found([path], [], path, _last(path))


def _all_locks(directory: Path) -> List[Path]:
    """Return the files whose locks builds hold; a lock file of Spack's is a thing, with a record."""
    return sorted(path for path in directory.glob("*.lock") if not Path(f"{path}.json").exists())


def _trees(names: Dict[str, Path]) -> List[str]:
    """Return the names of what things of a cache have in common."""
    return [name for name in names if name == "tree" or name.startswith("tree-")]


def _locks(directory: Path, stem: str, name: Optional[str], locked: List[str]) -> List[Path]:
    """Return the locks of what is being built: by its name, or where no record says that, by all that it could be."""
    found = [name] if name else [one for one in locked if stem == one or stem.startswith(f"{one}-")]
    return [directory / f"{one}.lock" for one in found]


def packages(directory: Path) -> Iterator[Found]:
    """Yield what things that are gone had installed into the tree that they share: Spack's packages, EasyBuild's."""
    needed: Set[str] = set()
    linked: Set[str] = set()
    for path in directory.glob("*.json"):
        record = _record_of(path) or {}
        needed.update(record.get("prefixes", ()))
        with contextlib.suppress(OSError):
            linked.add(os.readlink(str(directory / path.stem / "dependencies")))
    every = _all_locks(directory)
    for receipt in directory.glob(f"tree/**/{_RECEIPT}"):
        prefix = receipt.parents[1]
        if str(prefix) not in needed:
            yield Found([prefix], every, receipt, _last(receipt))
    for tree in directory.glob("tree-*"):
        if tree.is_dir() and str(tree) not in linked:
            yield Found([tree], every, tree, _last(tree))


def cases(directory: Path) -> Iterator[Found]:
    """Yield the directories of cases below one of ReFrame's, for stages or outputs: each has its job's script.

    A session that runs there holds its lock, and keeps all of them.
    """
    for script in directory.glob(f"**/{contract.JOB}"):
        yield Found([script.parent], [directory / SESSION_LOCK], script.parent, _last(script.parent))


def _remove(found: Found) -> Optional[str]:
    """Remove something, unless somebody is building it; return why it stays, None where it is gone."""
    with contextlib.ExitStack() as held:
        try:
            for lock in found.locks:
                held.enter_context(locks.flocked(lock, shared=False, waiting="", patience=0.1))
            if _last(found.stamp) > found.used:
                return "it was used just now"
            for path in found.paths:
                file_trees.remove(path)
        except OSError as error:
            return str(error)
    return None


def _size(path: Path) -> int:
    return file_trees.content_of(path)[1] if path.is_dir() and not path.is_symlink() else os.lstat(str(path)).st_size


def clean(directory: Path, before: float, dry: bool, kinds: Kinds = (things, packages)) -> int:
    """Remove what was not used since ``before``, say so, and return the bytes of it.

    :param dry: say it only.
    :param kinds: what finds something to remove in a directory.
    """
    total = 0
    for kind in kinds:
        for found in sorted(kind(directory), key=lambda one: one.used):
            owner = all(os.lstat(str(path)).st_uid == os.geteuid() for path in found.paths)
            if found.used >= before or not owner:
                continue
            size, days = sum(map(_size, found.paths)), (time.time() - found.used) / 86400
            why = None if dry else _remove(found)
            done = "would be removed" if dry else f"stays: {why}" if why else "removed"
            print(f"{found.paths[-1]}: {size >> 20} MiB, not used for {days:.0f} days: {done}", flush=True)
            total += 0 if why else size
    return total


def main() -> None:
    """Remove it, or say what would be, and print the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--older", type=age, default="90d", help="than this, by its last use (%(default)s)")
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed, and remove nothing")
    parser.add_argument("--stage", action="append", default=[], type=Path, help="ReFrame's, or its output directory")
    parser.add_argument("cache", nargs="*", type=Path, help="directories; by default all of the user's own")
    arguments = parser.parse_args()
    directories, stages = ([path.resolve() for path in paths] for paths in (arguments.cache, arguments.stage))
    absent = [str(path) for path in [*directories, *stages] if not path.is_dir()]
    if absent:
        sys.exit(f"error: no directory {absent[0]}")
    own = [cache.private_directory(f"{kind}_cache") for kind in KINDS]
    before = time.time() - arguments.older
    total = sum(clean(directory, before, arguments.dry_run, (cases,)) for directory in stages)
    for directory in directories or [path for path in own if path.is_dir()]:
        why = ownership.problem(directory, shared=True)
        if why:
            sys.exit(f"error: {why}: clean it as its owner")
        total += clean(directory, before, arguments.dry_run)
    print(f"{total >> 20} MiB {'would be removed' if arguments.dry_run else 'removed'}")
