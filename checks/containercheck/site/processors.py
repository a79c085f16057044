"""The number of processors that a session may use, which a cpuset or a quota of a cgroup may limit."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path


def usable(root: Path = Path("/")) -> int:
    """Return the number of processors that this process may use.

    :param root: root of the file systems ``/proc`` and ``/sys``.
    """
    return max(1, math.floor(min([len(os.sched_getaffinity(0)), *_quotas(root)])))


def _quotas(root: Path) -> Iterator[float]:
    """Yield the average number of processors that each cgroup of this process, and each parent, may use.

    See cgroups(7).
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            top, read = root / "sys/fs/cgroup", _read_version_2
        elif "cpu" in controllers.split(","):
            top, read = root / "sys/fs/cgroup" / controllers, _read_version_1
        else:
            continue
        group = top / path.lstrip("/")
        for directory in (group, *group.parents):
            # The path may be that of the host, and not exist below the top that a container sees.
            if directory == top.parent:
                break
            try:
                quota, period = read(directory)
            except (OSError, ValueError):
                continue
            if quota > 0:
                yield quota / period


def _read_version_2(directory: Path) -> tuple[float, float]:
    """Return quota and period of a cgroup of version 2 in microseconds; a quota of -1 for none."""
    quota, period = (directory / "cpu.max").read_text().split()
    return (-1.0 if quota == "max" else float(quota)), float(period)


def _read_version_1(directory: Path) -> tuple[float, float]:
    """Return quota and period of a cgroup of version 1 in microseconds; a quota of -1 for none."""
    quota, period = (float((directory / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
    return quota, period
