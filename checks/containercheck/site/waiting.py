"""Jobs after their submission: an end to the wait, the real end of a job that ReFrame lost, and its reason."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ReframeError
from reframe.core.logging import getlogger
from reframe.core.schedulers import Job

from containercheck import reframe_internals
from containercheck.job import texts
from containercheck.site import schedulers
from containercheck.site.schedulers import is_slurm

#: Longest wait of a job on this machine for others that measure or build, in seconds.
TURN = 6 * 3600.0
#: Longest wait, in seconds, for a controller of Slurm that does not answer, and for a job in a transient state.
PATIENCE = 300.0
#: Longest delay with which files of a job appear on this machine, in seconds: network file systems cache directories.
LATE = 30.0
#: Seconds between two queries of Slurm's controller: while ReFrame polls a job, and after ReFrame lost it.
_POLLED, _LOST = 15.0, 2.0
#: Seconds between two looks at files, or queries of the scheduler.
_POLL = 1.0
#: Slurm's states of a job that runs, or waits to run.
_ALIVE = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED"}
#: Transient states that a job may never leave, because a program of the site hangs or a person has to act.
_STUCK = {
    *("COMPLETING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD", "RESIZING"),
    *("REVOKED", "SIGNALING", "STAGE_OUT", "STOPPED"),
}
#: States of a job that ended in the queue.
_NEVER_STARTED = {"PENDING", "CANCELLED", "DEADLINE"}
#: States of a job that met its time limit, or was preempted: its finished rounds count.
_MET_LIMIT = {"TIMEOUT", "DEADLINE", "PREEMPTED"}


def unseen(directory: Path) -> str:
    """Return that nodes do not see a directory of a job, and what to do."""
    return (
        f"the nodes do not see {directory}: set the stage directory to one that they share with this host, "
        "RFM_STAGE_DIR=DIR or stagedir of the system in the site's file"
    )


def appears(finished: Callable[[], bool]) -> bool:
    """Wait until files of a job that ended are visible here; return whether they are.

    :param finished: function that looks for them.
    """
    end = time.monotonic() + LATE
    while not finished():
        if time.monotonic() > end:
            return False
        time.sleep(_POLL)
    return True


class Watch:
    """A watch over a job: it reports a job of Slurm as ended if Slurm will not end it by itself.

    It takes the place of the job's scheduler, and has its methods. A job that is given up is cancelled, and the results
    of its finished runs count.

    :param job: a job that is not yet submitted.
    :ivar why: reason for which the job was given up; empty if it was not.
    """

    def __init__(self, job: Job) -> None:
        """Replace the job's scheduler."""
        self._scheduler, self._job, self.why = job.scheduler, job, ""
        self._asked = self._since = 0.0
        self._state: str | None = ""
        reframe_internals.replace_scheduler(job, self)

    def __getattr__(self, name: str) -> Any:
        """Return the scheduler's attribute of this name."""
        if name == "_scheduler":
            raise AttributeError(name)
        return getattr(self._scheduler, name)

    def finished(self, job: Job) -> bool:
        """Return whether the job has ended, or was given up."""
        if self.why or self._scheduler.finished(job):
            return True
        if not is_slurm(job) or time.monotonic() - self._asked < _POLLED:
            return False
        self._asked = time.monotonic()
        self.why = self._stuck(job)
        if self.why:
            getlogger().warning(f"job {job.jobid} is given up: {self.why}")
            with contextlib.suppress(ReframeError, OSError):
                self._scheduler.cancel(job)
        return bool(self.why)

    def wait(self, job: Job) -> None:
        """Wait until the job has ended, or was given up."""
        while not self.finished(job):
            self._scheduler.poll(job)
            time.sleep(_POLL)

    def outlast(self, finished: Callable[[], bool]) -> str | None:
        """Wait until the job has really ended: see :func:`outlast`."""
        return None if self.why else outlast(self._job, finished)

    def end(self, state: str | None, stderr: Path, max_pending_time: float | None) -> str:
        """Return why the job ended early: see :func:`end_of_job`."""
        return self.why or end_of_job(self._job, state, stderr, max_pending_time)

    def _stuck(self, job: Job) -> str:
        """Return why Slurm will not end the job by itself: a state that is not of a living job lasts."""
        state = state_of(job.jobid)
        if state != self._state or state in {*_ALIVE, ""}:
            self._state, self._since = state, time.monotonic()
        lasts = time.monotonic() - self._since > PATIENCE
        return f"Slurm has reported {state or 'no such job'} for {PATIENCE:g} s" if lasts else ""


