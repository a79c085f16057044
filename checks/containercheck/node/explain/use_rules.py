"""The rules on what the runs of a side used: processor time, threads, libraries, memory, messages."""

import re
from typing import Callable, FrozenSet, Iterable, Iterator, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from containercheck.node import contract
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
    MPICH,
    NETWORK,
    OPEN_MPI,
    START,
    UNPACKING,
    Cause,
)
from containercheck.node.explain.observations import Use
from containercheck.node.explain.remedies import AND, BIND, SET, UNPACK, Experiment
from containercheck.node.formatting import size

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
        yield Cause("quota", "processor time", sentence, MORE_TIME, "moby#38839", MEASURED, 95)


def threads(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where a process has far more threads in the container."""
    if bare.threads and container.threads >= 2 * bare.threads + 2:
        sentence = f"a process has {container.threads} threads in the container, {bare.threads} on the host"
        remedy = "set the number of threads as on the host: OMP_NUM_THREADS, or the library's own variable"
        experiment = Experiment(SET, f"OMP_NUM_THREADS={bare.threads}")
        yield Cause("threads", "number", sentence, remedy, "gadgetron#932", CORES, 70, experiment=experiment)


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


def linear_algebra(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where the container computes with another library of linear algebra."""
    own, other = (_blas(side.libraries) for side in (container, bare))
    if own and other and own != other:
        sentence = f"linear algebra is {own} in the container, {other} on the host"
        remedy = f"install {other} in the image" if other != _REFERENCE_NAME else "compare with the same library"
        weight = 95 if own == _REFERENCE_NAME else 60
        yield Cause("linear algebra", "library", sentence, remedy, "rocker#123", (COMPUTING,), weight)


_REFERENCE_NAME = "the reference BLAS"


def _blas(libraries: FrozenSet[str]) -> str:
    text = "\n".join(libraries)
    names = [name for name, pattern in _BLAS.items() if re.search(pattern, text)]
    return " and ".join(names) or (_REFERENCE_NAME if _REFERENCE.search(text) else "")


class LibraryRule(NamedTuple):
    """A rule on libraries that only one side has loaded.

    :ivar files: pattern in the paths of their files.
    :ivar what: what they do, in a sentence after "on the host" or "in the container".
    :ivar in_container: whether the container has them, and bare not; by default the other way round.
    :ivar devices: beginnings of the paths of the devices that they are for; none for those that need none.
    """

    files: str
    what: str
    remedy: str
    source: str
    kinds: Tuple[str, ...]
    weight: int
    in_container: bool = False
    devices: Tuple[str, ...] = ()


#: Libraries that make programs faster or slower when only one side has them.
LIBRARIES = (
    LibraryRule(
        r"/lib(tcmalloc|jemalloc)", "memory is allocated by {}", "install it, and load it", "tremor#377", CORES, 60
    ),
    LibraryRule(
        "/libhugetlbfs", "memory lies in huge pages, by {}", "install it, and load it", "libhugetlbfs(7)", CORES, 60
    ),
    LibraryRule(
        r"/lib(ucp|fabric|psm2|psm3)\b",
        "MPI has {} for the fabric",
        "take an MPI that has it, or run the variant that takes the host's",
        "D12.6 4.4.3, ucx#3545",
        MPI,
        85,
        devices=contract.FABRICS,
    ),
    LibraryRule(
        "/libibverbs",
        "MPI has {} for InfiniBand",
        "install it, with the provider",
        "D12.6 4.4.3",
        (NETWORK,),
        80,
        devices=contract.FABRICS[:1],
    ),
    LibraryRule(
        "/libxpmem",
        "ranks share their memory by {}",
        "install it in the image",
        "ucx#3545",
        (MESSAGES,),
        75,
        devices=("/dev/xpmem",),
    ),
    LibraryRule(r"/libfftw3", "Fourier transforms are {}'s", "build with it", "FFTW manual", (COMPUTING,), 55),
    LibraryRule(
        r"/lib(cuda|cudart|nccl|rccl)\b",
        "GPUs are used, by {}",
        "let the container see the GPUs, and build with it",
        "NVIDIA Container Toolkit guide",
        MEASURED,
        90,
    ),
    LibraryRule(
        r"/lib([at]san|ubsan|xalt\w*|darshan|scorep\w*|\w*mpitrace|TAU)\b",
        "{} watches the program",
        "take it out of the image, or out of LD_PRELOAD",
        "apptainer#2537",
        MEASURED,
        75,
        in_container=True,
    ),
)


def libraries(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause for each kind of library that only one side has loaded, and that makes it faster or slower."""
    for rule in LIBRARIES:
        own, other = (_names(side.libraries, rule.files) for side in (container, bare))
        only = own - other if rule.in_container else other
        if not only or not bare.libraries or not container.libraries or (own and not rule.in_container):
            continue
        where = ("in the container", "on the host") if rule.in_container else ("on the host", "in the container")
        sentence = f"{rule.what.format(' and '.join(sorted(only)))} {where[0]}, and not {where[1]}"
        facts = ("library", rule.files, sentence, rule.remedy, rule.source, rule.kinds, rule.weight)
        yield Cause(*facts, devices=rule.devices)


def _names(paths: FrozenSet[str], pattern: str) -> Set[str]:
    """Return the names of those libraries that a pattern matches, without ``lib`` and version."""
    found = (re.search(rf"({pattern})[^/]*$", path) for path in paths)
    return {re.sub(r"^/lib", "", each[1]) for each in found if each}


#: Families of MPI and of OpenMP, by the names of their libraries.
_MPI_LIBRARIES = {OPEN_MPI: r"/libmpi\.so\.(?!12\b)", MPICH: r"/libmpich|/libmpi\.so\.12\b"}
_OPENMP = {"GNU's": r"/libgomp", "LLVM's or Intel's": r"/lib(omp|iomp5)\b"}


def _known(use: Use, names: Mapping[str, str]) -> Set[str]:
    return {name for name, files in names.items() if any(re.search(files, path) for path in use.libraries)}


def families_of(uses: Iterable[Use]) -> Set[str]:
    """Return the families of MPI that any of some sides loaded."""
    return {name for use in uses for name in _known(use, _MPI_LIBRARIES)}


def families(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where both sides have another MPI, of the same family or not, or another OpenMP."""
    for what, known, source, kinds, weight in (
        ("MPI", _MPI_LIBRARIES, "D12.6 4.4.3", MPI, 50),
        ("OpenMP", _OPENMP, "OpenMP 5.2, chapter 21", (COMPUTING,), 40),
    ):
        own, other = (_known(side, known) for side in (container, bare))
        if own and own == other:
            own, other = ({_file_of(path, known) for path in side.libraries} - {""} for side in (container, bare))
        if own and other and not own & other:
            names = [" and ".join(sorted(each)) for each in (own, other)]
            sentence = f"{what} is {names[0]} in the container, {names[1]} on the host"
            yield Cause("family", what, sentence, "build the image with the host's", source, kinds, weight)


def _file_of(path: str, known: Mapping[str, str]) -> str:
    """Return the name of a library that is of a known family, without its minor version; else an empty name."""
    is_known = any(re.search(files, path) for files in known.values())
    return re.sub(r"(\.so(\.\d+)?).*", r"\1", path.rpartition("/")[2]) if is_known else ""


#: Settings by which Open MPI does not try to copy from the memory of other ranks: of version 4, and of 5.
NO_DIRECT_COPIES = ("OMPI_MCA_btl_vader_single_copy_mechanism=none", "OMPI_MCA_smsc=^cma")


def user_namespaces(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where the ranks of a node are in several user namespaces, and cannot copy from one another.

    What Open MPI 4.1 does then is slower, and hung HPCC's PTRANS in rootless containers: not with these settings.
    """
    if container.user_namespaces > 1 >= bare.user_namespaces:
        sentence = (
            f"the ranks of a node are in {container.user_namespaces} user namespaces in the container: each message is "
            "copied twice (no CMA)"
        )
        options = " or ".join(f"{each.name}'s {each.shared_namespace}" for each in RUNTIMES if each.shared_namespace)
        remedy = f"have the runtime put them into one: {options}, or a runtime that needs none"
        experiment = None
        if families_of([container]) == {OPEN_MPI}:
            remedy += f"; or tell Open MPI not to try ({' '.join(NO_DIRECT_COPIES)})"
            experiment = Experiment(SET, AND.join(NO_DIRECT_COPIES))
        source = "apptainer#769, apptainer#1583, ompi#6997"
        yield Cause("namespaces", "user", sentence, remedy, source, (MESSAGES,), 90, experiment=experiment, stays=True)


def segments(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where the ranks of bare share memory in /dev/shm, and those of the container do not."""
    if bare.shared_memory and not container.shared_memory and container.libraries:
        sentence = f"ranks share {min(bare.shared_memory)} on the host, and no memory in the container"
        remedy = "bind the host's /dev/shm, and let MPI use shared memory"
        source = "mpich#4631, charliecloud#128"
        experiment = Experiment(BIND, "/dev/shm")
        yield Cause("segments", "/dev/shm", sentence, remedy, source, (MESSAGES,), 85, experiment=experiment)


def memory_limit(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where the container's cgroup gives it less memory, which is that for files too."""
    own, other = container.memory_limit, bare.memory_limit
    if own and (not other or own < other):
        used = f", of which a run's processes held {size(int(container.memory))}" if container.memory else ""
        sentence = f"the container's cgroup limits its memory to {size(int(own))}{used}"
        is_tight = container.memory > NEARLY * own
        weight = 80 if is_tight else 60
        yield Cause(
            "memory limit", "cgroup", sentence, MORE_MEMORY, "cgroups(7)", (MEMORY, FILES), weight, not is_tight
        )


#: Part of a cgroup's memory from which on it is tight.
NEARLY = 0.7
#: Factor on page faults, and number of them a second, from which on they are named.
MORE_FAULTS, MANY_FAULTS = 3, 5000
#: The same of pages that had to be read from a file.
MORE_READS, MANY_READS = 5, 200
#: The same of processes that were switched out because another one wanted their processor.
MORE_SWITCHES, MANY_SWITCHES = 5, 200

#: Seconds for which both have to be watched before such rates are compared: those of a start say nothing of a run.
SHORTEST = 1.0


def faults(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where the container's processes fault far more pages in, or read far more from files."""
    rates = _more(container, bare, "faults", MORE_FAULTS, MANY_FAULTS)
    if rates:
        sentence = f"processes take {rates[0]:.0f} page faults a second in the container, {rates[1]:.0f} on the host"
        remedy = "look at its allocator, and at what switches huge pages off"
        yield Cause("faults", "minor", sentence, remedy, "getrusage(2)", CORES, 45)
    rates = _more(container, bare, "major_faults", MORE_READS, MANY_READS)
    if rates:
        sentence = f"{rates[0]:.0f} pages a second are read from files in the container, {rates[1]:.0f} on the host"
        remedy = "unpack the image into a directory, or raise what limits memory for files"
        facts = ("faults", "major", sentence, remedy, "getrusage(2)", (FILES, START), 50, True)
        yield Cause(*facts, experiment=Experiment(UNPACK))


def switches(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where the container's processes often have to leave their processors to others."""
    rates = _more(container, bare, "switched_out", MORE_SWITCHES, MANY_SWITCHES)
    if rates:
        sentence = (
            f"processes are switched out {rates[0]:.0f} times a second in the container, {rates[1]:.0f} on the host"
        )
        remedy = "look at what else runs on their processors: more threads than processors, helpers, a wrapper"
        yield Cause("switches", "involuntary", sentence, remedy, "getrusage(2)", CORES, 50)


def _more(container: Use, bare: Use, name: str, factor: float, least: float) -> Optional[Tuple[float, float]]:
    """Return how often a second each side counts something, the container first; None where the container's is usual.

    :param factor: times bare's rate from which on it is not.
    :param least: rate from which on it is not.
    """
    if min(bare.watched, container.watched) < SHORTEST:
        return None
    own, other = getattr(container, name) / container.watched, getattr(bare, name) / bare.watched
    return (own, other) if own > factor * other and own > least else None


def interfaces(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where the ranks talk over another interface in the container; what tells them to comes first."""
    own, other = (side.interfaces - {"lo"} for side in (container, bare))
    if own and own - other:
        over = ", ".join(sorted(other)) if other else "the fabric or shared memory"
        sentence = f"MPI talks over {', '.join(sorted(own - other))} in the container, over {over} on the host"
        remedy = 'let the image see the host\'s settings of MPI: "binds": ["/etc/openmpi"] in the site\'s file'
        facts = ("interface", "of messages", sentence, remedy, "D12.6 4.4.3, underworld2#654", MPI, 85)
        yield Cause(*facts, experiment=_told_to_talk_over(sorted(other), container))


def _told_to_talk_over(names: Sequence[str], container: Use) -> Optional[Experiment]:
    """Return the container with the variables that name interfaces to what it loads; None for nothing that has any."""
    families = _known(container, _MPI_LIBRARIES)
    variables = [f"OMPI_MCA_btl_tcp_if_include={','.join(names)}"] if OPEN_MPI in families else []
    # Of libfabric's, it is a single one: fi_tcp(7).
    for files, name, value in (
        (r"/libucp", "UCX_NET_DEVICES", ",".join(names)),
        (r"/libfabric", "FI_TCP_IFACE", *names[:1]) if names else ("(?!)", "", ""),
    ):
        variables += [f"{name}={value}"] if any(re.search(files, path) for path in container.libraries) else []
    return Experiment(SET, AND.join(variables)) if names and variables else None


def fabric_devices(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where the ranks of bare have devices of a fabric open, and those of the container none."""
    if bare.devices and not container.devices and container.libraries:
        sentence = f"MPI has {min(bare.devices)} open on the host, and no device of a fabric in the container"
        remedy = "let the container see the device, with the libraries for it, or run the variant that takes the host's"
        yield Cause("fabric", "devices", sentence, remedy, "D12.6 4.4.3", (NETWORK,), 88)


def where_threads_run(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where the threads of the container may run on at most half of the processors of bare's."""
    if container.processors and 2 * container.processors <= bare.processors:
        counts = [f"{each.processors} processor{'s'[: each.processors > 1]}" for each in (container, bare)]
        sentence = f"ranks and their threads may run on {counts[0]} in the container, on {counts[1]} on the host"
        remedy = "have launcher, runtime and OpenMP bind the container's threads as they bind bare's"
        yield Cause("processors", "allowed", sentence, remedy, "easybuild-easyblocks#3650", MEASURED, 85)


#: Factor on bytes read from disks, and number of them in a run, from which on they are named.
MORE_BYTES, MANY_BYTES = 5, 64 << 20


def reads(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where the container's processes read far more from disks."""
    if container.read > MORE_BYTES * bare.read and container.read > MANY_BYTES:
        sentence = f"a run reads {size(container.read)} from disks in the container, {size(bare.read)} on the host"
        remedy = "keep image and input on a disk of the node, and see what limits memory for files"
        yield Cause("reads", "bytes", sentence, remedy, "proc(5), /proc/pid/io", (FILES, START), 45, True)


#: Part of bare's time, and of what the container takes longer, that helpers must take before they are named.
BUSY_HELPERS = 0.1
#: Part of their time by which the container has to be slower: they run beside it, and may slow nothing.
HELD_UP_BY_HELPERS = 0.25


def helpers(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause where the runtime's helpers take much processor time, and the container that much longer."""
    longer = container.seconds - bare.seconds
    is_much = container.helpers > BUSY_HELPERS * max(bare.seconds, longer)
    is_more = container.helpers > 2 * bare.helpers + 0.5
    if bare.seconds and is_much and is_more and longer > HELD_UP_BY_HELPERS * container.helpers:
        seconds = f"{container.helpers:.1f} s of processor time in a run of {container.seconds:.1f} s"
        sentence = f"the runtime's helpers take {seconds}"
        facts = ("helpers", "processor time", sentence, UNPACKING, "apptainer#3272", MEASURED, 65)
        yield Cause(*facts, experiment=Experiment(UNPACK))


#: Rules on what the runs used.
RULES_OF_USE: Sequence[Callable[[Use, Use], Iterator[Cause]]] = (
    throttling,
    threads,
    linear_algebra,
    libraries,
    families,
    user_namespaces,
    segments,
    memory_limit,
    faults,
    switches,
    interfaces,
    fabric_devices,
    where_threads_run,
    reads,
    helpers,
)
