"""Keep entries that are built once: images, Python environments, jars, programs, inputs.

An entry counts only together with its record, ``<name>-<key>.json`` next to it. It is built once, even if many
processes ask for it at the same time. The remains of a killed build never count as a finished entry.

Each kind of entry has a program. Its argument is JSON: the parameters of the entry's class, and a link. Example::

    python3 checks/containercheck/job venv '{"name": "db12", "requirements": "checks/src/db12/requirements.txt",
        "directory": "/shared/venvs", "architecture": "x86_64", "link": "venv"}'

It makes the link to the entry, writes the facts of the entry next to the link, and prints the path of the entry.

Standard library only, Python 3.6 or newer.
"""

import contextlib
import functools
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

from containercheck.job import contract, locks, processes, texts
from containercheck.job.build import file_trees

#: Path, or its text from JSON.
AnyPath = Union[str, Path]
#: Seconds after which a failed build is not repeated in the same session: its other cases need the same entry.
LONG = 300.0
#: Largest part of a log that is read, in bytes.
MAX_BYTES = 16 << 20
#: Message of programs that meet a full disk.
DISK_FULL = "No space left on device"
#: Messages of apt, debootstrap, pip, Maven, git and curl if they reach no server.
NO_NETWORK = re.compile(
    r"Temporary failure (?:in name resolution|resolving)|Could not resolve|Name or service not known"
    r"|Could not connect to|Network is unreachable|No route to host|Connection refused|Connection timed out"
    r"|NewConnectionError|Failed getting release file",
    re.IGNORECASE,
)


class CacheError(Exception):
    """Report an entry that a cache cannot provide; the message has the reason and the remedy, in one or two lines."""


class UnsupportedError(CacheError):
    """Report an entry that does not exist for machines like the partition's."""


