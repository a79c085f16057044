"""How many processors this machine lets a session use: fewer than it has, in a cpuset or under a quota of a cgroup."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path


def usable(root: Path = Path("/")) -> int:
    """Return the number of processors that this process may use.

    :param root: of the file systems that say so.
    """
    return max(1, math.floor(min([len(os.sched_getaffinity(0)), *_quotas(root)])))


def _quotas(root: Path) -> Iterator[float]:
    """Yield how many processors each cgroup of this process, and each above it, may use on average (cgroups(7))."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            top, read = root / "sys/fs/cgroup", _of_version_2
        elif "cpu" in controllers.split(","):
            top, read = root / "sys/fs/cgroup" / controllers, _of_version_1
        else:
            continue
        group = top / path.lstrip("/")
        for directory in (group, *group.parents):
            # What a container sees as the top may be called otherwise from outside.
            if directory == top.parent:
                break
            try:
                quota, period = read(directory)
            except (OSError, ValueError):
                continue
            if quota > 0:
                yield quota / period


def _of_version_2(directory: Path) -> tuple[float, float]:
    quota, period = (directory / "cpu.max").read_text().split()
    return (-1.0 if quota == "max" else float(quota)), float(period)


def _of_version_1(directory: Path) -> tuple[float, float]:
    quota, period = (float((directory / f"cpu.cfs_{what}_us").read_text()) for what in ("quota", "period"))
    return quota, period
