"""Find the differences between the resources that the runs of both sides used, by the rules of ``rules.ini``."""

import functools
import re
from typing import Callable, Dict, FrozenSet, Iterable, Iterator, Mapping, Optional, Sequence, Set

from containercheck.job import inventory
from containercheck.job.container_runtimes import RUNTIMES
from containercheck.job.explain.causes import (
    AND,
    BIND,
    MPICH,
    OPEN_MPI,
    RULES,
    SET,
    UNPACK,
    Cause,
    Change,
    rules_of,
)
from containercheck.job.explain.observations import Use
from containercheck.job.texts import size

#: Part of the periods in which a cgroup may hold its processes back without an effect.
HELD_BACK = 0.05
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
_REFERENCE_NAME = "the reference BLAS"
#: Families of MPI and of OpenMP, by the names of their libraries.
_MPI_LIBRARIES = {OPEN_MPI: r"/libmpi\.so\.(?!12\b)", MPICH: r"/libmpich|/libmpi\.so\.12\b"}
_OPENMP = {"GNU's": r"/libgomp", "LLVM's or Intel's": r"/lib(omp|iomp5)\b"}
#: Files of the libraries of fabrics that have their version in their name.
_OF_FABRIC = re.compile(r"/(libibverbs|librdmacm|libmlx\d|libfabric|libpsm[23])\.so\.([\d.]+)$")
#: Settings by which Open MPI does not try to copy from the memory of other ranks: of version 4, and of 5.
NO_DIRECT_COPIES = ("OMPI_MCA_btl_vader_single_copy_mechanism=none", "OMPI_MCA_smsc=^cma")
#: Part of a cgroup's memory from which on it is tight.
NEARLY = 0.7
#: Seconds for which both have to be watched before rates are compared: the rates of a start are not those of a run.
SHORTEST = 1.0
#: Factor on bytes read from disks, and number of them in a run, from which on they are named.
MORE_BYTES, MANY_BYTES = 5, 64 << 20
#: Part of bare's time, and of the container's extra time, that helpers must take before they are named.
BUSY_HELPERS = 0.1
#: Part of their time by which the container has to be slower: they run at the same time, and may slow nothing.
HELD_UP_BY_HELPERS = 0.25