def state_of(jobid: str) -> str | None:
    """Return the state of a job in Slurm, such as ``NODE_FAIL``: see :func:`_value_of`."""
    return _value_of(jobid, "JobState")


def _value_of(jobid: str, name: str) -> str | None:
    """Return a value that scontrol shows for a job: None if Slurm no longer knows the job, empty without an answer."""
    command = ["scontrol", "show", "job", "-o", jobid]
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=schedulers.COMMAND_LIMIT
        )
    except subprocess.TimeoutExpired:
        return ""
    if match := re.search(rf"\b{name}=(\S+)", result.stdout):
        return match[1]
    return None if "Invalid job id" in result.stderr else ""


def outlast(job: Job, finished: Callable[[], bool]) -> str | None:
    """Wait until the job has really ended and its files are visible; return its last state in Slurm, if there is one.

    ReFrame takes a job for ended when squeue does not list it, as happens while the controller is restarted. The wait
    for a silent controller, and for a job in a transient state, ends after :data:`PATIENCE`: an epilog may hang.

    :param finished: function that finds from the job's files that the wait is over.
    """
    if job.scheduler.registered_name == "local":
        return None
    state = _settle(job, finished) if is_slurm(job) else None
    if state in ("COMPLETED", None) and not job.exitcode:
        appears(finished)
    return state


def _settle(job: Job, finished: Callable[[], bool]) -> str | None:
    """Wait until a job of Slurm has really ended; return its last state: see :func:`outlast`."""
    end, state = time.monotonic() + PATIENCE, None
    while not finished() and time.monotonic() < end:
        answer = state_of(job.jobid)
        if answer not in {*_ALIVE, *_STUCK, ""}:
            return answer
        state = answer or None
        if answer in _ALIVE:
            end = time.monotonic() + PATIENCE
        time.sleep(_LOST)
    return state


def lost_node(job: Job) -> str:
    """Return Slurm's statement that a job lost one of its nodes, which spoils its last runs; empty without one.

    A job whose runs fail quickly ends before Slurm declares the node down. Its state need not be ``NODE_FAIL`` then; it
    stays ``COMPLETING`` until the node is down.
    """
    if not is_slurm(job):
        return ""
    end = time.monotonic() + PATIENCE
    if _settle(job, lambda: time.monotonic() > end) == "NODE_FAIL":
        return "Slurm says NODE_FAIL"
    nodes = _value_of(job.jobid, "NodeList")
    down = [node.problem for node in schedulers.list_nodes(f"--nodes={nodes}") if node.state == "down"] if nodes else []
    return f"Slurm says {', '.join(dict.fromkeys(down))}" if down else ""


def met_limit(state: str | None) -> bool:
    """Return whether a job met its time limit or was preempted; without a state, any orderly end is taken for that."""
    return state is None or state in _MET_LIMIT


def last_line(stderr: Path) -> str:
    """Return the last line of a job's error file, which is the reason why it ended."""
    lines = texts.tail(stderr).strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else f"it printed nothing ({stderr.parent})"


def end_of_job(job: Job, state: str | None, stderr: Path, max_pending_time: float | None) -> str:
    """Return why a job ended early, as far as is known: its state in Slurm, and the last line of its output.

    :param job: the job, of any scheduler.
    :param state: state in Slurm; None without Slurm, or if Slurm does not know the job.
    :param stderr: error file of the job, which exists once the job has started.
    :param max_pending_time: seconds after which ReFrame cancels a job that waits in the queue.
    """
    if stderr.exists():
        last = last_line(stderr)
        return f"Slurm says {state}: {last}" if state else last
    if state is None:
        seen = f" and says {job.state}" if job.state and not is_slurm(job) else ""
        return (
            f"{job.scheduler.registered_name} took it as job {job.jobid}{seen}, and it left no output: was it started, "
            f"and do the nodes see {stderr.parent}? (RFM_STAGE_DIR=DIR names another place)"
        )
    if state in _NEVER_STARTED:
        waited = f"; it may wait {max_pending_time:g} s in the queue" if max_pending_time else ""
        return f"Slurm says {state}, the job never started (pending time{waited})"
    return f"Slurm says {state}, and the job wrote nothing: {unseen(stderr.parent)}"
