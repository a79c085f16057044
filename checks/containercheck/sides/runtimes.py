"""Find the container runtime of a partition, in the site file or on the PATH.

The facts about each runtime are in node/container_runtimes.py.
"""

from __future__ import annotations

from reframe.core.systems import SystemPartition

from containercheck.node import container_runtimes
from containercheck.node.container_runtimes import Runtime
from containercheck.sides.sides import Needs


def find(partition: SystemPartition) -> Runtime | None:
    """Return the runtime of a partition, or None if there is none.

    The site's ``container_platforms`` come first; without any, the first runtime on the PATH is taken.
    """
    if partition.container_runtime:
        return container_runtimes.by_name(partition.container_runtime)
    return next(container_runtimes.on_path(), None)


def needs(partition: SystemPartition, runtime: Runtime | None) -> Needs:
    """Return modules and variables of a runtime: ReFrame loads these only for its own ``container_platform``."""
    environ = partition.container_environs.get(runtime.name) if runtime else None
    return Needs(modules=tuple(environ.modules), variables=environ.env_vars) if environ else Needs()
