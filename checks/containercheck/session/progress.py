"""Show the progress of ReFrame: in a terminal as a moving last line, in a log as a line every :data:`HEARTBEAT`.

Cases announce their end (containercheck/reframe_internals.py). Meanwhile the last line of a job's output is shown, as
ReFrame prints nothing for minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from containercheck.job import texts
from containercheck.results.cases import Case, collect, short_name
from containercheck.results.selections import FAILED, START

#: Seconds between two lines in a log.
HEARTBEAT = 30.0
#: Part of the work that has to be done before the time left is estimated.
TELLING = 0.05
#: Erases the line of a terminal.
ERASED = "\r\x1b[K"


class View:
    """The form of a session's output; this class shows ReFrame's output only."""

    def head(self, cases: Sequence[Case]) -> None:
        """Show which cases of a dry run are going to run."""

    def printed(self, line: str) -> str:
        """Return the text that is shown for a line of ReFrame."""
        return line

    def ended(self, case: Case) -> str:
        """Return the text that is shown for a case that has ended."""
        return ""

    def collected(self, cases: Sequence[Case]) -> None:
        """Show the rest of a run's cases, when ReFrame has written its report."""


def new_lines(path: Path) -> texts.NewLines:
    """Return a reader of the lines that follow the end that a file has now."""
    return texts.NewLines(path, path.stat().st_size if path.exists() else 0)


class Screen:
    """Standard output: lines that stay, and in a terminal a moving line beneath them."""

    def __init__(self) -> None:
        """Begin without a moving line."""
        self.is_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._moving = ""

    def show(self, lines: str, moving: str = "") -> None:
        """Print lines that stay, and the moving line, cut to the terminal's width."""
        before, self._moving = self._moving, moving[: shutil.get_terminal_size().columns - 1]
        if lines or before != self._moving:
            text = (ERASED if before else "") + lines + self._moving
            sys.stdout.buffer.write(text.encode(errors="surrogateescape"))
            sys.stdout.buffer.flush()


class Progress:
    """The progress of one run of ReFrame.

    :ivar done: number of cases that ended.
    :ivar failed: number of cases that failed.
    """

    def __init__(self, known: Sequence[Case], stage: Path, log: Path, announced: Path, view: View) -> None:
        """Begin before any case has ended.

        :param known: the cases that are run, as far as they are known.
        :param stage: ReFrame's stage directory.
        :param log: file that ReFrame prints into.
        :param announced: file in which cases that have ended are announced.
        """
        self._known, self._stage = {case.key: case for case in known}, stage
        self._log_file, self._log, self._announced = log, new_lines(log), new_lines(announced)
        self._view, self._screen = view, Screen()
        self._began = self._beat = time.monotonic()
        self._since = time.time()
        self._all = sum(map(_seconds, known))
        self._is_local = all(case.scheduler == "local" for case in known)
        self._finished = self._taken = 0.0
        self.done = self.failed = 0
        self._is_broken = False

    def show(self, has_ended: bool = False) -> None:
        """Show the lines and the ended cases since the last call, and the progress.

        :raises BrokenPipeError: the reader of the output is gone.
        """
        if self._is_broken:
            return
        try:
            lines, moving = self.news(), ""
            if self._screen.is_terminal and not has_ended:
                moving = self.line()
            elif not has_ended and time.monotonic() - self._beat >= HEARTBEAT:
                self._beat = time.monotonic()
                line = self.line()
                lines += f"[ {line} ]\n" if line else ""
            self._screen.show(lines, moving)
        except BrokenPipeError:
            self._is_broken = True
            raise
        except Exception:
            # ReFrame goes on without the display; the log has the error.
            self._is_broken = True
            with contextlib.suppress(OSError), self._log_file.open("a", encoding="utf-8") as log:
                traceback.print_exc(file=log)

    def news(self) -> str:
        """Return the text for new lines of the log, and for cases that ended, since the last call."""
        printed = (line.decode(errors="surrogateescape") + "\n" for line in self._log.read())
        shown = [self._view.printed(line) for line in printed]
        for line in self._announced.read():
            # A full disk may have cut it; then the case is shown when the report is there.
            with contextlib.suppress(ValueError):
                shown.append(self._view.ended(self._counted(json.loads(line))))
        return "".join(shown)

    def _counted(self, raw: dict[str, Any]) -> Case:
        """Count a case that ended, and return it with the label that it has among all cases."""
        (case,) = collect([{"runs": [{"testcases": [raw]}]}])
        known = self._known.get(case.key, case)
        self.done += 1
        self.failed += case.result in FAILED
        self._finished += _seconds(known)
        self._taken += START + (case.seconds or 0.0)
        return replace(case, label=known.label)

    def line(self) -> str:
        """Return the progress, with the last line of the job that printed last; empty before the first one."""
        job, printed = sign_of_life(self._stage, self._since)
        names = {case.hashcode: short_name(case) for case in self._known.values()}
        doing = f"{names.get(job.rpartition('_')[2], job)}: {printed or 'no output yet'}" if job else ""
        failed = f", {self.failed} failed" if self.failed else ""
        count = f"{self.done} of {len(self._known)} done{failed}" if self._known else ""
        return "; ".join(filter(None, [count, doing, self._left() if count or doing else ""]))

    def _left(self) -> str:
        """Return an estimate of the time left from the speed so far, with waits in a queue.

        On this machine, waits for other sessions and builds do not count: they need not come again.
        """
        if not self._all or not TELLING < self._finished / self._all < 1:
            return ""
        taken = self._taken if self._is_local else time.monotonic() - self._began
        left = taken * (self._all / self._finished - 1)
        return f"about {left / 60:.0f} min left" if left > 90 else f"about {left:.0f} s left"


def _seconds(case: Case) -> float:
    """Return the seconds that a case is expected to take."""
    return case.expected.get("expected", START)


def sign_of_life(stage: Path, since: float) -> tuple[str, str]:
    """Return the job that printed last, since a time of the epoch, and its last line; two empty texts for none.

    The last line is empty while the job has printed nothing.
    """
    newest, changed = None, since
    # system/partition/environment/check/; deeper directories have files of the applications.
    for path in stage.glob("*/*/*/*/rfm_*.out"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime > changed:
                newest, changed = path, path.stat().st_mtime
    if newest is None:
        return "", ""
    lines: list[str] = []
    with contextlib.suppress(OSError), newest.open("rb") as output:
        output.seek(max(0, os.fstat(output.fileno()).st_size - 4096))
        lines = output.read().decode(errors="replace").splitlines()
    return newest.parent.name, next((line.strip() for line in reversed(lines) if line.strip()), "")
