"""The rules of explanations, as data: what has to differ, which figures it can slow, what to say, do and try.

A rule is no proof. It names a difference that is known to cost time, with the source; the experiment is the proof. A
difference that nobody has seen to cost anything has no rule, and is never named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from containercheck.application.facts import MEASURED
from containercheck.explain.experiments import BIND, CPUS, OPTION, SET, UNPACK, UNSET, Experiment
from containercheck.explain.observations import Observation, Use
from containercheck.node.container_runtimes import RUNTIMES
from containercheck.results.formatting import size

COMPUTING, MEMORY, MESSAGES, NETWORK, FILES, START = MEASURED
_MPI = (MESSAGES, NETWORK)
_CORES = (COMPUTING, MEMORY)


@dataclass(frozen=True)
class Cause:
    """A difference between a container and bare that can cost time.

    :ivar rule: name of the rule.
    :ivar about: what differs: the name of a variable, a limit or a setting, or a path; with ``rule`` it identifies the
        cause.
    :ivar sentence: what differs.
    :ivar remedy: what a person can do.
    :ivar source: where it was seen.
    :ivar kinds: the kinds of figures that it can slow.
    :ivar weight: how likely it is the cause where it is there; from 0 to 100.
    :ivar narrow: whether it explains only figures that are declared to be of its kinds, and no application as a whole.
    :ivar experiment: the change that takes the difference away; None where there is none.
    """

    rule: str
    about: str
    sentence: str
    remedy: str
    source: str
    kinds: tuple[str, ...]
    weight: int
    narrow: bool = False
    experiment: Experiment | None = None


@dataclass(frozen=True)
class VariableRule:
    """A rule on variables that the container and bare do not have in common.

    :ivar names: pattern of their names.
    :ivar effect: what such a variable does, to follow its value in a sentence.
    :ivar also_missing: whether a variable that only bare has counts too, and is then given to the container.
    """

    names: str
    kinds: tuple[str, ...]
    weight: int
    effect: str
    source: str
    also_missing: bool = False


#: Variables that are known to cost time.
VARIABLES = (
    VariableRule(
        "OPENBLAS_CORETYPE|OPENBLAS_CORETYPE_FORCE",
        (COMPUTING,),
        95,
        "OpenBLAS takes the kernels of that processor",
        "rocker#123",
    ),
    VariableRule(
        "MKL_CBWR|MKL_DEBUG_CPU_TYPE|MKL_ENABLE_INSTRUCTIONS|BLIS_ARCH_TYPE|DNNL_MAX_CPU_ISA|ONEDNN_MAX_CPU_ISA"
        "|NPY_DISABLE_CPU_FEATURES|ATEN_CPU_CAPABILITY",
        (COMPUTING,),
        90,
        "it limits the instructions that the library uses",
        "rocker#123",
    ),
    VariableRule(
        "OMP_NUM_THREADS|OMP_THREAD_LIMIT",
        _CORES,
        90,
        "it sets the threads of each rank",
        "gadgetron#932, KTH#33",
        also_missing=True,
    ),
    VariableRule(
        "(OPENBLAS|GOTO|BLIS|MKL|NUMEXPR|VECLIB)_NUM_THREADS|TF_NUM_(INTRAOP|INTEROP)_THREADS|MKL_DYNAMIC|OMP_DYNAMIC",
        _CORES,
        85,
        "it sets the threads of the library",
        "gadgetron#932",
        also_missing=True,
    ),
    VariableRule(
        "OMP_(PROC_BIND|PLACES|WAIT_POLICY|SCHEDULE|NESTED|MAX_ACTIVE_LEVELS|STACKSIZE)|GOMP_.*|KMP_.*",
        _CORES,
        75,
        "it places the threads, or says how they wait",
        "OpenMP 5.2, chapter 21",
        also_missing=True,
    ),
    VariableRule("TF_ENABLE_ONEDNN_OPTS|TF_DISABLE_MKL|TF_XLA_FLAGS", (COMPUTING,), 80, "it switches kernels", "RAMP"),
    VariableRule("GMX_(DISABLE|NO|FORCE)_?.*", (COMPUTING,), 75, "it switches kernels of GROMACS", "GROMACS manual"),
    VariableRule("GLIBC_TUNABLES", _CORES, 80, "it changes the C library's own choices", "glibc manual, Tunables"),
    VariableRule("MALLOC_.*", _CORES, 80, "it changes how memory is allocated", "texture-synthesis#8, tremor#377"),
    VariableRule("LD_DEBUG.*|LD_AUDIT|LD_PROFILE.*", (START, COMPUTING), 85, "the loader works for it", "ld.so(8)"),
    VariableRule("LD_BIND_NOW", (START,), 50, "all symbols are bound at the start", "ld.so(8)"),
    VariableRule("LD_PRELOAD", MEASURED, 55, "this library comes before all others", "apptainer#2537"),
    VariableRule(
        "PYTHON(MALLOC|DEVMODE|TRACEMALLOC|PROFILEIMPORTTIME|FAULTHANDLER|ASYNCIODEBUG)",
        (COMPUTING, START),
        85,
        "Python checks or traces what it does",
        "Python manual, environment variables",
    ),
    VariableRule("PYTHONDONTWRITEBYTECODE", (START,), 60, "Python compiles at each start", "Python manual"),
    VariableRule("JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS", MEASURED, 70, "Java takes its options", "java(1)"),
    VariableRule(
        "OMPI_MCA_(btl|pml|mtl|osc|coll|opal|mpi|hwloc|shmem|smsc|common|topo|op|io|fs|sharedfp)(?!_base_(user|env)).*",
        _MPI,
        90,
        "it chooses how Open MPI talks",
        "ompi#7737",
        also_missing=True,
    ),
    VariableRule(
        "UCX_.*|UCC_.*|PSM2_.*|PSM3_.*",
        _MPI,
        90,
        "it chooses how the fabric is used",
        "ucx#3545, D12.6 4.4.3",
        also_missing=True,
    ),
    VariableRule("FI_.*", _MPI, 90, "it chooses how the fabric is used", "libfabric#9422", also_missing=True),
    VariableRule(
        "MPICH_.*|MPIR_CVAR_.*|I_MPI_.*|MV2_.*|NCCL_.*|RCCL_.*",
        _MPI,
        90,
        "it chooses how the ranks talk",
        "mpich#4631",
        also_missing=True,
    ),
    VariableRule(
        "(CUDA|ROCR|HIP|ZE)_(VISIBLE_DEVICES|AFFINITY_MASK)|CUDA_LAUNCH_BLOCKING|CUDA_DEVICE_MAX_CONNECTIONS",
        MEASURED,
        80,
        "it chooses how GPUs are used",
        "CUDA programming guide, environment variables",
        also_missing=True,
    ),
)
#: Variables that launchers give each rank: their values differ between any two.
OF_RANK = re.compile(r"(RANK|_LOCALID|_NODEID|_PROCID|_PID|_NAMESPACE|_URI|_TASK|_STEP|VPID|JOBID|FD|PORT)", re.I)


def variables(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for each variable of :data:`VARIABLES` that differs."""
    for name in sorted({*bare.environment, *container.environment}):
        own, other = container.environment.get(name), bare.environment.get(name)
        rule = next((rule for rule in VARIABLES if re.fullmatch(rule.names, name)), None)
        if not rule or own == other or OF_RANK.search(name):
            continue
        if own is None and rule.also_missing:
            yield _missing(rule, name, str(other))
        elif own is not None:
            yield _other(rule, name, own, other, container)


