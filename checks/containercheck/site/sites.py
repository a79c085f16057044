"""Read a partition as one validated value: ReFrame's own keys of the site file, and the extras of this library.

The nodes that run the checks may differ from the machine that loads them. The processors and memory of this machine are
used only for a local partition, because its jobs run here.
"""

from __future__ import annotations

import functools
import numbers
import os
import platform
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import reframe.utility.typecheck as typ
from reframe.core.runtime import runtime
from reframe.core.systems import SystemPartition

from containercheck.job import architectures, mpi, texts
from containercheck.job.build.cache import private_directory
from containercheck.site import extras, sinks
from containercheck.site.extras import SiteError, Software, extra, path_of

#: Node counts of the node axis: powers of two, to the largest published run (D12.6 section 6.9.1, 256 nodes).
NODE_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
#: Releases of Debian for images, with the version of their C library, the oldest first. Source: the archives
#: (packages.debian.org) in November 2026.
RELEASES = {"bookworm": (2, 36), "trixie": (2, 41)}
#: Ways to bind ranks: to their cores, not at all, or by the launcher's default.
BINDINGS = ("cores", "none", "launcher")


def _read_registry(address: str) -> None:
    """Check the address of a registry.

    :raises ValueError: it is not one of ORAS, or has a user in it.
    """
    if not re.fullmatch(r"oras://[\w.-]+(:\d+)?(/[a-z0-9._-]+)*", address):
        raise ValueError(f"{address!r} is not the address of a registry: write 'oras://registry.example.org/checks'")


