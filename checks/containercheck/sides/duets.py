"""Duet rounds: both sides at the same time, each on half of a node's cores, then once more with the halves swapped.

L. Bulej, V. Horky, P. Tuma, F. Farquet, A. Prokopec, *Duet Benchmarking: Improving Measurement Accuracy in the Cloud*,
ICPE 2020, doi:10.1145/3358960.3379132. The host of a virtual machine and its neighbours disturb both sides alike,
and each side runs once on the slower half. A side's value in a round is the middle of its two runs
(node/stats/scale.py), so that d of the round is the mean of both d.

Bare and container each have half of the cores, of the memory and of the work: duets measure overheads, and no absolute
figures of the node. They suit a program's own computing and memory traffic. They do not suit start-up, nor what needs
the whole node, nor sides that would disturb each other unequally (page cache, one disk). A side that starts later has
the node's memory to itself for as long at its end, which affects figures of a run's first or last moments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reframe.core.exceptions import ReframeError

from containercheck.application.facts import Figure
from containercheck.node.container_runtimes import Runtime
from containercheck.node.job.awake import is_virtual
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site, usable_processors

#: Values of ``duet``; ``auto`` means duets on virtual machines, for checks that lose no figure by them.
ASKED = ("yes", "no", "auto")


@dataclass(frozen=True)
class Case:
    """The facts that decide whether the sides of a check can run at the same time.

    :ivar nodes: of the job.
    :ivar sides: number of sides.
    :ivar figures: figures that the check declares.
    :ivar runtime: of the container; None without one.
    :ivar gpus: whether the program uses GPUs of the node.
    :ivar unpacked: whether the image is a directory of the stage directory.
    """

    nodes: int
    sides: int
    figures: Sequence[Figure]
    runtime: Runtime | None = None
    gpus: bool = False
    unpacked: bool = False


@dataclass(frozen=True)
class Choice:
    """How the sides of a check are run.

    :ivar at_once: whether they run at the same time.
    :ivar site: the partition as a side sees it: with half of a node, or all of it.
    :ivar layout: of a side.
    :ivar figures: figures that are compared.
    :ivar note: remark for the results; empty for none.
    """

    at_once: bool
    site: Site
    layout: Layout
    figures: Sequence[Figure]
    note: str = ""

    def with_figures(self, figures: Sequence[Figure]) -> Choice:
        """Return the same for figures that the check has changed since; at once, for those that suit that."""
        return replace(self, figures=[figure for figure in figures if figure.duet or not self.at_once])

    def facts(self, stagedir: str) -> dict[str, object] | None:
        """Return the entry for ``facts.json``; None if the sides run one after the other."""
        cores = self.layout.ranks_per_node * self.layout.threads
        return {"cores": cores, "stagedir": stagedir} if self.at_once else None


def choose(asked: str, site: Site, case: Case, lay_out: Callable[[Site], Layout]) -> Choice:
    """Choose how the sides of a check are run.

    :param asked: one of :data:`ASKED`.
    :param lay_out: function that places the ranks of a side on a partition.
    :raises LayoutError: they do not fit, even one side after the other.
    :raises ReframeError: ``asked`` has another value.
    """
    if asked not in ASKED:
        raise ReframeError(f"duet is {asked!r}, not {', '.join(map(repr, ASKED))}")
    fit = [figure for figure in case.figures if figure.duet]
    wanted = asked == "yes" or (asked == "auto" and len(fit) == len(case.figures) and _is_virtual(site))
    if not wanted or case.sides == 1:
        return Choice(False, site, lay_out(site), case.figures)
    reason = why_not(site, case)
    if not reason:
        half = half_of(site)
        try:
            return Choice(True, half, lay_out(half), fit, _note(case.figures))
        except LayoutError as error:
            reason = f"on half of a node it {error}"
    return Choice(False, site, lay_out(site), case.figures, f"not measured as a duet: {reason}" * (asked == "yes"))


def half_of(site: Site) -> Site:
    """Return a partition as each side sees it: a node with half of the cores and memory.

    The runner confines ranks to their half (node/job/halves.py). A launcher that binds them would not know of it.
    """
    return replace(site, cores=site.cores // 2, memory_per_node=site.memory // 2, binding="none")


def why_not(site: Site, case: Case) -> str:
    """Return why the sides of a check cannot run at the same time; empty where they can."""
    if case.sides != 2:
        return f"{case.sides} sides are compared"
    if case.nodes != 1:
        return "it runs on several nodes"
    if not any(figure.duet for figure in case.figures):
        return "none of its figures can be compared so"
    if not site.is_here:
        return f"jobs of {site.partition} run under a scheduler, which places ranks itself"
    if not site.cores or site.cores < 2:
        return f"{site.partition} has no two cores"
    if usable_processors() < site.cores:
        return f"this session may use {usable_processors()} of its {site.cores} cores"
    if case.gpus:
        return "both sides would share its GPUs"
    if case.unpacked:
        return "its image is a directory of the stage directory, of which each side would need its own"
    if case.runtime and not case.runtime.starts_containers:
        return f"{case.runtime.name} has a daemon start the container, wherever it likes"
    return ""


def _is_virtual(site: Site) -> bool:
    return site.is_here and is_virtual(Path("/proc/cpuinfo").read_text())


def _note(figures: Sequence[Figure]) -> str:
    left = [figure.name for figure in figures if not figure.duet]
    note = "both sides ran at the same time, each on half of the cores, and again with the halves swapped"
    return note + (f"; not compared so: {', '.join(left)} (-S duet=no)" if left else "")
