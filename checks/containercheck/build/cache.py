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
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from containercheck import contract, locks, texts
from containercheck.build import files

#: Seconds between two signs of life of a long build.
HEARTBEAT = 30.0
#: Most bytes that are read of a log, at its end.
LOGGED = 16 << 20
#: What programs say of a full disk.
FULL = "No space left on device"


class CacheError(Exception):
    """A thing cannot be had; the message says why and what to do, in one or two lines."""


class UnsupportedError(CacheError):
    """The thing does not exist for machines like the partition's."""


class Entry:
    """A thing in the cache. Subclasses say how it is built and how to tell that it is intact.

    :param name: what it is called, in messages, logs and locks.
    :param path: its place; the directory above it is the cache.
    :param architecture: of the machines that it is for, as ``uname -m`` says it; None for all.
    """

    #: Free space that a build is started with, in bytes.
    needed_space = 1 << 30
    #: What the cache is called in messages, and the extra of a site that moves it elsewhere.
    kind, setting = "cache", "cache"
    #: What a check lacks without it, and what there is to do but to build it on another machine.
    lacking, instead = "software", ""
    #: What is said of one that is there, and not what was built.
    broken = "corrupt"
    #: What is done to have it, in messages.
    doing, done = "building", "built"

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
    def log(self) -> Path:
        """Where the commands of the build print to."""
        return self.path.parent / f"{self.name}.log"

    def read_record(self) -> Dict[str, Any]:
        """Return the record.

        :raises CacheError: it is gone again.
        """
        try:
            return json.loads(self.record.read_text())
        except (OSError, ValueError) as error:
            raise CacheError(f"{self.record} cannot be read: {error}") from None

    def is_intact(self) -> bool:
        """Tell whether it is in the cache, with the content that was built."""
        try:
            return self.intact(json.loads(self.record.read_text()))
        except (OSError, ValueError, KeyError):
            return False

    def ensure(self) -> Path:
        """Return its place; it is built now if the cache has none.

        :raises CacheError: it cannot be built; says why.
        :raises UnsupportedError: it is for another architecture than this machine's.
        """
        if self.is_intact():
            return self.path
        if os.environ.get(contract.CACHED_ONLY):
            raise CacheError(f"no {self.lacking}: {self.name} is not in {self.path.parent}")
        if self.architecture not in (None, platform.machine()):
            raise UnsupportedError(
                f"no {self.lacking}: {self.name} is for {self.architecture}, and it would be built here on "
                f"{platform.machine()}: set build_on_node in the site's extras{self.instead}"
            )
        self.prepare()
        cache = self.path.parent
        try:
            cache.mkdir(parents=True, exist_ok=True)
            waiting = f"{self.name}: somebody else is building it"
            with locks.flocked(cache / f"{self.name}.lock", shared=False, waiting=waiting):
                if not self.is_intact():
                    if self.path.exists():
                        print(f"{self.name}: {self.path} is {self.broken}, {self.doing} it again", flush=True)
                        files.remove(self.path)
                    with locks.building():
                        self._build()
        except OSError as error:
            raise CacheError(self._problem(error)) from None
        return self.path

    def _problem(self, error: OSError) -> str:
        cache, advice = f"the {self.kind} {self.path.parent}", f"set {self.setting} in the site's extras"
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            return f"{cache} cannot be written ({error.strerror}): {advice}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return f"no space left in {cache}: free some, or {advice}"
        return f"{cache} cannot be used: {error}"

    def _build(self) -> None:
        cache = self.path.parent
        for stale in cache.glob(f".{self.name}-building-*"):
            files.remove(stale)
        work = cache / f".{self.name}-building-{os.getpid()}"
        work.mkdir()
        # Of a file system that nothing can be written to, mkdir speaks before the space does.
        free = shutil.disk_usage(cache).free
        if free < self.needed_space:
            work.rmdir()
            raise CacheError(
                f"not enough space to build {self.name} in {cache}: {free >> 20} MiB free, {self.needed_space >> 20} "
                f"MiB needed. Free some, or set {self.setting} in the site's extras"
            )
        try:
            started = time.monotonic()
            print(f"{self.name}: {self.doing} {self.path.name}", flush=True)
            built, known = self.build(work)
            (work / "record").write_text(json.dumps(known))
            # The record first: a thing without its record counts as absent, a record without its thing does too.
            (work / "record").replace(self.record)
            if built != self.path:
                built.replace(self.path)
            seconds = time.monotonic() - started
            print(f"{self.name}: {self.done} in {seconds:.0f} s, {known['bytes'] >> 20} MiB", flush=True)
        finally:
            files.remove(work)

    def run(self, commands: List[List[str]], **options: Any) -> None:
        """Run commands of the build into the log, with a sign of life from time to time.

        :param options: for :func:`subprocess.run`.
        :raises CacheError: one is not there, or fails; says what it printed.
        """
        with self.alive(), self.log.open("wb") as stream:
            for command in commands:
                try:
                    process = subprocess.run(
                        command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, check=False, **options
                    )
                except FileNotFoundError:
                    raise UnsupportedError(
                        f"no {self.lacking}: {self.name} would be {self.done} here, and there is no {command[0]} on "
                        f"the PATH{self.instead}"
                    ) from None
                if process.returncode != 0:
                    raise CacheError(self._failure())

    @contextlib.contextmanager
    def alive(self) -> Iterator[None]:
        """Print a sign of life from time to time."""
        finished = threading.Event()
        started = time.monotonic()

        def beat() -> None:
            while not finished.wait(HEARTBEAT):
                seconds = time.monotonic() - started
                print(f"{self.name}: still {self.doing} after {seconds:.0f} s (log: {self.log})", flush=True)

        threading.Thread(target=beat, daemon=True).start()
        try:
            yield
        finally:
            finished.set()

    def _failure(self) -> str:
        """Say what went wrong, from the end of the build's log."""
        if self.space_ran_out():
            advice = f"free some, or set {self.setting} in the site's extras"
            return f"no space left while {self.doing} {self.name} in {self.path.parent}: {advice}"
        return self.failed(self.last_words())

    def space_ran_out(self) -> bool:
        """Tell whether that is why a command failed."""
        return FULL in texts.tail(self.log) or shutil.disk_usage(self.path.parent).free < 16 << 20

    def failed(self, why: str) -> str:
        """Say in one line or two what could not be had."""
        return f"building {self.name} failed: {why}\nthe whole log: {self.log}"

    def lines(self) -> List[str]:
        """Return the lines of the log, without the colours that some programs print where none are wanted."""
        return re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", texts.tail(self.log, LOGGED)).splitlines()

    def last_words(self) -> str:
        """Return the line of the log that tells most: the last error, or the last of all."""
        lines = [line.strip() for line in self.lines() if line.strip()] or ["it printed nothing"]
        telling = [line for line in lines if line.startswith(("FATAL", "E: ", "ERROR", "Error response"))] or lines
        return telling[-1]


class FileEntry(Entry):
    """A thing that is one file, known by its size and digest."""

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether they are those of the file that was built."""
        return self.path.stat().st_size == record["bytes"] and files.known_digest_of(self.path) == record["sha256"]

    @staticmethod
    def known(built: Path) -> Dict[str, Any]:
        """Return the record of a file that was just built."""
        return {"bytes": built.stat().st_size, "sha256": files.digest_of(built)}

    def facts(self) -> Dict[str, Any]:
        """Return which file it is: path, digest and size; it must be there.

        :raises CacheError: it is gone again.
        """
        # The digest was just compared with the record's: it need not be computed once more.
        known = self.read_record()
        return {"path": str(self.path), "sha256": known["sha256"], "bytes": known["bytes"]}


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
        print(f"error: {texts.told(str(error))}", file=sys.stderr)
        sys.exit(contract.UNSUPPORTED)
    except (CacheError, OSError) as error:
        sys.exit(f"error: {texts.told(str(error))}")
    print(target)
