"""A cache of entries that are built once: images, Python environments, jars, programs, inputs.

An entry counts only together with its record, ``<name>-<key>.json`` beside it. It is built once, however many processes
ask for it at the same time, and the remains of a killed build are never taken for a finished entry.

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

from containercheck.node import contract, locks, texts
from containercheck.node.build import file_trees, ownership
from containercheck.node.build.build_logs import CacheError, Logged, UnsupportedError

#: Largest record that is read, in bytes.
MAX_RECORD_BYTES = 16 << 20
#: File in a directory that is a cache and nothing else: :mod:`cleaning` removes what is old there.
MARK = ".containercheck-cache"


def private_directory(setting: str) -> Path:
    """Return the user's own directory of a cache.

    :param setting: the extra of a site that sets another directory, such as ``image_cache``, for which the directory is
        called ``images``.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "containercheck" / setting.replace("_cache", "s")


def make_directory(cache: Path) -> None:
    """Make the directory of a cache, and mark it; one that has files already may be somebody's own, and gets no mark.

    :raises OSError: it cannot be made.
    """
    cache.mkdir(parents=True, exist_ok=True)
    if not any(cache.iterdir()):
        # Another process may do the same.
        with contextlib.suppress(FileExistsError):
            (cache / MARK).touch(exist_ok=False)


class Entry(Logged):
    """An entry of a cache. Subclasses define how it is built and how to tell that it is intact.

    :param name: name in messages, logs and locks.
    :param path: path of the entry; its parent directory is the cache.
    :param architecture: architecture of the machines that it is for, as ``uname -m`` prints it; None for all.
    """

    #: Free space that a build needs, in bytes.
    needed_space = 1 << 30
    #: Adjective for an entry that is not as it was built, in messages.
    broken = "corrupt"

    def __init__(self, name: str, path: Path, architecture: Optional[str] = None) -> None:
        """Name the entry; :meth:`ensure` builds it."""
        self.name, self.path, self.architecture = name, path, architecture

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether the content is as it was built; an OSError means that it is not."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Provide the cache entries that this one is built from.

        This comes before the build: a build within another could wait for a measurement that waits for the outer one.

        :raises CacheError: one of them cannot be provided.
        """

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Build the entry in ``work`` or at its final path, and return that path and the record.

        The record has the size (``bytes``) and what :meth:`intact` needs.

        :raises CacheError: the build fails.
        """
        raise NotImplementedError

    @property
    def record(self) -> Path:
        """Return the path of the record, without which the entry counts as unfinished."""
        return self.path.parent / f"{self.path.stem if self.path.suffix == '.sif' else self.path.name}.json"

    @property
    def lock_file(self) -> Path:
        """Return the path of the file whose lock a build holds."""
        return self.path.parent / f"{self.name}.lock"

    def read_record(self) -> Dict[str, Any]:
        """Return the content of the record.

        :raises CacheError: the record has been removed, or cannot be read.
        """
        try:
            with self.record.open() as stream:
                record = json.loads(stream.read(MAX_RECORD_BYTES))
        except (OSError, ValueError) as error:
            raise CacheError(f"{self.record} cannot be read: {error}") from None
        if not isinstance(record, dict) or "bytes" not in record:
            raise CacheError(f"{self.record} is not the record of an entry")
        return record

    def move(self, directory: Path) -> None:
        """Use another cache; no file is moved."""
        self.path = directory / self.path.name

    def is_intact(self) -> bool:
        """Tell whether the entry is in the cache, as it was built, and belongs to a trusted user."""
        try:
            ownership.require_cache(self.path.parent)
            ownership.require(self.record)
            if os.path.lexists(str(self.path)):
                ownership.require(self.path)
            return self.intact(self.read_record())
        # A record with other values than a build writes.
        except (CacheError, OSError, LookupError, TypeError, ValueError):
            return False

    def ensure(self) -> Path:
        """Return the path of the entry, after a build if the cache does not have it.

        Where this user may not build in the given cache, the user's own is used: a site may fill one cache for all
        users, under an account of its own (extra ``cache_owners``), and in a cache of several users each user has their
        own entries.

        :raises CacheError: the entry cannot be built; the message says why.
        :raises UnsupportedError: the entry is for another architecture than this machine's.
        """
        site_cache, user_cache = self.path.parent, private_directory(self.setting)
        refusal: Optional[str] = None
        may_not_build = bool(os.environ.get(contract.CACHED_ONLY))
        is_foreign = self.architecture not in (None, platform.machine())
        for directory in dict.fromkeys((site_cache, user_cache)):
            if directory != self.path.parent:
                self.move(directory)
            if self.is_intact():
                self._mark_used()
                return self.path
            if may_not_build or is_foreign:
                continue
            if refusal:
                print(f"{self.name}: {refusal}: it goes to {directory}", flush=True)
            refusal = self._refusal()
            if not refusal:
                break
        if may_not_build:
            raise CacheError(f"no {self.lacking}: {self.name} is not in {site_cache}")
        if is_foreign:
            raise UnsupportedError(
                f"no {self.lacking}: {self.name} is for {self.architecture}, and it would be built here on "
                f"{platform.machine()}: set build_on_node in the site's extras{self.instead}"
            )
        if refusal:
            raise CacheError(f"{refusal}: set {self.setting} in the site's extras")
        self._build_once()
        return self.path

    def _mark_used(self) -> None:
        """Note the time of use in the record's time stamp: :mod:`cleaning` removes entries that were long not used."""
        with contextlib.suppress(OSError):
            os.utime(str(self.record))

    def _refusal(self) -> Optional[str]:
        """Return why this user cannot build the entry in this cache; None where they can."""
        cache = self.path.parent
        try:
            # The first build in a cache makes its directory.
            existing = next(path for path in (cache, *cache.parents) if path.exists())
            problem = ownership.problem(cache, shared=True) if existing == cache else None
            if problem:
                return f"the {self.kind} cannot be used: {problem}"
            if not os.access(str(existing), os.W_OK | os.X_OK):
                read_only = os.statvfs(str(existing)).f_flag & os.ST_RDONLY
                return self._describe(OSError(errno.EROFS, os.strerror(errno.EROFS if read_only else errno.EACCES)))
            for path in (self.path, self.record):
                if os.path.lexists(str(path)) and not ownership.can_remove(path):
                    return f"{ownership.problem(path) or path}, and is not what is needed"
            return locks.refusal(self.lock_file)
        except OSError as error:
            return self._describe(error)

    def _build_once(self) -> None:
        """Build the entry under its lock, unless another process has built it by then."""
        self.prepare()
        try:
            make_directory(self.path.parent)
            waiting = f"{self.name}: another process is building it"
            with locks.flocked(self.lock_file, shared=False, waiting=waiting):
                if not self.is_intact():
                    if os.path.lexists(str(self.path)):
                        print(f"{self.name}: {self.path} is {self.broken}, {self.doing} it again", flush=True)
                        file_trees.remove(self.path)
                    with locks.building():
                        self._build()
        except OSError as error:
            raise CacheError(self._advise(error)) from None

    def _describe(self, error: OSError) -> str:
        """Return what is wrong with the cache."""
        cache = f"the {self.kind} {self.path.parent}"
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            # A server of NFS maps root to nobody (exports(5), root_squash).
            root = ", as root, who may not write on NFS" if error.errno != errno.EROFS and os.geteuid() == 0 else ""
            return f"{cache} cannot be written ({error.strerror}{root})"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"no space left in {cache}"
        return f"{cache} cannot be used: {error}"

    def _advise(self, error: OSError) -> str:
        """Return what is wrong with the cache, and what to do."""
        free = "free some, or " if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        return f"{self._describe(error)}: {free}set {self.setting} in the site's extras"

    def _sweep(self) -> None:
        """Remove the build directories of this user's killed builds; other users remove theirs."""
        for stale in self.path.parent.glob(f".{self.name}-building-*"):
            with contextlib.suppress(OSError):
                if os.lstat(str(stale)).st_uid == os.geteuid():
                    file_trees.remove(stale)

    def _build(self) -> None:
        """Build the entry in a directory of its own in the cache, with a log."""
        cache, process = self.path.parent, f"{os.geteuid()}-{os.uname().nodename}-{os.getpid()}"
        self._sweep()
        # No other user may be able to write the built files, whatever the umask is.
        umask = os.umask(0o077)
        os.umask(umask | 0o022)
        work = Path(tempfile.mkdtemp(prefix=f".{self.name}-building-{process}-", dir=str(cache)))
        try:
            work.chmod(0o755)
            with self.logging_in(work):
                self._build_in(work)
        finally:
            os.umask(umask)
            file_trees.remove(work)

    def _build_in(self, work: Path) -> None:
        """Build the entry and its record, and move both to their places."""
        # A read-only file system has made mkdir fail already.
        free = shutil.disk_usage(str(work)).free
        if free < self.needed_space:
            raise CacheError(
                f"not enough space to build {self.name} in {work.parent}: {free >> 20} MiB free, "
                f"{self.needed_space >> 20} MiB needed. Free some, or set {self.setting} in the site's extras"
            )
        started = time.monotonic()
        print(f"{self.name}: {self.doing} {self.path.name}", flush=True)
        built, record = self.build(work)
        (work / "record").write_text(json.dumps({**record, "name": self.name}))
        # The record first: an entry without a record counts as absent, and so does a record without an entry.
        (work / "record").replace(self.record)
        if built != self.path:
            built.replace(self.path)
        seconds = time.monotonic() - started
        print(f"{self.name}: {self.done} in {seconds:.0f} s, {record['bytes'] >> 20} MiB", flush=True)


