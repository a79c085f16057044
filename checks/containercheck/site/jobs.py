"""Handle jobs: options that ReFrame leaves out, the job around the session, unusable nodes, and the end of the wait."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, MutableMapping, Sequence
from pathlib import Path

from reframe.core.exceptions import ReframeError
from reframe.core.runtime import runtime
from reframe.core.schedulers import Job
from reframe.core.systems import SystemPartition

from containercheck import reframe_internals
from containercheck.job import inventory, texts
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site

#: States of a node, in the words of sinfo, that last until a person acts. Not: reserved, sleeping or rebooting nodes.
_OUT_OF_SERVICE = {"down", "drained", "draining", "fail", "failing", "error", "inval"}
#: Most nodes that a message names.
_NAMED = 3
#: Options of Slurm that keep a job off nodes, or on them.
OFF, ON = "exclude", "nodelist"
#: Longest wait of a job on this machine for others that measure or build, in seconds.
TURN = 6 * 3600.0
#: Longest wait, in seconds, for a controller of Slurm that does not answer, and for a job in a transient state.
PATIENCE = 300.0
#: Longest delay with which files of a job appear on this machine, in seconds: network file systems cache directories.
LATE = 30.0
#: Seconds between two queries of Slurm's controller, after ReFrame lost a job.
_LOST = 2.0
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


def is_slurm(job: Job) -> bool:
    """Return whether the job was given to Slurm."""
    return job.scheduler.registered_name in ("slurm", "squeue")


def has_list(job: Job, nodes: int) -> bool:
    """Return whether mpirun reads the nodes of a job from a list of the site, as nothing else gives it nodes."""
    launcher, scheduler = job.launcher.registered_name, job.scheduler.registered_name
    return nodes > 1 and scheduler in ("local", "ssh") and launcher in ("mpirun", "mpiexec")


def options_of(job: Job, site: Site, layout: Layout) -> list[str]:
    """Return the options of a job that ReFrame 4.10 leaves out.

    Grid Engine: the partition's ``access``, and slots on nodes. PBS: exclusive nodes. Slurm: no requeueing, because a
    second start would mix its results with those of the first.

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
    """Make ReFrame run one case at a time on each partition that is this machine, and build one at a time.

    Rounds of two cases would wait for each other, each with its processes. ReFrame 4.10 has no way to set a partition's
    ``max_jobs`` but the site's file.
    """
    here = [each for each in runtime().system.partitions if each.scheduler.registered_name == "local"]
    if here:
        runtime().site_config.add_sticky_option("systems/0/max_local_jobs", 1)
    for partition in here:
        reframe_internals.run_one_at_a_time(partition)


#: For each scheduler the variables that a job has, and a pattern of those that describe it, without settings of site or
#: user. Sources: the manuals sbatch(1) and srun(1) of Slurm, qsub(1B) of OpenPBS, and qsub(1) of Grid Engine.
OUTER_JOBS = (
    (
        ("SLURM_JOB_ID",),
        r"SLURMD?_(?!(CONF|CONF_SERVER|MPI_TYPE|CLUSTERS|TIME_FORMAT|JWT)$)\w+|PMI2?_\w+|PMIX_(?!MCA_)\w+",
    ),
    (("PBS_JOBID",), r"PBS_(?!(SERVER|DEFAULT|CONF_FILE|EXEC|HOME|DPREFIX)$)\w+"),
    (
        ("JOB_ID", "SGE_ROOT"),
        r"JOB_(ID|NAME|SCRIPT)|NSLOTS|NHOSTS|NQUEUES|PE|PE_HOSTFILE|QUEUE|REQUEST|RESTARTED|"
        r"SGE_(?!(ROOT|CELL|CLUSTER_NAME|QMASTER_PORT|EXECD_PORT|ARCH)$)\w+",
    ),
)


def leave_outer_job(environment: MutableMapping[str, str] = os.environ) -> None:
    """Remove the variables of the job in which the session was started, such as ``salloc ci/run``.

    The scheduler's commands would hand them on to the jobs of the session. There ``srun`` would take ranks, memory and
    nodes from them, and Open MPI its slots. They stay if a partition of the system is to use this allocation: a local
    one with srun as its launcher, or with several nodes.
    """
    described = next((pattern for keys, pattern in OUTER_JOBS if all(key in environment for key in keys)), None)
    if described is None or any(map(_uses_outer_job, runtime().system.partitions)):
        return
    for name in [name for name in environment if re.fullmatch(described, name)]:
        del environment[name]


def _uses_outer_job(partition: SystemPartition) -> bool:
    """Return whether jobs of a partition run in the allocation of the session itself."""
    site = Site.of(partition)
    return site.is_here and (partition.launcher_type.registered_name.startswith("srun") or site.max_nodes > 1)