def _missing(rule: VariableRule, name: str, other: str) -> Cause:
    setting = None if other.startswith("hidden:") else Experiment(SET, f"{name}={other}")
    sentence = f"{name} is {other} on the host, and is not set in the container: {rule.effect}"
    remedy = f"set {name}={other} in the container, by the runtime or in the image's environment"
    return Cause("variable", name, sentence, remedy, rule.source, rule.kinds, rule.weight - 10, experiment=setting)


def _other(rule: VariableRule, name: str, own: str, other: str | None, container: Observation) -> Cause:
    by = container.set_by.get(name)
    is_shown, is_set = not own.startswith("hidden:"), other is not None and not other.startswith("hidden:")
    where = f"by {by}" if by else "by the image" if name in container.image_variables else "in the container"
    setting = f"{name}={own}" if is_shown else name
    host = f", and is {other} on the host" if is_set else ", and not on the host"
    if by:
        remedy = f"unset {by} where jobs are started: a module, a profile or the site's file sets it"
    elif name in container.image_variables:
        remedy = f"take {name} out of the image's environment, or set it as on the host"
    else:
        remedy = f"find what sets {name} for containers: the runtime's configuration, a wrapper or the image"
    experiment = Experiment(SET, f"{name}={other}") if is_set else Experiment(UNSET, name)
    sentence = f"{setting} is set {where}{host}: {rule.effect}"
    return Cause("variable", name, sentence, remedy, rule.source, rule.kinds, rule.weight, experiment=experiment)


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
        yield Cause(
            "shared memory", "/dev/shm", sentence, "remove what lies in it", "ompi#7220", (MESSAGES, MEMORY), 80
        )