class FileEntry(Entry):
    """An entry that is one file, identified by its size and digest."""

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether size and digest are those of the file that was built."""
        return self.path.stat().st_size == record["bytes"] and file_trees.known_digest_of(self.path) == record["sha256"]

    @staticmethod
    def known(built: Path) -> Dict[str, Any]:
        """Return the record of a file that was just built."""
        return {"bytes": built.stat().st_size, "sha256": file_trees.digest_of(built)}

    def facts(self) -> Dict[str, Any]:
        """Return path, digest and size of the file, which must be in the cache.

        :raises CacheError: the file has been removed.
        """
        # The digest was just compared with the record's: it need not be computed once more.
        record = self.read_record()
        try:
            return {**file_trees.facts_of(self.path, record["sha256"]), "bytes": record["bytes"]}
        except OSError as error:
            raise CacheError(f"{self.path} cannot be read: {error.strerror}") from None


def deliver(get: Callable[[], Path], link: Optional[Path]) -> None:
    """Print the path that ``get`` returns, and make ``link``, if any, a symbolic link to it.

    :raises SystemExit: ``get`` raises an error, whose message is printed; the exit status is ``contract.UNSUPPORTED``
        for :class:`UnsupportedError`.
    """
    try:
        target = get()
        if link:
            # Under another name first: two processes that make the same link at once both end with a link.
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
