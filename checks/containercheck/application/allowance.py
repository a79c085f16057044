"""Compute the time and memory that a job may take, from its work and the limits of site and user."""

from __future__ import annotations

import math
from dataclasses import dataclass

from containercheck.application.declare import Work
from containercheck.job.stats.boundaries import FEWEST, HORIZON
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site

#: Seconds of a job before its rounds: its start, the trial of ranks, and the host's MPI. The second value is the most,
#: if ranks do not find each other (job/start_ranks.py), or images are copied.
START, SLOW_START = 15.0, 600.0
#: Most time of the preparation, as a multiple of the expected time.
SLOWEST = 20
#: Runs of a side that exceed their limit before the job ends (job/rounds.py).
FAILURES = 2
#: Share of a job's time limit that is planned; and the share of the rest that is for the rounds of the verdict.
PLANNED, FOR_ROUNDS = 0.9, 0.6
#: Part of its limit that a run of unknown duration is expected to take, as with a published input.
UNKNOWN = 0.25
#: Memory that a job requests, as a multiple of a run's, and at least, in bytes: images in memory and the page cache
#: count.
SPARE, LEAST_MEMORY = 2, 2 << 30


@dataclass(frozen=True)
class Run:
    """Estimate a bare run.

    :ivar unit: unit of its work; empty if the work is not known.
    :ivar amount: amount of work, on all cores together.
    :ivar memory: bytes on a node.
    :ivar before: seconds for the input, once in a job.
    :ivar seconds: seconds of the run.
    :ivar limit: seconds after which it counts as hanging.
    """

    unit: str
    amount: float
    memory: float
    before: float
    seconds: float
    limit: float

    @classmethod
    def of(cls, work: Work | None, amount: float | None, layout: Layout, limit: float) -> Run:
        """Estimate a run.

        :param work: None if it is not known.
        :param amount: of that work.
        """
        if not work or amount is None:
            return cls("", 0.0, 0.0, 0.0, UNKNOWN * limit, limit)
        program = work.bytes_per_node + layout.ranks_per_node * layout.threads * work.bytes_per_core
        memory = amount * work.bytes_per_unit / layout.nodes + program
        return cls(
            work.unit, amount, memory, amount * work.setup_seconds_per_unit, work.seconds(amount, layout.cores), limit
        )


@dataclass(frozen=True)
class Allowance:
    """Hold the time of a job, in seconds.

    :ivar rounds: for all rounds; 0 if there is only one run.
    :ivar expected: of the whole job, which ends with its verdict.
    :ivar at_most: of the whole job, after which it hangs, or has met a limit.
    """

    rounds: float
    expected: float
    at_most: float


def allow(
    site: Site, nodes: int, run: Run, sides: int, seconds: float, node_hours: float, needed: int = HORIZON
) -> Allowance:
    """Return the time of a job.

    :param run: estimate of a bare run.
    :param sides: number of sides in each round.
    :param seconds: time for all rounds.
    :param node_hours: limit of the job; 0 for none.
    :param needed: rounds after which the verdict is expected.
    :raises LayoutError: a run needs more memory than a node has, or the limits of site or user are too short for one
        round.
    """
    if site.known_memory and run.memory > site.known_memory:
        needs, has = (f"{size / (1 << 30):.3g} GiB" for size in (run.memory, site.known_memory))
        raise LayoutError(f"needs about {needs} of memory on a node: {site.partition} has {has}")
    before, one_round = START + run.before, sides * run.seconds
    rounds = seconds if sides > 1 else 0.0
    # The confirmation of a failure may take as long as the rounds.
    at_most = SLOW_START + run.before + 2 * rounds + FAILURES * sides * run.limit
    for longest, limit in (
        (site.time_limit, f"the time limit of {site.partition} is"),
        (3600 * node_hours / nodes or None, f"{node_hours:g} node-hours on {nodes} node(s) are"),
    ):
        if longest is None:
            continue
        if PLANNED * longest < before + one_round:
            raise LayoutError(f"a job with one round takes about {before + one_round:.0f} s: {limit} {longest:.0f} s")
        # If more than one round fits, the confirmation of a failure gets the rest.
        rounds = min(rounds, max(one_round, FOR_ROUNDS * (PLANNED * longest - before)))
        at_most = min(at_most, longest)
    if sides == 1:
        return Allowance(rounds, before + one_round, math.ceil(at_most))
    # Two rounds run if the job's own limit allows them, even if they are long (job/rounds.py).
    least = min(FEWEST * one_round, max(one_round, at_most - before))
    return Allowance(rounds, before + max(least, min(rounds, needed * one_round)), math.ceil(at_most))


def prepare_limit(before: float) -> float:
    """Return the seconds after which the preparation counts as hanging, and is ended.

    :param before: seconds that it is expected to take.
    """
    return SLOW_START + SLOWEST * before


def resources(site: Site, run: Run) -> dict[str, dict[str, object]]:
    """Return the resources that a job requests, by the names that ReFrame's ``resources`` have in the site file.

    ``memory`` has the ``size`` on a node: all of it for a job with exclusive nodes or unknown memory; otherwise the
    expected memory with some to spare. If neither is known, there is no size, and ReFrame leaves out the options that
    name it.
    """
    most, size = site.known_memory, max(SPARE * run.memory, LEAST_MEMORY)
    if not most and not run.memory:
        return {"memory": {}}
    if most:
        size = most if site.exclusive or not run.memory else min(size, most)
    return {"memory": {"size": f"{int(size) >> 20}M"}}