def private_directory(folder: str) -> Path:
    """Return the user's own directory of a cache.

    :param folder: name of the cache's directory, such as ``images``.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache / "containercheck" / folder


def key_of(*facts: Any) -> str:
    """Return the key of an entry: a digest of the facts that determine its content."""
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:12]


def read_json(path: Path) -> Dict[str, Any]:
    """Return the object in a JSON file.

    :raises CacheError: the file cannot be read.
    """
    try:
        return dict(json.loads(texts.read(path)))
    except (OSError, ValueError, TypeError) as error:
        raise CacheError(f"{path} cannot be read: {error}") from None


class Entry:
    """Build an entry of a cache, a file or a directory, once. Subclasses define how.

    :param name: name in messages, logs and locks.
    :param directory: directory of the cache.
    :param file: file name of the entry.
    :param architecture: architecture of the machines that it is for, as ``uname -m`` prints it; None for all.
    """

    #: Name of the cache in messages, and the name of its directory.
    kind, folder = "cache", "cache"
    #: The thing that a check lacks without the entry, and the alternative to a build on another machine; for messages.
    lacking, instead = "software", ""
    #: Verb for the build, in messages.
    doing, done = "building", "built"
    #: Path of the log during the build.
    _open_log: Optional[Path] = None

    def __init__(self, name: str, directory: AnyPath, file: str, architecture: Optional[str] = None) -> None:
        """Name the entry; :meth:`ensure` builds it."""
        self.name, self.path, self.architecture = name, Path(directory).resolve() / file, architecture

    def intact(self, record: Dict[str, Any]) -> bool:
        """Return whether the content is as it was built; an OSError means that it is not."""
        if self.path.is_dir():
            file_trees.require_all(self.path)
        return bool(file_trees.known_digest_of(self.path) == record["sha256"])

    def prepare(self) -> None:
        """Provide the cache entries that this one is built from.

        This comes before the build: a build within another could wait for a measurement that waits for the outer one.

        :raises CacheError: one of them cannot be provided.
        """

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Build the entry in ``work`` or at its final path, and return that path and the record.

        The record has the size (``bytes``) and the values for :meth:`intact`.

        :raises CacheError: the build fails.
        """
        raise NotImplementedError

    def move(self, directory: Path) -> None:
        """Use another cache; no file is moved."""
        self.path = directory / self.path.name

    @staticmethod
    def content_of(built: Path) -> Dict[str, Any]:
        """Return the size and the digest of a file or directory that was just built, for its record."""
        return {"bytes": file_trees.size_of(built), "sha256": file_trees.digest_of(built)}

    @property
    def record(self) -> Path:
        """Return the path of the record, without which the entry counts as unfinished."""
        return self.path.parent / f"{self.path.stem if self.path.suffix == '.sif' else self.path.name}.json"

    def read_record(self) -> Dict[str, Any]:
        """Return the content of the record.

        :raises CacheError: the record has been removed, or cannot be read.
        """
        return read_json(self.record)

    @property
    def target(self) -> Path:
        """Return the path for the check.

        :raises CacheError: the entry lacks something that the check needs.
        """
        return self.path

    def facts(self) -> Dict[str, Any]:
        """Return the facts of the entry for the provenance of a check; none by default.

        :raises CacheError: the entry has been removed.
        """
        return {}

    def hand_over(self, link: Path) -> None:
        """Make a symbolic link to the entry, and write its facts next to the link (``<link>.json``).

        :raises CacheError: the entry lacks something that the check needs.
        :raises OSError: the link or the file cannot be written.
        """
        target, facts = self.target, self.facts()
        if facts:
            write_facts(link, facts)
        # Under another name first: of two processes that make it at once both succeed.
        new = link.with_name(f".{link.name}-{os.getpid()}")
        new.symlink_to(target)
        new.replace(link)

    def is_intact(self) -> bool:
        """Return whether the entry is in the cache, as it was built, and belongs to a trusted user."""
        try:
            file_trees.require(self.path.parent, shared=True)
            file_trees.require(self.record)
            if os.path.lexists(str(self.path)):
                file_trees.require(self.path)
            return self.intact(self.read_record())
        # The record has values that no build writes.
        except (CacheError, OSError, LookupError, TypeError, ValueError):
            return False

    def ensure(self) -> Path:
        """Return the path of the entry, after a build if no cache has it.

        If this user may not build in the given cache, the user's own is used. A site may fill one cache for all
        users, from its own account (extra ``cache_owners``). In a shared cache each user has their own entries.

        :raises CacheError: the entry cannot be built; the message says why.
        :raises UnsupportedError: the entry is for another architecture than this machine's.
        """
        given = self.path.parent
        caches = list(dict.fromkeys([given, private_directory(self.folder)]))
        for cache in caches:
            self.move(cache)
            if self.is_intact():
                # The time of the last use: ci/docs/sites.md has the command that removes old entries.
                with contextlib.suppress(OSError):
                    os.utime(str(self.record))
                return self.path
        if os.environ.get(contract.CACHED_ONLY):
            raise CacheError(f"no {self.lacking}: {self.name} is not in {given}")
        if self.architecture not in (None, platform.machine()):
            raise UnsupportedError(
                f"no {self.lacking}: {self.name} is for {self.architecture}, and it would be built here on "
                f"{platform.machine()}: set build_on_node in the site's extras{self.instead}"
            )
        refusal = ""
        for cache in caches:
            if refusal:
                print(f"{self.name}: {refusal}: it goes to {cache}", flush=True)
            self.move(cache)
            refusal = self._refusal()
            if not refusal:
                self._build_once()
                return self.path
        raise CacheError(f"{refusal}: set caches in the site's extras")

    @property
    def _lock_file(self) -> Path:
        return self.path.parent / f"{self.name}.lock"

    def _refusal(self) -> str:
        """Return why this user cannot build the entry in this cache; empty if they can."""
        cache = self.path.parent
        try:
            cache.mkdir(parents=True, exist_ok=True)
            file_trees.require(cache, shared=True)
            # Needs the permission to write.
            os.utime(str(cache))
            for path in (path for path in (self.path, self.record) if os.path.lexists(str(path))):
                owner = os.lstat(str(path)).st_uid
                if owner != os.geteuid():
                    return f"{path} belongs to {locks.user_name(owner)}, and is not the entry that is needed"
            os.close(locks.open_lock_file(self._lock_file))
        except OSError as error:
            return f"the {self.kind} {cache} cannot be used: {error}"
        return ""

    def _build_once(self) -> None:
        """Build the entry under its lock, unless another process has built it by then."""
        self.prepare()
        waiting = f"{self.name}: another process is building it in {self.path.parent}/.{self.name}-building-*"
        try:
            with locks.flocked(self._lock_file, shared=False, waiting=waiting):
                if not self.is_intact():
                    self._refuse_repetition()
                    if os.path.lexists(str(self.path)):
                        print(f"{self.name}: {self.path} is not intact, {self.doing} it again", flush=True)
                        file_trees.remove(self.path)
                    with locks.building(), self._work_directory() as work:
                        self._build(work)
        except OSError as error:
            reason = f"the {self.kind} {self.path.parent} cannot be used: {error}"
            raise CacheError(f"{reason}: set caches in the site's extras") from None

    @contextlib.contextmanager
    def _work_directory(self) -> Iterator[Path]:
        """Make a directory in the cache for this build, with its log, which is later kept next to the entry.

        No other user can have made it. It replaces the directories of this user's killed builds.
        """
        cache = self.path.parent
        for stale in cache.glob(f".{self.name}-building-*"):
            with contextlib.suppress(OSError):
                if os.lstat(str(stale)).st_uid == os.geteuid():
                    file_trees.remove(stale)
        process = f"{os.geteuid()}-{os.uname().nodename}-{os.getpid()}"
        work = Path(tempfile.mkdtemp(prefix=f".{self.name}-building-{process}-", dir=str(cache)))
        try:
            # Downloads of apt run as another user.
            work.chmod(0o755)
            self._open_log = work / "log"
            yield work
        finally:
            self._open_log = None
            # Another user may have put a file there: a link is not followed, and we may not be allowed to replace it.
            with contextlib.suppress(OSError):
                (work / "log").replace(self.log)
            file_trees.remove(work)

    def _build(self, work: Path) -> None:
        """Build the entry and its record, and move both to their places."""
        started = time.monotonic()
        print(f"{self.name}: {self.doing} {self.path.name} (log: {self.open_log})", flush=True)
        try:
            built, record = self.build(work)
        except BaseException as error:
            if not isinstance(error, Exception):
                # The step has to end: first the processes that write there.
                processes.kill_all()
            # Some entries are built at their final path.
            file_trees.remove(self.path)
            if isinstance(error, CacheError) and time.monotonic() - started > LONG:
                with contextlib.suppress(OSError):
                    texts.write(self._failure_file, json.dumps([*self._attempt, str(error)]))
            raise
        (work / "record").write_text(json.dumps({**record, "name": self.name}))
        # The record first: an entry without a record counts as absent, and so does a record without an entry.
        (work / "record").replace(self.record)
        if built != self.path:
            built.replace(self.path)
        seconds = time.monotonic() - started
        print(f"{self.name}: {self.done} in {seconds:.0f} s, {record['bytes'] >> 20} MiB", flush=True)

    @property
    def _failure_file(self) -> Path:
        return self.log.with_suffix(".failed")

    @property
    def _attempt(self) -> List[Optional[str]]:
        return [os.environ.get(contract.SESSION), self.path.name]

    def _refuse_repetition(self) -> None:
        """Refuse a long build that failed in this session.

        :raises CacheError: it did, with the same message.
        """
        try:
            *attempt, message = json.loads(texts.read(self._failure_file))
        except (OSError, ValueError):
            return
        if attempt[0] and attempt == self._attempt:
            print(f"{self.name}: it failed in this session before, and is not built again", flush=True)
            raise CacheError(message)

    @property
    def log(self) -> Path:
        """Return the path at which the log is kept: one for each user and machine."""
        return self.path.parent / f"{self.name}-{os.geteuid()}-{os.uname().nodename}.log"

    @property
    def open_log(self) -> Path:
        """Return the path at which the log is now: during the build, in the build directory."""
        return self._open_log or self.log

    def run(self, commands: List[List[str]], **options: Any) -> None:
        """Run commands of the build, and write their output to the log.

        :param options: passed to :func:`subprocess.run`.
        :raises UnsupportedError: the program of a command is not on the PATH.
        :raises CacheError: a command fails, or takes too long; the message has the line of its output with the reason.
        """
        with self.open_log.open("wb") as stream:
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
                except subprocess.TimeoutExpired:
                    limit = options["timeout"]
                    raise CacheError(self.failed(f"{command[0]} was not done after {limit:g} s")) from None
                if process.returncode != 0:
                    raise CacheError(self._failure())

    def _failure(self) -> str:
        """Return the message of a failed build, from the end of its log."""
        if DISK_FULL in texts.tail(self.open_log):
            return self.failed(f"{DISK_FULL}: free some, or set caches in the site's extras")
        unreached = next((line.strip() for line in self.lines() if NO_NETWORK.search(line)), "")
        if unreached:
            return (
                f"no network while {self.doing} {self.name} ({unreached}): set http_proxy and https_proxy, or a mirror "
                f"(pip's and apt's own settings; image_mirror of the site's extras)\nthe whole log: {self.log}"
            )
        return self.failed(self.last_words())

    def failed(self, reason: str) -> str:
        """Return the message of a failed build, in two lines."""
        return f"{self.doing} {self.name} failed: {reason}\nthe whole log: {self.log}"

    def lines(self) -> List[str]:
        """Return the lines of the log, without the escape sequences of colours."""
        return re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", texts.tail(self.open_log, MAX_BYTES)).splitlines()

    def last_words(self) -> str:
        """Return the line of the log with the reason of the failure: the last error, or the last line."""
        lines = [line.strip() for line in self.lines() if line.strip()] or ["it printed nothing"]
        errors = [line for line in lines if line.startswith(("FATAL", "E: ", "ERROR", "Error response"))]
        return (errors or lines)[-1]


