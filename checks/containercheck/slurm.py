"""What Slurm knows of a job, asked where ReFrame's squeue has lost it."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from reframe.core.schedulers import Job

#: States in which a job still runs, or will.
_ALIVE = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "REQUEUED"}
#: States of a job that ended, or was given up, in the queue.
_NEVER_STARTED = {"PENDING", "CANCELLED", "DEADLINE"}
#: States of a job that met its time limit, or had to make room: what it had done counts.
_MET_LIMIT = {"TIMEOUT", "DEADLINE", "PREEMPTED"}
#: Seconds for which a controller that does not answer is waited for.
PATIENCE = 300
_INTERVAL = 2


class Unreachable(Exception):
    """Slurm's controller does not answer."""


def is_slurm(job: Job) -> bool:
    """Tell whether the job was given to Slurm."""
    return job.scheduler.registered_name in ("slurm", "squeue")


def state_of(jobid: str) -> str | None:
    """Return the state of a job (``NODE_FAIL``, say), or None if Slurm has forgotten it.

    :raises Unreachable: the controller does not answer.
    """
    result = subprocess.run(["scontrol", "show", "job", "-o", jobid], capture_output=True, text=True)
    if found := re.search(r"\bJobState=(\S+)", result.stdout):
        return found[1]
    if "Invalid job id" in result.stderr:
        return None
    raise Unreachable(result.stderr.strip())


def outlast(job: Job, finished: Callable[[], bool]) -> str | None:
    """Wait until the job has really ended and return its last state, or None where Slurm does not know.

    ReFrame takes a job for ended when squeue prints nothing of it, as it does while the controller is restarted.

    :param finished: tells from what the job wrote that nothing needs to be waited for.
    """
    silent_since = None
    while not finished():
        try:
            state = state_of(job.jobid)
        except Unreachable:
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since > PATIENCE:
                return None
        else:
            silent_since = None
            if state not in _ALIVE:
                return state
        time.sleep(_INTERVAL)
    return None


def lost_node(job: Job) -> bool:
    """Tell whether a job lost one of its nodes: that spoils its last runs, whether it came to its end or not."""
    deadline = time.monotonic() + PATIENCE
    return is_slurm(job) and outlast(job, lambda: time.monotonic() > deadline) == "NODE_FAIL"


def met_limit(state: str | None) -> bool:
    """Tell whether a job met its time limit, as far as Slurm knows; without Slurm, whatever ended it in order did."""
    return state is None or state in _MET_LIMIT


def end_of_job(state: str | None, stderr: Path, max_pending_time: float | None) -> str:
    """Return why a job ended early, as far as can be told: Slurm's state of it, and the last line that it printed.

    :param state: None where there is no Slurm, or it does not know.
    :param stderr: the job's, which is there once the job has started.
    :param max_pending_time: seconds after which ReFrame cancels a job that waits in the queue.
    """
    if stderr.exists():
        errors = stderr.read_text(errors="replace").strip().splitlines()
        said = errors[-1].removeprefix("error: ") if errors else f"it printed nothing ({stderr.parent})"
        return f"Slurm says {state}: {said}" if state else said
    if state in _NEVER_STARTED:
        waited = f"; it may wait {max_pending_time:g} s in the queue" if max_pending_time else ""
        return f"Slurm says {state}, the job never started (pending time{waited})"
    return f"Slurm says {state}, and the job wrote nothing: do the nodes see {stderr.parent}?"
