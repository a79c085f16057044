"""Jobs before they start: options that ReFrame leaves out, the job around the session, and nodes out of service."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from reframe.core.runtime import runtime
from reframe.core.schedulers import Job
from reframe.core.systems import SystemPartition

from containercheck import reframe_internals
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site

#: States of a node, in the words of sinfo, that last until a person acts. Not: reserved, sleeping or rebooting nodes.
_OUT_OF_SERVICE = {"down", "drained", "draining", "fail", "failing", "error", "inval"}
#: Most nodes that a message names.
_NAMED = 3
#: Time limit of a command of Slurm, in seconds.
COMMAND_LIMIT = 30


def is_slurm(job: Job) -> bool:
    """Return whether the job was given to Slurm."""
    return job.scheduler.registered_name in ("slurm", "squeue")


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
    return ["--no-requeue"] if is_slurm(job) else []


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


def first_commands(job: Job) -> list[str]:
    """Return the first commands of a job of Slurm: they end a second start, and hand its environment on to its steps.

    An administrator may requeue a job. With ``--export=NONE`` among a site's options, ``srun`` would pass no variable
    of the job to its steps.
    """
    if not is_slurm(job):
        return []
    options = " ".join([*job.sched_access, *job.options, *job.cli_options])
    is_cut_off = re.search(r"--export[= ](NONE|NIL)\b", options, re.IGNORECASE)
    return [
        '[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || { echo "error: Slurm started this job a second time" >&2; exit 1; }',
        *(["export SLURM_EXPORT_ENV=ALL"] if is_cut_off else []),
    ]


def one_at_a_time() -> None:
    """Have ReFrame run one case at a time on each partition that is this machine, and build one at a time.

    Rounds of two cases would wait for each other, each with its processes. ReFrame 4.10 has no way to set a partition's
    ``max_jobs`` but the site's file.
    """
    here = [each for each in runtime().system.partitions if each.scheduler.registered_name == "local"]
    if here:
        runtime().site_config.add_sticky_option("systems/0/max_local_jobs", 1)
    for partition in here:
        reframe_internals.run_one_at_a_time(partition)


@dataclass(frozen=True)
class OuterScheduler:
    """A scheduler whose jobs can be recognized from inside.

    :ivar title: name for people.
    :ivar keys: variables that a job has; the first is its number.
    :ivar variables: pattern of the variables that describe the job, without settings of the site or the user.
    """

    title: str
    keys: tuple[str, ...]
    variables: str


#: Sources: the manuals sbatch(1) and srun(1) of Slurm, qsub(1B) of OpenPBS, qsub(1) of Grid Engine, bsub(1) of LSF. A
#: job of Flux is a Flux instance of its own, to which jobs are submitted in the normal way.
OUTER_SCHEDULERS = (
    OuterScheduler(
        "Slurm",
        ("SLURM_JOB_ID",),
        r"SLURMD?_(?!(CONF|CONF_SERVER|MPI_TYPE|CLUSTERS|TIME_FORMAT|JWT)$)\w+|PMI2?_\w+|PMIX_(?!MCA_)\w+",
    ),
    OuterScheduler("PBS", ("PBS_JOBID",), r"PBS_(?!(SERVER|DEFAULT|CONF_FILE|EXEC|HOME|DPREFIX)$)\w+"),
    OuterScheduler(
        "Grid Engine",
        ("JOB_ID", "SGE_ROOT"),
        r"JOB_(ID|NAME|SCRIPT)|NSLOTS|NHOSTS|NQUEUES|PE|PE_HOSTFILE|QUEUE|REQUEST|RESTARTED|"
        r"SGE_(?!(ROOT|CELL|CLUSTER_NAME|QMASTER_PORT|EXECD_PORT|ARCH)$)\w+",
    ),
    OuterScheduler("LSF", ("LSB_JOBID",), r"LSB_(?!(CONFDIR|SHAREDIR)$)\w+"),
)


def _outer_scheduler(environment: Mapping[str, str]) -> OuterScheduler | None:
    """Return the scheduler of the job that these variables describe; None outside of a job."""
    return next((each for each in OUTER_SCHEDULERS if all(key in environment for key in each.keys)), None)


def outer_job(environment: Mapping[str, str] = os.environ) -> str:
    """Return the job in which this process runs, such as ``Slurm job 12``; empty outside of a job."""
    scheduler = _outer_scheduler(environment)
    return f"{scheduler.title} job {environment[scheduler.keys[0]]}" if scheduler else ""


def leave_outer_job(environment: MutableMapping[str, str] = os.environ) -> None:
    """Remove the variables of the job in which the session was started, such as ``salloc ci/run``.

    The scheduler's commands would hand them on to the jobs of the session. There ``srun`` would take ranks, memory and
    nodes from them, and Open MPI its slots. They stay if a partition of the system is meant to use this allocation: a
    local one whose launcher is srun, or which has several nodes.
    """
    scheduler = _outer_scheduler(environment)
    if scheduler is None or any(map(_uses_outer_job, runtime().system.partitions)):
        return
    for name in [name for name in environment if re.fullmatch(scheduler.variables, name)]:
        del environment[name]


def _uses_outer_job(partition: SystemPartition) -> bool:
    """Return whether jobs of a partition run in the allocation of the session itself."""
    site = Site.of(partition)
    return site.is_here and (partition.launcher_type.registered_name.startswith("srun") or site.max_nodes > 1)


@dataclass(frozen=True)
class Node:
    """A node in one of its partitions, as sinfo lists it.

    :ivar partition: name of the partition, with an asterisk for the default one.
    :ivar available: state of the partition.
    :ivar state: state of the node, without flags.
    :ivar reason: reason of its state, or ``none``.
    """

    partition: str
    available: str
    name: str
    state: str
    reason: str

    @property
    def problem(self) -> str:
        """Return why the node gets no job; empty where it does."""
        if self.available != "up":
            return f"partition {self.partition.rstrip('*')} is {self.available}"
        reason = f" ({self.reason})" if self.reason not in ("", "none") else ""
        return f"{self.name} {self.state}{reason}" if self.state in _OUT_OF_SERVICE else ""


def list_nodes(*options: str) -> list[Node]:
    """Return the nodes that sinfo lists with these options; none where it fails."""
    command = ["sinfo", "--all", "--noheader", "--Node", "--format=%P|%a|%N|%T|%E", *options]
    try:
        output = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=COMMAND_LIMIT).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = (line.strip().split("|", 4) for line in output.splitlines())
    # Flags: an asterisk for no answer, a dollar sign for a maintenance reservation.
    return [
        Node(partition, available, name, state.lower().rstrip("*$"), reason)
        for partition, available, name, state, reason in (row for row in rows if len(row) == 5)
    ]


def out_of_service(job: Job, nodes: int) -> str:
    """Return why a job would wait until a person repairs nodes; empty if enough are in service, or without Slurm.

    Slurm accepts such a job, and keeps it pending. ReFrame 4.10 cancels it for the reason ``ReqNodeNotAvail`` only,
    which Slurm does not always give.

    :param nodes: number of nodes that the job needs.
    """
    if not is_slurm(job):
        return ""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-p", "--partition", default="")
    parser.add_argument("-M", "--clusters")
    options: Sequence[str] = (*job.sched_access, *job.options, *job.cli_options)
    arguments, _ = parser.parse_known_args([word for option in options for word in option.split()])
    if arguments.clusters:
        return ""
    chosen = arguments.partition.split(",")
    usable = [
        node
        for node in list_nodes()
        if ("*" in node.partition if chosen == [""] else node.partition.rstrip("*") in chosen)
    ]
    existing = {node.name for node in usable}
    ready = {node.name for node in usable if not node.problem}
    # Slurm itself refuses a job that needs more nodes than there are.
    if len(ready) >= nodes or len(existing) < nodes:
        return ""
    problems = list(dict.fromkeys(node.problem for node in usable if node.name not in ready))
    names = ", ".join(sorted({node.partition.rstrip("*") for node in usable}))
    more = f", and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
    return (
        f"needs {nodes} node(s), and Slurm's partition {names} has {len(ready)} of {len(existing)} in service: "
        f"{', '.join(problems[:_NAMED])}{more}"
    )
