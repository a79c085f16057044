"""What the commands of a build print: where it goes while they run, where it stays, and what of it tells most.

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
#: Most bytes that are read of a log, at its end.
LOGGED = 16 << 20
#: What programs say of a full disk.
FULL = "No space left on device"


class CacheError(Exception):
    """A thing cannot be had; the message says why and what to do, in one or two lines."""


class UnsupportedError(CacheError):
    """The thing does not exist for machines like the partition's."""


class Logged:
    """A thing that is built by commands, with a log of what they print.

    Of each user and machine there is the last build's, beside the thing. While it is built, the log is in the directory
    that it is built in, which nobody else can have made.
    """

    #: What it is called, and its place.
    name, path = "", Path()
    #: What a check lacks without it, and what there is to do but to build it on another machine.
    lacking, instead = "software", ""
    #: What the cache is called in messages, and the extra of a site that moves it elsewhere.
    kind, setting = "cache", "cache"
    #: What is done to have it, in messages.
    doing, done = "building", "built"
    #: The log while it is built.
    _open_log: Optional[Path] = None

    @property
    def log(self) -> Path:
        """Where the log stays."""
        return self.path.parent / f"{self.name}-{os.geteuid()}-{os.uname().nodename}.log"

    @property
    def written_log(self) -> Path:
        """Where the log is now."""
        return self._open_log or self.log

    @contextlib.contextmanager
    def logging_in(self, work: Path) -> Iterator[None]:
        """Have the log in a directory of ours, and leave it beside the thing afterwards."""
        self._open_log = work / "log"
        try:
            yield
        finally:
            written, self._open_log = self._open_log, None
            # Another user may have put something there, which is not followed, and may not be ours to replace.
            with contextlib.suppress(OSError):
                written.replace(self.log)

    def run(self, commands: List[List[str]], **options: Any) -> None:
        """Run commands of the build into the log, with a sign of life from time to time.

        :param options: for :func:`subprocess.run`.
        :raises CacheError: one is not there, or fails; says what it printed.
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
        """Print a sign of life from time to time."""
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
        """Say what went wrong, from the end of the build's log."""
        if self.space_ran_out():
            advice = f"free some, or set {self.setting} in the site's extras"
            return f"no space left while {self.doing} {self.name} in {self.path.parent}: {advice}"
        return self.failed(self.last_words())

    def space_ran_out(self) -> bool:
        """Tell whether that is why a command failed."""
        said = texts.tail(self.written_log)
        return FULL in said or shutil.disk_usage(str(self.path.parent)).free < 16 << 20

    def failed(self, why: str) -> str:
        """Say in one line or two what could not be had."""
        return f"building {self.name} failed: {why}\nthe whole log: {self.log}"

    def lines(self) -> List[str]:
        """Return the lines of the log, without the colours that some programs print where none are wanted."""
        return re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", texts.tail(self.written_log, LOGGED)).splitlines()

    def last_words(self) -> str:
        """Return the line of the log that tells most: the last error, or the last of all."""
        lines = [line.strip() for line in self.lines() if line.strip()] or ["it printed nothing"]
        telling = [line for line in lines if line.startswith(("FATAL", "E: ", "ERROR", "Error response"))] or lines
        return telling[-1]
