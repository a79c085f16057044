"""Show the progress of ReFrame: in a terminal in one moving line at its end, in a log in a line now and then.

It follows from ReFrame's output and from that of the jobs: images are built and rounds are run for minutes, during
which ReFrame prints nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from containercheck.results import announcements
from containercheck.results.cases import Case

#: Seconds between two lines in a log, and between two updates of the moving line.
HEARTBEAT, MOVES = 30.0, 1.0
#: Part of the work that has to be done before the time left is estimated.
TELLING = 0.05
#: ReFrame's line for a case that ended: result, number of cases, hash and partition. It colors the result.
ENDED = re.compile(r"^\[ *([A-Z]+) *\] \( *\d+/\d+\) .*(/[0-9a-f]+ @\S+)")
COLOR = re.compile(r"\x1b\[[0-9;]*m")
#: Erases the line of a terminal.
ERASED = "\r\x1b[K"


@dataclass(frozen=True)
class Awaited:
    """A case that is to be run.

    :ivar name: name for people.
    :ivar seconds: expected duration.
    :ivar raw: ReFrame's test case of the report that foresaw it.
    """

    name: str
    seconds: float
    raw: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """A case that ended.

    :ivar name: for people.
    :ivar result: as a report has it, such as ``pass``.
    :ivar raw: ReFrame's test case of the report that foresaw it; empty where none did.
    :ivar rows: its figures, as they are stored; none where it did not come to them.
    """

    name: str
    result: str
    raw: Mapping[str, Any]
    rows: Sequence[Any]


class View(Protocol):
    """What a session shows of itself."""

    def head(self, cases: Sequence[Case]) -> None:
        """Show what is going to run, of the cases of a dry run."""

    def lines(self, printed: str, ended: Ended | None) -> Iterable[str]:
        """Return what is shown of a line that ReFrame printed, and with which a case may have ended."""

    def collected(self, cases: Sequence[Case]) -> None:
        """Show what else there is to tell of the session's cases, after a run of ReFrame."""


class Verbatim:
    """Shows what ReFrame prints, and nothing else."""

    def head(self, cases: Sequence[Case]) -> None:
        """Show nothing: ReFrame has a heading of its own."""

    def lines(self, printed: str, ended: Ended | None) -> Iterable[str]:
        """Return all of it."""
        return [printed]

    def collected(self, cases: Sequence[Case]) -> None:
        """Show nothing: ReFrame tells at its end what failed."""


def awaited(raw: Mapping[str, Any], name: str, seconds: float) -> tuple[str, Awaited]:
    """Return a case with the name that it has in ReFrame's output.

    :param raw: ReFrame's test case of a report.
    """
    return f"/{raw['hashcode']} @{raw['system']}:{raw['partition']}+{raw['environ']}", Awaited(name, seconds, raw)


class ProgressText(Protocol):
    """Work that can describe its progress."""

    def line(self, within: float) -> str:
        """Return the progress, with the last line that was printed within these seconds."""


