"""The log of a build: where the output of its commands is written and kept, and which line of it names the failure.

Standard library only, Python 3.6 or newer.
"""

import contextlib
import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Iterator, List, Optional

from containercheck.node import texts

#: Seconds between two signs of life of a long build.
HEARTBEAT = 30.0
#: Largest part of a log that is read, from its end, in bytes.
MAX_LOG_BYTES = 16 << 20
#: Message of programs that meet a full disk.
DISK_FULL = "No space left on device"
#: Messages of apt, debootstrap, pip, Maven, git and curl that reach no server.
NO_NETWORK = re.compile(
    r"Temporary failure (?:in name resolution|resolving)|Could not resolve|Name or service not known"
    r"|Could not connect to|Network is unreachable|No route to host|Connection refused|Connection timed out"
    r"|NewConnectionError|Failed getting release file",
    re.IGNORECASE,
)


class CacheError(Exception):
    """An entry of a cache cannot be provided; the message says why and what to do, in one or two lines."""


class UnsupportedError(CacheError):
    """The entry does not exist for machines like the partition's."""


class Logged:
    """An entry of a cache that commands build, with a log of their output.

    The log of the last build by each user on each machine stays beside the entry. During the build the log lies in the
    build directory, which no other user can have made.
    """

    #: Name and path of the entry.
    name, path = "", Path()
    #: What a check lacks without the entry, and the alternative to a build on another machine; for messages.
    lacking, instead = "software", ""
    #: Name of the cache in messages, and the extra of a site that sets its directory.
    kind, setting = "cache", "cache"
    #: Verb for the build, in messages.
    doing, done = "building", "built"
    #: Path of the log during the build.
    _open_log: Optional[Path] = None

    @property
    def log(self) -> Path:
        """Return the path at which the log is kept."""
        return self.path.parent / f"{self.name}-{os.geteuid()}-{os.uname().nodename}.log"

    @property
    def written_log(self) -> Path:
        """Return the path at which the log is now."""
        return self._open_log or self.log

    @contextlib.contextmanager
    def logging_in(self, work: Path) -> Iterator[None]:
        """Write the log into a build directory, and keep it beside the entry afterwards."""
        self._open_log = work / "log"
        try:
            yield
        finally:
            written, self._open_log = self._open_log, None
            # Another user may have put a file there: a link is not followed, and we may not be allowed to replace it.
            with contextlib.suppress(OSError):
                written.replace(self.log)

    def run(self, commands: List[List[str]], **options: Any) -> None:
        """Run commands of the build, write their output to the log, and print a sign of life from time to time.

        :param options: passed to :func:`subprocess.run`.
        :raises UnsupportedError: the program of a command is not on the PATH.
        :raises CacheError: a command fails; the message has the line of its output that says why.
        """
        with self.alive(), self.written_log.open("wb") as stream:
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
        """Print a sign of life from time to time, until the block ends."""
        finished = threading.Event()
        started = time.monotonic()

        def beat() -> None:
            while not finished.wait(HEARTBEAT):
                seconds = time.monotonic() - started
                print(f"{self.name}: still {self.doing} after {seconds:.0f} s (log: {self.written_log})", flush=True)

        threading.Thread(target=beat, daemon=True).start()
        try:
            yield
        finally:
            finished.set()

    def _failure(self) -> str:
        """Return the message of a failed build, from the end of its log."""
        if self.space_ran_out():
            advice = f"free some, or set {self.setting} in the site's extras"
            return f"no space left while {self.doing} {self.name} in {self.path.parent}: {advice}"
        unreached = self.unreached()
        if unreached:
            return (
                f"no network while {self.doing} {self.name} ({unreached}): set http_proxy and https_proxy, or a mirror "
                f"(pip's and apt's own settings; image_mirror of the site's extras)\nthe whole log: {self.log}"
            )
        return self.failed(self.last_words())

    def space_ran_out(self) -> bool:
        """Tell whether a command failed because the disk is full."""
        output = texts.tail(self.written_log)
        return DISK_FULL in output or shutil.disk_usage(str(self.path.parent)).free < 16 << 20

    def unreached(self) -> str:
        """Return the first line of the log that says that a server was not reached; empty where all were."""
        return next((line.strip() for line in self.lines() if NO_NETWORK.search(line)), "")

    def failed(self, why: str) -> str:
        """Return the message of a failed build, in one or two lines."""
        return f"building {self.name} failed: {why}\nthe whole log: {self.log}"

    def lines(self) -> List[str]:
        """Return the lines of the log, without the escape sequences of colours."""
        return re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", texts.tail(self.written_log, MAX_LOG_BYTES)).splitlines()

    def last_words(self) -> str:
        """Return the line of the log that says why the build failed: the last error, or the last line."""
        lines = [line.strip() for line in self.lines() if line.strip()] or ["it printed nothing"]
        telling = [line for line in lines if line.startswith(("FATAL", "E: ", "ERROR", "Error response"))] or lines
        return telling[-1]
