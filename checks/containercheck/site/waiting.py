"""Limits to the wait for a job: ReFrame itself waits as long as the scheduler does not show the job as ended."""

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

#: Longest wait of a job on this machine for others that measure or build, in seconds.
TURN = 6 * 3600.0
#: Time that a scheduler has to end a job after its limit, in seconds; then the job is given up.
BEYOND = 600.0
#: Seconds between two queries of Slurm.
INTERVAL = 15.0
#: Longest delay with which files of a job appear on this machine, in seconds: network file systems cache directories.
LATE = 30.0
#: Beginning of the message on a directory that is not shared.
UNSEEN = "the nodes do not see"
#: Seconds between two queries of the scheduler.
_POLL = 1.0


def unseen(directory: Path) -> str:
    """Return that nodes do not see a directory of a job, and what to do."""
    return (
        f"{UNSEEN} {directory}: set the stage directory to one that they share with this host, "
        "RFM_STAGE_DIR=DIR or stagedir of the system in the site's file"
    )


def appears(path: Path, patience: float = LATE) -> bool:
    """Wait until a file of a job that ended is visible here; return whether it came to that.

    :param patience: seconds.
    """
    end = time.monotonic() + patience
    while not path.exists():
        if time.monotonic() > end:
            return False
        time.sleep(_POLL)
    return True


class Bounds:
    """A wrapper of a job's scheduler that reports the job as ended when it takes too long.

    A job that is given up is cancelled, and the results of its finished runs count. All other methods are the
    scheduler's own.

    :param job: a job that is not yet submitted.
    :param limit: longest run time of the job in seconds.
    :param pending: longest time from the job's submission to its end in seconds; None for any.
    :ivar why: reason for which the job was given up; empty if it was not.
    """

    def __init__(self, job: Job, limit: float, pending: float | None = None) -> None:
        """Replace the job's scheduler."""
        self._scheduler, self._job = job.scheduler, job
        self._is_local = self._scheduler.registered_name == "local"
        self._limit, self._pending, self.why = limit, pending, ""
        self._asked = 0.0
        self._since: dict[str, tuple[str, float]] = {}
        job._scheduler = self

    def __getattr__(self, name: str) -> Any:
        """Return the scheduler's attribute of this name."""
        if name == "_scheduler":
            raise AttributeError(name)
        return getattr(self._scheduler, name)

    def finished(self, job: Job) -> bool:
        """Return whether the job has ended, or was given up."""
        if self._scheduler.finished(job):
            return True
        if not self.why:
            self.why = self._overdue(job)
            if self.why:
                getlogger().warning(f"job {job.jobid} is given up: {self.why}")
                with contextlib.suppress(ReframeError, OSError):
                    self._scheduler.cancel(job)
        # A job on this machine ends within seconds, in which its runner writes the results.
        return bool(self.why) and not self._is_local

    def wait(self, job: Job) -> None:
        """Wait until the job has ended, or was given up."""
        while not self.finished(job):
            self._scheduler.poll(job)
            time.sleep(_POLL)

    def outlast(self, finished: Callable[[], bool]) -> str | None:
        """Wait until the job has really ended and its files are visible; return its state in Slurm, if there is one.

        :param finished: function that tells from the job's files that there is nothing to wait for.
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
        """Return why the job is given up; empty while it is still waited for."""
        elapsed = time.time() - job.submit_time
        if self._is_local:
            longest = self._limit + TURN
            if elapsed <= longest:
                return ""
            return (
                f"it takes longer than {longest:.0f} s: {self._limit:.0f} s of its own, and {TURN:.0f} s to wait for "
                "others who measure or build on this machine"
            )
        if self._pending is not None and elapsed > self._pending:
            return f"it had not ended after {self._pending:.0f} s ({self._scheduler.registered_name} says {job.state})"
        if self._lasts("RUNNING" if job.state == "RUNNING" else "", self._limit + BEYOND):
            return f"it runs longer than its limit of {self._limit:.0f} s, and the scheduler did not end it"
        if not slurm.is_slurm(job) or time.monotonic() - self._asked < INTERVAL:
            return ""
        self._asked = time.monotonic()
        return self._stuck(job)

    def _stuck(self, job: Job) -> str:
        """Return why Slurm will not end the job by itself; empty while it may."""
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

    def _lasts(self, kind: str, seconds: float, source: str = "job") -> bool:
        """Return whether a state has lasted for longer than ``seconds``.

        :param kind: the state; empty for one that may last.
        :param source: whose state it is: the job's, or Slurm's.
        """
        previous, since = self._since.get(source, ("", 0.0))
        if kind != previous:
            since = time.monotonic()
            self._since[source] = kind, since
        return bool(kind) and time.monotonic() - since > seconds
