"""How a program's ranks lie on the nodes of a partition."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from reframe.core.exceptions import ReframeError

from containercheck.site import processors
from containercheck.site.sites import Site


class LayoutError(Exception):
    """The program does not fit the nodes; the message is the reason for the skip."""


@dataclass(frozen=True)
class Layout:
    """How a program's ranks lie on the nodes.

    :ivar nodes: nodes of the job.
    :ivar ranks_per_node: ranks on each.
    :ivar threads: threads, and cores, of a rank.
    :ivar binding: one of ``sites.BINDINGS``.
    """

    nodes: int
    ranks_per_node: int
    threads: int
    binding: str = "launcher"

    @classmethod
    def on(
        cls,
        site: Site,
        nodes: int,
        ranks_per_node: int | None,
        threads: int,
        least: int,
        most: int | None = None,
    ) -> Layout:
        """Lay ranks on a partition's nodes.

        :param ranks_per_node: None for one on each core, or for each group of ``threads`` cores.
        :param threads: of a rank; 0 for as many as make use of all cores.
        :param least: fewest ranks that the program makes sense with.
        :param most: most cores that its input has work for; None for any number.
        :raises LayoutError: they do not fit, or the cores are not known.
        """
        if site.cores is None and (ranks_per_node is None or threads == 0):
            raise LayoutError(f"cores per node unknown: write 'processor' of {site.partition} into the site file")
        cores = site.cores or 1
        if threads == 0:
            threads = max(1, cores // (ranks_per_node or 1))
        layout = cls(nodes, ranks_per_node or max(1, cores // threads), threads, site.binding)
        needed = layout.ranks_per_node * threads
        if site.cores is not None and needed > site.cores:
            raise LayoutError(f"needs {needed} cores per node: {site.partition} has {site.cores}")
        if layout.ranks < least:
            raise LayoutError(f"needs {least} ranks: {nodes} node(s) have {layout.ranks}")
        if most is not None and layout.cores > most:
            raise LayoutError(f"its input has work for {most} cores: {nodes} node(s) have {layout.cores}")
        return layout

    def require_here(self, site: Site, there: int | None = None) -> None:
        """Refuse a job on this machine that needs more processors than a session may use.

        ReFrame keeps what it detects in ``~/.reframe/topology``, which a home directory takes to other machines.

        :param there: number of processors that may be used; None to ask the machine.
        :raises ReframeError: there are too few.
        """
        if not site.is_here:
            return
        there = processors.usable() if there is None else there
        if self.ranks_per_node * self.threads > there:
            raise ReframeError(
                f"{os.uname().nodename} has {there} core(s) for this session, the configuration says {site.cores}: "
                f"correct 'processor' of {site.partition} in the site file, or remove what ReFrame once detected "
                "(~/.reframe/topology)"
            )

    @property
    def ranks(self) -> int:
        """Ranks on all nodes."""
        return self.nodes * self.ranks_per_node

    @property
    def cores(self) -> int:
        """Cores that the ranks use on all nodes."""
        return self.ranks * self.threads

    def bound_by(self, launcher: str, family: str = "openmpi") -> list[str]:
        """Return the options with which a launcher binds the ranks; none for one whose options are not known.

        :param launcher: ReFrame's name of it.
        :param family: of the MPI that an ``mpirun`` belongs to, a key of ``mpi.FAMILIES``.
        """
        if self.binding == "launcher":
            return []
        if launcher.startswith("srun"):
            return [f"--cpu-bind={self.binding}"]
        if launcher not in ("mpirun", "mpiexec"):
            return []
        if self.binding == "none":
            return ["--bind-to none"]
        if self.threads == 1:
            return ["--bind-to core"]
        # To one core for all threads, unless they are told how many each rank has.
        if family == "mpich":
            return [f"--bind-to core:{self.threads}"]
        return [f"--map-by slot:PE={self.threads}", "--bind-to core"]

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of a process grid as near to a square as the ranks allow; rows >= columns."""
        columns = next(number for number in range(math.isqrt(self.ranks), 0, -1) if self.ranks % number == 0)
        return self.ranks // columns, columns
