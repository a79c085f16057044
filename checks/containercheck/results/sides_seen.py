"""Keep what each side saw and used with the results, and compare two: hosts, runtimes, images, nights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from containercheck.job.container_runtimes import RUNTIMES
from containercheck.job.explain.causes import OF_RANK, rule_of_variable
from containercheck.job.explain.observations import Observation, Use
from containercheck.job.explain.rules import type_of
from containercheck.results.formatting import size

#: Directories whose type of file system is kept.
DIRECTORIES = ("/", "/tmp", "/dev/shm")
#: Limits that are kept, in the words of /proc.
LIMITS = ("Max locked memory", "Max stack size", "Max open files", "Max processes", "Max address space", "Max cpu time")
#: Fields of a process's status that are kept; not its processors, as each rank has others.
STATUS = ("CapEff", "NoNewPrivs", "Seccomp", "Speculation_Store_Bypass", "THP_enabled")
#: Interfaces that come and go with containers and virtual machines.
PASSING = re.compile("|".join(["veth", "br-", "virbr", "tap", "cni", "cali", *(each.command for each in RUNTIMES)]))
#: Keys of a provenance, and words before a name for people: what a side sees, and what its runs use.
SEES, USES = "sees", "uses"
#: Kind of the variables that no rule knows: they may come and go from job to job.
OTHERS = "other variable"
#: Variables whose value is another one in every job, or that say where it runs.
OF_JOB = re.compile(
    r"_|PWD|OLDPWD|SHLVL|TMP(DIR)?|TEMP|HOSTNAME|HOST|TERM|COLUMNS|LINES|INVOCATION_ID|JOURNAL_STREAM|BASH_FUNC_.*"
    r"|(SLURM|SLURMD|SBATCH|SRUN|PBS|SGE|LSB|LSF|FLUX|PALS|ALPS|JSM|PMI|PMIX|PRTE|OMPI|OPAL|ORTE|MPIEXEC|HYDRA|HYDI|MPIR"
    r"|SSH|XDG_SESSION|XDG_RUNTIME|DBUS|RFM|CONTAINERCHECK|JOB|TASK|NODE)_.*"
    + "".join(
        rf"|{each.settings}(COMMAND|VERSION|INSTANCE|CONTAINER|NAME|APPNAME|ENVIRONMENT|BIND|SHARENS.*)"
        for each in RUNTIMES
        if each.settings
    )
)
#: Fields of an observation that are kept as they are, by their key in a provenance; and which names, where not all.
_FIELDS: Mapping[str, tuple[str, Sequence[str]]] = {
    "limit": ("limits", LIMITS),
    "hard limit": ("hard_limits", LIMITS),
    "status": ("status", STATUS),
    "setting": ("settings", ()),
    "kernel": ("kernel", ()),
    "devices": ("devices", ()),
    "libc": ("libc", ()),
    "system": ("system", ()),
    "user": ("user", ()),
}
#: Stands for the value of a variable that may be a secret.
SET = "set"
#: Parts of the path of a library that are kept, from its end: its directory, often with a version, and its name.
PARTS = 3


def kept(seen: Observation) -> dict[str, Any]:
    """Return the facts of an observation that last, without those that differ from job to job or are empty.

    Of variables that a rule knows, the values are kept; of others only the name, and a fingerprint of the value that
    tells nothing without the user's key. A variable that may be a secret has no fingerprint.
    """
    lasting = {name: value for name, value in sorted(seen.environment.items()) if not OF_RANK.search(name)}
    known = {name for name in lasting if rule_of_variable(name)}
    others = {
        name: seen.fingerprints.get(name) or SET for name in lasting if name not in known and not OF_JOB.fullmatch(name)
    }
    shared = seen.space.get("/dev/shm")
    facts: dict[str, Any] = {
        "variable": {name: lasting[name] for name in sorted(known) if not lasting[name].startswith("hidden:")},
        OTHERS: others,
        **{key: _chosen(getattr(seen, field), names) for key, (field, names) in _FIELDS.items()},
        "cgroup limit": {name: f"{value:.12g}" for name, value in seen.cgroup_limits.items()},
        "file system": {place: type_of(seen, place) for place in DIRECTORIES if type_of(seen, place)},
        "shared memory": size(shared[0]) if shared else "",
        "interfaces": [name for name in seen.interfaces if not PASSING.match(name)],
        "instructions": " ".join([seen.machine, *seen.instructions]).strip(),
        "cgroup": sorted({_without_numbers(line.split(":", 2)[-1]) for line in seen.cgroup}),
    }
    return {name: value for name, value in facts.items() if value}


def _chosen(value: Any, names: Sequence[str]) -> Any:
    return {name: value[name] for name in names if name in value} if names else value


def _without_numbers(path: str) -> str:
    """Return the path of a cgroup without the numbers of jobs and containers."""
    return re.sub(r"[0-9a-f]{12,}|\d+", "#", path)


def used(use: Use) -> dict[str, Any]:
    """Return what is kept of what runs used, without what is measured anew in every job: empty values are left out."""
    limits = {
        "processors": f"{use.throttled[2]:.3g}" if use.throttled else "",
        "memory": size(use.memory_limit) if use.memory_limit else "",
    }
    facts: dict[str, Any] = {
        "library": {_stem(path): "/".join(path.split("/")[-PARTS:]) for path in sorted(use.libraries)},
        "interfaces": sorted(use.interfaces),
        "devices": sorted(use.devices),
        "threads": use.threads,
        "limit": {name: value for name, value in limits.items() if value},
    }
    return {name: value for name, value in facts.items() if value}


def _stem(path: str) -> str:
    """Return the name of a library without its version: ``libopenblas``."""
    return re.split(r"[-.]", path.rpartition("/")[2], maxsplit=1)[0]


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