@dataclass(frozen=True)
class Site:
    """Describe a partition of the site file. The fields made by ``extra`` are its extras (config/template.py).

    :ivar partition: full name.
    :ivar is_here: whether its jobs run on this machine.
    :ivar architecture: architecture of its nodes, as ``uname -m`` prints it; None if unknown.
    :ivar arch: name of its nodes' processor in the site file; None if unknown.
    :ivar cores: physical cores of a node; None if unknown.
    :ivar gpus: GPUs of a node, and ``gpu_arch``: their architecture, such as ``sm_70``; empty if unknown.
    :ivar hardware_threads: hardware threads of a core; 1 if unknown.
    :ivar time_limit: longest job in seconds: the partition's ``time_limit``; None without one.
    """

    partition: str
    is_here: bool
    architecture: str | None
    cores: int | None
    gpus: int
    gpu_arch: str = ""
    hardware_threads: int = 1
    time_limit: float | None = None
    arch: str | None = None
    max_nodes: int = extra(int, 1, least=1)
    node_counts: list[int] = extra(typ.List[int], list)
    core_counts: list[int] = extra(typ.List[int], list)
    # In bytes: no current Linux runs in less.
    memory_per_node: int | None = extra(int, least=1 << 27)
    peak_per_core: float | None = extra(numbers.Real, least=0.1)
    max_pending_time: str | None = extra(str, read=extras.read_duration)
    exclusive: bool = extra(bool, True)
    machine_lock: bool | None = extra(bool)
    parallel_environment: str | None = extra(str)
    binding: str = extra(str, "launcher", choices=BINDINGS)
    python: str | None = extra(str)
    build_on_node: bool | None = extra(bool)
    build_access: list[str] = extra(typ.List[str], list)
    emulated: bool = extra(bool, False)
    energy: bool = extra(bool, False)
    mpi: str | None = extra(str, choices=mpi.FAMILIES)
    host_mpi: str | None = extra(str)
    host_mpich: str | None = extra(str)
    mpich_launcher_options: list[str] | None = extra(typ.List[str])
    image_launcher_options: list[str] = extra(typ.List[str], list)
    container_network: str | None = extra(str)
    binds: list[str] = extra(typ.List[str], list)
    images: dict[str, str] | None = extra(typ.Dict[str, str])
    image_registry: str | None = extra(str, read=_read_registry)
    image_key: str | None = extra(str)
    image_mirror: str | None = extra(str)
    release: str | None = extra(str, choices=RELEASES)
    tolerances: dict[str, dict[str, float]] | None = extra(typ.Dict[str, typ.Dict[str, numbers.Real]])
    software: dict[str, Software] | None = extra(typ.Dict[str, dict])
    file_systems: dict[str, str] | None = extra(typ.Dict[str, str])
    references: str | None = extra(str)
    spack: str = extra(str, "spack")
    spack_site: str | None = extra(str)
    easybuild: str = extra(str, "eb")
    easybuild_site: str | None = extra(str)
    caches: str | None = extra(str)
    cache_owners: list[str] = extra(typ.List[str], list)
    sinks: dict[str, dict[str, Any]] | None = extra(typ.Dict[str, dict], read=sinks.declared)

    @classmethod
    def of(cls, partition: SystemPartition) -> Site:
        """Return the facts about a partition, which is read once.

        :raises SiteError: an extra is unknown, or of the wrong type or size.
        """
        return _site(partition)

    @property
    def target(self) -> str | None:
        """Return the name of the processor that is compiled for, in archspec and Spack; None if unknown."""
        from archspec.cpu import TARGETS, host

        if self.arch in TARGETS:
            return self.arch
        return host().name if self.is_here else self.architecture

    @property
    def memory(self) -> int:
        """Return the memory of a node in bytes: the site's, for local jobs this machine's, else a guess of 16 GiB."""
        return self.known_memory or 16 << 30

    @property
    def known_memory(self) -> int | None:
        """Return the memory of a node in bytes: the site's, for local jobs this machine's; None if unknown."""
        if self.memory_per_node is None and self.is_here:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return self.memory_per_node

    @property
    def builds_on_node(self) -> bool:
        """Return whether the build step is a job: by the site's choice, or for nodes of another architecture."""
        if self.is_here or self.build_on_node is not None:
            return not self.is_here and bool(self.build_on_node)
        return self.architecture not in (None, platform.machine())

    @property
    def locks_machine(self) -> bool:
        """Return whether a measurement waits for others on the same machine: not on exclusive nodes, by default."""
        return self.is_here or not self.exclusive if self.machine_lock is None else self.machine_lock

    @property
    def mpi_family(self) -> str:
        """Return the family of the MPI that the launcher starts, a key of ``mpi.FAMILIES``.

        That is the site's extra, else the family of the host's library by its name, else Open MPI.
        """
        family = mpi.family_of(mpi.soname_of(self.host_mpi)) if self.host_mpi else None
        return self.mpi or (family if family in mpi.FAMILIES else None) or "openmpi"

    def input_of(self, check: str, published: str) -> str:
        """Return the published input for a check: the given one, else the site's; empty without either."""
        return published or self.software_of(check).input or ""

    def software_of(self, check: str) -> Software:
        """Return the site's own software for a check; an empty value for none."""
        return (self.software or {}).get(check, Software())

    def tolerances_of(self, check: str, metrics: Collection[str]) -> dict[str, float]:
        """Return the site's own tolerances for the metrics of a check, by metric.

        :raises SiteError: they name a metric that the check does not have.
        """
        tolerances = (self.tolerances or {}).get(check, {})
        if unknown := tolerances.keys() - set(metrics):
            raise SiteError(
                f"site file, extras of {self.partition}: {extras.NAMESPACE}: tolerances: {check} has no metric "
                f"{', '.join(sorted(unknown))}; it has {', '.join(sorted(metrics))}"
            )
        return tolerances

    def cache(self, folder: str) -> Path:
        """Return the directory of a cache, below the site's ``caches`` or the user's own.

        :param folder: name of the cache's directory, such as ``images``.
        """
        return path_of(self.caches) / folder if self.caches else private_directory(folder)


@functools.cache
def _site(partition: SystemPartition) -> Site:
    """Return the value of a partition: see :meth:`Site.of`."""
    where = f"site file, extras of {partition.fullname}: {extras.NAMESPACE}"
    settings = extras.checked(Site, partition.extras.get(extras.NAMESPACE) or {}, where)
    settings.update(_by_check(settings, where))
    if images := settings.get("images"):
        extras.refuse_misspelt(images, extras.recipes(), f"{where}: images")
    is_here = partition.scheduler.registered_name == "local"
    # ReFrame gives a partition without a processor an empty description.
    processor = partition.processor if partition.processor.info else None
    here = (platform.machine(), usable_processors()) if is_here else (None, None)
    return Site(
        partition=partition.fullname,
        is_here=is_here,
        architecture=_architecture(processor.arch) if processor and processor.arch else here[0],
        cores=processor.num_cores or processor.num_cpus if processor else here[1],
        gpus=sum(device.num_devices for device in partition.select_devices("gpu")),
        gpu_arch=next((device.arch for device in partition.select_devices("gpu") if device.arch), ""),
        hardware_threads=(processor and processor.num_cpus_per_core) or 1,
        time_limit=None if partition.time_limit is None else typ.Duration(partition.time_limit),
        arch=(processor and processor.arch) or None,
        # Some centres configure Slurm to bind nothing by itself.
        **{"binding": "launcher" if is_here else "cores", **settings},
    )


