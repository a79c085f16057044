"""Choose how the sides of a check run: one after the other in rounds, or at the same time as a duet.

A duet runs each side on half of a node's cores, then once more with the halves swapped (job/runner.py). Source:
L. Bulej, V. Horky, P. Tuma, F. Farquet, A. Prokopec, *Duet Benchmarking: Improving Measurement Accuracy in the Cloud*,
ICPE 2020, doi:10.1145/3358960.3379132. The host of a virtual machine and its neighbours disturb both sides alike, and
each side runs once on the slower half.

Bare and container each have half of the cores, of the memory and of the work. So duets measure overheads, and not
absolute metrics of the node. They suit a program's own computing and memory traffic. They do not suit start-up,
programs that need the whole node, or sides that disturb each other unequally (page cache, one disk). A side that starts
later has the node's memory to itself for the same time at its end. This affects metrics of a run's first or last
moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from containercheck.application.declare import Metric
from containercheck.job import contract, texts, this_node
from containercheck.job.container_runtimes import Runtime
from containercheck.site import node_commands
from containercheck.site.layout import LayoutError
from containercheck.site.sites import Site, usable_processors


def can_be_duet(
    site: Site, metrics: Sequence[Metric], *, nodes: int = 1, sides: int = 2, runtime: Runtime | None = None
) -> bool:
    """Return whether two sides can run at the same time, each on half of this machine, and be compared so.

    A scheduler places ranks itself, and a daemon its containers.

    :param metrics: metrics that the check declares.
    :param nodes: number of nodes of the job.
    :param sides: number of sides.
    :param runtime: runtime of the container; None without one.
    """
    is_whole = site.is_here and 2 <= (site.cores or 0) <= usable_processors()
    can_be_confined = runtime is None or runtime.starts_containers
    return sides == 2 and nodes == 1 and is_whole and can_be_confined and any(metric.duet for metric in metrics)


def half_of(site: Site) -> Site:
    """Return a partition as each side of a duet sees it: a node with half of the cores and memory.

    A launcher that binds ranks would not know of their half: the runner confines them to it.
    """
    return replace(site, cores=(site.cores or 0) // 2, memory_per_node=site.memory // 2, binding="none")


def on_hypervisor() -> bool:
    """Return whether this machine is virtual."""
    return this_node.is_virtual(texts.small(this_node.CPUINFO))


def is_duet(wanted: bool | None, gains: bool, metrics: Sequence[Metric], can_be: bool) -> bool:
    """Return whether the sides of a check run at the same time.

    By default they do on a virtual machine if the check gains by it and all its metrics can be measured so.

    :param wanted: the option ``duet``; None for the default.
    :param gains: whether the rounds of the check spread less then.
    :param can_be: whether they can: see :func:`can_be_duet`.
    :raises LayoutError: it is wanted, and not possible.
    """
    if wanted and not can_be:
        raise LayoutError(
            "cannot be measured as a duet: that takes two sides, metrics that suit it, and this whole machine without "
            "its GPUs, a scheduler or a daemon of containers"
        )
    if wanted is not None:
        return wanted
    return gains and can_be and all(metric.duet for metric in metrics) and on_hypervisor()


def duet_metrics(metrics: Sequence[Metric]) -> list[Metric]:
    """Return the metrics that are compared in a duet, with the spread that they have there."""
    return [replace(metric, spread=metric.duet_spread or metric.spread) for metric in metrics if metric.duet]


def duet_note(metrics: Sequence[Metric]) -> str:
    """Return the remark on a duet, with the metrics that are not compared in it."""
    left_out = [metric.name for metric in metrics if not metric.duet]
    note = "both sides ran at the same time, each on half of the cores, and again with the halves swapped"
    return note + (f"; not compared so: {', '.join(left_out)} (-S duet=no)" if left_out else "")


def command(
    site: Site,
    *,
    amount: int,
    seconds: float,
    limit: float,
    local_ranks: int = 0,
    collect: Sequence[str] = (),
    prepare: float = 0.0,
    keep_awake: bool = False,
    quiet: float = contract.QUIET,
) -> str:
    """Return the command that runs all sides in rounds.

    :param amount: number of rounds, for any verdict; 0 to let the verdict decide.
    :param seconds: seconds for all rounds.
    :param limit: seconds that one run may take.
    :param local_ranks: ranks of MPI on a node, the only ones that the runner can inspect; 0 without MPI.
    :param collect: files that every run writes.
    :param prepare: seconds that the script which makes the input may take; 0 if there is none.
    :param keep_awake: whether the processors of a virtual machine are kept busy.
    :param quiet: seconds without disturbance that the first round waits for.
    """
    words = [f"--rounds={amount}" if amount else f"--seconds={seconds:g}", f"--limit={limit:g}"]
    words += [f"--local-ranks={local_ranks}", *(f"--collect={name}" for name in collect)]
    words += [f"--prepare={contract.PREPARE}", f"--prepare-limit={prepare:g}"] if prepare else []
    words += [f"--quiet={quiet:g}"] if quiet != contract.QUIET else []
    words += ["--keep-awake"] if keep_awake else []
    words += [] if site.locks_machine else ["--alone"]
    return node_commands.in_job(site, "rounds", *words)
