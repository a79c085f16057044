"""Find the differences between the observations of both sides before the rounds, by the rules of ``rules.ini``.

Also remark on conditions that have cost others time or runs, and did no harm in this job. A remark fails nothing.
Conditions of a healthy node give none.
"""

import math
import re
import signal
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from containercheck.job.container_runtimes import METADATA, RUNTIMES
from containercheck.job.contract import MEASURED, WORKDIR
from containercheck.job.explain.causes import (
    AND,
    BIND,
    CORES,
    CPUS,
    GPUS,
    HIDE,
    LIMIT,
    MPI,
    OF_RANK,
    OPEN_MPI,
    OPTION,
    PREFIX,
    RULES,
    SET,
    SEVERAL,
    START,
    UNPACK,
    UNSET,
    Cause,
    Change,
    Rule,
    rule_of_variable,
    rules_of,
)
from containercheck.job.explain.observations import DIRECTORY, Observation
from containercheck.job.launch import ULIMITS
from containercheck.job.texts import cores_of, size

#: Smallest size of /dev/shm that is not suspicious, in bytes; and free space below which it is full.
SMALL, FULL = 1 << 30, 64 << 20
#: Number of open files from which on programs that close all of them take long to start.
MANY_FILES = 1 << 20
#: Processes that a cgroup has to allow for each processor of the host, before its limit does not matter.
FOR_EACH_PROCESSOR = 4
#: The same for runs that ended, before a program with many threads and processes reaches the limit.
MANY_FOR_EACH = 64
#: Free bytes in a directory for temporary files below which programs may fill it.
LITTLE = 1 << 30
#: Minor releases by which glibc may be older before it is named: four years.
OLDER = 8
#: Directory of the devices of InfiniBand, and beginning of the paths of NVIDIA's GPUs.
INFINIBAND, NVIDIA = "/dev/infiniband", "/dev/nvidia"
#: Settings of Open MPI that do not concern its messages, by the beginning of their names: their kinds and weight.
_OTHER_SETTINGS: Sequence[Tuple[str, Tuple[str, ...], int]] = (
    (r"hwloc_|rmaps_|rtc_", CORES, 60),
    (r"oob_|plm_|ras_|odls_|routed_|grpcomm_|ess_|orte_|prte_", (START,), 50),
)
#: Directories of an image's programs: a mount there hides some of its files.
OF_IMAGE = ("/usr/", "/opt/", "/lib", "/bin/", "/sbin/")
#: Beginning of a value that is hidden because it may be a secret.
HIDDEN = "hidden:"
#: Beginnings of the names of runtimes' variables.
_SETTINGS = tuple(runtime.settings for runtime in RUNTIMES if runtime.settings)
#: Variables that shells and runtimes give each container, and those of launchers: values of another start are wrong.
_OF_STARTS = re.compile(
    r"_|PWD|OLDPWD|SHLVL|PS1|PROMPT_COMMAND|TERM|HOME|HOSTNAME|USER_PATH|CONTAINERCHECK_.*"
    r"|(PMIX|PMI|PMI2|OMPI|OPAL|PRTE|SLURM|HYDRA|MPI|MPIR|ORTE|FLUX|PALS|SLURMD)_.*"
)
#: Functions that a shell exports, and the like: shells and runtimes do not hand them on.
_OF_SHELLS = re.compile(r".*\W.*")
#: Variables that are lists of places: programs search them in order. Then directories of programs in any image.
_PATHS, _STANDARD = re.compile(r"\w*PATH|\w*DIRS|LD_PRELOAD"), re.compile(r"/(usr/)?(local/)?s?bin/?")