def _architecture(arch: str) -> str:
    """Return the architecture of a processor, which a site file names by archspec's microarchitecture or otherwise."""
    from archspec.cpu import TARGETS

    return TARGETS[arch].family.name if arch in TARGETS else arch


def _by_check(settings: dict[str, Any], where: str) -> dict[str, Any]:
    """Check the extras that have checks as keys, and return the software as :class:`Software`, by check.

    :raises SiteError: a check is misspelt, or an entry is wrong.
    """
    given = {name: settings[name] for name in ("software", "tolerances") if settings.get(name)}
    for name, entries in given.items():
        extras.refuse_misspelt(entries, extras.checks(), f"{where}: {name}")
    software = {
        check: Software(**extras.checked(Software, entry, f"{where}: software: {check}"))
        for check, entry in given.get("software", {}).items()
    }
    for check, entry in software.items():
        if entry.spack and entry.easybuild:
            raise SiteError(f"{where}: software: {check}: spack or easybuild, not both: leave one out")
    return {"software": software} if software else {}


def usable_processors(root: Path = Path("/")) -> int:
    """Return the number of processors that this process may use, by its affinity and the quotas of its cgroups.

    :param root: root of the file systems ``/proc`` and ``/sys``: see cgroups(7), version 2.
    """
    usable = len(os.sched_getaffinity(0))
    lines = texts.small(root / "proc/self/cgroup").splitlines()
    group = next((Path(line[3:].lstrip("/")) for line in lines if line.startswith("0::")), Path())
    # In a container, the path may be that of the host.
    for directory in (group, *group.parents):
        try:
            quota, period = (root / "sys/fs/cgroup" / directory / "cpu.max").read_text().split()
        except (OSError, ValueError):
            continue
        if quota != "max":
            usable = min(usable, int(quota) // int(period))
    return max(1, usable)


def current() -> tuple[Site, ...]:
    """Return the partitions of the current system.

    :raises SiteError: see :meth:`Site.of`.
    """
    return tuple(Site.of(partition) for partition in runtime().system.partitions)


def node_counts() -> list[int]:
    """Return the node counts of the node axis that a partition of the current system can run, and those it names."""
    counts = {
        count for site in current() for count in (*NODE_COUNTS, *site.node_counts) if 1 <= count <= site.max_nodes
    }
    return sorted(counts) or [1]


def partitions_with(nodes: int) -> list[str]:
    """Return the partitions of the current system for jobs on this number of nodes, as ReFrame's ``valid_systems``."""
    return [
        site.partition
        for site in current()
        if site.max_nodes >= nodes and (nodes in NODE_COUNTS or nodes in site.node_counts)
    ]


def further_platforms() -> list[str]:
    """Return the container runtimes that partitions of the current system name besides their default one."""
    return sorted({name for _, name in _further_platforms()})


def partitions_with_platform(name: str) -> list[str]:
    """Return the partitions of the current system that name a container runtime besides their default one."""
    return [partition for partition, platform in _further_platforms() if platform == name]


def _further_platforms() -> Iterator[tuple[str, str]]:
    for partition in runtime().system.partitions:
        for name in partition.container_environs:
            if name != partition.container_runtime:
                yield partition.fullname, name


def partitions_with_gpus() -> list[str]:
    """Return the partitions of the current system with GPUs on their nodes."""
    return [site.partition for site in current() if site.gpus]


def core_counts() -> list[int]:
    """Return the powers of two and the divisors below the number of cores of a node of the current system; at least 1.

    Of a node's cores, ranks of a divisor have threads for all: 7 and 14 of 28 in D12.6 table 6.2. Those that a site
    names are among them.
    """
    counts = {1}
    for site in current():
        cores = site.cores or 1
        counts |= {1 << power for power in range(1, 16) if 1 << power < cores}
        counts |= {count for count in range(1, cores) if cores % count == 0}
        counts |= {count for count in site.core_counts if 1 <= count < cores}
    return sorted(counts)


def file_systems() -> list[str]:
    """Return the names of the site's file systems for measurements (extra ``file_systems``)."""
    return sorted({name for site in current() for name in site.file_systems or ()})


def instruction_sets() -> list[str]:
    """Return GROMACS's names of the current partitions' instruction sets, plain C first."""
    return architectures.kernels([site.architecture for site in current()])


def partitions_with_instructions(wanted: str) -> list[str]:
    """Return the partitions with an instruction set on their architecture, in GROMACS's name."""
    return [site.partition for site in current() if architectures.has_kernels(site.architecture, wanted)]
