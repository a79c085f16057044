"""What the library reads from the site file, and what it does without one (config/template.py documents it)."""

from __future__ import annotations

import os
from pathlib import Path

from reframe.core.runtime import runtime
from reframe.core.systems import SystemPartition

#: The node axis: powers of two, to the largest run of the seeds (D12.6 section 6.9.1, 256 nodes).
NODE_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def path_of(text: str) -> Path:
    """Return the path that a site file or a user gives, with its $VARIABLES and ~ filled in."""
    return Path(os.path.expandvars(text)).expanduser()


def largest(partition: SystemPartition) -> int:
    """Return the largest node count of a partition: its extra ``max_nodes``, or 1."""
    return int(partition.extras.get("max_nodes", 1))


def node_counts() -> list[int]:
    """Return the node counts that some partition of the current system has."""
    top = max((largest(partition) for partition in runtime().system.partitions), default=1)
    return [count for count in NODE_COUNTS if count <= top] or [1]


def partitions_with(nodes: int) -> list[str]:
    """Return the partitions of the current system that have so many nodes, as ReFrame's ``valid_systems``."""
    return [partition.fullname for partition in runtime().system.partitions if largest(partition) >= nodes]


def cores_per_node(partition: SystemPartition) -> int | None:
    """Return the physical cores of a node: the site's ``processor``, or for local jobs those of this machine.

    None where neither is known.
    """
    if partition.processor.info:
        return partition.processor.num_cores or partition.processor.num_cpus
    if partition.scheduler.registered_name == "local":
        return len(os.sched_getaffinity(0))
    return None


def core_counts() -> list[int]:
    """Return 1, 2, 4 ... below the cores of the largest node of the current system; 1 where none is known."""
    top = max((cores_per_node(partition) or 1 for partition in runtime().system.partitions), default=1)
    return [1, *(1 << power for power in range(1, 16) if 1 << power < top)]


def file_systems() -> list[str]:
    """Return the names of the file systems that the site offers for measurements (extra ``file_systems``)."""
    offered = [partition.extras.get("file_systems", {}) for partition in runtime().system.partitions]
    return sorted({name for names in offered for name in names})


def memory_per_node(partition: SystemPartition) -> int | None:
    """Return the memory of a node in bytes: the site's extra ``memory_per_node``, or for local jobs this machine's."""
    if "memory_per_node" in partition.extras:
        return int(partition.extras["memory_per_node"])
    if partition.scheduler.registered_name == "local":
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None
