"""What a job asks of its scheduler beyond what ReFrame's own backends write into it."""

from __future__ import annotations

import re
from collections.abc import MutableMapping

from reframe.core.schedulers import Job

from containercheck.site import slurm
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site

#: Variables that Slurm sets in an allocation, and PMI in a step of it; and such with these names as people and sites
#: set.
_OF_ALLOCATION = re.compile(r"SLURMD?_|PMI2?_|PMIX_(NAMESPACE|RANK|SERVER|SYSTEM|SECURITY|HOSTNAME|VERSION)")
_SETTINGS = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_MPI_TYPE", "SLURM_TIME_FORMAT")


def options_of(job: Job, site: Site, layout: Layout) -> list[str]:
    """Return the options that ReFrame 4.10 leaves out, for the schedulers that it is known of.

    Grid Engine: the partition's ``access``, and slots on nodes. PBS: nodes without others. LSF gets all.
    Slurm is not to start a job again: the second start would mix its results with those of the first.

    :raises LayoutError: the site file lacks what it takes.
    """
    scheduler = job.scheduler.registered_name
    if scheduler == "sge":
        return [*access_of(job), *_slots(site, layout)]
    if scheduler == "pbs" and site.exclusive:
        return ["-l place=scatter:excl"]
    return ["--no-requeue"] if slurm.is_slurm(job) else []


def first_commands(job: Job) -> list[str]:
    """Return the commands that a job begins with, so that its steps have its environment.

    With ``--export=NONE`` among a site's options, Slurm's ``srun`` would hand on nothing of what the job sets.
    """
    options = " ".join([*job.sched_access, *job.options, *job.cli_options])
    cut = slurm.is_slurm(job) and re.search(r"--export[= ](NONE|NIL)\b", options, re.IGNORECASE)
    return ["export SLURM_EXPORT_ENV=ALL"] if cut else []


def leave_allocation(job: Job, environ: MutableMapping[str, str]) -> None:
    """Remove what the allocation that the session was started in (``salloc ci/run``) says of itself.

    The scheduler's commands would hand it on to jobs that have nothing to do with it: ``srun`` takes ranks, memory and
    nodes from there. Where jobs run on this machine, the allocation is theirs, and is left alone.

    :param environ: of this process, which the scheduler's commands inherit.
    """
    if job.scheduler.is_local or "SLURM_JOB_ID" not in environ:
        return
    for name in [name for name in environ if _OF_ALLOCATION.match(name) and name not in _SETTINGS]:
        del environ[name]


def access_of(job: Job) -> list[str]:
    """Return the partition's ``access`` where ReFrame leaves it out."""
    return [*job.sched_access] if job.scheduler.registered_name == "sge" else []


def _slots(site: Site, layout: Layout) -> list[str]:
    """Return the slots of a job: whole nodes, where it is to have them to itself."""
    own = layout.ranks_per_node * layout.threads
    slots = layout.nodes * (site.cores or own if site.exclusive else own)
    if slots == 1:
        return []
    if not site.parallel_environment:
        raise LayoutError(
            f"Grid Engine gives {slots} slots in a parallel environment only: name it in the extras of "
            f"{site.partition}, parallel_environment"
        )
    return [f"-pe {site.parallel_environment} {slots}"]