class Progress:
    """The progress of one run of ReFrame.

    :ivar done: number of cases that ended.
    :ivar failed: number of cases that failed.
    """

    def __init__(self, known: Mapping[str, Awaited], stage: Path, rows: Path | None = None) -> None:
        """Begin before any case has ended.

        :param known: the cases that are run, as far as they are known.
        :param stage: ReFrame's stage directory.
        :param rows: file that cases announce their rows in.
        """
        self._known, self._stage, self._rows = dict(known), stage, rows
        self._began = time.monotonic()
        self._all = sum(case.seconds for case in known.values())
        self._finished = 0.0
        self.done = self.failed = 0

    def read_line(self, line: str) -> Ended | None:
        """Count a case from a line that ReFrame printed, and return it."""
        match = ENDED.match(COLOR.sub("", line))
        if not match or match[1] == "SKIP":
            return None
        self.done += 1
        self.failed += match[1] in ("FAIL", "ABORT")
        case = self._known.get(match[2], Awaited(match[2], 0.0))
        self._finished += case.seconds
        rows = announcements.told(self._rows, match[2]) if self._rows else []
        return Ended(case.name, {"OK": "pass"}.get(match[1], match[1].lower()), case.raw, rows)

    def line(self, within: float) -> str:
        """Return the progress, with the last line of the job that printed in the last seconds; empty without news."""
        doing = self._doing(within)
        parts = [self._count()] if self._known else []
        return "; ".join([*parts, *([doing] if doing else []), *self._left()]) if parts or doing else ""

    def _count(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.done} of {len(self._known)} done{failed}"

    def _left(self) -> list[str]:
        """Return an estimate of the time left from the speed so far, with builds and waits in a queue."""
        if not self._all or not TELLING < self._finished / self._all < 1:
            return []
        left = (time.monotonic() - self._began) * (self._all / self._finished - 1)
        return [f"some {left / 60:.0f} min left" if left > 90 else f"some {left:.0f} s left"]

    def _doing(self, within: float) -> str:
        job, line = sign_of_life(self._stage, within)
        if not job:
            return ""
        mark = f"/{job.rpartition('_')[2]} @"
        name = next((case.name for key, case in self._known.items() if key.startswith(mark)), job)
        return f"{name}: {line or 'no output yet'}"


def sign_of_life(stage: Path, seconds: float) -> tuple[str, str]:
    """Return the job that printed last, within the last seconds, and its last line; two empty texts for none.

    The last line is empty while the job has printed nothing.
    """
    newest, changed = None, time.time() - seconds
    # system/partition/environment/check/, also below repeat/; deeper directories have files of the applications.
    for pattern in ("*/*/*/*/rfm_*.out", "repeat/*/*/*/*/rfm_*.out"):
        for path in stage.glob(pattern):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime > changed:
                    newest, changed = path, path.stat().st_mtime
    return (newest.parent.name, last_line(newest)) if newest is not None else ("", "")


def last_line(path: Path) -> str:
    """Return the last line of a job's output that is not empty; an empty text where there is none."""
    with contextlib.suppress(OSError), path.open("rb") as output:
        output.seek(max(0, os.fstat(output.fileno()).st_size - 4096))
        lines = output.read().decode(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ""


class Screen:
    """Standard output: lines that stay, and in a terminal a moving line beneath them."""

    def __init__(self) -> None:
        """Begin without a moving line."""
        self._lock = threading.Lock()
        self._moving = ""

    @property
    def is_terminal(self) -> bool:
        """Whether a line can move on it."""
        return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def show(self, line: bytes) -> None:
        """Print a line that stays, in one piece, from any thread."""
        with self._lock:
            self._write((ERASED.encode() if self._moving else b"") + line + self._moving.encode(errors="replace"))

    def move(self, text: str) -> None:
        """Show the text as the moving line, cut to the terminal's width; an empty text removes the line."""
        width = shutil.get_terminal_size().columns - 1
        with self._lock:
            before, self._moving = self._moving, text[:width]
            if before or text:
                self._write((ERASED + self._moving).encode(errors="replace"))

    def _write(self, data: bytes) -> None:
        """Write data; if the reader of the pipe is gone, stop the session."""
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # The same as a request to end. Only a signal to the main thread ends its wait.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


@contextlib.contextmanager
def shown(progress: ProgressText, screen: Screen) -> Iterator[None]:
    """Show the progress until the block is left."""
    ended = threading.Event()

    def show_repeatedly() -> None:
        while not ended.wait(MOVES if screen.is_terminal else HEARTBEAT):
            if screen.is_terminal:
                screen.move(progress.line(HEARTBEAT))
            else:
                line = progress.line(HEARTBEAT + 5)
                if line:
                    screen.show(f"[ {line} ]\n".encode(errors="replace"))

    thread = threading.Thread(target=show_repeatedly, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        screen.move("")
