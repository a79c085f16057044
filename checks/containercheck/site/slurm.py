"""What Slurm knows of a job that ReFrame's squeue has lost, and of the nodes that a job would wait for."""

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

#: States in which a job still runs, or will.
_ALIVE = {"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED"}
#: States that a job passes through, and may never leave: what sees to it hangs, or a person has to.
STUCK = {
    *("COMPLETING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD", "RESIZING"),
    *("REVOKED", "SIGNALING", "STAGE_OUT", "STOPPED"),
}
#: States of a job that ended, or was given up, in the queue.
_NEVER_STARTED = {"PENDING", "CANCELLED", "DEADLINE"}
#: States of a job that met its time limit, or had to make room: what it had done counts.
_MET_LIMIT = {"TIMEOUT", "DEADLINE", "PREEMPTED"}
#: Seconds for which a controller that does not answer is waited for, and a job that stays in such a state.
PATIENCE = 300
_INTERVAL = 2
#: States of a node, in sinfo's words, in which it gets no job before a person has seen to it. Not what is reserved, is
#: asleep to save power, or starts again.
_OUT = {"down", "drained", "draining", "fail", "failing", "error", "inval"}
#: So many of such nodes are named, and so many seconds sinfo has to tell of them.
_NAMED, _PROMPT = 3, 30


class Unreachable(Exception):
    """Slurm's controller does not answer."""


def is_slurm(job: Job) -> bool:
    """Tell whether the job was given to Slurm."""
    return job.scheduler.registered_name in ("slurm", "squeue")


def state_of(jobid: str) -> str | None:
    """Return the state of a job (``NODE_FAIL``, say), or None if Slurm has forgotten it.

    :raises Unreachable: the controller does not answer.
    """
    return _told(jobid, "JobState")


def restarts_of(jobid: str) -> int:
    """Return how often Slurm has started a job again; otherwise as :func:`state_of`."""
    return int(_told(jobid, "Restarts") or 0)


def is_alive(state: str | None) -> bool:
    """Tell whether a job in this state still runs, or will."""
    return state in _ALIVE or state in STUCK


def _told(jobid: str, name: str) -> str | None:
    """Return one of the values that scontrol tells of a job; otherwise as :func:`state_of`."""
    command = ["scontrol", "show", "job", "-o", jobid]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_PROMPT)
    except subprocess.TimeoutExpired:
        raise Unreachable(f"scontrol has not answered for {_PROMPT} s") from None
    if found := re.search(rf"\b{name}=(\S+)", result.stdout):
        return found[1]
    if "Invalid job id" in result.stderr:
        return None
    raise Unreachable(result.stderr.strip())


