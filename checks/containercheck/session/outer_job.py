"""The job in which a session itself was started: its variables describe an allocation that is not the session's jobs'.

sbatch hands the variables of its caller on to the new job, where srun reads those that the new job does not set itself
(https://slurm.schedmd.com/srun.html, "Input environment variables"); Open MPI takes its slots from those of Slurm, PBS
and Grid Engine. A job of Flux is a Flux instance of its own, to which jobs are submitted in the normal way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Scheduler:
    """A scheduler whose jobs can be recognized from inside.

    :ivar name: name for messages.
    :ivar job: variable with the job's number.
    :ivar also: variable that only a job of this scheduler has too; empty for none.
    :ivar variables: pattern of the variables that describe the job.
    :ivar settings: pattern of those among them that are the site's or the user's own.
    """

    name: str
    job: str
    also: str
    variables: str
    settings: str


#: Sources: the manuals sbatch(1) and srun(1) of Slurm, qsub(1B) of OpenPBS, qsub(1) of Grid Engine, bsub(1) of LSF.
SCHEDULERS = (
    Scheduler(
        "Slurm",
        "SLURM_JOB_ID",
        "",
        r"SLURM_\w+|PMI_\w+|PMIX_(?!MCA_)\w+",
        r"SLURM_(CONF|MPI_TYPE|CLUSTERS|TIME_FORMAT|JWT|CONF_SERVER)",
    ),
    Scheduler("PBS", "PBS_JOBID", "", r"PBS_\w+", r"PBS_(SERVER|DEFAULT|CONF_FILE|EXEC|HOME|DPREFIX)"),
    Scheduler(
        "Grid Engine",
        "JOB_ID",
        "SGE_ROOT",
        r"JOB_(ID|NAME|SCRIPT)|NSLOTS|NHOSTS|NQUEUES|PE|PE_HOSTFILE|QUEUE|REQUEST|RESTARTED|SGE_\w+",
        r"SGE_(ROOT|CELL|CLUSTER_NAME|QMASTER_PORT|EXECD_PORT|ARCH)",
    ),
    Scheduler("LSF", "LSB_JOBID", "", r"LSB_\w+", r"LSB_(CONFDIR|SHAREDIR)"),
)


def _scheduler(environment: Mapping[str, str]) -> Scheduler | None:
    """Return the scheduler of the job that these variables are of; None outside of a job."""
    return next(
        (known for known in SCHEDULERS if known.job in environment and (not known.also or known.also in environment)),
        None,
    )


def name(environment: Mapping[str, str] | None = None) -> str:
    """Return the job in which this process runs, such as ``Slurm job 12``; empty outside of a job."""
    environment = os.environ if environment is None else environment
    scheduler = _scheduler(environment)
    return f"{scheduler.name} job {environment[scheduler.job]}" if scheduler else ""


def without(environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables without those that describe the job in which this process runs."""
    scheduler = _scheduler(environment)
    if scheduler is None:
        return dict(environment)
    return {
        variable: value
        for variable, value in environment.items()
        if not re.fullmatch(scheduler.variables, variable) or re.fullmatch(scheduler.settings, variable)
    }


def is_used_by(partitions: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether partitions of a site file run in the allocation of the session itself, so that it has to stay."""
    return any(
        part["launcher"] == "srunalloc" or (part["scheduler"] == "local" and part["launcher"] == "srun")
        for part in partitions
    )
