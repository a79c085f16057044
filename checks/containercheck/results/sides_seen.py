"""Select the observations of each side that are stored with the results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from containercheck.job.container_runtimes import RUNTIMES
from containercheck.job.explain.causes import OF_RANK, rule_of_variable
from containercheck.job.explain.observations import Observation, Use
from containercheck.job.explain.rules import type_of
from containercheck.results.formatting import size

#: Directories for which the type of file system is kept.
DIRECTORIES = ("/", "/tmp", "/dev/shm")
#: Limits that are kept, by their names in /proc.
LIMITS = ("Max locked memory", "Max stack size", "Max open files", "Max processes", "Max address space", "Max cpu time")
#: Fields of a process's status that are kept. The processors are not kept, as they differ between ranks.
STATUS = ("CapEff", "NoNewPrivs", "Seccomp", "Speculation_Store_Bypass", "THP_enabled")
#: Interfaces that come and go with containers and virtual machines.
PASSING = re.compile("|".join(["veth", "br-", "virbr", "tap", "cni", "cali", *(each.command for each in RUNTIMES)]))
#: Keys of a provenance for the observations of a side and for the use of its runs; also words in names for people.
SEES, USES = "sees", "uses"
#: Kind of the variables without a rule: they may differ from job to job.
OTHERS = "other variable"
#: Variables with another value in every job, or with the place of the job.
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
#: Fields of an observation that are kept unchanged, by their key in a provenance; and the kept names, if not all.
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
    """Return the lasting facts of an observation, without empty ones and without those that differ between jobs.

    A variable with a rule is kept with its value. Of other variables, the name and a fingerprint of the value are kept;
    the fingerprint reveals nothing without the user's key. A variable that may be a secret has no fingerprint.
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
    """Return the lasting facts about the use of runs, without empty ones and without measurements of each job."""
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


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield all facts of a provenance as name and text; empty ones are left out."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat(inner, f"{name} {key}".strip())
    elif isinstance(value, (list, tuple)):
        if value:
            yield name, ", ".join(map(str, value))
    elif isinstance(value, bool):
        yield name, "yes" if value else "no"
    elif value not in (None, ""):
        yield name, str(value)