def processors(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where the container may use fewer processors."""
    own, other = (_processors(side.status.get("Cpus_allowed_list", "")) for side in (container, bare))
    if own and len(own) < len(other):
        lists = [side.status["Cpus_allowed_list"] for side in (container, bare)]
        sentence = f"processors {lists[0]} are allowed in the container, {lists[1]} on the host"
        remedy = "have launcher, wrapper or runtime bind the container as it binds bare"
        facts = ("processors", "allowed", sentence, remedy, "easybuild-easyblocks#3650", MEASURED, 90)
        yield Cause(*facts, experiment=Experiment(CPUS, lists[1]))


def _processors(text: str) -> set[int]:
    processors: set[int] = set()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        processors.update(range(int(first), int(last or first) + 1))
    return processors


def mitigation(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where the container's processes run with a mitigation that those of the host do without."""
    own, other = (side.status.get("Speculation_Store_Bypass", "") for side in (container, bare))
    if "mitigated" in own and "vulnerable" in other:
        sentence = "seccomp switches the mitigation of Speculative Store Bypass on in the container, not on the host"
        remedy = "use a runtime or kernel that leaves it off: seccomp=unconfined, or Linux 5.16"
        experiment = Experiment(OPTION, "--security-opt seccomp=unconfined") if _is_engine(container) else None
        yield Cause("mitigation", "seccomp", sentence, remedy, "runc#2430", _CORES, 80, experiment=experiment)


def _is_engine(container: Observation) -> bool:
    prefixes = tuple(runtime.settings for runtime in RUNTIMES if runtime.settings)
    return not any(name.startswith(prefixes) for name in container.environment)


#: Limits, by their name in /proc: kinds, weight and source of a cause, where the container's is lower.
LIMITS = {
    "Max locked memory": (_MPI, 70, "D12.6 4.4.3"),
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
            yield Cause("limit", name, sentence, remedy, source, kinds, weight)
    own, other = container.limits.get("Max open files", ""), bare.limits.get("Max open files", "")
    if own.isdigit() and int(own) >= MANY_FILES and other.isdigit() and int(other) < MANY_FILES:
        sentence = f"the limit of open files is {own} in the container, {other} on the host: some programs close all"
        yield Cause(
            "limit", "Max open files", sentence, "lower it for containers", "opensciencegrid/docs#345", (START,), 70
        )


def c_library(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where the container's C library is musl, and the host's is not."""
    if container.libc == "musl" and bare.libc != "musl":
        sentence = "libc is musl in the container: its allocator and its mathematical functions are slower"
        remedy = "use an image with glibc, or another allocator in this one"
        yield Cause("libc", "musl", sentence, remedy, "texture-synthesis#8, tremor#377", _CORES, 70)


def image_mount(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where the image is read through FUSE."""
    types = {place: facts[0] for place, facts in container.mounts.items()}
    sources = " ".join(facts[1] for facts in container.mounts.values())
    if any(kind.startswith("fuse.squashfuse") for kind in types.values()) or "squashfuse" in sources:
        sentence = "the image is read through FUSE (squashfuse)"
        remedy = (
            "unpack the image into a directory, or have the runtime installed so that the kernel mounts it (setuid)"
        )
        facts = (
            "image mount",
            "squashfuse",
            sentence,
            remedy,
            "apptainer#665, squashfuse#121",
            (FILES, START),
            60,
            True,
        )
        yield Cause(*facts, experiment=Experiment(UNPACK))


def directories(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause where the directory for temporary files is of another, slower kind in the container."""
    for place in ("/tmp",):
        own, other = (type_of(side, place) for side in (container, bare))
        if own and other and own != other and own.startswith(("overlay", "fuse")):
            sentence = f"{place} is {own} in the container, {other} on the host"
            remedy = f"bind the host's {place}, or another directory for temporary files"
            facts = ("directory", place, sentence, remedy, "apptainer#2050, apptainer#3198", (FILES,), 65, True)
            yield Cause(*facts, experiment=Experiment(BIND, place))


def type_of(side: Observation, place: str) -> str:
    """Return the type of the file system that a directory lies on; empty where that is not known."""
    parents = [mount for mount in side.mounts if place == mount or place.startswith(mount.rstrip("/") + "/")]
    return side.mounts[max(parents, key=len)][0] if parents else ""


def settings(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for each setting of MPI in a file that only one of both sees."""
    for key in sorted({*bare.settings, *container.settings}):
        own, other = container.settings.get(key), bare.settings.get(key)
        path, name = key.rsplit(" ", 1)
        if own == other or path.endswith("pmix-mca-params.conf"):
            continue
        variable = name if path.endswith("ucx.conf") else f"OMPI_MCA_{name}"
        directory = path.rpartition("/")[0]
        if other is not None and not other.startswith("hidden:"):
            sentence = f"{name} = {other} of {path} on the host does not reach the container"
            remedy = f'"binds": ["{directory}"] in the site\'s file, or {variable}={other} in the container'
            experiment = Experiment(SET, f"{variable}={other}")
            yield Cause("setting", name, sentence, remedy, "D12.6 4.4.3, ompi#7737", _MPI, 92, experiment=experiment)
        elif own is not None:
            sentence = f"{name} = {own} of {path} in the container is not what the host has"
            yield Cause("setting", name, sentence, f"take it out of the image's {path}", "ompi#7737", _MPI, 90)


#: Directory of the devices of InfiniBand.
INFINIBAND = "/dev/infiniband"
#: Devices, by the beginning of their path: what they are, the kinds of figures that need them, and the source.
DEVICES: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    INFINIBAND: ("InfiniBand", (NETWORK,), "D12.6 4.4.3"),
    "/dev/cxi": ("Slingshot", (NETWORK,), "D12.6 4.4.3"),
    "/dev/xpmem": ("XPMEM, by which ranks of a node share memory", (MESSAGES,), "ucx#3545, charliecloud#128"),
    "/dev/knem": ("KNEM, by which ranks of a node share memory", (MESSAGES,), "ucx#3545, charliecloud#128"),
    "/dev/nvidia": ("NVIDIA's GPUs", MEASURED, "NVIDIA Container Toolkit guide"),
    "/dev/kfd": ("AMD's GPUs", MEASURED, "ROCm guide on containers"),
}


def devices_below(seen: Observation, beginning: str) -> list[str]:
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
            yield Cause("device", beginning, sentence, remedy, source, kinds, 90, experiment=experiment)


#: All rules; each yields the causes that it finds between what bare and a container saw.
RULES: Sequence[Callable[[Observation, Observation], Iterator[Cause]]] = (
    variables,
    shared_memory,
    processors,
    mitigation,
    limits,
    c_library,
    image_mount,
    directories,
    settings,
    devices,
)


#: Part of the periods in which a cgroup may hold its processes back, and nobody notices.
HELD_BACK = 0.05


def throttling(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where a quota of processor time holds the container back, and not bare."""
    own, other = container.throttled, bare.throttled
    if own and own[0] > HELD_BACK * own[1] and not (other and other[0] > HELD_BACK * other[1]):
        sentence = (
            f"the container's cgroup limits it to {own[2]:.3g} processors: it was held back in {own[0]:.0f} of "
            f"{own[1]:.0f} periods"
        )
        remedy = "raise the quota of whatever starts the container, such as the engine's --cpus or a service's CPUQuota"
        yield Cause("quota", "processor time", sentence, remedy, "moby#38839", MEASURED, 95)


def threads(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where a process has far more threads in the container."""
    if bare.threads and container.threads >= 2 * bare.threads + 2:
        sentence = f"a process has {container.threads} threads in the container, {bare.threads} on the host"
        remedy = "set the number of threads as on the host: OMP_NUM_THREADS, or the library's own variable"
        yield Cause("threads", "number", sentence, remedy, "gadgetron#932", _CORES, 70)


#: Libraries of linear algebra by the name of their file, those that were optimized; and the reference implementation.
_BLAS = {
    "OpenBLAS": r"/libopenblas",
    "MKL": r"/libmkl_",
    "BLIS": r"/libblis",
    "LibSci": r"/libsci",
    "ESSL": r"/libessl",
    "Arm Performance Libraries": r"/libarmpl",
    "ATLAS": r"/libatlas|/atlas/",
}
_REFERENCE = re.compile(r"/blas/libblas\.so|/libblas\.so|/lapack/liblapack\.so")
_ALLOCATORS = re.compile(r"lib(tcmalloc|jemalloc)")


def linear_algebra(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where the container computes with another library of linear algebra."""
    own, other = (_blas(side.libraries) for side in (container, bare))
    if own and other and own != other:
        sentence = f"linear algebra is {own} in the container, {other} on the host"
        remedy = f"install {other} in the image" if other != _REFERENCE_NAME else "compare with the same library"
        weight = 95 if own == _REFERENCE_NAME else 60
        yield Cause("linear algebra", "library", sentence, remedy, "rocker#123", (COMPUTING,), weight)


_REFERENCE_NAME = "the reference BLAS"


def _blas(libraries: frozenset[str]) -> str:
    text = "\n".join(libraries)
    names = [name for name, pattern in _BLAS.items() if re.search(pattern, text)]
    return " and ".join(names) or (_REFERENCE_NAME if _REFERENCE.search(text) else "")


def allocator(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where bare has an allocator of its own, and the container has not."""
    own, other = (
        {found[0] for path in side.libraries for found in [_ALLOCATORS.search(path)] if found}
        for side in (container, bare)
    )
    if other - own and container.libraries:
        sentence = f"memory is allocated by {', '.join(sorted(other))} on the host, and not in the container"
        yield Cause("allocator", "library", sentence, "install it in the image, and load it", "tremor#377", _CORES, 60)


def interfaces(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where the ranks talk over another interface in the container."""
    own, other = (side.interfaces - {"lo"} for side in (container, bare))
    if own and own - other:
        over = ", ".join(sorted(other)) if other else "the fabric or shared memory"
        sentence = f"MPI talks over {', '.join(sorted(own - other))} in the container, over {over} on the host"
        remedy = 'let the image see the host\'s settings of MPI: "binds": ["/etc/openmpi"] in the site\'s file'
        yield Cause("interface", "of messages", sentence, remedy, "D12.6 4.4.3, underworld2#654", _MPI, 95)


#: Part of bare's time that helpers must take before they are named.
BUSY_HELPERS = 0.1


def helpers(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where the runtime's helpers take much processor time: they mount images or directories."""
    if bare.seconds and container.helpers > BUSY_HELPERS * bare.seconds and container.helpers > 2 * bare.helpers + 0.5:
        seconds = f"{container.helpers:.1f} s of processor time in a run of {container.seconds:.1f} s"
        sentence = f"the runtime's helpers take {seconds}"
        remedy = (
            "unpack the image into a directory, or have the runtime installed so that the kernel mounts it (setuid)"
        )
        yield Cause(
            "helpers", "processor time", sentence, remedy, "apptainer#3272", MEASURED, 65, experiment=Experiment(UNPACK)
        )


#: Rules on what the runs used.
RULES_OF_USE: Sequence[Callable[[Use, Use], Iterator[Cause]]] = (
    throttling,
    threads,
    linear_algebra,
    allocator,
    interfaces,
    helpers,
)
