"""Which container runtime runs the images, and the options that it needs here."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

from reframe.core.containers import ContainerPlatform
from reframe.core.systems import SystemPartition

#: ReFrame's platform, and its command on the PATH, in the order of preference where a site says nothing.
COMMANDS = {"Apptainer": "apptainer", "Singularity": "singularity", "Sarus": "sarus", "Shifter": "shifter"}
COMMANDS["Docker"] = "docker"

#: How each platform is told to bind a directory.
_BIND = {
    "Docker": "-v={source}:{target}",
    "Sarus": "--mount=type=bind,source={source},destination={target}",
    "Shifter": "--mount=type=bind,source={source},destination={target}",
}


def find(partition: SystemPartition) -> str | None:
    """Return the name of ReFrame's platform for this partition, or None if there is no runtime.

    The site's ``container_platforms`` come first; without any, what is on the PATH counts.
    """
    if partition.container_runtime:
        return partition.container_runtime
    return next((name for name, command in COMMANDS.items() if shutil.which(command)), None)


def command_of(platform: str) -> str:
    """Return the command of a platform."""
    return COMMANDS.get(platform, platform.lower())


def bind_option(platform: str) -> str:
    """Return how the platform is told to bind, with ``{source}`` and ``{target}`` to be filled in."""
    return _BIND.get(platform, "-B{source}:{target}")


def options(platform: str, ranks_per_node: int) -> list[str]:
    """Return the options for running an image as one of ``ranks_per_node`` ranks of MPI.

    ``--sharens`` puts the ranks of a node into one user namespace: in separate ones they cannot reach each other's
    memory, and Open MPI and MPICH lose their single-copy transfers. Apptainer has it since 1.2. Only MPI's ranks wait
    for each other, in MPI_Init: where one ends before another has joined it, Apptainer fails, one time in four
    for a program of milliseconds ("could not open proc directory").
    """
    command = command_of(platform)
    if command not in ("apptainer", "singularity"):
        return []
    chosen = []
    if _is_crippled_root():
        chosen.append("--userns")
    if ranks_per_node > 1 and "--sharens" in _help(command):
        chosen.append("--sharens")
    return chosen


@functools.cache
def _help(command: str) -> str:
    try:
        return subprocess.run([command, "exec", "--help"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


@functools.cache
def version(command: str) -> str:
    """Return what the runtime says of its version, or an empty text."""
    try:
        return subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _is_crippled_root() -> bool:
    """Root without all capabilities (in a sandbox, say) can run images in a user namespace only."""
    if os.geteuid() != 0:
        return False
    effective = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff")
    ).split()[1]
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    return int(effective, 16) != (1 << (last + 1)) - 1


def create(platform: str) -> ContainerPlatform:
    """Return a new platform object of ReFrame's."""
    return ContainerPlatform.create(platform)
