"""Describe a machine: a line for each topic, and its problems for containers, each with a remedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from containercheck.job.container_runtimes import RUNTIMES
from containercheck.job.inventory import MOUNTERS, TOOLS
from containercheck.results.formatting import size

#: Fewest bytes of /dev/shm for MPI within a node; the default of containers is 64 MiB
#: (https://docs.docker.com/reference/cli/docker/container/run, --shm-size).
SHARED_MEMORY = 256 << 20
#: Bytes that a process has to be able to lock on a node with a network such as InfiniBand.
#: Source: Open MPI's FAQ, "I'm getting errors about error registering openib memory".
LOCKED_MEMORY = 1 << 30
#: Meanings of ``mounts`` of a runtime.
MOUNTS = {
    "setuid": "mounts image files by its setuid helper",
    "kernel": "mounts image files as root",
    "unpacks": "unpacks image files at each start",
}
_NONE = "none"

Facts = Mapping[str, Any]


def topics(facts: Facts) -> list[tuple[str, str]]:
    """Return the topics, each with its facts in words.

    :param facts: result of ``containercheck.job.inventory.inventory``.
    """
    host, processor, locked = facts["host"], facts["processor"], facts["locked_memory"]
    usable = f", {processor['usable']} may be used" if processor["usable"] != processor["processors"] else ""
    cores = f"{processor['cores']} core(s) in {processor['sockets']} socket(s), {processor['processors']} processor(s)"
    memory = [size(processor["memory"]), f"/dev/shm {_size(facts['shared_memory'])}"]
    memory.append(f"a process may lock {'any amount' if locked is None else size(locked)}")
    return [
        ("host", ", ".join(filter(None, [host["name"], host["system"], f"kernel {host['kernel']}", host["libc"]]))),
        ("processor", f"{processor['architecture']}, {processor['model'] or 'unknown model'}: {cores}{usable}"),
        ("memory", "; ".join(memory)),
        ("runtimes", "; ".join(map(_runtime, facts["runtimes"])) or _NONE),
        ("user namespaces", "allowed" if facts["namespaces"]["allowed"] else f"no: {facts['namespaces']['problem']}"),
        ("MPI", "; ".join(map(_mpi, facts["mpi"])) or _NONE),
        ("PMI of srun", ", ".join(facts["pmi"]) or _NONE),
        ("tools", ", ".join([f"Python {host['python']}", *facts["tools"]])),
        ("GPUs", "; ".join(facts["gpus"]) or _NONE),
        ("fast network", "; ".join(facts["fabric"]) or _NONE),
    ]


def heading(facts: Facts) -> str:
    """Return a description of a machine in one line.

    :param facts: result of ``containercheck.job.inventory.brief``.
    """
    host, processor = facts["host"], facts["processor"]
    runtime = next((known["version"] or known["name"] for known in facts["runtimes"]), "no container runtime")
    model = processor["model"] or processor["architecture"]
    parts = [f"{host['name']}: {model}, {processor['usable']} processors", size(processor["memory"]), runtime]
    return ", ".join([*parts, "; ".join(map(_mpi, facts["mpi"])) or "no MPI"])


def missing_platforms(facts: Facts, named: Iterable[str]) -> list[str]:
    """Return a line with a remedy for each runtime that the site file names and the machine does not have.

    :param named: types of the partition's ``container_platforms``.
    """
    there = [runtime["name"] for runtime in facts["runtimes"]]
    return [
        f"the site's file names {name} in container_platforms, and {facts['host']['name']} has "
        f"{', '.join(there) or 'no container runtime'}: name its module there, or another runtime"
        for name in named
        if name not in there
    ]


def problems(facts: Facts) -> list[str]:
    """Return the problems of a machine for containers and their checks, each with its remedy."""
    return [*_of_runtimes(facts), *_of_memory(facts), *_of_programs(facts)]


def _of_runtimes(facts: Facts) -> Iterator[str]:
    if not facts["runtimes"]:
        yield (
            f"no container runtime on the PATH, so that only bare runs: install {RUNTIMES[0].name}, or name the site's "
            "with its modules: container_platforms of the site's partition"
        )
    for runtime in facts["runtimes"]:
        if runtime["problem"]:
            yield f"{runtime['path']} does not run: {runtime['problem']}"
        elif runtime["mounts"] == "unpacks":
            yield (
                f"{runtime['name']} unpacks the image at each start, which takes seconds: install squashfuse (Debian "
                "and Ubuntu: squashfuse), or its setuid package"
            )
        elif runtime["mounts"] in MOUNTERS and not facts["fuse"]:
            yield f"{runtime['name']} mounts image files through FUSE, and /dev/fuse cannot be opened: modprobe fuse"
    needing = [runtime["name"] for runtime in facts["runtimes"] if runtime["mounts"] not in ("", "setuid")]
    if needing and not facts["namespaces"]["allowed"] and not facts["host"]["root"]:
        yield (
            f"{needing[0]} without its setuid helper needs user namespaces, which are forbidden "
            f"({facts['namespaces']['problem']}): have them allowed, or install its setuid package"
        )


def _of_memory(facts: Facts) -> Iterator[str]:
    shared, locked = facts["shared_memory"], facts["locked_memory"]
    if shared is not None and shared < SHARED_MEMORY:
        yield f"/dev/shm has {size(shared)} only, and the ranks of MPI on a node share it: mount a larger one"
    if facts["fabric"] and locked is not None and locked < LOCKED_MEMORY:
        yield (
            f"a process may lock {size(locked)} of memory, and MPI over {facts['fabric'][0].partition(':')[0]} needs "
            "more: ulimit -l unlimited, for daemons of the scheduler too"
        )


def _of_programs(facts: Facts) -> Iterator[str]:
    if not facts["mpi"]:
        yield (
            "no MPI library that the loader finds, so that nothing with ranks runs bare or integrated: install one "
            "(Debian and Ubuntu: openmpi-bin, libopenmpi-dev), or load its module: modules of the site's environment"
        )
    missing = [name for name in TOOLS if name not in facts["tools"]]
    if missing:
        yield f"no {', '.join(missing)}: programs of the bare side are compiled (Debian and Ubuntu: build-essential)"


def _runtime(runtime: Facts) -> str:
    """Return a runtime with its version, its path, and its way to mount image files."""
    if runtime["problem"]:
        return f"{runtime['name']} ({runtime['path']}) does not run"
    mounts = runtime["mounts"]
    how = MOUNTS.get(mounts, f"mounts image files through FUSE, {mounts}" if mounts else "")
    return f"{runtime['version'] or runtime['name']} ({', '.join(filter(None, [runtime['path'], how]))})"


def _mpi(library: Facts) -> str:
    return f"{library['title']} {library['version']}".strip() + f" ({library['library']})"


def _size(value: float | None) -> str:
    return "unknown" if value is None else size(value)