def outlast(job: Job, finished: Callable[[], bool]) -> str | None:
    """Wait until the job has really ended and return its last state, or None where Slurm does not know.

    ReFrame takes a job for ended when squeue prints nothing of it, as it does while the controller is restarted. One
    that does not leave its state is not waited for for ever: it may be COMPLETING because an epilog hangs.

    :param finished: tells from what the job wrote that nothing needs to be waited for.
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
    """Return how Slurm says that a job lost one of its nodes, or nothing: that spoils its last runs.

    A job whose runs fail soon enough comes to its end by itself before Slurm gives the node up, and its state need not
    be ``NODE_FAIL`` then; it stays ``COMPLETING`` until the node is down.
    """
    if not is_slurm(job):
        return ""
    deadline = time.monotonic() + PATIENCE
    if outlast(job, lambda: time.monotonic() > deadline) == "NODE_FAIL":
        return "Slurm says NODE_FAIL"
    try:
        nodes = _told(job.jobid, "NodeList")
    except Unreachable:
        return ""
    down = [node.problem for node in _nodes(f"--nodes={nodes}") if node.is_down] if nodes else []
    return f"Slurm says {', '.join(dict.fromkeys(down))}" if down else ""


def met_limit(state: str | None) -> bool:
    """Tell whether a job met its time limit, as far as Slurm knows; without Slurm, whatever ended it in order did."""
    return state is None or state in _MET_LIMIT


@dataclass(frozen=True)
class _Node:
    """A node in one of its partitions, in sinfo's words.

    :ivar partition: with an asterisk for the default one.
    :ivar available: state of the partition.
    """

    partition: str
    available: str
    name: str
    state: str
    reason: str

    @property
    def problem(self) -> str:
        """Why it gets no job; empty where it does."""
        if self.available != "up":
            return f"partition {self.partition.rstrip('*')} is {self.available}"
        why = f" ({self.reason})" if self.reason not in ("", "none") else ""
        return f"{self.name} {self._plain}{why}" if self._plain in _OUT else ""

    @property
    def is_down(self) -> bool:
        """Whether Slurm has given it up, by itself or because it was told to."""
        return self._plain == "down"

    @property
    def _plain(self) -> str:
        # An asterisk: it does not answer. A dollar sign: it is reserved for maintenance.
        return self.state.lower().rstrip("*$")


def out_of_service(job: Job, nodes: int) -> str:
    """Return why a job on so many nodes would wait until a person sees to them, with their states.

    Slurm takes such a job, and keeps it as pending; of the reasons that it gives for that, ReFrame 4.10 cancels a job
    for one only, ``ReqNodeNotAvail``, and another is also given while nodes are merely reserved. Empty where enough
    nodes of the job's partition are in service, and where there is no Slurm, or it does not tell.
    """
    wanted = _partitions(job) if is_slurm(job) else None
    if wanted is None:
        return ""
    own = [one for one in _nodes() if (one.partition.rstrip("*") in wanted if wanted else "*" in one.partition)]
    every = {one.name for one in own}
    ready = {one.name for one in own if not one.problem}
    # More than there are Slurm refuses by itself.
    if len(ready) >= nodes or len(every) < nodes:
        return ""
    problems = list(dict.fromkeys(one.problem for one in own if one.name not in ready))
    names = ", ".join(sorted({one.partition.rstrip("*") for one in own}))
    more = f", and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
    return (
        f"needs {nodes} node(s), and Slurm's partition {names} has {len(ready)} of {len(every)} in service: "
        f"{', '.join(problems[:_NAMED])}{more}"
    )


def _partitions(job: Job) -> set[str] | None:
    """Return the partitions that a job's options name, or none for the default one; None for another cluster's."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-p", "--partition", nargs="?")
    parser.add_argument("-M", "--clusters", nargs="?")
    options: Sequence[str] = (*job.sched_access, *job.options, *job.cli_options)
    asked, _ = parser.parse_known_args([word for option in options for word in option.split()])
    return None if asked.clusters else set(filter(None, (asked.partition or "").split(",")))


def _nodes(*options: str) -> list[_Node]:
    """Return what sinfo tells of all nodes, or of those that options choose; nothing where it does not."""
    command = ["sinfo", "--all", "--noheader", "--Node", "--format=%P|%a|%N|%T|%E", *options]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=_PROMPT).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = (line.strip().split("|", 4) for line in told.splitlines())
    return [_Node(*words) for words in found if len(words) == 5]


def end_of_job(job: Job, state: str | None, stderr: Path, max_pending_time: float | None) -> str:
    """Return why a job ended early, as far as can be told: Slurm's state of it, and the last line that it printed.

    :param job: for its scheduler, of which there are others.
    :param state: None where there is no Slurm, or it does not know.
    :param stderr: the job's, which is there once the job has started.
    :param max_pending_time: seconds after which ReFrame cancels a job that waits in the queue.
    """
    if stderr.exists():
        errors = texts.tail(stderr).strip().splitlines()
        said = errors[-1].removeprefix("error: ") if errors else f"it printed nothing ({stderr.parent})"
        return f"Slurm says {state}: {said}" if state else said
    if state is None:
        known = f" and says {job.state}" if job.state and not is_slurm(job) else ""
        said = f"{job.scheduler.registered_name} took it as job {job.jobid}{known}, and it left no output"
        return f"{said}: was it started, and do the nodes see {stderr.parent}?"
    if state in _NEVER_STARTED:
        waited = f"; it may wait {max_pending_time:g} s in the queue" if max_pending_time else ""
        return f"Slurm says {state}, the job never started (pending time{waited})"
    return f"Slurm says {state}, and the job wrote nothing: do the nodes see {stderr.parent}?"