def out_of_service(job: Job, nodes: int) -> str:
    """Return why a job would wait until a person repairs nodes; empty if enough are in service, or without Slurm.

    Slurm accepts such a job, and keeps it pending. ReFrame 4.10 cancels it for the reason ``ReqNodeNotAvail`` only,
    which Slurm does not always give.

    :param nodes: number of nodes that the job needs.
    """
    options = " ".join([*job.sched_access, *job.options, *job.cli_options])
    if not is_slurm(job):
        return ""
    partitions, problems = _nodes_of(options)
    lacking = list(dict.fromkeys(filter(None, problems.values())))
    ready = sum(not why for why in problems.values())
    # Slurm itself refuses a job that needs more nodes than there are.
    if ready >= nodes or len(problems) < nodes:
        return ""
    more = f", and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
    return (
        f"needs {nodes} node(s), and Slurm's partition {', '.join(sorted(partitions))} has {ready} of {len(problems)} "
        f"in service: {', '.join(lacking[:_NAMED])}{more}"
    )


def in_service(options: Sequence[str]) -> set[str]:
    """Return the names of the nodes in service that Slurm can give to a job with these options; none if not known."""
    return {name for name, why in _nodes_of(" ".join(options))[1].items() if not why}


def _nodes_of(options: str) -> tuple[set[str], dict[str, str]]:
    """Return Slurm's partitions for a job with these options, and for each node why it is not in service, or nothing.

    There are none for a job on another cluster, which has its own controller.
    """
    partitions: set[str] = set()
    problems: dict[str, str] = {}
    if re.search(r"(^|\s)(-M|--clusters)", options):
        return partitions, problems
    chosen = "".join(_values_of("-p|--partition", options)[-1:])
    for partition, available, name, state, reason in _list_nodes():
        title = partition.rstrip("*")
        if title not in chosen.split(",") and (chosen or title == partition):
            continue
        partitions.add(title)
        # Flags: an asterisk for no answer, a dollar sign for a maintenance reservation.
        state = state.lower().rstrip("*$")
        why = (
            f"{name} {state}{f' ({reason})' if reason not in ('', 'none') else ''}" if state in _OUT_OF_SERVICE else ""
        )
        why = why if available == "up" else f"partition {title} is {available}"
        # One partition in which it gets jobs will do.
        problems[name] = why and problems.get(name, why)
    return partitions, problems


def on_nodes(job: Job, needed: int, option: str, nodes: Sequence[str]) -> list[str]:
    """Return the option of Slurm that keeps a job on nodes, or off them; it must follow the job's other options.

    None for another scheduler, and none for :data:`OFF` if too few other nodes can run the job now.

    :param needed: number of nodes that the job needs.
    :param option: :data:`ON` or :data:`OFF`.
    """
    if not is_slurm(job):
        return []
    if option == OFF:
        try:
            suitable = job.scheduler.filternodes(job, job.scheduler.allnodes())
        except ReframeError:
            return []
        others = {node.name for node in suitable if job.scheduler.is_node_avail(node)} - {*nodes}
        if len(others) < needed:
            return []
        # The last one of these options counts.
        options = " ".join([*job.sched_access, *job.options, *job.cli_options])
        nodes = [*_values_of("-x|--exclude", options), *nodes]
    return [f"--{option}={','.join(nodes)}"]


def _values_of(flags: str, options: str) -> list[str]:
    """Return the values of an option of Slurm.

    :param flags: its short and its long form, as a pattern.
    """
    return re.findall(rf"(?:^|\s)(?:{flags})[= ]?(\S+)", options)


def _list_nodes(*options: str) -> list[list[str]]:
    """Return partition, its state, name, state and reason of each node that sinfo lists; none if it fails."""
    _, output = inventory.output_of(["sinfo", "--all", "--noheader", "--Node", "--format=%P|%a|%N|%T|%E", *options])
    return [row for row in (line.strip().split("|", 4) for line in output.splitlines()) if len(row) == 5]


# After the submission


def unseen(directory: Path) -> str:
    """Return the message that nodes do not see a directory of a job, with the remedy."""
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


def _shown(jobid: str, name: str = "JobState") -> str | None:
    """Return a value that scontrol shows for a job: None if Slurm no longer knows the job, empty without an answer."""
    _, output = inventory.output_of(["scontrol", "show", "job", "-o", jobid])
    if match := re.search(rf"\b{name}=(\S+)", output):
        return match[1]
    return None if "Invalid job id" in output else ""


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
        answer = _shown(job.jobid)
        if answer not in {*_ALIVE, *_STUCK, ""}:
            return answer
        state = answer or None
        if answer in _ALIVE:
            end = time.monotonic() + PATIENCE
        time.sleep(_LOST)
    return state


def lost_node(job: Job) -> str:
    """Return Slurm's statement that a job lost a node, which spoils its last runs; empty without one.

    A job with runs that fail quickly ends before Slurm declares the node down. Its state need not be ``NODE_FAIL``
    then; it stays ``COMPLETING`` until the node is down.
    """
    if not is_slurm(job):
        return ""
    end = time.monotonic() + PATIENCE
    if _settle(job, lambda: time.monotonic() > end) == "NODE_FAIL":
        return "Slurm says NODE_FAIL"
    nodes = _shown(job.jobid, "NodeList")
    rows = _list_nodes(f"--nodes={nodes}") if nodes else []
    down = [f"{name} down ({reason})" for _, _, name, state, reason in rows if state.rstrip("*$") == "down"]
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
