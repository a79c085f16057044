"""How far ReFrame is: one line that moves at the end of a terminal, or in a log a line now and then.

It is read from what ReFrame prints, and from the jobs' own outputs: images are built and rounds are run for minutes, of
which ReFrame says nothing.
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

#: Seconds between two lines in a log, and between two looks of the line that moves.
HEARTBEAT, MOVES = 30.0, 1.0
#: Part of the work that has to be done before the rest is foreseen.
TELLING = 0.05
#: How ReFrame says that a case ended: result, which of how many, hash and place. It colors the result.
ENDED = re.compile(r"^\[ *([A-Z]+) *\] \( *\d+/\d+\) .*(/[0-9a-f]+ @\S+)")
COLOR = re.compile(r"\x1b\[[0-9;]*m")
#: Erases the line of a terminal.
ERASED = "\r\x1b[K"


@dataclass(frozen=True)
class Awaited:
    """A case that is to be run.

    :ivar name: for people.
    :ivar seconds: that it is expected to take.
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
    """Return a case as ReFrame will name it in what it prints, with what is known of it.

    :param raw: ReFrame's test case of a report.
    """
    return f"/{raw['hashcode']} @{raw['system']}:{raw['partition']}+{raw['environ']}", Awaited(name, seconds, raw)


class Told(Protocol):
    """Something that can say how far it is."""

    def line(self, within: float) -> str:
        """Return that, with what was printed in the last seconds."""


class Progress:
    """One run of ReFrame as it goes.

    :ivar done: how many cases ended.
    :ivar failed: how many of them failed.
    """

    def __init__(self, known: Mapping[str, Awaited], stage: Path, rows: Path | None = None) -> None:
        """Nothing has ended yet.

        :param known: what is run, as far as that is known.
        :param stage: ReFrame's stage directory.
        :param rows: file that cases announce their rows in.
        """
        self._known, self._stage, self._rows = dict(known), stage, rows
        self._began = time.monotonic()
        self._all = sum(one.seconds for one in known.values())
        self._finished = 0.0
        self.done = self.failed = 0

    def saw(self, line: str) -> Ended | None:
        """Take in a line that ReFrame printed, and return the case that ended with it."""
        found = ENDED.match(COLOR.sub("", line))
        if not found or found[1] == "SKIP":
            return None
        self.done += 1
        self.failed += found[1] in ("FAIL", "ABORT")
        one = self._known.get(found[2])
        self._finished += one.seconds if one else 0.0
        rows = announcements.told(self._rows, found[2]) if self._rows else []
        result = {"OK": "pass"}.get(found[1], found[1].lower())
        return Ended(one.name if one else found[2], result, one.raw if one else {}, rows)

    def line(self, within: float) -> str:
        """Return how far it is, with the last line of the job that printed in the last seconds; nothing for no news."""
        doing = self._doing(within)
        parts = [self._count()] if self._known else []
        return "; ".join([*parts, *([doing] if doing else []), *self._left()]) if parts or doing else ""

    def _count(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.done} of {len(self._known)} done{failed}"

    def _left(self) -> list[str]:
        """Return how long the rest takes, if it goes on as it did: builds and waits in a queue included."""
        if not self._all or not TELLING < self._finished / self._all < 1:
            return []
        left = (time.monotonic() - self._began) * (self._all / self._finished - 1)
        return [f"some {left / 60:.0f} min left" if left > 90 else f"some {left:.0f} s left"]

    def _doing(self, within: float) -> str:
        job, said = sign_of_life(self._stage, within)
        if not job:
            return ""
        mark = f"/{job.rpartition('_')[2]} @"
        return f"{next((one.name for key, one in self._known.items() if key.startswith(mark)), job)}: {said}"


def sign_of_life(stage: Path, seconds: float) -> tuple[str, str]:
    """Return the job that printed last, within the last seconds, and its last line; two empty texts for none."""
    newest, changed = None, time.time() - seconds
    # system/partition/environment/check/, and below repeat/ the same; deeper are the applications' own files.
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
    """Standard output: lines that stay, and beneath them in a terminal the one that moves."""

    def __init__(self) -> None:
        """Nothing moves yet."""
        self._lock = threading.Lock()
        self._moving = ""

    @property
    def is_terminal(self) -> bool:
        """Whether a line can move on it."""
        return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def show(self, line: bytes) -> None:
        """Print a line that stays, as a whole, whichever thread it comes from."""
        with self._lock:
            self._write((ERASED.encode() if self._moving else b"") + line + self._moving.encode(errors="replace"))

    def move(self, text: str) -> None:
        """Show this as the moving line, cut to the terminal's width; nothing for none."""
        width = shutil.get_terminal_size().columns - 1
        with self._lock:
            before, self._moving = self._moving, text[:width]
            if before or text:
                self._write((ERASED + self._moving).encode(errors="replace"))

    def _write(self, data: bytes) -> None:
        """Write it. Where nobody reads it any more, the session stops."""
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            # As if somebody had asked for it. Only the main thread is woken by it from its waiting.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


@contextlib.contextmanager
def shown(progress: Told, screen: Screen) -> Iterator[None]:
    """Tell how far it is, until the block is left."""
    over = threading.Event()

    def tell() -> None:
        while not over.wait(MOVES if screen.is_terminal else HEARTBEAT):
            if screen.is_terminal:
                screen.move(progress.line(HEARTBEAT))
            else:
                line = progress.line(HEARTBEAT + 5)
                if line:
                    screen.show(f"[ {line} ]\n".encode(errors="replace"))

    telling = threading.Thread(target=tell, daemon=True)
    telling.start()
    try:
        yield
    finally:
        over.set()
        telling.join()
        screen.move("")
