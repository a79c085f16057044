"""What is known of a partition: the site file's own keys, and what the library reads beyond them, its extras.

Everything is asked of the partition: the machine that loads checks is not the one that runs them. Only where jobs run
on this very machine (ReFrame's local scheduler) may this machine answer.
"""

from __future__ import annotations

import difflib
import functools
import math
import numbers
import os
import platform
from collections.abc import Collection
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import reframe.utility.typecheck as typ
from reframe.core.exceptions import ReframeError
from reframe.core.runtime import runtime
from reframe.core.systems import SystemPartition

from containercheck import mpi, releases

#: The node axis: powers of two, to the largest run of the documents (D12.6 section 6.9.1, 256 nodes).
NODE_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
#: What ReFrame puts among a partition's extras by itself.
_REFRAME = {"scheduler", "launcher"}
#: How ranks are bound: what mpirun and srun are told; nothing where that is left to them.
BINDINGS = {
    "cores": (["--bind-to core"], ["--cpu-bind=cores"]),
    "none": (["--bind-to none"], ["--cpu-bind=none"]),
    "launcher": ([], []),
}


class SiteError(Exception):
    """The site file is wrong; the message says where, and what to do."""


class LayoutError(Exception):
    """The program does not fit the nodes; the message is the reason for the skip."""


def path_of(text: str) -> Path:
    """Return the path that a site file or a user gives, with its $VARIABLES and ~ filled in."""
    return Path(os.path.expandvars(text)).expanduser()


def _extra(kind: Any, default: Any = None) -> Any:
    return field(default=default, metadata={"type": kind})


@dataclass(frozen=True)
class Site:
    """A partition. The fields with a default are the extras; config/template.py says what each is for.

    :ivar partition: its full name.
    :ivar is_here: whether its jobs run on this machine.
    :ivar architecture: of its nodes, as ``uname -m`` says it; None where the site file does not tell.
    :ivar cores: physical cores of a node; None where the site file does not tell.
    :ivar gpus: GPUs of a node.
    :ivar hardware_threads: of a core; 1 where the site file does not tell.
    :ivar time_limit: longest job in seconds: the partition's ``time_limit``; None where it has none.
    """

    partition: str
    is_here: bool
    architecture: str | None
    cores: int | None
    gpus: int
    hardware_threads: int = 1
    time_limit: float | None = None
    max_nodes: int = _extra(int, 1)
    memory_per_node: int | None = _extra(int)
    max_pending_time: str | None = _extra(str)
    exclusive: bool = _extra(bool, True)
    parallel_environment: str | None = _extra(str)
    binding: str = _extra(str, "launcher")
    python: str | None = _extra(str)
    mpi: str | None = _extra(str)
    host_mpi: str | None = _extra(str)
    host_mpich: str | None = _extra(str)
    mpich_launcher_options: list[str] | None = _extra(typ.List[str])
    binds: list[str] | None = _extra(typ.List[str])
    images: dict[str, str] | None = _extra(typ.Dict[str, str])
    image_mirror: str | None = _extra(str)
    release: str | None = _extra(str)
    inputs: dict[str, str] | None = _extra(typ.Dict[str, str])
    tolerances: dict[str, dict[str, float]] | None = _extra(typ.Dict[str, typ.Dict[str, numbers.Real]])
    file_systems: dict[str, str] | None = _extra(typ.Dict[str, str])
    references: str | None = _extra(str)
    image_cache: str | None = _extra(str)
    venv_cache: str | None = _extra(str)
    jar_cache: str | None = _extra(str)
    input_cache: str | None = _extra(str)
    foreign: list[str] | None = _extra(typ.List[str])

    @classmethod
    def of(cls, partition: SystemPartition) -> Site:
        """Read a partition, once.

        :raises SiteError: an extra is unknown, or of the wrong type.
        """
        return _site(partition)

    @property
    def memory(self) -> int:
        """Memory of a node in bytes: the site's, for local jobs this machine's, else a guess of 16 GiB."""
        if self.memory_per_node is not None:
            return self.memory_per_node
        if self.is_here:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return 16 << 30

    @property
    def mpi_family(self) -> str:
        """Family of the MPI that its launcher starts: what the site says, what its library's name tells, or Open MPI.

        A key of ``mpi.FAMILIES``.
        """
        return self.mpi or (self.host_mpi and mpi.family_of(mpi.soname_of(self.host_mpi))) or "openmpi"

    def input_of(self, check: str, published: str) -> str:
        """Return the document's input for a check: the one that is asked for, or the site's; empty for neither."""
        return published or (self.inputs or {}).get(check, "")

    def tolerances_of(self, check: str, figures: Collection[str]) -> dict[str, float]:
        """Return the site's own tolerances for the figures of a check.

        :raises ReframeError: they name a figure that the check does not have.
        """
        found = (self.tolerances or {}).get(check, {})
        if unknown := found.keys() - set(figures):
            raise ReframeError(
                f"site file, extras of {self.partition}: tolerances: {check} has no figure "
                f"{', '.join(sorted(unknown))}; it has {', '.join(sorted(figures))}"
            )
        return found

    def cache(self, setting: str) -> Path:
        """Return a directory for what is built once: the site's ``<name>_cache``, or one below the user's own cache.

        :param setting: the extra, such as ``image_cache``; its default lies in ``images``.
        """
        configured = getattr(self, setting)
        if configured:
            return path_of(configured)
        name = setting.replace("_cache", "s")
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "containercheck" / name


