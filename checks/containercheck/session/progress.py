"""Show the progress of ReFrame: in a terminal in one moving line at its end, in a log in a line now and then.

Cases announce their end (results/announcements.py). The output of jobs shows what is built or run meanwhile, as ReFrame
prints nothing for minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from containercheck.results import open_verdicts
from containercheck.results.cases import Case, collect
from containercheck.results.formatting import short_name
from containercheck.results.selections import FAILED

#: Seconds between two lines in a log, and between two updates of the moving line.
HEARTBEAT, MOVES = 30.0, 1.0
#: Part of the work that has to be done before the time left is estimated.
TELLING = 0.05
#: A color in ReFrame's output.
COLOR = re.compile(r"\x1b\[[0-9;]*m")
#: Erases the line of a terminal.
ERASED = "\r\x1b[K"


class View(Protocol):
    """The form in which a session shows itself."""

    def head(self, cases: Sequence[Case]) -> None:
        """Show what is going to run, of the cases of a dry run."""

    def printed(self, line: str) -> str:
        """Return what is shown of a line that ReFrame printed."""

    def ended(self, case: Case) -> str:
        """Return what is shown of a case that has ended."""

    def collected(self, cases: Sequence[Case]) -> None:
        """Show the rest of a run's cases, when ReFrame has written its report."""


class Verbatim:
    """Shows what ReFrame prints, and nothing else."""

    def head(self, cases: Sequence[Case]) -> None:
        """Show nothing: ReFrame has a heading of its own."""

    def printed(self, line: str) -> str:
        """Return all of it."""
        return line

    def ended(self, case: Case) -> str:
        """Return nothing: ReFrame prints it."""
        return ""

    def collected(self, cases: Sequence[Case]) -> None:
        """Show nothing: ReFrame prints at its end what failed."""


class Lines:
    """The lines of a file that is being written.

    :ivar path: path of the file.
    """

    def __init__(self, path: Path) -> None:
        """Begin at the end that the file has now."""
        self.path = path
        self._at = path.stat().st_size if path.exists() else 0

    def new(self) -> list[str]:
        """Return the lines that were completed since the last call."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._at)
                complete = file.read().rpartition(b"\n")[0::2]
        except OSError:
            return []
        data = complete[0] and complete[0] + b"\n"
        self._at += len(data)
        return data.decode(errors="surrogateescape").splitlines(keepends=True)


class Progress:
    """The progress of one run of ReFrame.

    :ivar done: number of cases that ended.
    :ivar failed: number of cases that failed.
    """

    def __init__(self, known: Sequence[Case], stage: Path, log: Path, announced: Path) -> None:
        """Begin before any case has ended.

        :param known: the cases that are run, as far as they are known.
        :param stage: ReFrame's stage directory.
        :param log: file that ReFrame prints into.
        :param announced: file in which cases that have ended are announced.
        """
        self._known, self._stage = {case.key: case for case in known}, stage
        self._log, self._announced = Lines(log), Lines(announced)
        self._began = time.monotonic()
        self._all = sum(map(_seconds, known))
        self._finished = 0.0
        self.done = self.failed = 0

    def news(self, view: View) -> str:
        """Return what is shown of what was printed, and of the cases that ended, since the last call."""
        shown = [view.printed(line) for line in self._log.new()]
        for line in self._announced.new():
            # A full disk may have cut it; then the case is shown when the report is there.
            with contextlib.suppress(ValueError):
                shown.append(view.ended(self._counted(json.loads(line))))
        return "".join(shown)

    def log_exception(self) -> None:
        """Append the current exception to the log."""
        with contextlib.suppress(OSError), self._log.path.open("a", encoding="utf-8") as log:
            traceback.print_exc(file=log)

    def _counted(self, raw: dict[str, Any]) -> Case:
        """Count a case that ended, and return it with the label that it has among all cases."""
        (case,) = collect([{"runs": [{"testcases": [raw]}]}])
        known = self._known.get(case.key, case)
        self.done += 1
        self.failed += case.result in FAILED
        self._finished += _seconds(known)
        return replace(case, label=known.label)

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
        return [f"about {left / 60:.0f} min left" if left > 90 else f"about {left:.0f} s left"]

    def _doing(self, within: float) -> str:
        job, line = sign_of_life(self._stage, within)
        if not job:
            return ""
        mark = job.rpartition("_")[2]
        name = next((short_name(case) for case in self._known.values() if case.hashcode == mark), job)
        return f"{name}: {line or 'no output yet'}"


def _seconds(case: Case) -> float:
    """Return the seconds that a case is expected to take."""
    return case.expected.get("expected", open_verdicts.START)


def sign_of_life(stage: Path, seconds: float) -> tuple[str, str]:
    """Return the job that printed last, within the last seconds, and its last line; two empty texts for none.

    The last line is empty while the job has printed nothing.
    """
    newest, changed = None, time.time() - seconds
    # system/partition/environment/check/; deeper directories have files of the applications.
    for path in stage.glob("*/*/*/*/rfm_*.out"):
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
        """Print lines that stay, in one piece, from any thread."""
        with self._lock:
            if not line:
                return
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
def shown(progress: Progress, view: View, problems: list[str]) -> Iterator[None]:
    """Show what is printed, what ends and the progress until the block is left.

    :param problems: gets the first exception that this ends with; ReFrame goes on without it.
    """
    screen, ended = Screen(), threading.Event()

    def show_news() -> None:
        if problems:
            return
        try:
            screen.show(progress.news(view).encode(errors="surrogateescape"))
        except Exception as error:
            problems.append(f"some of ReFrame's output was not shown: {type(error).__name__}: {error}")
            progress.log_exception()

    def show_repeatedly() -> None:
        beat = time.monotonic()
        while not ended.wait(MOVES):
            show_news()
            if screen.is_terminal:
                screen.move(progress.line(HEARTBEAT))
            elif time.monotonic() - beat >= HEARTBEAT:
                beat = time.monotonic()
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
        show_news()
