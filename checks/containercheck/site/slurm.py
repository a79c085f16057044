"""Slurm's state of jobs that ReFrame's squeue no longer lists, and of the nodes that a job would wait for."""

from __future__ import annotations

import argparse
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reframe.core.schedulers import Job

from containercheck.node import texts

#: States of a job that runs, or waits to run.
_ALIVE = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED"}
#: Transient states that a job may never leave, because a program of the site hangs or a person has to act.
STUCK = {
    *("COMPLETING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD", "RESIZING"),
    *("REVOKED", "SIGNALING", "STAGE_OUT", "STOPPED"),
}
#: States of a job that ended in the queue.
_NEVER_STARTED = {"PENDING", "CANCELLED", "DEADLINE"}
#: States of a job that met its time limit, or was preempted: its finished rounds count.
_MET_LIMIT = {"TIMEOUT", "DEADLINE", "PREEMPTED"}
#: Longest wait, in seconds, for a controller that does not answer, and for a job in a transient state.
PATIENCE = 300
#: Seconds between two queries of the controller.
_INTERVAL = 2
#: sinfo's states of a node that gets no job until a person acts. Not: reserved, sleeping or rebooting nodes.
_OUT = {"down", "drained", "draining", "fail", "failing", "error", "inval"}
#: Most nodes that a message names.
_NAMED = 3
#: Time limit of Slurm's commands, in seconds.
_PROMPT = 30


class Unreachable(Exception):
    """Slurm's controller does not answer."""


def is_slurm(job: Job) -> bool:
    """Return whether the job was given to Slurm."""
    return job.scheduler.registered_name in ("slurm", "squeue")


def state_of(jobid: str) -> str | None:
    """Return the state of a job, such as ``NODE_FAIL``; None if Slurm no longer knows the job.

    :raises Unreachable: the controller does not answer.
    """
    return _value_of(jobid, "JobState")


def restarts_of(jobid: str) -> int:
    """Return the number of times that Slurm has started a job again.

    :raises Unreachable: the controller does not answer.
    """
    return int(_value_of(jobid, "Restarts") or 0)


def is_alive(state: str | None) -> bool:
    """Return whether a job in this state runs, or waits to run."""
    return state in _ALIVE or state in STUCK


def _value_of(jobid: str, name: str) -> str | None:
    """Return a value that scontrol shows for a job; None if Slurm no longer knows the job.

    :raises Unreachable: the controller does not answer.
    """
    command = ["scontrol", "show", "job", "-o", jobid]
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_PROMPT)
    except subprocess.TimeoutExpired:
        raise Unreachable(f"scontrol has not answered for {_PROMPT} s") from None
    if match := re.search(rf"\b{name}=(\S+)", result.stdout):
        return match[1]
    if "Invalid job id" in result.stderr:
        return None
    raise Unreachable(result.stderr.strip())


def outlast(job: Job, finished: Callable[[], bool]) -> str | None:
    """Wait until the job has really ended, and return its last state; None if Slurm does not know it.

    ReFrame takes a job for ended when squeue does not list it, as happens while the controller is restarted. The wait
    for a job in a transient state ends after :data:`PATIENCE`: it may stay COMPLETING because an epilog hangs.

    :param finished: function that tells from the job's files that there is nothing to wait for.
    """
    silent_since, stuck_since = None, time.monotonic()
    while not finished():
        try:
            state = state_of(job.jobid)
        except Unreachable:
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since > PATIENCE:
                return None
        else:
            silent_since = None
            stuck_since = stuck_since if state in STUCK else time.monotonic()
            if not is_alive(state) or time.monotonic() - stuck_since > PATIENCE:
                return state
        time.sleep(_INTERVAL)
    return None


