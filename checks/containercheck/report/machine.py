"""What a machine has, as text: a line for each topic, and what is wrong with it for containers, with the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from containercheck.node.container_runtimes import RUNTIMES
from containercheck.node.inventory import LIMITS
from containercheck.results.formatting import size

#: Bytes of /dev/shm below which MPI within a node runs out of it: the default of containers is 64 MiB
#: (https://docs.docker.com/reference/cli/docker/container/run, --shm-size).
SHARED_MEMORY = 256 << 20
#: Bytes that a process has to be able to lock on a node with InfiniBand or the like (Open MPI's FAQ, "I'm getting
#: errors about error registering openib memory").
LOCKED_MEMORY = 1 << 30
#: What ``mounts`` of a runtime means.
MOUNTS = {
    "setuid": "mounts image files by its setuid helper",
    "kernel": "mounts image files as root",
    "unpacks": "unpacks image files at each start",
}
_NONE = "none"

Facts = Mapping[str, Any]


def topics(facts: Facts) -> list[tuple[str, str]]:
    """Return the topics, each with what the machine has of it.

    :param facts: as ``containercheck.node.inventory.inventory`` returns them.
    """
    host, processor = facts["host"], facts["processor"]
    usable = f", {processor['usable']} may be used" if processor["usable"] != processor["processors"] else ""
    cores = f"{processor['cores']} core(s) in {processor['sockets']} socket(s), {processor['processors']} processor(s)"
    rows = [
        ("host", ", ".join(filter(None, [host["name"], host["system"], f"kernel {host['kernel']}", host["libc"]]))),
        ("processor", f"{processor['architecture']}, {processor['model'] or 'unknown model'}: {cores}{usable}"),
        ("memory", f"{_size(processor['memory'])}; /dev/shm {_size(facts['shared_memory'].get('size'))}"),
        ("Python", host["python"]),
        ("runtimes", "; ".join(map(_runtime, facts["runtimes"])) or _NONE),
        ("user namespaces", "allowed" if facts["namespaces"]["allowed"] else f"no: {facts['namespaces']['problem']}"),
        ("MPI", "; ".join(map(_mpi, facts["mpi"])) or _NONE),
        ("schedulers", _versions(facts["schedulers"])),
    ]
    if facts["pmi"]:
        rows.append(("PMI of srun", ", ".join(facts["pmi"])))
    limits = ", ".join(f"{name} {_limit(name, value)}" for name, value in facts["limits"].items())
    return [
        *rows,
        ("modules", facts["modules"] or _NONE),
        ("tools", _versions(facts["tools"])),
        ("GPUs", "; ".join(facts["gpus"]) or _NONE),
        ("fast network", "; ".join(facts["fabric"]) or _NONE),
        ("limits", limits),
    ]


def heading(facts: Facts) -> str:
    """Return a machine in one line.

    :param facts: as ``containercheck.node.inventory.brief`` returns them.
    """
    host, processor = facts["host"], facts["processor"]
    runtime = next((known["version"] or known["name"] for known in facts["runtimes"]), "no container runtime")
    model = processor["model"] or processor["architecture"]
    parts = [f"{host['name']}: {model}, {processor['usable']} processors", _size(processor["memory"]), runtime]
    return ", ".join([*parts, "; ".join(map(_mpi, facts["mpi"])) or "no MPI"])


def problems(facts: Facts) -> list[str]:
    """Return what is wrong with a machine for containers and their checks, each with what to do."""
    return [*_of_runtimes(facts), *_of_limits(facts), *_of_tools(facts)]


def missing_platforms(facts: Facts, named: Iterable[str]) -> list[str]:
    """Return the runtimes that the site's file names and that the machine does not have, each with what to do.

    :param named: types of the partition's ``container_platforms``.
    """
    there = [runtime["name"] for runtime in facts["runtimes"]]
    return [
        f"the site's file names {name} in container_platforms, and {facts['host']['name']} has "
        f"{', '.join(there) or 'no container runtime'}: name its module there, or what is there"
        for name in named
        if name not in there
    ]


def _of_runtimes(facts: Facts) -> list[str]:
    lines = []
    if not facts["runtimes"]:
        lines.append(
            f"no container runtime on the PATH, and so only bare runs: install {RUNTIMES[0].name}, or name what "
            "there is, with its modules: container_platforms of the site's partition"
        )
    for runtime in facts["runtimes"]:
        if runtime["problem"]:
            lines.append(f"{runtime['path']} does not run: {runtime['problem']}")
        elif runtime["mounts"] == "unpacks":
            lines.append(
                f"{runtime['name']} unpacks the image at each start, which takes seconds: install squashfuse (Debian "
                "and Ubuntu: squashfuse), or its setuid package"
            )
        elif runtime["mounts"] in ("squashfuse", "squashfuse_ll") and not facts["fuse"]:
            lines.append(
                f"{runtime['name']} mounts image files through FUSE, and /dev/fuse cannot be opened: modprobe fuse"
            )
    needing = [runtime["name"] for runtime in facts["runtimes"] if runtime["mounts"] not in ("", "setuid")]
    if needing and not facts["namespaces"]["allowed"] and not facts["host"]["root"]:
        lines.append(
            f"{needing[0]} without its setuid helper needs user namespaces, which are forbidden "
            f"({facts['namespaces']['problem']}): have them allowed, or install its setuid package"
        )
    return lines


def _of_limits(facts: Facts) -> list[str]:
    lines, shared = [], facts["shared_memory"].get("size")
    if shared is not None and shared < SHARED_MEMORY:
        lines.append(f"/dev/shm has {_size(shared)} only, and MPI's ranks on a node meet in it: mount it larger")
    locked = facts["limits"]["locked memory"]
    if facts["fabric"] and locked is not None and locked < LOCKED_MEMORY:
        lines.append(
            f"a process may lock {_size(locked)} of memory, and MPI over {facts['fabric'][0].partition(':')[0]} needs "
            "more: ulimit -l unlimited, for daemons of the scheduler too"
        )
    return lines


def _of_tools(facts: Facts) -> list[str]:
    lines = []
    if not facts["mpi"]:
        lines.append(
            "no MPI library that the loader finds, and so nothing with ranks runs bare or integrated: install one "
            "(Debian and Ubuntu: openmpi-bin, libopenmpi-dev), or load its module: modules of the site's environment"
        )
    missing = [name for name in ("gcc", "g++", "make") if name not in facts["tools"]]
    if missing:
        lines.append(
            f"no {', '.join(missing)}: programs of the bare side are compiled (Debian and Ubuntu: build-essential)"
        )
    return lines


def _runtime(runtime: Facts) -> str:
    """Return a runtime with its version, place, and how it mounts image files."""
    if runtime["problem"]:
        return f"{runtime['name']} ({runtime['path']}) does not run"
    mounts = runtime["mounts"]
    how = MOUNTS.get(mounts, f"mounts image files through FUSE, {mounts}" if mounts else "")
    return f"{runtime['version'] or runtime['name']} ({', '.join(filter(None, [runtime['path'], how]))})"


def _mpi(library: Facts) -> str:
    return f"{library['title']} {library['version']}".strip() + f" ({library['library']})"


def _versions(programs: Mapping[str, str]) -> str:
    """Return names with the numbers in what they say of their version, and which of them do not run."""
    numbers = {
        name: next((word.strip(",()v") for word in output.split() if word[:1].isdigit() or word[1:2].isdigit()), "")
        if "does not run" not in output
        else "(is there, and does not run)"
        for name, output in programs.items()
    }
    return ", ".join(f"{name} {version}".strip() for name, version in numbers.items()) or _NONE


def _size(value: float | None) -> str:
    return "unknown" if value is None else size(value)


def _limit(name: str, value: float | None) -> str:
    if value is None:
        return "unlimited"
    _, in_bytes = LIMITS[name]
    return _size(value) if in_bytes else f"{value:.0f}"
