"""How long a job is waited for: ReFrame itself waits as long as a scheduler shows it as not ended."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ReframeError
from reframe.core.logging import getlogger
from reframe.core.schedulers import Job

from containercheck.site import slurm

#: Seconds that a job on this very machine may wait for its turn, while others measure or build.
TURN = 6 * 3600.0
#: Seconds beyond its limit after which a job that still runs is given up; so long its scheduler has to end it.
BEYOND = 600.0
#: Seconds between two questions to Slurm.
INTERVAL = 15.0
#: Seconds in which what a job wrote appears here: file systems of the network keep what they last saw of a directory.
LATE = 30.0
_POLL = 1.0


class Bounds:
    """What stands in the place of a job's scheduler, and takes the job for ended where that does not come to an end.

    A job that is given up is cancelled. What its runs left behind counts all the same. Everything but the end is the
    scheduler's own.

    :param job: not yet submitted.
    :param limit: seconds that it may take, once it runs.
    :param pending: seconds that it may wait and run in all; None for as long as the queue takes.
    :ivar why: why it was given up; empty where it was not.
    """

    def __init__(self, job: Job, limit: float, pending: float | None = None) -> None:
        """Take the scheduler's place."""
        self._scheduler, self._job = job.scheduler, job
        self._is_local = self._scheduler.registered_name == "local"
        self._limit, self._pending, self.why = limit, pending, ""
        self._asked = 0.0
        self._since: dict[str, tuple[str, float]] = {}
        job._scheduler = self

    def __getattr__(self, name: str) -> Any:
        """Return what the scheduler has by this name."""
        if name == "_scheduler":
            raise AttributeError(name)
        return getattr(self._scheduler, name)

    def finished(self, job: Job) -> bool:
        """Tell whether the job has ended, or was given up."""
        if self._scheduler.finished(job):
            return True
        if not self.why:
            self.why = self._overdue(job)
            if self.why:
                getlogger().warning(f"job {job.jobid} is given up: {self.why}")
                with contextlib.suppress(ReframeError, OSError):
                    self._scheduler.cancel(job)
        # Here it ends within seconds, and the runner writes down what it has.
        return bool(self.why) and not self._is_local

    def wait(self, job: Job) -> None:
        """Wait until it has ended, or was given up."""
        while not self.finished(job):
            self._scheduler.poll(job)
            time.sleep(_POLL)

    def outlast(self, finished: Callable[[], bool]) -> str | None:
        """Wait until the job has really ended, and what it wrote is there; return Slurm's state of it, if there is one.

        :param finished: tells from what the job wrote that nothing needs to be waited for.
        """
        if self.why or self._is_local:
            return None
        state = slurm.outlast(self._job, finished) if slurm.is_slurm(self._job) else None
        if state in ("COMPLETED", None) and not self._job.exitcode:
            end = time.monotonic() + LATE
            while not finished() and time.monotonic() < end:
                time.sleep(_POLL)
        return state

    def end(self, state: str | None, stderr: Path, max_pending_time: float | None) -> str:
        """Return why the job ended early: see :func:`slurm.end_of_job`."""
        return self.why or slurm.end_of_job(self._job, state, stderr, max_pending_time)

    def _overdue(self, job: Job) -> str:
        """Return why the job is not to be waited for any more; empty where it is."""
        elapsed = time.time() - job.submit_time
        if self._is_local:
            most = self._limit + TURN
            said = f"it takes longer than {most:.0f} s: {self._limit:.0f} s of its own, and {TURN:.0f} s to wait for"
            return f"{said} others who measure or build on this machine" if elapsed > most else ""
        if self._pending is not None and elapsed > self._pending:
            return f"it had not ended after {self._pending:.0f} s ({self._scheduler.registered_name} says {job.state})"
        if self._lasts("RUNNING" if job.state == "RUNNING" else "", self._limit + BEYOND):
            return f"it runs longer than its limit of {self._limit:.0f} s, and nobody ended it"
        if not slurm.is_slurm(job) or time.monotonic() - self._asked < INTERVAL:
            return ""
        self._asked = time.monotonic()
        return self._stuck(job)

    def _stuck(self, job: Job) -> str:
        try:
            state, restarts = slurm.state_of(job.jobid), slurm.restarts_of(job.jobid)
        except slurm.Unreachable:
            state, restarts = "silent", 0
        if restarts:
            return "Slurm requeued it, and its second start would mix its results with those of the first"
        kind = state if state in slurm.STUCK or state == "silent" else "" if slurm.is_alive(state) else "ended"
        if not self._lasts(kind, slurm.PATIENCE, "slurm"):
            return ""
        if kind == "silent":
            return f"Slurm's controller has not answered for {slurm.PATIENCE:g} s"
        return f"Slurm has said {state} for {slurm.PATIENCE:g} s"

    def _lasts(self, kind: str, seconds: float, of: str = "job") -> bool:
        """Tell whether something has been as it is for so long; an empty text for what may be so."""
        known, since = self._since.get(of, ("", 0.0))
        if kind != known:
            since = time.monotonic()
            self._since[of] = kind, since
        return bool(kind) and time.monotonic() - since > seconds
