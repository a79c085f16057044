"""What Slurm knows of a job, asked where ReFrame's squeue has lost it."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable

from reframe.core.schedulers import Job

#: States in which a job still runs, or will.
_ALIVE = {"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "REQUEUED"}
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