@functools.lru_cache(maxsize=None)
def version_of(tool: str, command: str, name: str) -> str:
    """Return the output about its version of a tool that installs software: Spack or EasyBuild.

    :param tool: name of the tool; the site's extra of that name, in lower case, is its command.
    :param name: name of the software that the tool installs, for messages.
    :raises UnsupportedError: the default command of Spack is not on the PATH.
    :raises CacheError: the tool does not run, or the site names a command that does not exist.
    """
    if shutil.which(command) is None:
        # Any other command is from the site file.
        raise (UnsupportedError if command == "spack" else CacheError)(
            f"no software: {name} comes from {tool}, and there is no {command}: name it, or a program of the site's: "
            f"site's extras, {tool.lower()} or software"
        )
    status, output = processes.answer_of([command, "--version"], stderr=subprocess.STDOUT)
    output = output.strip()
    if status != 0:
        raise CacheError(f"{command} --version fails: {(output.splitlines() or ['it prints nothing'])[-1]}")
    return output


def write_facts(link: Path, facts: Dict[str, Any]) -> None:
    """Write the facts of an entry next to the link to it."""
    texts.write(link.with_suffix(".json"), json.dumps(facts, indent=1) + "\n")


def provide(kind: Callable[..., Entry]) -> None:
    """Provide the entry that the first argument of the program describes in JSON; see above.

    :raises SystemExit: it cannot be provided, and the error was printed; the status ``contract.UNSUPPORTED`` means that
        a check skips.
    """
    parts = json.loads(sys.argv[1])
    link = Path(parts.pop("link"))
    # A builder may start processes with their own groups: all end with the step.
    processes.supervise()
    try:
        entry = kind(**parts)
        entry.ensure()
        entry.hand_over(link)
        print(entry.target)
    except UnsupportedError as error:
        print(f"error: {texts.sanitized(str(error))}", file=sys.stderr)
        sys.exit(contract.UNSUPPORTED)
    except (CacheError, OSError, ValueError) as error:
        sys.exit(f"error: {texts.sanitized(str(error))}")
