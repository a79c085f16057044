"""The rules of explanations, as data: what has to differ, which figures it can slow, what to say, do and try.

A rule is no proof. It names a difference that is known to cost time, with the source; the experiment is the proof. A
difference that nobody has seen to cost anything has no rule, and is never named. Here are the rules on what both sides
saw before the rounds; see also variable_rules.py, and use_rules.py for what the runs used.
"""

import math
import re
from typing import Callable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from containercheck.node.container_runtimes import RUNTIMES
from containercheck.node.contract import MEASURED
from containercheck.node.explain.causes import (
    COMPUTING,
    CORES,
    FILES,
    MEMORY,
    MESSAGES,
    MORE_MEMORY,
    MORE_TIME,
    MPI,
    NETWORK,
    OPEN_MPI,
    START,
    UNPACKING,
    Cause,
)
from containercheck.node.explain.observations import Observation
from containercheck.node.explain.remedies import BIND, CPUS, GPUS, LIMIT, OPTION, PREFIX, SET, UNPACK, Experiment
from containercheck.node.explain.variable_rules import variables
from containercheck.node.formatting import cores_of, size

#: Smallest size of /dev/shm that is not suspicious, in bytes; and free space below which it is full.
SMALL, FULL = 1 << 30, 64 << 20


def shared_memory(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where /dev/shm is smaller in the container, or nearly full there."""
    own, other = container.space.get("/dev/shm"), bare.space.get("/dev/shm")
    if not own or not other:
        return
    if own[0] < min(SMALL, other[0] / 2):
        sentence = f"/dev/shm holds {size(own[0])} in the container, {size(other[0])} on the host"
        remedy = "bind the host's /dev/shm, or have the runtime make it larger (an engine's --shm-size)"
        facts = ("shared memory", "/dev/shm", sentence, remedy, "mpich#4631, libfabric#9422", (MESSAGES, MEMORY), 85)
        yield Cause(*facts, experiment=Experiment(BIND, "/dev/shm"))
    elif own[1] < FULL <= other[1]:
        sentence = f"/dev/shm has {size(own[1])} free in the container, {size(other[1])} on the host"
        facts = (
            "shared memory",
            "/dev/shm",
            sentence,
            "remove what lies in it, or bind the host's",
            "ompi#7220",
            (MESSAGES, MEMORY),
            80,
        )
        yield Cause(*facts, experiment=Experiment(BIND, "/dev/shm"))


def processors(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where the container may use fewer processors."""
    own, other = (_allowed(side, "Cpus_allowed_list") for side in (container, bare))
    if own and len(own) < len(other):
        lists = [side.status["Cpus_allowed_list"] for side in (container, bare)]
        sentence = f"processors {lists[0]} are allowed in the container, {lists[1]} on the host"
        remedy = "have launcher, wrapper or runtime bind the container as it binds bare"
        facts = ("processors", "allowed", sentence, remedy, "easybuild-easyblocks#3650", MEASURED, 90)
        yield Cause(*facts, experiment=Experiment(CPUS, lists[1]))


def _allowed(side: Observation, name: str) -> Set[int]:
    """Return the numbers in a list of a side's status; none where it is not known."""
    listed = side.status.get(name, "")
    return cores_of(listed) if listed else set()


def mitigation(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where the container's processes run with a mitigation that those of the host do without."""
    own, other = (side.status.get("Speculation_Store_Bypass", "") for side in (container, bare))
    if "mitigated" in own and "vulnerable" in other:
        sentence = "seccomp switches the mitigation of Speculative Store Bypass on in the container, not on the host"
        remedy = "use a runtime or kernel that leaves it off: seccomp=unconfined, or Linux 5.16"
        experiment = _without_filter(container)
        yield Cause("mitigation", "seccomp", sentence, remedy, "runc#2430", CORES, 80, experiment=experiment)


def _without_filter(container: Observation) -> Optional[Experiment]:
    """Return the container without a filter of system calls, which only an engine has an option for; else None."""
    prefixes = tuple(runtime.settings for runtime in RUNTIMES if runtime.settings)
    is_engine = not any(name.startswith(prefixes) for name in container.environment)
    return Experiment(OPTION, "--security-opt seccomp=unconfined") if is_engine else None


#: Limits, by their name in /proc: kinds, weight and source of a cause, where the container's is lower.
LIMITS = {
    "Max locked memory": (MPI, 70, "D12.6 4.4.3"),
    "Max stack size": ((COMPUTING,), 40, "OpenMP 5.2, chapter 21"),
    "Max processes": ((COMPUTING, START), 40, "apptainer#2691"),
    "Max cpu time": (MEASURED, 60, "getrlimit(2)"),
    "Max address space": ((MEMORY,), 60, "getrlimit(2)"),
}
#: Number of open files from which on programs that close all of them take long to start.
MANY_FILES = 1 << 20


def limits(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for each limit that is lower in the container; and for more open files."""
    for name, (kinds, weight, source) in LIMITS.items():
        own, other = container.limits.get(name, ""), bare.limits.get(name, "")
        if own != other and own.isdigit() and (other == "unlimited" or (other.isdigit() and int(own) < int(other))):
            words = name[4:]
            sentence = f"the limit of {words} is {own} in the container, {other} on the host"
            remedy = f"raise the limit of {words} for what starts the container (the daemon, or a wrapper)"
            if _may_be(container.hard_limits.get(name, ""), other):
                hard = container.hard_limits[name]
                remedy += f"; the hard limit is {hard}, so that a job may raise it itself (ulimit)"
            experiment = Experiment(LIMIT, f"{name}={other}")
            yield Cause("limit", name, sentence, remedy, source, kinds, weight, experiment=experiment)
    own, other = container.limits.get("Max open files", ""), bare.limits.get("Max open files", "")
    if own.isdigit() and int(own) >= MANY_FILES and other.isdigit() and int(other) < MANY_FILES:
        sentence = f"the limit of open files is {own} in the container, {other} on the host: some programs close all"
        facts = (
            "limit",
            "Max open files",
            sentence,
            "lower it for containers",
            "opensciencegrid/docs#345",
            (START,),
            70,
        )
        yield Cause(*facts, experiment=Experiment(LIMIT, f"Max open files={other}"))


def _may_be(hard: str, wanted: str) -> bool:
    """Return whether a hard limit allows a soft one."""
    return hard == "unlimited" or (hard.isdigit() and wanted.isdigit() and int(hard) >= int(wanted))


#: Processes that a cgroup has to allow for each processor of the host, before its limit is no matter.
FOR_EACH_PROCESSOR = 4


def cgroup_limits(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for each limit of the container's cgroups that bare has not, and that can matter on this host."""
    own, other = container.cgroup_limits, bare.cgroup_limits
    host = len(_allowed(bare, "Cpus_allowed_list"))

    def limited(name: str, enough: float) -> float:
        value = own.get(name, 0.0)
        return value if 0 < value < min(enough, other.get(name) or enough) else 0.0

    value = limited("processors", host)
    if value:
        sentence = f"the container's cgroup allows it the time of {value:.3g} of {host} processors"
        yield Cause("quota", "processor time", sentence, MORE_TIME, "moby#38839", MEASURED, 85)
    value = limited("memory", math.inf)
    if value:
        sentence = f"the container's cgroup limits its memory to {size(int(value))}"
        yield Cause("memory limit", "cgroup", sentence, MORE_MEMORY, "cgroups(7)", (MEMORY, FILES), 55, True)
    value = limited("processes", FOR_EACH_PROCESSOR * host)
    if value:
        sentence = f"the container's cgroup allows it {value:.0f} processes and threads"
        remedy = "raise it for what starts the container: the engine's --pids-limit, or a service's TasksMax"
        source = "Linux manual, cgroup-v2, pids.max"
        yield Cause("limit", "cgroup processes", sentence, remedy, source, (COMPUTING, START), 60)


def instructions(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where the container's programs find another kind of processor, or one with fewer instructions."""
    remedy = "use an image for the host's architecture, and no emulator or virtual machine that hides instructions"
    if bare.machine and container.machine and bare.machine != container.machine:
        sentence = f"programs run on {container.machine} in the container, on {bare.machine} on the host: emulated"
        yield Cause("processor", "architecture", sentence, remedy, "QEMU manual, user mode", MEASURED, 95)
        return
    hidden = [each for each in bare.instructions if each not in container.instructions]
    if hidden and container.instructions:
        sentence = f"the processor has no {', '.join(hidden)} in the container, and has on the host"
        yield Cause("processor", "instructions", sentence, remedy, "x86-64 psABI, micro-architecture levels", CORES, 85)


def c_library(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where the container's C library is musl, and the host's is not."""
    if container.libc == "musl" and bare.libc != "musl":
        sentence = "libc is musl in the container: its allocator and its mathematical functions are slower"
        remedy = "use an image with glibc, or another allocator in this one"
        yield Cause("libc", "musl", sentence, remedy, "texture-synthesis#8, tremor#377", CORES, 70)


def image_mount(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where the image is read through FUSE, and what it is compared with is not."""
    if _reads_through_fuse(container) and not _reads_through_fuse(bare):
        sentence = "the image is read through FUSE (squashfuse)"
        source = "apptainer#665, squashfuse#121"
        yield Cause(
            "image mount", "squashfuse", sentence, UNPACKING, source, (FILES, START), 60, True, Experiment(UNPACK)
        )


def _reads_through_fuse(side: Observation) -> bool:
    return any(facts[0].startswith("fuse.squashfuse") or "squashfuse" in facts[1] for facts in side.mounts.values())


def directories(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where a directory in which programs write is slower in the container: its kind, or ``sync``."""
    for place in dict.fromkeys(("/tmp", *_written(bare), *_written(container))):
        own, other = (type_of(side, place) for side in (container, bare))
        remedy = f"bind the host's {place}, or another directory for temporary files"
        experiment = Experiment(BIND, place)
        if own and other and own != other and own.startswith(("overlay", "fuse")):
            sentence = f"{place} is {own} in the container, {other} on the host"
            source = "apptainer#2050, apptainer#3198"
            yield Cause("directory", place, sentence, remedy, source, (FILES,), 65, True, experiment)
        elif is_synchronous(container, place) and not is_synchronous(bare, place):
            sentence = f"{place} is mounted with sync in the container: each write waits for the disk"
            yield Cause("directory", place, sentence, remedy, "mount(8)", (FILES,), 80, True, experiment)


#: Free bytes in a directory for temporary files below which programs may fill it.
LITTLE = 1 << 30


def temporary_space(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where little is free for temporary files in the container: a run that needs more ends."""
    for place in dict.fromkeys(("/tmp", container.environment.get("TMPDIR") or "/tmp")):
        own, other = (_space_of(side, place) for side in (container, bare))
        if own and other and own[1] < LITTLE and own[1] < other[1] / 2:
            sentence = f"{place} has {size(own[1])} free in the container, {size(other[1])} on the host"
            remedy = f"bind the host's {place}, or have the runtime's configuration give more (`sessiondir max size`)"
            yield Cause("space", place, sentence, remedy, "apptainer#1313", (), 60, True, Experiment(BIND, place))


def _space_of(side: Observation, place: str) -> Sequence[int]:
    """Return size and free bytes of the file system that a directory lies on; empty where that is not known."""
    mounts = [mount for mount in side.space if place == mount or place.startswith(mount.rstrip("/") + "/")]
    return side.space[max(mounts, key=len)] if mounts else ()


def library_path(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where the job hands containers a search path for libraries: those of the host are then found."""
    by = container.set_by.get("LD_LIBRARY_PATH")
    own = container.environment.get("LD_LIBRARY_PATH", "")
    if by and own and own != bare.environment.get("LD_LIBRARY_PATH"):
        sentence = f"LD_LIBRARY_PATH={own} is set by {by}: the container may load other libraries than its own"
        remedy = f"unset {by} where jobs are started: a module, a profile or the site's file sets it"
        source = "singularity#5499, LUMI-EasyBuild-contrib#9"
        yield Cause("library path", "LD_LIBRARY_PATH", sentence, remedy, source, MEASURED, 55)


def _written(side: Observation) -> List[str]:
    """Return the directories of a side in which its programs may write, but for its home."""
    home = side.environment.get("HOME", "")
    return [path for path, state in side.directories.items() if state == "usable" and path != home]


def _mount_of(side: Observation, place: str) -> Sequence[str]:
    """Return type, source and options of the file system that a directory lies on; empty where that is not known."""
    parents = [mount for mount in side.mounts if place == mount or place.startswith(mount.rstrip("/") + "/")]
    return side.mounts[max(parents, key=len)] if parents else ()


def type_of(side: Observation, place: str) -> str:
    """Return the type of the file system that a directory lies on; empty where that is not known."""
    return next(iter(_mount_of(side, place)), "")


def is_synchronous(side: Observation, place: str) -> bool:
    """Return whether writes into a directory wait for the disk."""
    return any("sync" in options.split(",") for options in _mount_of(side, place)[2:])


def priority(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where the container's processes come after others: their nice value, or their policy."""
    own, other = container.priority, bare.priority
    if own and other and own[0] > other[0]:
        sentence = f"the container's processes run at nice {own[0]}, those of the host at {other[0]}"
        remedy = "start the container without nice: a wrapper, a service or a profile sets it"
        # To take it back is a privilege.
        yield Cause("priority", "nice", sentence, remedy, "sched(7)", MEASURED, 70)
    if own and other and own[1] != other[1] and own[1] in POLICIES:
        sentence = f"the kernel treats the container's processes as {POLICIES[own[1]]} work, and not those of the host"
        remedy = "start the container without chrt: a wrapper or a service sets it"
        # From idle, it is a privilege too: sched(7).
        usual = Experiment(PREFIX, "chrt -o 0") if (own[1], other[1]) == (BATCH, 0) else None
        yield Cause("priority", "policy", sentence, remedy, "sched(7)", MEASURED, 70, experiment=usual)


#: Policies of the kernel that let other processes go first, by their number.
BATCH = 3
POLICIES = {BATCH: "batch", 5: "idle"}


def memory_nodes(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where the container may use the memory of fewer parts of the node (NUMA)."""
    own, other = (_allowed(side, "Mems_allowed_list") for side in (container, bare))
    if own and len(own) < len(other):
        sentence = f"the container may use the memory of {len(own)} of the node's {len(other)} memory nodes (NUMA)"
        remedy = "have the wrapper, service or engine that starts it allow all (cpuset.mems, --cpuset-mems)"
        yield Cause("memory nodes", "allowed", sentence, remedy, "cpuset(7)", CORES, 75)


def huge_pages(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where the kernel gives huge pages to bare, and not to the container."""
    own, other = (side.status.get("THP_enabled", "") for side in (container, bare))
    if own == "0" and other == "1":
        sentence = "the container's processes get no transparent huge pages, those of the host do"
        remedy = "find what switches them off for what starts the container (prctl PR_SET_THP_DISABLE)"
        yield Cause("huge pages", "transparent", sentence, remedy, "prctl(2)", CORES, 70)


def system_calls(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where each system call of the container is looked at by a filter (seccomp)."""
    own, other = (side.status.get("Seccomp", "") for side in (container, bare))
    if own == "2" and other == "0":
        sentence = "a filter (seccomp) looks at each system call in the container, and not on the host"
        remedy = "for a test, run it without: seccomp=unconfined, or the runtime's configuration"
        experiment = _without_filter(container)
        source = "runc#2430, Linux manual, seccomp_filter"
        yield Cause("filter", "seccomp", sentence, remedy, source, (FILES, START), 40, True, experiment)


def old_c_library(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where the container's glibc is much older: newer ones know newer processors."""
    own, other = (_release_of_glibc(side.libc) for side in (container, bare))
    if own and other and other - own >= OLDER:
        sentence = f"glibc is 2.{own} in the container, 2.{other} on the host: its functions know older processors only"
        remedy = "build the image on a newer base"
        yield Cause("libc", "glibc", sentence, remedy, "glibc release notes, libm and string functions", CORES, 40)


#: Minor releases by which glibc may be older before it is named: four years.
OLDER = 8


def _release_of_glibc(text: str) -> int:
    found = re.search(r"\b2\.(\d+)", text) if "libc" in text.lower() else None
    return int(found[1]) if found else 0


#: Settings of Open MPI that are no matter of its messages, by the beginning of their names: their kinds and weight.
_OTHER_SETTINGS: Sequence[Tuple[str, Tuple[str, ...], int]] = (
    (r"hwloc_|rmaps_|rtc_", CORES, 60),
    (r"oob_|plm_|ras_|odls_|routed_|grpcomm_|ess_|orte_|prte_", (START,), 50),
)


def settings(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for each setting of MPI in a file that only one of both sees."""
    differing = [
        key
        for key in sorted({*bare.settings, *container.settings})
        if container.settings.get(key) != bare.settings.get(key) and "pmix-mca-params.conf " not in key
    ]
    for key in differing:
        own, other = container.settings.get(key), bare.settings.get(key)
        path, name = key.rsplit(" ", 1)
        of_ucx = path.endswith("ucx.conf")
        variable, family = (name, "") if of_ucx else (f"OMPI_MCA_{name}", OPEN_MPI)
        directory = path.rpartition("/")[0]
        kinds, weight = _kinds_of(key)
        binding, besides = _binding(key, differing, bare)
        if other is not None and not other.startswith("hidden:"):
            sentence = f"{name} = {other} of {path} on the host does not reach the container{besides}"
            remedy = f'"binds": ["{directory}"] in the site\'s file, or {variable}={other} in the container'
            experiment = binding or Experiment(SET, f"{variable}={other}")
            facts = ("setting", name, sentence, remedy, "D12.6 4.4.3, ompi#7737", kinds, weight)
            yield Cause(*facts, experiment=experiment, family=family)
        elif own is not None:
            sentence = f"{name} = {own} of {path} in the container is not what the host has{besides}"
            remedy = f"take it out of the image's {path}"
            facts = ("setting", name, sentence, remedy, "ompi#7737", kinds, weight - 2)
            yield Cause(*facts, experiment=binding, family=family)


def _kinds_of(key: str) -> Tuple[Tuple[str, ...], int]:
    """Return the kinds of figures that a setting can slow, and its weight.

    :param key: its path and name.
    """
    path, name = key.rsplit(" ", 1)
    others = (row[1:] for row in _OTHER_SETTINGS if not path.endswith("ucx.conf") and re.match(row[0], name))
    return next(others, (MPI, 92))


def _binding(key: str, differing: Sequence[str], bare: Observation) -> Tuple[Optional[Experiment], str]:
    """Return the container with the host's directory of a setting, and what else of it differs, for the sentence.

    None where the host has no such file, where a home has it, and where another setting of it slows the same: it would
    not be known which of both helps.
    """
    path = key.rsplit(" ", 1)[0]
    directory = path.rpartition("/")[0]
    besides = [each for each in differing if each != key and each.startswith(f"{directory}/")]
    same = [each for each in besides if {*_kinds_of(each)[0]} & {*_kinds_of(key)[0]}]
    if same or not path.startswith("/etc/") or not any(each.startswith(f"{path} ") for each in bare.settings):
        return None, ""
    names = " and ".join(each.rsplit(" ", 1)[1] for each in besides)
    return Experiment(BIND, directory), f"; {names} of the same directory differ{'s' * (len(besides) == 1)} too" * bool(
        besides
    )


#: Directory of the devices of InfiniBand.
INFINIBAND = "/dev/infiniband"
#: Beginning of the paths of NVIDIA's GPUs.
NVIDIA = "/dev/nvidia"
#: Devices, by the beginning of their path: what they are, the kinds of figures that need them, and the source.
DEVICES: Mapping[str, Tuple[str, Tuple[str, ...], str]] = {
    INFINIBAND: ("InfiniBand", (NETWORK,), "D12.6 4.4.3"),
    "/dev/cxi": ("Slingshot", (NETWORK,), "D12.6 4.4.3"),
    "/dev/xpmem": ("XPMEM, by which ranks of a node share memory", (MESSAGES,), "ucx#3545, charliecloud#128"),
    "/dev/knem": ("KNEM, by which ranks of a node share memory", (MESSAGES,), "ucx#3545, charliecloud#128"),
    NVIDIA: ("NVIDIA's GPUs", MEASURED, "NVIDIA Container Toolkit guide"),
    "/dev/kfd": ("AMD's GPUs", MEASURED, "ROCm guide on containers"),
}


def devices_below(seen: Observation, beginning: str) -> List[str]:
    """Return the paths of a side's devices that begin so."""
    return [path for path in seen.devices if path.startswith(beginning)]


def devices(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for each kind of device of which the host has some, and the container none."""
    for beginning, (what, kinds, source) in DEVICES.items():
        paths = devices_below(bare, beginning)
        if paths and not devices_below(container, beginning):
            sentence = f"{paths[0]} is on the host, and not in the container: it cannot use {what}"
            remedy = f"let the container see {paths[0]}: bind it, or use the runtime's option for such devices"
            place = beginning if beginning == INFINIBAND else paths[0]
            experiment = None if kinds == MEASURED else Experiment(BIND, place)
            # The rows of runtimes have words for these GPUs only.
            experiment = Experiment(GPUS) if beginning == NVIDIA else experiment
            yield Cause("device", beginning, sentence, remedy, source, kinds, 90, experiment=experiment)


#: All rules; each yields the causes that it finds between what bare and a container saw.
RULES: Sequence[Callable[[Observation, Observation], Iterator[Cause]]] = (
    variables,
    shared_memory,
    processors,
    mitigation,
    limits,
    cgroup_limits,
    instructions,
    c_library,
    image_mount,
    directories,
    temporary_space,
    library_path,
    settings,
    devices,
    priority,
    memory_nodes,
    huge_pages,
    system_calls,
    old_c_library,
)