def lost_node(job: Job) -> str:
    """Return Slurm's statement that a job lost one of its nodes, which spoils its last runs; empty without one.

    A job whose runs fail quickly ends before Slurm declares the node down. Its state need not be ``NODE_FAIL`` then; it
    stays ``COMPLETING`` until the node is down.
    """
    if not is_slurm(job):
        return ""
    deadline = time.monotonic() + PATIENCE
    if outlast(job, lambda: time.monotonic() > deadline) == "NODE_FAIL":
        return "Slurm says NODE_FAIL"
    try:
        nodes = _value_of(job.jobid, "NodeList")
    except Unreachable:
        return ""
    down = [node.problem for node in _nodes(f"--nodes={nodes}") if node.is_down] if nodes else []
    return f"Slurm says {', '.join(dict.fromkeys(down))}" if down else ""


def met_limit(state: str | None) -> bool:
    """Return whether a job met its time limit or was preempted; without a state, any orderly end is taken for that."""
    return state is None or state in _MET_LIMIT


@dataclass(frozen=True)
class _Node:
    """A node in one of its partitions, as sinfo lists it.

    :ivar partition: name of the partition, with an asterisk for the default one.
    :ivar available: state of the partition.
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
        return f"{self.name} {self._base_state}{reason}" if self._base_state in _OUT else ""

    @property
    def is_down(self) -> bool:
        """Return whether the node is down, by Slurm's or a person's decision."""
        return self._base_state == "down"

    @property
    def _base_state(self) -> str:
        """Return the state without flags: an asterisk for no answer, a dollar sign for a maintenance reservation."""
        return self.state.lower().rstrip("*$")


def out_of_service(job: Job, nodes: int) -> str:
    """Return why a job would wait until a person repairs nodes; empty if enough are in service, or without Slurm.

    Slurm accepts such a job, and keeps it pending. ReFrame 4.10 cancels it for the reason ``ReqNodeNotAvail`` only,
    which Slurm does not always give.

    :param nodes: number of nodes that the job needs.
    """
    partitions = _partitions(job) if is_slurm(job) else None
    if partitions is None:
        return ""
    usable = [
        node for node in _nodes() if (node.partition.rstrip("*") in partitions if partitions else "*" in node.partition)
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


def _partitions(job: Job) -> set[str] | None:
    """Return the partitions that a job's options name, empty for the default one; None for a job on another cluster."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-p", "--partition", nargs="?")
    parser.add_argument("-M", "--clusters", nargs="?")
    options: Sequence[str] = (*job.sched_access, *job.options, *job.cli_options)
    arguments, _ = parser.parse_known_args([word for option in options for word in option.split()])
    return None if arguments.clusters else set(filter(None, (arguments.partition or "").split(",")))


def _nodes(*options: str) -> list[_Node]:
    """Return the nodes that sinfo lists, all of them or those that its options choose; none where sinfo fails."""
    command = ["sinfo", "--all", "--noheader", "--Node", "--format=%P|%a|%N|%T|%E", *options]
    try:
        output = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_PROMPT).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    rows = (line.strip().split("|", 4) for line in output.splitlines())
    return [_Node(*columns) for columns in rows if len(columns) == 5]


def end_of_job(job: Job, state: str | None, stderr: Path, max_pending_time: float | None) -> str:
    """Return why a job ended early, as far as is known: its state in Slurm, and the last line of its output.

    :param job: the job, of any scheduler.
    :param state: state in Slurm; None without Slurm, or if Slurm does not know the job.
    :param stderr: error file of the job, which exists once the job has started.
    :param max_pending_time: seconds after which ReFrame cancels a job that waits in the queue.
    """
    if stderr.exists():
        lines = texts.tail(stderr).strip().splitlines()
        last = lines[-1].removeprefix("error: ") if lines else f"it printed nothing ({stderr.parent})"
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
    return (
        f"Slurm says {state}, and the job wrote nothing: the nodes do not see {stderr.parent}. Set the stage "
        "directory to one that they share with this host: RFM_STAGE_DIR=DIR"
    )
