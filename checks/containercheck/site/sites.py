"""What is known of a partition: the site file's own keys, and what the library reads beyond them, its extras.

Everything is asked of the partition: the machine that loads checks is not the one that runs them. Only where jobs run
on this very machine (ReFrame's local scheduler) may this machine answer.
"""

from __future__ import annotations

import functools
import numbers
import os
import platform
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher
from reframe.core.exceptions import ReframeError
from reframe.core.runtime import runtime
from reframe.core.systems import SystemPartition

from containercheck.node import architectures, mpi
from containercheck.node.build.cache import private_directory
from containercheck.site import extras, processors, releases
from containercheck.site.extras import NODE_COUNT, NODE_MEMORY, SiteError, Software, extra

#: The node axis: powers of two, to the largest run of the documents (D12.6 section 6.9.1, 256 nodes).
NODE_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
#: What to do about a check of the site's own that this session does not look for.
_OWN_CHECK = " (A check of your own that not every session looks for goes into 'own_checks'.)"
#: How ranks are bound: to their cores, not at all, or as the launcher does it by itself.
BINDINGS = ("cores", "none", "launcher")


def path_of(text: str) -> Path:
    """Return the path that a site file or a user gives, with its $VARIABLES and ~ filled in."""
    return Path(os.path.expandvars(text)).expanduser()


@dataclass(frozen=True)
class Site:
    """A partition. Its extras are the fields made by ``extra``; config/template.py says what each is for.

    :ivar partition: its full name.
    :ivar is_here: whether its jobs run on this machine.
    :ivar architecture: of its nodes, as ``uname -m`` says it; None where the site file does not tell.
    :ivar arch: the processor of its nodes, as the site file calls it; None where it does not tell.
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
    arch: str | None = None
    max_nodes: int = extra(int, 1, NODE_COUNT)
    memory_per_node: int | None = extra(int, size=NODE_MEMORY)
    max_pending_time: str | None = extra(str)
    exclusive: bool = extra(bool, True)
    machine_lock: bool | None = extra(bool)
    parallel_environment: str | None = extra(str)
    binding: str = extra(str, "launcher")
    python: str | None = extra(str)
    build_on_node: bool | None = extra(bool)
    build_access: list[str] = extra(typ.List[str], list)
    emulated: bool = extra(bool, False)
    mpi: str | None = extra(str)
    host_mpi: str | None = extra(str)
    host_mpich: str | None = extra(str)
    mpich_launcher_options: list[str] | None = extra(typ.List[str])
    image_launcher: str | None = extra(str)
    image_launcher_options: list[str] = extra(typ.List[str], list)
    binds: list[str] = extra(typ.List[str], list)
    images: dict[str, str] | None = extra(typ.Dict[str, str])
    image_mirror: str | None = extra(str)
    release: str | None = extra(str)
    inputs: dict[str, str] | None = extra(typ.Dict[str, str])
    tolerances: dict[str, dict[str, float]] | None = extra(typ.Dict[str, typ.Dict[str, numbers.Real]])
    software: dict[str, Software] | None = extra(typ.Dict[str, dict])
    file_systems: dict[str, str] | None = extra(typ.Dict[str, str])
    references: str | None = extra(str)
    image_cache: str | None = extra(str)
    venv_cache: str | None = extra(str)
    jar_cache: str | None = extra(str)
    program_cache: str | None = extra(str)
    input_cache: str | None = extra(str)
    spack: str = extra(str, "spack")
    spack_site: str | None = extra(str)
    spack_cache: str | None = extra(str)
    easybuild: str = extra(str, "eb")
    easybuild_site: str | None = extra(str)
    easybuild_cache: str | None = extra(str)
    cache_owners: list[str] = extra(typ.List[str], list)
    own_checks: list[str] = extra(typ.List[str], list)

    @classmethod
    def of(cls, partition: SystemPartition) -> Site:
        """Read a partition, once.

        :raises SiteError: an extra is unknown, not where it belongs, or of the wrong type or size.
        """
        return _site(partition)

    @property
    def target(self) -> str | None:
        """The processor that is compiled for, as archspec and Spack call it; None where it is not known."""
        from archspec.cpu import TARGETS, host

        if self.arch in TARGETS:
            return self.arch
        return host().name if self.is_here else self.architecture

    @property
    def memory(self) -> int:
        """Memory of a node in bytes: the site's, for local jobs this machine's, else a guess of 16 GiB."""
        return self.known_memory or 16 << 30

    @property
    def known_memory(self) -> int | None:
        """The same without a guess; None where nobody says it."""
        if self.memory_per_node is None and self.is_here:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return self.memory_per_node

    @property
    def builds_on_node(self) -> bool:
        """Whether the build step is a job: as the site says, or because nodes are of another architecture than here."""
        if self.is_here or self.build_on_node is not None:
            return not self.is_here and bool(self.build_on_node)
        return self.architecture not in (None, platform.machine())

    @property
    def locks_machine(self) -> bool:
        """Whether its measurements wait for others on the same machine: not where jobs have nodes to themselves."""
        return self.is_here or not self.exclusive if self.machine_lock is None else self.machine_lock

    @property
    def mpi_family(self) -> str:
        """Family of the MPI that its launcher starts: what the site says, what its library's name tells, or Open MPI.

        A key of ``mpi.FAMILIES``.
        """
        told = mpi.family_of(mpi.soname_of(self.host_mpi)) if self.host_mpi else None
        return self.mpi or (told if told in mpi.FAMILIES else None) or "openmpi"

    def input_of(self, check: str, published: str) -> str:
        """Return the published input for a check: the one that is asked for, or the site's; empty for neither."""
        return published or self.software_of(check).input or (self.inputs or {}).get(check, "")

    def software_of(self, check: str) -> Software:
        """Return the site's own software for a check: an empty value where it has none."""
        return (self.software or {}).get(check, Software())

    def tolerances_of(self, check: str, figures: Collection[str]) -> dict[str, float]:
        """Return the site's own tolerances for the figures of a check.

        :raises ReframeError: they name a figure that the check does not have.
        """
        found = (self.tolerances or {}).get(check, {})
        if unknown := found.keys() - set(figures):
            raise ReframeError(
                f"site file, extras of {self.partition}: {extras.NAMESPACE}: tolerances: {check} has no figure "
                f"{', '.join(sorted(unknown))}; it has {', '.join(sorted(figures))}"
            )
        return found

    def cache(self, setting: str) -> Path:
        """Return a directory for what is built once: the site's ``<name>_cache``, or one below the user's own cache.

        :param setting: the extra, such as ``image_cache``; its default lies in ``images``.
        """
        configured = getattr(self, setting)
        return path_of(configured) if configured else private_directory(setting)