def throttling(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause if a quota of processor time holds the container back, and not bare."""
    inside, host = container.throttled, bare.throttled
    if inside and inside[0] > HELD_BACK * inside[1] and not (host and host[0] > HELD_BACK * host[1]):
        times, periods, cores = inside
        many = host[2] if host else bare.processors
        allowed = "as many" if many == cores else f"{many:.3g}" if many else "no limit"
        words = {"container": f"{cores:.3g}", "host": allowed, "times": f"{times:.0f}", "periods": f"{periods:.0f}"}
        yield RULES["quota: held back"].cause(None, **words)


def threads(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause if a process has far more threads in the container."""
    if bare.threads and container.threads >= 2 * bare.threads + 2:
        change = Change(SET, f"OMP_NUM_THREADS={bare.threads}")
        yield RULES["threads"].cause(change, container=container.threads, host=bare.threads)


def linear_algebra(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause if the container computes with another library of linear algebra."""
    inside, host = (_blas(side.libraries) for side in (container, bare))
    if inside and host and inside != host:
        rule = RULES["linear algebra: reference" if inside == _REFERENCE_NAME else "linear algebra"]
        files = sorted(path for path in bare.libraries if _blas(frozenset([path])))
        cause = rule.cause(container=inside, host=host, file=packaged(files[0]))
        yield cause._replace(remedy="compare with the same library") if host == _REFERENCE_NAME else cause


@functools.lru_cache(maxsize=None)
def packaged(path: str) -> str:
    """Return the path of a file on this node after the name of its package, if dpkg or rpm have it."""
    queries = (["dpkg-query", "--search", path], ["rpm", "--query", "--file", "--queryformat=%{NAME}:", path])
    answers = (inventory.output_of(words) for words in queries)
    names = (re.match(r"([\w.+-]+):", text) for status, text in answers if status == 0)
    return next((f"{name[1]} ({path})" for name in names if name), path)


def _blas(libraries: FrozenSet[str]) -> str:
    text = "\n".join(libraries)
    names = [name for name, pattern in _BLAS.items() if re.search(pattern, text)]
    return " and ".join(names) or (_REFERENCE_NAME if _REFERENCE.search(text) else "")


def libraries(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause for each kind of library that only one side has loaded, and that makes it faster or slower."""
    if not bare.libraries or not container.libraries:
        return
    for _, rule in rules_of("library"):
        files = rule.fields["files"]
        inside, host = (_names(side.libraries, files) for side in (container, bare))
        only, where, elsewhere = (set() if inside else host), "on the host", "in the container"
        if "in container" in rule.fields:
            only, where, elsewhere = inside - host, elsewhere, where
        if only:
            loaded = rule.fields["what"].format(" and ".join(sorted(only)))
            yield rule.cause(loaded=loaded, where=where, elsewhere=elsewhere)


def _names(paths: FrozenSet[str], pattern: str) -> Set[str]:
    """Return the names of those libraries that a pattern matches, without ``lib`` and version."""
    matches = (re.search(rf"({pattern})[^/]*$", path) for path in paths)
    return {re.sub(r"^/lib", "", match[1]) for match in matches if match}


def _known(use: Use, names: Mapping[str, str]) -> Set[str]:
    return {name for name, files in names.items() if any(re.search(files, path) for path in use.libraries)}


def families_of(uses: Iterable[Use]) -> Set[str]:
    """Return the families of MPI that any of some sides loaded."""
    return {name for use in uses for name in _known(use, _MPI_LIBRARIES)}


def families(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause if both sides have another MPI, of the same family or not, or another OpenMP."""
    for rule, names in (("family: MPI", _MPI_LIBRARIES), ("family: OpenMP", _OPENMP)):
        inside, host = (_known(side, names) for side in (container, bare))
        if inside and inside == host:
            inside, host = ({_file_of(path, names) for path in side.libraries} - {""} for side in (container, bare))
        if inside and host and not inside & host:
            yield RULES[rule].cause(container=" and ".join(sorted(inside)), host=" and ".join(sorted(host)))


def _file_of(path: str, known: Mapping[str, str]) -> str:
    """Return the name of a library that is of a known family, without its minor version; else an empty name."""
    is_known = any(re.search(files, path) for files in known.values())
    return re.sub(r"(\.so(\.\d+)?).*", r"\1", path.rpartition("/")[2]) if is_known else ""


def user_namespaces(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause if the ranks of a node are in several user namespaces, and cannot copy from one another.

    Open MPI 4.1 is then slower, and hung HPCC's PTRANS in rootless containers. It does neither with these settings.
    """
    if container.user_namespaces > 1 >= bare.user_namespaces:
        options = " or ".join(f"{each.name}'s {each.shared_namespace}" for each in RUNTIMES if each.shared_namespace)
        change, besides = None, ""
        if families_of([container]) == {OPEN_MPI}:
            besides = f"; or switch off these copies in Open MPI ({' '.join(NO_DIRECT_COPIES)})"
            change = Change(SET, AND.join(NO_DIRECT_COPIES))
        words = {"container": container.user_namespaces, "options": options, "besides": besides}
        yield RULES["namespaces"].cause(change, **words)._replace(stays=True)


def segments(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause if the ranks of bare share memory in /dev/shm, and those of the container do not."""
    if bare.shared_memory and not container.shared_memory and container.libraries:
        yield RULES["segments"].cause(Change(BIND, "/dev/shm"), host=min(bare.shared_memory))


def memory_limit(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause if the container's cgroup gives it less memory, which also holds its cached files."""
    limit, host = container.memory_limit, bare.memory_limit
    words = {"container": size(limit), "host": size(host) if host else "no limit"}
    if limit and (not host or limit < host) and words["container"] != words["host"]:
        used = f"; a run's processes held {size(container.memory)}" if container.memory else ""
        rule = RULES["memory limit: tight" if container.memory > NEARLY * limit else "memory limit: of runs"]
        yield rule.cause(None, used=used, **words)


def rates(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause for each kind of event that is far more frequent in the container: faults, switches."""
    if min(bare.watched, container.watched) < SHORTEST:
        return
    for name, rule in rules_of("rate"):
        inside, host = (getattr(side, name) / side.watched for side in (container, bare))
        if inside > float(rule.fields["factor"]) * host and inside > float(rule.fields["least"]):
            change = Change(UNPACK) if "change" in rule.fields else None
            yield rule.cause(change, container=f"{inside:.0f}", host=f"{host:.0f}")


def interfaces(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause if the container's ranks use another network interface; rules on such settings come first."""
    inside, host = (side.interfaces - {"lo"} for side in (container, bare))
    if inside and inside - host:
        over = ", ".join(sorted(host)) if host else "the fabric or shared memory"
        change = _over_interfaces(sorted(host), container)
        yield RULES["interface"].cause(change, container=", ".join(sorted(inside - host)), host=over)


def _over_interfaces(names: Sequence[str], container: Use) -> Optional[Change]:
    """Return the change that sets the interfaces in variables of the loaded libraries; None if no library has one."""
    if not names:
        return None
    every = ",".join(names)
    settings = [f"OMPI_MCA_btl_tcp_if_include={every}"] if OPEN_MPI in families_of([container]) else []
    # libfabric's variable names a single one: fi_tcp(7).
    for library, setting in (("/libucp", f"UCX_NET_DEVICES={every}"), ("/libfabric", f"FI_TCP_IFACE={names[0]}")):
        settings += [setting] if any(library in path for path in container.libraries) else []
    return Change(SET, AND.join(settings)) if settings else None


def fabric_devices(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause if the ranks of bare have devices of a fabric open, and those of the container none."""
    if bare.devices and not container.devices and container.libraries:
        yield RULES["fabric"].cause(host=min(bare.devices))


def fabric_versions(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause if libraries of a fabric that is used have other versions in the container than on the host."""
    inside, host = (_versions(side.libraries) for side in (container, bare))
    names = sorted(name for name in host if inside.get(name, host[name]) != host[name])
    devices = sorted(bare.devices | container.devices)
    if names and devices:
        of_side = [" and ".join(f"{name} {side[name]}" for name in names) for side in (inside, host)]
        yield RULES["fabric versions"].cause(container=of_side[0], host=of_side[1], device=devices[0])


def _versions(paths: FrozenSet[str]) -> Dict[str, str]:
    """Return the versions of a fabric's libraries, by name, from the names of their files; UCX has none there."""
    matches = (_OF_FABRIC.search(path) for path in paths)
    return {match[1]: match[2] for match in matches if match}


def where_threads_run(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause if the threads of the container may run on at most half of the processors of bare's."""
    if container.processors and 2 * container.processors <= bare.processors:
        inside = f"{container.processors} processor" + ("s" if container.processors > 1 else "")
        yield RULES["processors: of threads"].cause(container=inside, host=f"{bare.processors} processors")


def reads(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause if the container's processes read far more from disks."""
    if container.read > MORE_BYTES * bare.read and container.read > MANY_BYTES:
        yield RULES["reads"].cause(container=size(container.read), host=size(bare.read))


def helpers(bare: Use, container: Use) -> Iterator[Cause]:
    """Yield a cause if the runtime's helpers take much processor time, and the container takes longer by as much."""
    longer = container.seconds - bare.seconds
    is_much = container.helpers > BUSY_HELPERS * max(bare.seconds, longer)
    is_more = container.helpers > 2 * bare.helpers + 0.5
    if bare.seconds and is_much and is_more and longer > HELD_UP_BY_HELPERS * container.helpers:
        words = {"helping": f"{container.helpers:.1f}", "container": f"{container.seconds:.1f}"}
        yield RULES["helpers"].cause(Change(UNPACK), **words)


#: Rules that find differences; each yields the causes between the resources that runs of bare and a container used.
RULES_OF_USE: Sequence[Callable[[Use, Use], Iterator[Cause]]] = (
    throttling,
    threads,
    linear_algebra,
    libraries,
    families,
    user_namespaces,
    segments,
    memory_limit,
    rates,
    interfaces,
    fabric_devices,
    fabric_versions,
    where_threads_run,
    reads,
    helpers,
)
