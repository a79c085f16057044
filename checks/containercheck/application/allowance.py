"""What a job may take: time and memory that follow from its work, and the limits of site and person."""

from __future__ import annotations

import math
from dataclasses import dataclass

from containercheck.application.facts import Work
from containercheck.node.stats.boundaries import HORIZON
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site

#: Seconds of a job before its rounds: its start, the ranks that are tried, the host's MPI that is brought in. And where
#: that is slow: ranks that do not find each other are waited for (node/job/rank_trial.py), images are copied.
START, SLOW_START = 15.0, 600.0
#: What comes before may take so many times what is expected of it.
SLOWEST = 20
#: Runs of a side that are ended at their limit before the job is given up (node/job/rounds.py).
FAILURES = 2
#: Part of a job's time that is planned with, where somebody limits it.
PLANNED = 0.9
#: Part of its limit that a run is expected to take where nobody knows, as with a published input.
UNKNOWN = 0.25
#: A job asks for so many times the memory that a run is expected to take, and for so many bytes at least: images lie in
#: it, and files count that were read.
SPARE, LEAST_MEMORY = 2, 2 << 30


@dataclass(frozen=True)
class Run:
    """What one bare run is expected to be.

    :ivar unit: of what it works on; empty where that is not known.
    :ivar amount: of that, on all cores together.
    :ivar memory: bytes on a node.
    :ivar before: seconds for the input, once in a job.
    :ivar seconds: of the run.
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

        :param work: None where nobody knows.
        :param amount: of that work.
        """
        if not work or amount is None:
            return cls("", 0.0, 0.0, 0.0, UNKNOWN * limit, limit)
        itself = work.bytes_per_node + layout.ranks_per_node * layout.threads * work.bytes_per_core
        memory = amount * work.bytes_per_unit / layout.nodes + itself
        return cls(
            work.unit, amount, memory, amount * work.setup_seconds_per_unit, work.seconds(amount, layout.cores), limit
        )


@dataclass(frozen=True)
class Allowance:
    """Seconds of a job.

    :ivar rounds: for all rounds; 0 where there is one run.
    :ivar expected: of the whole job, which ends when its verdict is there.
    :ivar at_most: of the whole job; then something hangs, or a limit is met.
    :ivar rounds_expected: after about how many rounds the verdict is there, by the known spread of the figures; the
        horizon where it is expected to stay open; 1 where there is one run.
    """

    rounds: float
    expected: float
    at_most: float
    rounds_expected: int


def allow(
    site: Site, nodes: int, run: Run, sides: int, seconds: float, node_hours: float, needed: int = HORIZON
) -> Allowance:
    """Return the time of a job.

    :param run: of the bare program.
    :param sides: that are run in each round.
    :param seconds: that all rounds should have.
    :param node_hours: that the job may take; 0 for any.
    :param needed: rounds after which the verdict is expected.
    :raises LayoutError: a run needs more memory than a node has, or not even one round fits into what the site or the
        person allows.
    """
    if site.known_memory and run.memory > site.known_memory:
        wanted, there = (f"{one / (1 << 30):.3g} GiB" for one in (run.memory, site.known_memory))
        raise LayoutError(f"needs some {wanted} of memory on a node: {site.partition} has {there}")
    before, once = START + run.before, sides * run.seconds
    rounds = seconds if sides > 1 else 0.0
    at_most = SLOW_START + run.before + rounds + FAILURES * sides * run.limit
    for longest, whose in (
        (site.time_limit, f"the time limit of {site.partition} is"),
        (3600 * node_hours / nodes or None, f"{node_hours:g} node-hours on {nodes} node(s) are"),
    ):
        if longest is None:
            continue
        if PLANNED * longest < before + once:
            raise LayoutError(f"a job with one round takes some {before + once:.0f} s: {whose} {longest:.0f} s")
        rounds = min(rounds, PLANNED * longest - before)
        at_most = min(at_most, longest)
    if sides == 1:
        return Allowance(rounds, before + once, math.ceil(at_most), 1)
    return Allowance(rounds, before + max(once, min(rounds, needed * once)), math.ceil(at_most), needed)


def prepare_limit(before: float) -> float:
    """Return the seconds after which what comes before the rounds is ended: it hangs.

    :param before: seconds that it is expected to take.
    """
    return SLOW_START + SLOWEST * before


def resources(site: Site, run: Run) -> dict[str, dict[str, object]]:
    """Return what a job asks for by the names that ReFrame's ``resources`` may have in the site file.

    ``memory`` has the ``size`` on a node: all of it for a job that has its nodes to itself, or of which nobody knows
    what it takes; otherwise what it is expected to take, with some to spare. Where that is not known either, there is
    no size, and ReFrame leaves out the options that name it.
    """
    most, size = site.known_memory, max(SPARE * run.memory, LEAST_MEMORY)
    if not most and not run.memory:
        return {"memory": {}}
    if most:
        size = most if site.exclusive or not run.memory else min(size, most)
    return {"memory": {"size": f"{int(size) >> 20}M"}}