@functools.cache
def _site(partition: SystemPartition) -> Site:
    known = {one.name: one.metadata["type"] for one in fields(Site) if "type" in one.metadata}
    extras = dict(partition.extras)
    where = f"site file, extras of {partition.fullname}"
    found = {name: value for name, value in extras.items() if name in known and value is not None}
    for name, value in found.items():
        if not isinstance(value, known[name]) or (isinstance(value, bool) and known[name] is not bool):
            kind = getattr(known[name], "__name__", str(known[name]))
            raise SiteError(f"{where}: {name} is {value!r}, and must be of the type {kind}")
    for name in extras.keys() - known.keys() - _REFRAME - set(found.get("foreign", ())):
        near = difflib.get_close_matches(name, known, 1)
        meant = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}."
        raise SiteError(f"{where}: unknown {name!r}: {meant} (One of another library's goes into the list 'foreign'.)")
    for name, allowed in (("binding", BINDINGS), ("mpi", mpi.FAMILIES), ("release", releases.IMAGES)):
        if found.get(name) not in (None, *allowed):
            raise SiteError(f"{where}: {name} is {found[name]!r}, and must be one of {', '.join(allowed)}")
    is_here = partition.scheduler.registered_name == "local"
    gpus = sum(device.num_devices for device in partition.select_devices("gpu"))
    return Site(
        partition.fullname,
        is_here,
        _architecture(partition, is_here),
        _cores(partition, is_here),
        gpus,
        (partition.processor.info and partition.processor.num_cpus_per_core) or 1,
        None if partition.time_limit is None else typ.Duration(partition.time_limit),
        # Slurm binds nothing where a centre does not want it to.
        **{"binding": "launcher" if is_here else "cores", **found},
    )


def _architecture(partition: SystemPartition, is_here: bool) -> str | None:
    arch = partition.processor.info and partition.processor.arch
    if not arch:
        return platform.machine() if is_here else None
    # ReFrame's processor.arch is archspec's name of a microarchitecture, or any other.
    from archspec.cpu import TARGETS

    return TARGETS[arch].family.name if arch in TARGETS else arch


def _cores(partition: SystemPartition, is_here: bool) -> int | None:
    if partition.processor.info:
        return partition.processor.num_cores or partition.processor.num_cpus
    return len(os.sched_getaffinity(0)) if is_here else None


def current() -> tuple[Site, ...]:
    """Return the partitions of the current system.

    :raises SiteError: see :meth:`Site.of`.
    """
    return tuple(Site.of(partition) for partition in runtime().system.partitions)


def node_counts() -> list[int]:
    """Return the node counts that some partition of the current system has."""
    top = max((site.max_nodes for site in current()), default=1)
    return [count for count in NODE_COUNTS if count <= top] or [1]


def partitions_with(nodes: int) -> list[str]:
    """Return the partitions of the current system that have so many nodes, as ReFrame's ``valid_systems``."""
    return [site.partition for site in current() if site.max_nodes >= nodes]


def core_counts() -> list[int]:
    """Return 1, 2, 4 ... below the cores of the largest node of the current system; 1 where none is known."""
    top = max((site.cores or 1 for site in current()), default=1)
    return [1, *(1 << power for power in range(1, 16) if 1 << power < top)]


def file_systems() -> list[str]:
    """Return the names of the file systems that the site offers for measurements (extra ``file_systems``)."""
    return sorted({name for site in current() for name in site.file_systems or ()})


@dataclass(frozen=True)
class Layout:
    """How a program's ranks lie on the nodes.

    :ivar nodes: nodes of the job.
    :ivar ranks_per_node: ranks on each.
    :ivar threads: threads, and cores, of a rank.
    :ivar binding: a key of ``BINDINGS``.
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
        if threads == 0:
            threads = max(1, site.cores // (ranks_per_node or 1))
        layout = cls(nodes, ranks_per_node or max(1, site.cores // threads), threads, site.binding)
        needed = layout.ranks_per_node * threads
        if site.cores is not None and needed > site.cores:
            raise LayoutError(f"needs {needed} cores per node: {site.partition} has {site.cores}")
        if layout.ranks < least:
            raise LayoutError(f"needs {least} ranks: {nodes} node(s) have {layout.ranks}")
        if most is not None and layout.cores > most:
            raise LayoutError(f"its input has work for {most} cores: {nodes} node(s) have {layout.cores}")
        return layout

    @property
    def ranks(self) -> int:
        """Ranks on all nodes."""
        return self.nodes * self.ranks_per_node

    @property
    def cores(self) -> int:
        """Cores that the ranks use on all nodes."""
        return self.ranks * self.threads

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of a process grid as near to a square as the ranks allow; rows >= columns."""
        columns = next(number for number in range(math.isqrt(self.ranks), 0, -1) if self.ranks % number == 0)
        return self.ranks // columns, columns