@functools.cache
def _site(partition: SystemPartition) -> Site:
    where = f"site file, extras of {partition.fullname}"
    given = extras.ours(Site, partition.extras, where)
    where = f"{where}: {extras.NAMESPACE}"
    found = extras.checked(Site, given, where)
    for name, allowed in (("binding", BINDINGS), ("mpi", mpi.FAMILIES), ("release", releases.IMAGES)):
        if found.get(name) not in (None, *allowed):
            raise SiteError(f"{where}: {name} is {found[name]!r}, and must be one of {', '.join(allowed)}")
    if found.get("image_launcher"):
        try:
            getlauncher(found["image_launcher"])
        except ReframeError as error:
            raise SiteError(f"{where}: image_launcher: {error}") from None
    if found.get("max_pending_time"):
        try:
            typ.Duration(found["max_pending_time"])
        except ValueError:
            text = found["max_pending_time"]
            raise SiteError(
                f"{where}: max_pending_time is {text!r}, which is no time: write '12h', or '1d6h'"
            ) from None
    found.update(_by_check(found, where))
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
        _arch(partition),
        # Slurm binds nothing where a centre does not want it to.
        **{"binding": "launcher" if is_here else "cores", **found},
    )


def _by_check(found: dict[str, Any], where: str) -> dict[str, Any]:
    """Check what is given by check, and return the software as values."""
    given = {name: found[name] for name in ("software", "inputs", "tolerances") if found.get(name)}
    known = extras.checks() if given else []
    for name, entries in given.items():
        allowed = {*known, *found.get("own_checks", ())}
        extras.refuse_unknown(entries, allowed, known, f"{where}: {name}", _OWN_CHECK)
    software = {
        check: Software(**extras.checked(Software, entry, f"{where}: software: {check}"))
        for check, entry in given.get("software", {}).items()
    }
    for check, own in software.items():
        own.check_patterns(f"{where}: software: {check}")
        if own.spack and own.easybuild:
            raise SiteError(f"{where}: software: {check}: spack or easybuild, not both: leave one out")
    for check in sorted(given.get("inputs", {}).keys() & {check for check, own in software.items() if own.input}):
        raise SiteError(f"{where}: the input of {check} is named in inputs and in software: leave one out")
    return {"software": software} if software else {}


def _arch(partition: SystemPartition) -> str | None:
    return (partition.processor.info and partition.processor.arch) or None


def _architecture(partition: SystemPartition, is_here: bool) -> str | None:
    arch = _arch(partition)
    if arch is None:
        return platform.machine() if is_here else None
    # ReFrame's processor.arch is archspec's name of a microarchitecture, or any other.
    from archspec.cpu import TARGETS

    return TARGETS[arch].family.name if arch in TARGETS else arch


def _cores(partition: SystemPartition, is_here: bool) -> int | None:
    if partition.processor.info:
        return partition.processor.num_cores or partition.processor.num_cpus
    return processors.usable() if is_here else None


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


def instruction_sets() -> list[str]:
    """Return GROMACS's instruction sets of the partitions of the current system, plain C first."""
    return architectures.kernels([site.architecture for site in current()])


def partitions_with_instructions(wanted: str) -> list[str]:
    """Return the partitions whose architecture has such an instruction set."""
    return [site.partition for site in current() if architectures.has_kernels(site.architecture, wanted)]