def variables(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for each variable that differs, except search paths without a rule."""
    for name in sorted({*bare.environment, *container.environment}):
        inside, host = container.environment.get(name), bare.environment.get(name)
        if inside == host or OF_RANK.search(name) or (host is not None and _OF_SHELLS.fullmatch(name)):
            continue
        rule = rule_of_variable(name)
        difference, remedy, change = _of_variable(name, bare, container)
        words = {"name": name, "difference": difference, "do": remedy}
        if rule and inside is not None:
            yield rule.cause(change, **words)
        elif rule and "missing" in rule.fields:
            yield rule.cause(change, **words)._replace(weight=rule.weight - 10)
        elif not name.startswith(_SETTINGS) and not _OF_STARTS.fullmatch(name) and not _is_list(name, inside):
            yield RULES["no rule: variable"].cause(change, **words)


def _is_list(name: str, value: Optional[str]) -> bool:
    return value is not None and bool(_PATHS.fullmatch(name)) and not value.startswith(HIDDEN)


def search_paths(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield each place in the container's search paths that is neither bare's nor an image's usual one."""
    for name, value in sorted(container.environment.items()):
        if not _is_list(name, value) or name.startswith(_SETTINGS) or rule_of_variable(name):
            continue
        places, usual = value.split(":"), bare.environment.get(name, "").split(":")
        for place in dict.fromkeys(places):
            if place in usual or _STANDARD.fullmatch(place) or place.startswith(f"/{METADATA}") or not place:
                continue
            rest = ":".join(each for each in places if each != place)
            change = Change(SET, f"{name}={rest}") if rest else Change(UNSET, name)
            order = "first" if place == places[0] else "a place"
            setter = container.set_by.get(f"{name} {place}", container.set_by.get(name))
            by = f", set by {setter}" if setter else ""
            remedy = f"take {place} out of {setter or name}, or find its source"
            programs = container.hidden_programs.items() if name == "PATH" else ()
            instead = [f"{first}, not {other}" for first, other in programs if first.rpartition("/")[0] == place]
            finds = f": PATH finds {' and '.join(instead[:3])}" if instead else ""
            yield RULES["no rule: place"].cause(
                change, name=name, place=place, order=order, by=by, finds=finds, do=remedy
            )


def _of_variable(name: str, bare: Observation, container: Observation) -> Tuple[str, str, Optional[Change]]:
    """Return sentence, remedy and change for a variable that only one of both has, or with another value."""
    inside, host = container.environment.get(name), bare.environment.get(name)
    is_set = host is not None and not host.startswith(HIDDEN) and AND not in host
    change = Change(SET, f"{name}={host}") if is_set else None
    if inside is None:
        sentence = f"{name} is {host} on the host, and is not set in the container"
        return sentence, f"set {name}={host} in the container, by the runtime or in the image's environment", change
    by = container.set_by.get(name)
    setting = name if inside.startswith(HIDDEN) else f"{name}={inside}"
    if by:
        remedy = f"unset {by} in the environment of jobs: a module, a profile or the site's file sets it"
    elif name in container.image_variables:
        remedy = f"take {name} out of the image's environment, or set it as on the host"
    else:
        remedy = f"find the setting of {name} for containers: in the runtime's configuration, a wrapper or the image"
    where = f"by {by}" if by else "by the image" if name in container.image_variables else "in the container"
    sentence = f"{setting} is set {where}, and {f'is {host}' if is_set else 'not'} on the host"
    return sentence, remedy, change or Change(UNSET, name)


def shared_memory(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause if /dev/shm is smaller in the container, or nearly full there."""
    inside, host = container.space.get("/dev/shm"), bare.space.get("/dev/shm")
    change = Change(BIND, "/dev/shm")
    if inside and host and inside[0] < min(SMALL, host[0] / 2):
        yield RULES["shared memory: small"].cause(change, container=size(inside[0]), host=size(host[0]))
    elif inside and host and inside[1] < FULL <= host[1]:
        yield RULES["shared memory: full"].cause(change, container=size(inside[1]), host=size(host[1]))


def allowed(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause if the container may use fewer processors, or the memory of fewer parts of the node (NUMA)."""
    for name, rule in rules_of("allowed"):
        inside, host = (side.status.get(name, "") for side in (container, bare))
        if inside and len(cores_of(inside)) < len(_allowed(bare, name)):
            yield rule.cause(Change(CPUS, host) if "change" in rule.fields else None, container=inside, host=host)


def _allowed(side: Observation, name: str) -> Set[int]:
    """Return the numbers in a list of a side's status; none if it is not known."""
    listed = side.status.get(name, "")
    return cores_of(listed) if listed else set()


def values(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for each rule on a single value that differs, if both sides have it, and both values match."""
    for _, rule in rules_of("value"):
        field, _, name = rule.fields["value"].partition(" ")
        inside, host = (
            getattr(side, field).get(name, "") if name else getattr(side, field) for side in (container, bare)
        )
        matches = re.fullmatch(rule.fields["in container"], inside) and re.fullmatch(rule.fields["on host"], host)
        if matches and inside != host:
            prefix = rule.fields.get("prefix", "").format(host=host)
            change = Change(PREFIX, prefix) if prefix else _by_engine(rule, container)
            yield rule.cause(change, container=inside, host=host)


def _by_engine(rule: Rule, container: Observation) -> Optional[Change]:
    """Return the change by the option of a rule that only engines have; None for other runtimes and rules."""
    is_engine = not any(name.startswith(_SETTINGS) for name in container.environment)
    return Change(OPTION, rule.fields["engine"]) if is_engine and "engine" in rule.fields else None


def limits(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for each soft limit that differs."""
    for name in ULIMITS:
        inside, host = container.limits.get(name, ""), bare.limits.get(name, "")
        if not inside or not host or inside == host:
            continue
        hard = container.hard_limits.get(name, "")
        besides = f"; the hard limit is {hard}, so that a job may raise it itself (ulimit)"
        words = {"container": inside, "host": host, "besides": besides if _allows(hard, host) else ""}
        rule = RULES["no rule: limit"]
        if name == "Max open files" and _allows(inside, str(MANY_FILES)) and not _allows(host, str(MANY_FILES)):
            rule = RULES["open files"]
        elif inside.isdigit() and _allows(host, inside):
            # Programs end without a core file too.
            lower = rule if name == "Max core file size" else RULES["limit: lower"]
            rule = RULES.get(f"limit: {name}", lower)
        yield rule.cause(Change(LIMIT, f"{name}={host}"), name=name, words=name[len("Max ") :], **words)


def _allows(limit: str, value: str) -> bool:
    """Return whether a limit allows a value, in the words of /proc."""
    return limit == "unlimited" or (limit.isdigit() and value.isdigit() and int(limit) >= int(value))


def cgroup_limits(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for each limit of the container's cgroups that bare has not, and that can matter on this host."""
    cores = len(_allowed(bare, "Cpus_allowed_list"))
    inside, host = container.cgroup_limits, {"processors": float(cores), **bare.cgroup_limits}
    enough = {"processors": cores, "memory": math.inf, "processes": MANY_FOR_EACH * cores}
    for name, rule in rules_of("cgroup"):
        limit = inside.get(name, 0.0)
        if 0 < limit < min(enough[name], host.get(name, math.inf)):
            if name == "processes" and limit >= FOR_EACH_PROCESSOR * cores:
                rule = RULES["low cgroup: processes"]
            words = (_amount(name, limits.get(name)) for limits in (inside, host))
            yield rule.cause(_by_engine(rule, container), **dict(zip(("container", "host"), words)))


def _amount(name: str, limit: Optional[float]) -> str:
    """Return a limit of a cgroup in words."""
    if limit is None:
        return "no limit"
    return size(limit) if name == "memory" else f"{round(limit, 2):g}"


def signals(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for signals that the container's processes ignore or block, and those of the host do not."""
    for field, rule in rules_of("signals"):
        inside, host = (_mask(side.status.get(field, "")) for side in (container, bare))
        names = [each.name for each in signal.Signals if (inside & ~host) >> (each - 1) & 1]
        if names:
            words = " and ".join(names)
            prefix = rule.fields.get("prefix", "").format(signals=",".join(name[len("SIG") :] for name in names))
            yield rule.cause(Change(PREFIX, prefix) if prefix else None, signals=words)


def _mask(text: str) -> int:
    return int(text, 16) if re.fullmatch("[0-9a-f]+", text) else 0


def instructions(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause if the container's programs find another kind of processor, or one with fewer instructions."""
    hidden = [each for each in bare.instructions if each not in container.instructions]
    # A personality only gives the processor another name.
    has_other_name = bare.status.get("Personality") != container.status.get("Personality")
    if bare.machine and container.machine and bare.machine != container.machine and not has_other_name:
        yield RULES["processor: architecture"].cause(container=container.machine, host=bare.machine)
    elif hidden and container.instructions:
        yield RULES["processor: instructions"].cause(hidden=", ".join(hidden))


def old_c_library(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause if the container's glibc is much older: newer ones know newer processors."""
    inside, host = (_release_of_glibc(side.libc) for side in (container, bare))
    if inside and host and host - inside >= OLDER:
        yield RULES["libc: old"].cause(container=inside, host=host)


def _release_of_glibc(text: str) -> int:
    match = re.search(r"\b2\.(\d+)", text) if "libc" in text.lower() else None
    return int(match[1]) if match else 0


def image_mount(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause if the image is read through FUSE, and the side that it is compared with is not."""
    if _reads_through_fuse(container) and not _reads_through_fuse(bare):
        yield RULES["image mount"].cause(Change(UNPACK))


def _reads_through_fuse(side: Observation) -> bool:
    return any(facts[0].startswith("fuse.squashfuse") or "squashfuse" in facts[1] for facts in side.mounts.values())


def directories(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause if a directory in which programs write is slower in the container: its kind, or ``sync``."""
    for place in dict.fromkeys(("/tmp", *_written(bare), *_written(container))):
        inside, host = (type_of(side, place) for side in (container, bare))
        if inside and host and inside != host and inside.startswith(("overlay", "fuse")):
            yield RULES["directory: kind"].cause(Change(BIND, place), place=place, container=inside, host=host)
        elif is_synchronous(container, place) and not is_synchronous(bare, place):
            yield RULES["directory: sync"].cause(Change(BIND, place), place=place)


def temporary_space(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause if little space is free for temporary files in the container: a run that needs more ends."""
    for place in dict.fromkeys(("/tmp", container.environment.get("TMPDIR") or "/tmp")):
        inside, host = (below(side.space, place) for side in (container, bare))
        if inside and host and inside[1] < LITTLE and inside[1] < host[1] / 2:
            yield RULES["space"].cause(Change(BIND, place), place=place, container=size(inside[1]), host=size(host[1]))


def _written(side: Observation) -> List[str]:
    """Return the directories of a side in which its programs may write, except its home."""
    home = side.environment.get("HOME", "")
    return [path for path, state in side.directories.items() if state == "usable" and path != home]


def below(mounts: Any, place: str) -> Any:
    """Return the value of the innermost mount that a directory lies on; empty if that is not known.

    :param mounts: values by directory.
    """
    parents = [mount for mount in mounts if place == mount or place.startswith(mount.rstrip("/") + "/")]
    return mounts[max(parents, key=len)] if parents else ()


def type_of(side: Observation, place: str) -> str:
    """Return the type of the file system that a directory lies on; empty if that is not known."""
    return next(iter(below(side.mounts, place)), "")


def is_synchronous(side: Observation, place: str) -> bool:
    """Return whether writes into a directory wait for the disk."""
    return any("sync" in options.split(",") for options in below(side.mounts, place)[2:])


def settings(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for each setting of MPI in a file that only one of both sees."""
    differing = [
        key
        for key in sorted({*bare.settings, *container.settings})
        if container.settings.get(key) != bare.settings.get(key) and "pmix-mca-params.conf " not in key
    ]
    for key in differing:
        inside, host = container.settings.get(key), bare.settings.get(key)
        path, name = key.rsplit(" ", 1)
        variable, family = (name, "") if path.endswith("ucx.conf") else (f"OMPI_MCA_{name}", OPEN_MPI)
        directory = path.rpartition("/")[0]
        words = {"name": name, "path": path, "directory": directory, "variable": variable}
        # The experiment could not separate several settings of a directory.
        is_alone = [each for each in differing if each.startswith(f"{directory}/")] == [key]
        has_file = path.startswith("/etc/") and any(each.startswith(f"{path} ") for each in bare.settings)
        binding = Change(BIND, directory) if is_alone and has_file else None
        kinds, weight = _kinds_of(key)
        if host is not None and not host.startswith(HIDDEN):
            cause = RULES["setting"].cause(binding or Change(SET, f"{variable}={host}"), host=host, **words)
            yield cause._replace(family=family, kinds=kinds, weight=weight)
        elif inside is not None:
            cause = RULES["setting: of the image"].cause(binding, container=inside, **words)
            yield cause._replace(family=family, kinds=kinds, weight=weight - 2)


def _kinds_of(key: str) -> Tuple[Tuple[str, ...], int]:
    """Return the kinds of metrics that a setting can slow, and its weight.

    :param key: its path and name.
    """
    path, name = key.rsplit(" ", 1)
    others = (row[1:] for row in _OTHER_SETTINGS if not path.endswith("ucx.conf") and re.match(row[0], name))
    return next(others, (MPI, RULES["setting"].weight))


def devices_below(seen: Observation, beginning: str) -> List[str]:
    """Return the paths of a side's devices that begin so."""
    return [path for path in seen.devices if path.startswith(beginning)]


def devices(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for each kind of device of which the host has some, and the container none."""
    for beginning, rule in rules_of("device"):
        paths = devices_below(bare, beginning)
        if paths and not devices_below(container, beginning):
            place = beginning if beginning == INFINIBAND else paths[0]
            change = None if rule.kinds == MEASURED else Change(BIND, place)
            # Runtimes have options for these GPUs only.
            change = Change(GPUS) if beginning == NVIDIA else change
            yield rule.cause(change, beginning=beginning, path=paths[0])


def hooks(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for each script of the image's environment that runs at each start."""
    for path in container.hooks:
        if path not in bare.hooks:
            yield RULES["hook"].cause(Change(BIND, f"/dev/null:{path}"), path=path)


def home(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause if the home is another directory in the container."""
    inside, host = (side.status.get("Home", "").partition(" ")[::2] for side in (container, bare))
    if inside[1] and host[1] and inside != host:
        change = Change(SEVERAL, f"{BIND} {host[1]}{AND}{SET} HOME={host[1]}")
        yield RULES["no rule: home"].cause(change, path=inside[1])


def working_directory(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause if programs start in another directory in the container; its path always differs."""
    inside, host = (side.status.get("Directory", "").partition(" ")[::2] for side in (container, bare))
    if inside[0] and host[0] and inside[0] != host[0]:
        by = container.set_by.get(DIRECTORY, "")
        change = Change(HIDE, by) if by else Change(PREFIX, f"sh -c 'cd {WORKDIR} && exec \"$@\"' sh")
        rule = RULES["working directory: by a variable"] if by else RULES["working directory"]
        yield rule.cause(change, path=inside[1], by=by)


def mounts(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for mounts over the image."""
    # The job's own directory may lie below such a directory, as in /opt.
    here = bare.status.get("Directory", "").partition(" ")[2]
    over = [path for path in container.mounts if path.startswith(OF_IMAGE) and path not in bare.mounts]
    over = [path for path in over if not f"{here}/".startswith(f"{path}/")]
    if over:
        yield RULES["files over the image"].cause(container=" and ".join(over[:3]))


#: Rules that find differences; each yields the causes between the observations of bare and of a container.
RULES_OF_SIGHT: Sequence[Callable[[Observation, Observation], Iterator[Cause]]] = (
    variables,
    search_paths,
    shared_memory,
    allowed,
    values,
    limits,
    cgroup_limits,
    signals,
    instructions,
    image_mount,
    directories,
    temporary_space,
    settings,
    devices,
    old_c_library,
    mounts,
    hooks,
    home,
    working_directory,
)


#: Bytes of locked memory below which libraries of InfiniBand cannot register their buffers (PRACE D12.6, 4.4.3).
LOCKED = 1 << 30
#: Setting of the Yama module from which on a process may not read another one's memory (ptrace_scope).
NO_SINGLE_COPY = 2


def _remarks_on(seen: Observation) -> Iterator[str]:
    """Yield the problems in a side's observation on a node."""
    limit = seen.limits.get("Max locked memory", "")
    if devices_below(seen, INFINIBAND) and limit.isdigit() and int(limit) < LOCKED:
        yield (
            f"only {size(int(limit))} of memory may be locked on a node with InfiniBand; its libraries need more: "
            "raise the limit (ulimit -l) for jobs"
        )
    space = seen.space.get("/dev/shm")
    if space and space[1] < min(FULL, space[0] / 2):
        yield f"/dev/shm has {size(space[1])} free of {size(space[0])}: remove the files that killed runs left there"
    scope = seen.kernel.get("ptrace_scope", "")
    if scope.isdigit() and int(scope) >= NO_SINGLE_COPY:
        yield (
            f"kernel.yama.ptrace_scope is {scope}: ranks of a node copy each message twice (no CMA); 0 or 1 lets them "
            "copy it once"
        )
    # Some runtimes promise a home that is not there.
    path = seen.environment.get("TMPDIR", "")
    state = seen.directories.get(path, "usable")
    if state != "usable":
        yield f"TMPDIR is {path}, which is {state}: bind it, or set TMPDIR to a directory that is there"


def remarks(sides: Mapping[str, Optional[Observation]]) -> List[str]:
    """Return the problems on a job's nodes, each once, with the sides and nodes that it concerns.

    :param sides: observation of each, by its label; None for an unknown one.
    """
    concerned: Dict[str, List[str]] = {}
    for label, seen in sides.items():
        if not seen:
            continue
        on_first = [*_remarks_on(seen)]
        for remark in on_first:
            concerned.setdefault(remark, []).append(label)
        for host in seen.nodes:
            other = seen.at(host)
            for remark in _remarks_on(other) if other else ():
                if remark not in on_first:
                    concerned.setdefault(remark, []).append(f"{label} on {host}")
    return [f"{' and '.join(labels)}: {remark}" for remark, labels in concerned.items()]
