"""Lay out a program's ranks on the nodes of a partition."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from reframe.core.exceptions import ReframeError

from containercheck.site.sites import Site, usable_processors


class LayoutError(Exception):
    """Report a program that does not fit the nodes; the message is the reason for the skip."""


@dataclass(frozen=True)
class Layout:
    """Describe the layout of a program's ranks on the nodes of a job.

    :ivar nodes: number of nodes.
    :ivar ranks_per_node: ranks on each node.
    :ivar threads: threads, and cores, of each rank.
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
        min_ranks: int,
        max_cores: int | None = None,
    ) -> Layout:
        """Return the layout for a partition.

        :param ranks_per_node: None for one on each core, or for each group of ``threads`` cores.
        :param threads: threads of a rank; 0 for as many as make use of all cores.
        :param min_ranks: fewest ranks that the program can run with.
        :param max_cores: most cores that its input has work for; None for any number.
        :raises LayoutError: the ranks do not fit on the nodes, or the number of cores is not known.
        """
        if site.cores is None and (ranks_per_node is None or threads == 0):
            raise LayoutError(f"cores per node unknown: write 'processor' of {site.partition} into the site file")
        cores = site.cores or 1
        if threads == 0:
            threads = max(1, cores // (ranks_per_node or 1))
        layout = cls(nodes, ranks_per_node or max(1, cores // threads), threads, site.binding)
        needed = layout.ranks_per_node * threads
        if site.cores is not None and needed > cores:
            raise LayoutError(f"needs {needed} cores per node: {site.partition} has {cores}")
        if layout.ranks < min_ranks:
            raise LayoutError(f"needs {min_ranks} ranks: {nodes} node(s) have {layout.ranks}")
        if max_cores is not None and layout.cores > max_cores:
            raise LayoutError(f"its input has work for {max_cores} cores: {nodes} node(s) have {layout.cores}")
        return layout

    def require_here(self, site: Site, usable: int | None = None) -> None:
        """Check that a job on this machine needs no more processors than the session may use.

        ReFrame keeps the processors that it detects in ``~/.reframe/topology``, which machines with a common home
        directory share.

        :param usable: number of processors that the session may use; None to ask the machine.
        :raises ReframeError: there are too few.
        """
        if not site.is_here:
            return
        usable = usable_processors() if usable is None else usable
        if self.ranks_per_node * self.threads > usable:
            raise ReframeError(
                f"{os.uname().nodename} has {usable} core(s) for this session, the configuration says {site.cores}: "
                f"correct 'processor' of {site.partition} in the site file, or remove ReFrame's detected topology "
                "(~/.reframe/topology)"
            )

    @property
    def ranks(self) -> int:
        """Return the number of ranks on all nodes."""
        return self.nodes * self.ranks_per_node

    @property
    def cores(self) -> int:
        """Return the number of cores that the ranks use on all nodes."""
        return self.ranks * self.threads

    def bound_by(self, launcher: str, family: str = "openmpi", by_list: bool = False) -> list[str]:
        """Return the options with which a launcher binds the ranks; none for an unknown launcher.

        :param launcher: ReFrame's name of the launcher.
        :param family: family of MPI that an ``mpirun`` belongs to, a key of ``mpi.FAMILIES``.
        :param by_list: whether the nodes come from the site's list, which may have more slots than a node has ranks.
        """
        if launcher.startswith("srun"):
            return [] if self.binding == "launcher" else [f"--cpu-bind={self.binding}"]
        if launcher not in ("mpirun", "mpiexec"):
            return []
        # Without the number of threads, mpirun would bind all threads of a rank to one core.
        threads = f":{self.threads}" if self.binding == "cores" and self.threads > 1 else ""
        bound = {"launcher": [], "none": ["--bind-to none"], "cores": ["--bind-to core"]}[self.binding]
        if family == "mpich":
            spread = [f"-ppn {self.ranks_per_node}"] if by_list else []
            return [*spread, *(f"{option}{threads}" for option in bound)]
        place = f"ppr:{self.ranks_per_node}:node" if by_list else "slot" if threads else ""
        elements = threads.replace(":", ":PE=")
        return [*([f"--map-by {place}{elements}"] if place else []), *bound]

    def once_per_node(self) -> str:
        """Return the words of Slurm's launcher that start a command once on each node, with the cores of its ranks.

        Empty for one node, because the job's script runs there.
        """
        if self.nodes == 1:
            return ""
        cores = self.ranks_per_node * self.threads
        words = f"srun --nodes={self.nodes} --ntasks={self.nodes} --ntasks-per-node=1 --cpus-per-task={cores}"
        # If a container does not start, the others wait for it.
        return f"{words} --cpu-bind=none --mpi=none --kill-on-bad-exit=1"

    @property
    def grid(self) -> tuple[int, int]:
        """Return rows and columns of a process grid as near to a square as the ranks allow; rows >= columns."""
        columns = next(number for number in range(math.isqrt(self.ranks), 0, -1) if self.ranks % number == 0)
        return self.ranks // columns, columns
