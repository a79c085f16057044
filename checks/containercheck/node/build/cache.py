"""Things that are built once into a cache: images, Python environments, jars, programs, inputs.

A thing and its record, ``<name>-<key>.json`` beside it, count only together. It is built once, however many ask for it
at the same time, and what a killed build leaves behind is never taken for finished.

Standard library only, Python 3.6 or newer.
"""

import contextlib
import errno
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Tuple

from containercheck.node import contract, lock_files, locks, texts
from containercheck.node.build import file_trees, ownership
from containercheck.node.build.build_logs import CacheError, Logged, UnsupportedError

#: What is read of a record, at most, in bytes.
LONGEST_RECORD = 16 << 20


def private_directory(setting: str) -> Path:
    """Return the user's own directory for what is built once.

    :param setting: the extra of a site that names another one, such as ``image_cache``: that of images lies in
        ``images``.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "containercheck" / setting.replace("_cache", "s")


class Entry(Logged):
    """A thing in the cache. Subclasses say how it is built and how to tell that it is intact.

    :param name: what it is called, in messages, logs and locks.
    :param path: its place; the directory above it is the cache.
    :param architecture: of the machines that it is for, as ``uname -m`` says it; None for all.
    """

    #: Free space that a build is started with, in bytes.
    needed_space = 1 << 30
    #: What is said of one that is there, and not what was built.
    broken = "corrupt"

    def __init__(self, name: str, path: Path, architecture: Optional[str] = None) -> None:
        """Nothing is built before :meth:`ensure`."""
        self.name, self.path, self.architecture = name, path, architecture

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether the content is what was built; OSError counts as no."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Get what it is built from, if that is in a cache too.

        It comes first: one build within another could wait for a measurement that waits for the outer one.

        :raises CacheError: that cannot be had.
        """

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Build in ``work``, or at the final place; return where it is, its ``bytes`` and what :meth:`intact` needs.

        :raises CacheError: it cannot be built.
        """
        raise NotImplementedError

    @property
    def record(self) -> Path:
        """File that makes a finished thing of it."""
        return self.path.parent / f"{self.path.stem if self.path.suffix == '.sif' else self.path.name}.json"

    @property
    def lock_file(self) -> Path:
        """File whose lock a build holds."""
        return self.path.parent / f"{self.name}.lock"

    def read_record(self) -> Dict[str, Any]:
        """Return the record.

        :raises CacheError: it is gone again.
        """
        try:
            with self.record.open() as stream:
                return json.loads(stream.read(LONGEST_RECORD))
        except (OSError, ValueError) as error:
            raise CacheError(f"{self.record} cannot be read: {error}") from None

    def move(self, directory: Path) -> None:
        """Have another cache: nothing is moved of what lies in one."""
        self.path = directory / self.path.name

    def is_intact(self) -> bool:
        """Tell whether it is in the cache, with the content that was built, and nobody else's."""
        try:
            ownership.require_cache(self.path.parent)
            ownership.require(self.record)
            if os.path.lexists(str(self.path)):
                ownership.require(self.path)
            return self.intact(self.read_record())
        except (CacheError, OSError, KeyError):
            return False

    def ensure(self) -> Path:
        """Return its place; it is built now if there is none.

        Where the cache is not for this user to build in, the user's own is taken: a site may fill one for all, under an
        account of its own (extra ``cache_owners``), and in a cache of several users each has their own things.

        :raises CacheError: it cannot be built; says why.
        :raises UnsupportedError: it is for another architecture than this machine's.
        """
        given, own = self.path.parent, private_directory(self.setting)
        why: Optional[str] = None
        taken_only = bool(os.environ.get(contract.CACHED_ONLY))
        elsewhere = self.architecture not in (None, platform.machine())
        for place in dict.fromkeys((given, own)):
            if place != self.path.parent:
                self.move(place)
            if self.is_intact():
                self._mark_used()
                return self.path
            if taken_only or elsewhere:
                continue
            if why:
                print(f"{self.name}: {why}: it goes to {place}", flush=True)
            why = self._not_for_us()
            if not why:
                break
        if taken_only:
            raise CacheError(f"no {self.lacking}: {self.name} is not in {given}")
        if elsewhere:
            raise UnsupportedError(
                f"no {self.lacking}: {self.name} is for {self.architecture}, and it would be built here on "
                f"{platform.machine()}: set build_on_node in the site's extras{self.instead}"
            )
        if why:
            raise CacheError(f"{why}: set {self.setting} in the site's extras")
        self._build_once()
        return self.path

    def _mark_used(self) -> None:
        """Let :mod:`cleaning` know: what nobody uses for long is removed."""
        with contextlib.suppress(OSError):
            os.utime(str(self.record))

    def _not_for_us(self) -> Optional[str]:
        """Return why it cannot be built in this cache by this user; None where it can."""
        cache = self.path.parent
        try:
            # It is made when something is built in it.
            there = next(path for path in (cache, *cache.parents) if path.exists())
            why = ownership.problem(cache, shared=True) if there == cache else None
            if why:
                return f"the {self.kind} cannot be used: {why}"
            if not os.access(str(there), os.W_OK | os.X_OK):
                read_only = os.statvfs(str(there)).f_flag & os.ST_RDONLY
                return self._wrong(OSError(errno.EROFS, os.strerror(errno.EROFS if read_only else errno.EACCES)))
            for path in (self.path, self.record):
                if os.path.lexists(str(path)) and not ownership.can_remove(path):
                    return f"{ownership.problem(path) or path}, and is not what is needed"
            return lock_files.refusal(self.lock_file)
        except OSError as error:
            return self._wrong(error)

    def _build_once(self) -> None:
        self.prepare()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            waiting = f"{self.name}: somebody else is building it"
            with locks.flocked(self.lock_file, shared=False, waiting=waiting):
                if not self.is_intact():
                    if os.path.lexists(str(self.path)):
                        print(f"{self.name}: {self.path} is {self.broken}, {self.doing} it again", flush=True)
                        file_trees.remove(self.path)
                    with locks.building():
                        self._build()
        except OSError as error:
            raise CacheError(self._problem(error)) from None

    def _wrong(self, error: OSError) -> str:
        cache = f"the {self.kind} {self.path.parent}"
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            return f"{cache} cannot be written ({error.strerror})"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"no space left in {cache}"
        return f"{cache} cannot be used: {error}"

    def _problem(self, error: OSError) -> str:
        free = "free some, or " if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        return f"{self._wrong(error)}: {free}set {self.setting} in the site's extras"

    def _sweep(self) -> None:
        """Remove what our own builds left that were killed; what others left is theirs to remove."""
        for stale in self.path.parent.glob(f".{self.name}-building-*"):
            with contextlib.suppress(OSError):
                if os.lstat(str(stale)).st_uid == os.geteuid():
                    file_trees.remove(stale)

    def _build(self) -> None:
        cache, me = self.path.parent, f"{os.geteuid()}-{os.uname().nodename}-{os.getpid()}"
        self._sweep()
        # Nobody but us is to be able to write what comes out of it, whatever the umask is elsewhere.
        umask = os.umask(0o077)
        os.umask(umask | 0o022)
        work = Path(tempfile.mkdtemp(prefix=f".{self.name}-building-{me}-", dir=str(cache)))
        try:
            work.chmod(0o755)
            with self.logging_in(work):
                self._build_in(work)
        finally:
            os.umask(umask)
            file_trees.remove(work)

    def _build_in(self, work: Path) -> None:
        # Of a file system that nothing can be written to, mkdir speaks before the space does.
        free = shutil.disk_usage(str(work)).free
        if free < self.needed_space:
            raise CacheError(
                f"not enough space to build {self.name} in {work.parent}: {free >> 20} MiB free, "
                f"{self.needed_space >> 20} MiB needed. Free some, or set {self.setting} in the site's extras"
            )
        started = time.monotonic()
        print(f"{self.name}: {self.doing} {self.path.name}", flush=True)
        built, known = self.build(work)
        (work / "record").write_text(json.dumps({**known, "name": self.name}))
        # The record first: a thing without its record counts as absent, a record without its thing does too.
        (work / "record").replace(self.record)
        if built != self.path:
            built.replace(self.path)
        seconds = time.monotonic() - started
        print(f"{self.name}: {self.done} in {seconds:.0f} s, {known['bytes'] >> 20} MiB", flush=True)


