"""What of an observation is kept with the results, and how two are compared: hosts, runtimes, images or nights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from containercheck.explain.observations import Observation
from containercheck.explain.rules import type_of
from containercheck.explain.variable_rules import OF_RANK, VARIABLES
from containercheck.node.container_runtimes import RUNTIMES
from containercheck.results.formatting import size

#: Directories whose type of file system is kept.
DIRECTORIES = ("/", "/tmp", "/dev/shm")
#: Limits that are kept, in the words of /proc.
LIMITS = ("Max locked memory", "Max stack size", "Max open files", "Max processes", "Max address space", "Max cpu time")
#: What is kept of a process's status; not its processors, as each rank has others, and any of them may be the first.
STATUS = ("CapEff", "NoNewPrivs", "Seccomp", "Speculation_Store_Bypass", "THP_enabled")
#: Interfaces that come and go with containers and virtual machines.
PASSING = re.compile("|".join(["veth", "br-", "virbr", "tap", "cni", "cali", *(each.command for each in RUNTIMES)]))
#: Key of a provenance, and words before a name for people.
SEES = "sees"


def kept(seen: Observation) -> dict[str, Any]:
    """Return what a rule may ask of an observation, without what differs from job to job: empty values are left out.

    Of variables only those that a rule knows are kept, and of these no fingerprint: it is another one in every job.
    """
    variables = {
        name: value
        for name, value in sorted(seen.environment.items())
        if any(re.fullmatch(rule.names, name) for rule in VARIABLES)
        and not value.startswith("hidden:")
        and not OF_RANK.search(name)
    }
    shared = seen.space.get("/dev/shm")
    facts: dict[str, Any] = {
        "variable": variables,
        "limit": {name: seen.limits[name] for name in LIMITS if name in seen.limits},
        "status": {name: seen.status[name] for name in STATUS if name in seen.status},
        "file system": {place: type_of(seen, place) for place in DIRECTORIES if type_of(seen, place)},
        "shared memory": size(shared[0]) if shared else "",
        "setting": dict(seen.settings),
        "kernel": dict(seen.kernel),
        "interfaces": [name for name in seen.interfaces if not PASSING.match(name)],
        "devices": list(seen.devices),
        "libc": seen.libc,
        "system": seen.system,
    }
    return {name: value for name, value in facts.items() if value}


def observation(facts: Mapping[str, Any]) -> Observation:
    """Return what is known of an observation by what was kept of it, for the rules; what was not kept is empty."""
    shared = _bytes(str(facts.get("shared memory") or ""))
    return Observation(
        environment=facts.get("variable") or {},
        limits=facts.get("limit") or {},
        status=facts.get("status") or {},
        mounts={place: [kind, "", "", ""] for place, kind in (facts.get("file system") or {}).items()},
        space={"/dev/shm": [shared, shared]} if shared else {},
        settings=facts.get("setting") or {},
        kernel=facts.get("kernel") or {},
        interfaces=facts.get("interfaces") or (),
        devices=facts.get("devices") or (),
        libc=facts.get("libc") or "",
        system=facts.get("system") or "",
    )


def _bytes(text: str) -> int:
    """Return a number of bytes that ``formatting.size`` put into words; 0 for other texts."""
    found = re.fullmatch(r"([\d.]+) (B|KiB|MiB|GiB)", text)
    return int(float(found[1]) * 1024 ** ("B", "KiB", "MiB", "GiB").index(found[2])) if found else 0


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return a line for each fact that differs between two provenances, by side; what both have alike is left out."""
    before, now = dict(_flat(old)), dict(_flat(new))
    lines = []
    for name in dict.fromkeys((*before, *now)):
        first, second = before.get(name), now.get(name)
        if first == second:
            continue
        if first is None:
            lines.append(f"{name} is new: {second}")
        else:
            lines.append(f"{name} was {first}, and is gone" if second is None else f"{name}: {first} -> {second}")
    return lines


def _flat(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{path}{name} ")
        else:
            yield f"{path}{name}", ", ".join(map(str, inner)) if isinstance(inner, (list, tuple)) else str(inner)
