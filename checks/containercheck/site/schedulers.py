"""Options and settings of jobs that ReFrame's own backends of schedulers leave out."""

from __future__ import annotations

import re
from collections.abc import MutableMapping

from reframe.core.runtime import runtime
from reframe.core.schedulers import Job

from containercheck.site import slurm
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site

#: Names of variables that Slurm sets in an allocation, and PMI in a step of it.
_OF_ALLOCATION = re.compile(r"SLURMD?_|PMI2?_|PMIX_(NAMESPACE|RANK|SERVER|SYSTEM|SECURITY|HOSTNAME|VERSION)")
#: Names of variables among them that users and sites set.
_SETTINGS = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_MPI_TYPE", "SLURM_TIME_FORMAT")


def options_of(job: Job, site: Site, layout: Layout) -> list[str]:
    """Return the options of a job that ReFrame 4.10 leaves out.

    Grid Engine: the partition's ``access``, and slots on nodes. PBS: exclusive nodes. Slurm: no requeueing, because a
    second start would mix its results with those of the first. LSF: none.

    :raises LayoutError: Grid Engine needs a parallel environment, and the site file names none.
    """
    scheduler = job.scheduler.registered_name
    if scheduler == "sge":
        return [*access_of(job), *_slots(site, layout)]
    if scheduler == "pbs" and site.exclusive:
        return ["-l place=scatter:excl"]
    return ["--no-requeue"] if slurm.is_slurm(job) else []


def first_commands(job: Job) -> list[str]:
    """Return the first commands of a job, which make its steps inherit its environment.

    With ``--export=NONE`` among a site's options, Slurm's ``srun`` would pass no variable of the job to its steps.
    """
    options = " ".join([*job.sched_access, *job.options, *job.cli_options])
    is_cut_off = slurm.is_slurm(job) and re.search(r"--export[= ](NONE|NIL)\b", options, re.IGNORECASE)
    return ["export SLURM_EXPORT_ENV=ALL"] if is_cut_off else []


def leave_allocation(job: Job, environ: MutableMapping[str, str]) -> None:
    """Remove the variables of the allocation that the session was started in (``salloc ci/run``).

    The scheduler's commands would pass them to jobs outside of the allocation, in which ``srun`` would take ranks,
    memory and nodes from them. Jobs on this machine run in the allocation, and keep the variables.

    :param environ: environment of this process, which the scheduler's commands inherit.
    """
    if job.scheduler.is_local or "SLURM_JOB_ID" not in environ:
        return
    for name in [name for name in environ if _OF_ALLOCATION.match(name) and name not in _SETTINGS]:
        del environ[name]


def access_of(job: Job) -> list[str]:
    """Return the partition's ``access`` for schedulers with which ReFrame leaves it out."""
    return [*job.sched_access] if job.scheduler.registered_name == "sge" else []


def _slots(site: Site, layout: Layout) -> list[str]:
    """Return the option for the slots of a job: all slots of its nodes on an exclusive partition."""
    cores = layout.ranks_per_node * layout.threads
    slots = layout.nodes * (site.cores or cores if site.exclusive else cores)
    if slots == 1:
        return []
    if not site.parallel_environment:
        raise LayoutError(
            f"Grid Engine gives {slots} slots in a parallel environment only: name it in the extras of "
            f"{site.partition}, parallel_environment"
        )
    return [f"-pe {site.parallel_environment} {slots}"]


def one_at_a_time() -> None:
    """Have ReFrame run one case at a time on each partition that is this machine, and build one at a time.

    Rounds of two cases would wait for each other, each with its processes. ReFrame 4.10 asks a partition for its
    ``max_jobs`` when it first runs a case there, and has no way to set it but the site's file.
    """
    here = [each for each in runtime().system.partitions if each.scheduler.registered_name == "local"]
    if here:
        runtime().site_config.add_sticky_option("systems/0/max_local_jobs", 1)
    for partition in here:
        partition._max_jobs = 1