class FileEntry(Entry):
    """A thing that is one file, known by its size and digest."""

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether they are those of the file that was built."""
        return self.path.stat().st_size == record["bytes"] and file_trees.known_digest_of(self.path) == record["sha256"]

    @staticmethod
    def known(built: Path) -> Dict[str, Any]:
        """Return the record of a file that was just built."""
        return {"bytes": built.stat().st_size, "sha256": file_trees.digest_of(built)}

    def facts(self) -> Dict[str, Any]:
        """Return which file it is: path, digest and size; it must be there.

        :raises CacheError: it is gone again.
        """
        # The digest was just compared with the record's: it need not be computed once more.
        known = self.read_record()
        try:
            return {**file_trees.facts_of(self.path, known["sha256"]), "bytes": known["bytes"]}
        except OSError as error:
            raise CacheError(f"{self.path} cannot be read: {error.strerror}") from None


def deliver(get: Callable[[], Path], link: Optional[Path]) -> None:
    """Print the path of a thing that ``get`` returns, and make ``link``, if any, a symbolic link to it.

    :raises SystemExit: with the message of the error; the status tells :class:`UnsupportedError`.
    """
    try:
        target = get()
        if link:
            # Under another name first: two that deliver to one place at once both end with a link, never with none.
            new = link.parent / f".{link.name}-{os.getpid()}"
            with contextlib.suppress(FileNotFoundError):
                new.unlink()
            new.symlink_to(target)
            new.replace(link)
    except UnsupportedError as error:
        print(f"error: {texts.sanitized(str(error))}", file=sys.stderr)
        sys.exit(contract.UNSUPPORTED)
    except (CacheError, OSError) as error:
        sys.exit(f"error: {texts.sanitized(str(error))}")
    print(target)
