"""Watch the resources that a run's processes use, from /proc (Linux, standard library only, Python 3.6 or newer).

A thread looks at the processes of the run on the job's first node, at growing intervals.

- For all: processor time, faults, threads, memory.
- For the busiest, while they compute: mapped files, allowed processors, interfaces of connections, open devices of
  fabrics, bytes read, and throttling by their cgroup.

On other nodes the watch there (disturbance.py) reads libraries, shared memory, interfaces and devices. Short runs show
little. Unreadable facts are left out: no run fails because it is watched.
"""

import contextlib
import functools
import os
import re
import resource
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Set, Tuple

from containercheck.job import architectures, contract, processes, texts
from containercheck.job.container_runtimes import RUNTIMES
from containercheck.job.texts import cores_of

#: Seconds before the first look, factor by which pauses grow, and longest pause.
FIRST, LONGER, LONGEST = 0.2, 1.6, 5.0
#: Seconds before the first look for ranks, between two looks at their processors, and factor by which that grows.
FIRST_RANKS, CALM, LONGER_CALM = 0.05, 0.25, 1.25
#: Most processes that are looked at closely, on the first node and on others, and most close looks at each.
CLOSELY, FEW, LOOKS = 16, 4, 3
#: Processes of container runtimes that serve a running container, by name: they mount images, or wait.
HELPERS = re.compile(r"squashfuse|fuse2fs|fuse-overlayfs|fuse_|gocryptfs|starter|conmon|fusermount|appinit|slirp|pasta")
#: Processes that start ranks or containers, and compute nothing. The kernel shortens names.
LAUNCHERS = re.compile(
    r"mpirun|mpiexec|orterun|prterun|orted|prted|hydra.*|srun|slurmstepd|bash|timeout|env|"
    + "|".join(f"{re.escape(runtime.command)}.*" for runtime in RUNTIMES),
    re.IGNORECASE,
)
#: Mapped files that show which libraries compute, allocate and communicate.
LIBRARIES = re.compile(
    rf"({processes.COMPUTING}"
    r"|libtcmalloc\w*|libjemalloc|libhugetlbfs|libmpi\w*|libmpich\w*|libucp|libuct|libfabric|libpsm[23]|libibverbs|librdmacm|libmlx\d|libpmix|libxpmem"
    r"|libcuda|libcudart|librccl|libnccl|libxalt\w*|libdarshan|libasan|libtsan|libubsan|libscorep\w*|\w*mpitrace|libTAU|ld-musl-\w+|libc\.musl-\w+|libc)[-.\w]*\.so"
)
#: States of a process in words, by their letter in /proc.
STATES = {"T": "stopped", "t": "traced", "D": "waiting for the disk", "S": "waiting", "R": "running"}
#: Variables by which launchers number the ranks.
_RANK = re.compile(rb"(?:^|\0)(?:OMPI_COMM_WORLD_RANK|PMIX_RANK|PMI_RANK|SLURM_PROCID)=(\d+)")
#: Resources of ranks, by their names in the record.
USED = ("libraries", "interfaces", "shared_memory", "devices")
#: Name and fields of a process: see :func:`processes.status_of`.
Status = Tuple[str, List[str]]
_TICKS = float(os.sysconf("SC_CLK_TCK"))
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Watch(threading.Thread):
    """Look at a run again and again in a thread, until :meth:`finish`."""

    def __init__(self) -> None:
        """Begin without observations."""
        super().__init__(daemon=True)
        self.finished = threading.Event()

    def finish(self) -> None:
        """End the thread."""
        self.finished.set()
        self.join()


class RankWatch(Watch):
    """Find the ranks of a run on this node by their mapped MPI library, and their binding.

    :param wanted: number of ranks that are expected.
    :param digests: whether to read the libraries of the program.
    :ivar mpi: see :func:`processes.mapped_mpi`.
    :ivar bound: see :func:`processes.bound`.
    :ivar executable: SHA-256 of the first found rank's program; empty if it cannot be read.
    :ivar libraries: see :func:`processes.digests_of_libraries`.
    """

    def __init__(self, wanted: int, digests: bool = False) -> None:
        """Begin without observations."""
        super().__init__()
        self._wanted, self._digests = wanted, digests
        self.mpi: Dict[str, Dict[str, Any]] = {}
        self.bound: List[str] = []
        self.executable = ""
        self.libraries: Dict[str, str] = {}

    def run(self) -> None:
        """Look until all ranks have the library; then watch their binding.

        It repeats this after they have ended. Several steps of a run may have ranks, and the first ones may end before
        they are seen: OpenFOAM's solver comes after a program of less than a second.
        """
        pause, were_all_seen = FIRST_RANKS, False
        while not self.finished.wait(pause):
            libraries = processes.mapped_mpi(processes.processes_of_run())
            are_all = sum(len(entry["pids"]) for entry in libraries.values()) >= self._wanted
            if libraries and (are_all or not were_all_seen):
                self.mpi = libraries
                first = next(iter(libraries.values()))["pids"][0]
                self.executable = self.executable or processes.digest_of_program(first)
                if self._digests:
                    self.libraries.update(processes.digests_of_libraries(first))
            if are_all:
                self._watch_binding()
                pause, were_all_seen = FIRST_RANKS, True
            pause = min(pause * 1.5, CALM)

    def _watch_binding(self) -> None:
        """Look at the ranks' allowed processors, at growing intervals; a binding counts if two looks agree.

        In MPI_Init hwloc binds a process to one processor after the other, to query each; GROMACS binds itself after it
        has read its input. Returns when all ranks have ended, or the run has.
        """
        pause = CALM
        before: List[str] = []
        while not self.finished.wait(pause):
            now = processes.bound(self.mpi)
            if not now:
                return
            # At the end, ranks exit one by one.
            if now == before and len(now) >= len(self.bound):
                self.bound = now
            pause = pause * LONGER_CALM if now == before else CALM
            before = now


class Ranks:
    """Look again and again at the computing ranks of a run on a node, and at their resources.

    :param most: number of ranks that are looked at closely, the busiest ones.
    :ivar computing: ranks that have computed since the previous look, the busiest first.
    :ivar new: those of them that were looked at less than :data:`LOOKS` times before.
    """

    def __init__(self, most: int) -> None:
        """Begin without observations."""
        self._most = most
        self._ticks: Dict[int, int] = {}
        self._looks: Dict[int, int] = {}
        self.computing: List[int] = []
        self.new: List[int] = []

    def look(self, statuses: Mapping[int, Status]) -> Dict[str, Set[str]]:
        """Return libraries, segments of shared memory, interfaces and devices of the ranks that compute.

        :param statuses: of the run's processes on this node.
        """
        ticks = {
            pid: int(fields[11]) + int(fields[12])
            for pid, (name, fields) in statuses.items()
            if may_compute(name, fields[0])
        }
        spent = {pid: now - self._ticks.get(pid, 0) for pid, now in ticks.items()}
        self._ticks = ticks
        self.computing = [pid for pid in sorted(spent, key=lambda pid: -spent[pid]) if spent[pid] > 0][: self._most]
        self.new = [pid for pid in self.computing if self._looks.get(pid, 0) < LOOKS]
        self._looks = {pid: self._looks.get(pid, 0) + (pid in self.new) for pid in ticks}
        used: Dict[str, Set[str]] = {"libraries": set(), "shared_memory": set(), "interfaces": set(), "devices": set()}
        for pid in self.computing:
            with contextlib.suppress(OSError):
                # At each look: connections are made with the first message, which some ranks send late.
                interfaces, devices = opened(pid)
                used["interfaces"] |= interfaces
                used["devices"] |= devices
            if pid in self.new:
                with contextlib.suppress(OSError):
                    libraries, shared = mapped(Path("/proc", str(pid)))
                    used["libraries"] |= libraries
                    used["shared_memory"] |= shared
        return used


def statuses_of(pids: Iterable[int]) -> Dict[int, Status]:
    """Return name and fields of processes, without those that have ended."""
    statuses = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            statuses[pid] = processes.status_of(pid)
    return statuses


class Observer(Watch):
    """Watch the resources of one run's processes; :meth:`result` returns them after :meth:`finish`."""

    def __init__(self) -> None:
        """Begin without observations."""
        super().__init__()
        self._before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._disk = waiting_for_disks()
        self._begin = time.monotonic()
        self._watched = 0.0
        # For each process: the last seen status, bytes read from disks, and the number of times it was switched out.
        self._statuses: Dict[int, Status] = {}
        self._read: Dict[int, int] = {}
        self._switched_out: Dict[int, int] = {}
        self._ranks = Ranks(CLOSELY)
        self._used: Dict[str, Set[str]] = {}
        self._threads: List[int] = []
        self._may_use: Set[str] = set()
        self._user_namespaces: Set[str] = set()
        self._memory = 0
        self._memory_limit = 0.0
        self._throttled = Throttling()
        self._states: Dict[str, List[str]] = {}
        # Whether daemons start processes of the run: the search for these is the largest cost of a look.
        self._has_strangers = True

    def result(self) -> Dict[str, Any]:
        """Return the observations; empty if there are none.

        Counts, such as faults and switches, come from the last look with a computing process, ``watched`` seconds after
        the start. Call this after all processes of the run have been waited for: their time is then complete.
        """
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        children = after.ru_utime - self._before.ru_utime, after.ru_stime - self._before.ru_stime
        if not self._statuses and not any(children):
            return {}
        others = [fields for name, fields in self._statuses.values() if not HELPERS.search(name)]
        helpers = [fields for name, fields in self._statuses.values() if HELPERS.search(name)]
        of_helpers = [_sum(helpers, place) / _TICKS for place in (11, 12)]
        # A process that a daemon started is not a child: its time is only known until the last look.
        user, system = (
            max(_sum(others, place) / _TICKS, waited - helping)
            for place, waited, helping in zip((11, 12), children, of_helpers)
        )
        return {
            "user": round(user, 2),
            "system": round(system, 2),
            "helpers": round(sum(of_helpers), 2),
            "disk": round(max(0.0, waiting_for_disks() - self._disk), 2),
            "watched": round(self._watched, 2),
            "faults": _sum(others, 7),
            "major_faults": _sum(others, 9),
            "memory": self._memory,
            "memory_limit": self._memory_limit,
            "threads": max(self._threads, default=0),
            "processors": len(set().union(*map(cores_of, self._may_use))),
            "switched_out": sum(self._switched_out.values()),
            "read": sum(self._read.values()),
            "user_namespaces": len(self._user_namespaces - user_namespace_of("self")),
            "throttled": self._throttled.result(),
            "states": self._states,
            **{name: sorted(self._used.get(name, ())) for name in USED},
        }

    def run(self) -> None:
        """Look at growing intervals."""
        pause = FIRST
        while not self.finished.wait(pause):
            with contextlib.suppress(OSError, ValueError, LookupError):
                self._look()
            pause = min(LONGEST, pause * LONGER)

    def _look(self) -> None:
        pids = processes.descendants(os.getpid(), ended=True)
        if self._has_strangers:
            everyone = processes.processes_of_run()
            self._has_strangers = not self._ranks.computing or bool(everyone - pids)
            pids |= everyone
        statuses = statuses_of(pids)
        self._statuses.update(statuses)
        ranks_now = [(pid, fields[0]) for pid, (name, fields) in statuses.items() if may_compute(name, fields[0])]
        states: Dict[str, List[str]] = {}
        for pid, letter in ranks_now[:CLOSELY]:
            states.setdefault(state_of(pid, letter), []).append(rank_of(pid))
        self._states = states or self._states
        self._memory = max(self._memory, _PAGE * _sum([fields for _, fields in statuses.values()], 21))
        for name, values in self._ranks.look(statuses).items():
            self._used.setdefault(name, set()).update(values)
        ranks = self._ranks.computing
        if not ranks:
            return
        self._watched = time.monotonic() - self._begin
        self._throttled.look(ranks[0])
        threads = []
        for pid in self._ranks.new:
            with contextlib.suppress(OSError):
                threads.append(self._look_closely(Path("/proc", str(pid))))
        self._threads = max(self._threads, threads, key=sum)
        for pid in ranks:
            with contextlib.suppress(OSError):
                status = texts.read(Path("/proc", str(pid), "status"))
                self._switched_out[pid] = int(re.findall(r"^nonvoluntary_ctxt_switches:\s+(\d+)", status, re.M)[0])
                self._read[pid] = read_by(pid)

    def _look_closely(self, place: Path) -> int:
        """Record the allowed processors and limits of a process's threads; return the number of its threads."""
        tasks = os.listdir(str(place / "task"))
        for task in tasks[:64]:
            with contextlib.suppress(OSError):
                status = texts.read(place / "task" / task / "status")
                self._may_use.update(re.findall(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE))
        self._user_namespaces |= user_namespace_of(place.name)
        with contextlib.suppress(OSError, ValueError):
            self._memory_limit = memory_limit(texts.read(place / "cgroup")) or self._memory_limit
        return len(tasks)


def _sum(rows: Iterable[Sequence[str]], place: int) -> int:
    """Return the sum of one of the fields of some processes."""
    return sum(int(fields[place]) for fields in rows)


class Throttling:
    """Count how often a cgroup of a process held it back because its processor time was used up."""

    def __init__(self) -> None:
        """Begin without counts."""
        self._first: Dict[str, Tuple[int, int]] = {}
        self._last: Dict[str, Tuple[int, int]] = {}
        self._quota = 0.0

    def look(self, pid: int) -> None:
        """Read the counters of the cgroups of a process that have a quota."""
        for directory, cpus in quotas(texts.read(Path("/proc", str(pid), "cgroup"))):
            counts = dict(line.split()[:2] for line in Path(directory, "cpu.stat").read_text().splitlines())
            now = (int(counts.get("nr_throttled", 0)), int(counts.get("nr_periods", 0)))
            self._first.setdefault(directory, now)
            self._last[directory] = now
            self._quota = min(self._quota or cpus, cpus)

    def result(self) -> List[float]:
        """Return the periods in which it was held back, all periods, and the allowed processors; empty for no quota."""
        if not self._last:
            return []
        counts = [
            tuple(last - first for last, first in zip(self._last[place], self._first[place])) for place in self._last
        ]
        return [*max(counts), self._quota]


def cgroups(text: str, controller: str, mounts: Path) -> List[Path]:
    """Return the directories of a process's cgroup and of all above it, for a controller.

    :param text: content of its /proc/<pid>/cgroup.
    :param mounts: mount point of cgroups, of both versions.
    """
    places = []
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        # A mount may have the names of its controllers in another order than the kernel.
        names = (controllers, controller, ",".join(sorted(controllers.split(","))))
        candidates = [mounts / name for name in names] if controllers else [mounts]
        root = next((place for place in candidates if place.is_dir()), candidates[-1])
        place = root / path.lstrip("/")
        places += [place, *(above for above in place.parents if above == root or root in above.parents)]
    return list(dict.fromkeys(places))


def quotas(text: str, mounts: Path = Path("/sys/fs/cgroup")) -> List[Tuple[str, float]]:
    """Return a process's cgroups with a quota of processor time, and the number of processors that each may use."""
    allowed = [(str(place), _allowed(place)) for place in cgroups(text, "cpu", mounts)]
    return [(place, cpus) for place, cpus in allowed if cpus]


#: Bytes from which a limit of the first version of cgroups means no limit.
NO_LIMIT = 1 << 60


def memory_limit(text: str, mounts: Path = Path("/sys/fs/cgroup")) -> float:
    """Return the bytes of memory that the cgroups of a process allow; 0 for no limit."""
    limits = []
    for place in cgroups(text, "memory", mounts):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            with contextlib.suppress(OSError, ValueError):
                limits.append(int((place / name).read_text()))
    return float(min((limit for limit in limits if limit < NO_LIMIT), default=0))


def _allowed(place: Path) -> float:
    """Return the number of processors that a cgroup may use; 0 without a quota."""
    with contextlib.suppress(OSError, ValueError):
        words = (place / "cpu.max").read_text().split()
        return 0.0 if words[0] == "max" else int(words[0]) / int(words[1])
    with contextlib.suppress(OSError, ValueError):
        quota = int((place / "cpu.cfs_quota_us").read_text())
        return max(0.0, quota / int((place / "cpu.cfs_period_us").read_text()))
    return 0.0


def waiting_for_disks() -> float:
    """Return the seconds in which processors of this node were idle because processes waited for disks.

    See proc(5), iowait. The kernel does not count waiting for all network file systems.
    """
    return int(texts.read(Path("/proc/stat")).split(None, 6)[5]) / _TICKS


def user_namespace_of(pid: str) -> Set[str]:
    """Return the user namespace of a process, in the kernel's words; empty if it cannot be read."""
    with contextlib.suppress(OSError):
        return {os.readlink(f"/proc/{pid}/ns/user")}
    return set()


def together(used: Dict[str, Any], elsewhere: Mapping[str, Set[str]]) -> Dict[str, Any]:
    """Return the resources of a run, with libraries, shared memory, interfaces and devices on other nodes added."""
    if not used:
        return used
    return {**used, **{name: sorted({*used[name], *elsewhere[name]}) for name in elsewhere if name in used}}


def may_compute(name: str, state: str) -> bool:
    """Return whether a process of a run can be one of its ranks: alive, and neither a helper nor a launcher.

    :param state: a letter, as in /proc/<pid>/stat.
    """
    return state != "Z" and not HELPERS.search(name) and not LAUNCHERS.fullmatch(name)


def state_of(pid: int, letter: str) -> str:
    """Return the state of a process, and its place in the kernel, in words.

    :param letter: of the state, as in /proc/<pid>/stat.
    """
    place = ""
    with contextlib.suppress(OSError):
        place = texts.printable(texts.read(Path("/proc", str(pid), "wchan")), 60)
    word = STATES.get(letter, f"in state {letter}")
    return (word if place in ("", "0") else f"{word} in {place}") + _reading(Path("/proc", str(pid)))


def _reading(place: Path) -> str:
    """Return words for the file from which a process is reading; empty if it is in another system call, or in none.

    :param place: directory of the process in /proc.
    """
    # The file of a process that has just ended is empty.
    with contextlib.suppress(OSError, ValueError):
        call, *arguments = texts.read(place / "syscall").split()
        if arguments and int(call) == architectures.reading_call(os.uname().machine):
            number = int(arguments[0], 16)
            # Pipes and sockets have a number, which differs between runs.
            kind = texts.printable(os.readlink(str(place / "fd" / str(number))).partition(":[")[0], 60)
            return f" for its standard input ({kind})" if number == 0 else f" for {kind}"
    return ""


def rank_of(pid: int) -> str:
    """Return the rank of a process by a variable of its launcher; empty if it has none, or is unreadable."""
    with contextlib.suppress(OSError):
        found = _RANK.search(Path("/proc", str(pid), "environ").read_bytes())
        return found[1].decode() if found else ""
    return ""


def states_in_words(states: Mapping[str, Sequence[str]]) -> str:
    """Return the ranks in each state, for a run that hung, the rarest state first; empty for none.

    :param states: the rank of each process in a state; empty if it is not known.

    >>> states_in_words({"waiting in futex_wait": ["0", "2", "3"], "stopped": ["1"], "running": [""]})
    '1 process running, rank 1 stopped, ranks 0, 2 and 3 waiting in futex_wait'
    """
    ordered = sorted(states.items(), key=lambda item: (len(item[1]), item[0]))
    return ", ".join(f"{_counted(ranks)} {state}" for state, ranks in ordered[:3])


def _counted(ranks: Sequence[str]) -> str:
    """Return the numbers of a few ranks; the number of processes for many, or unknown ones."""
    *others, last = sorted(set(ranks), key=lambda rank: (len(rank), rank))
    if not all(ranks) or len(others) >= FEW:
        return f"{len(ranks)} process{'es' if len(ranks) > 1 else ''}"
    return f"ranks {', '.join(others)} and {last}" if others else f"rank {last}"


def mapped(place: Path) -> Tuple[Set[str], Set[str]]:
    """Return the libraries and the segments of shared memory that a process has mapped.

    :param place: directory of the process in /proc.
    """
    libraries, shared = set(), set()
    for words in processes.mapped_files(place):
        if words[5].startswith("/") and LIBRARIES.match(words[5].rpartition("/")[2]):
            libraries.add(words[5])
        elif words[5].startswith("/dev/shm/"):
            shared.add(re.sub(r"\d+", "#", words[5]))
    return libraries, shared


def opened(pid: int) -> Tuple[Set[str], Set[str]]:
    """Return the interfaces with a process's TCP connections, and the adapters of fabrics that it has open.

    The interfaces are those of the process's network namespace. A mapped library of InfiniBand does not prove its use;
    an open device does.

    :raises OSError: the process is gone, or is another user's.
    """
    place = Path("/proc", str(pid))
    targets = set(processes.open_files(place))
    inodes = {target[8:-1] for target in targets if target.startswith("socket:[")}
    # The manager of connections is opened without an adapter too.
    devices = {target for target in targets if target.startswith(contract.FABRICS) and not target.endswith("/rdma_cm")}
    return (_interfaces(place, inodes) if inodes else set()), set(map(adapter, devices))


@functools.lru_cache(maxsize=None)
def adapter(device: str, root: Path = Path("/")) -> str:
    """Return the adapter of a fabric's device, with its driver, such as ``mlx5_0 (mlx5_core 5.8-1.0.1)``.

    Drivers of the kernel itself have no version. The path of the device stands for an unknown adapter.

    :param root: root of the file systems /dev and /sys.
    """
    system, name = root / "sys", device.rpartition("/")[2]
    name = texts.small(system / "class" / "infiniband_verbs" / name / "ibdev") or name
    for kind in ("infiniband", "hfi1", "cxi"):
        driver = system / "class" / kind / name / "device" / "driver"
        with contextlib.suppress(OSError):
            module = Path(os.readlink(str(driver))).name
            version = texts.small(system / "module" / module / "version")
            return "{} ({})".format(name, " ".join(filter(None, [module, version])))
    return device


def _interfaces(place: Path, inodes: Set[str]) -> Set[str]:
    """Return the interfaces of the established connections of a process, of both versions of IP.

    :param inodes: of its sockets.
    """
    found = {interface_of(socket.inet_ntoa(_reordered(each)), place) for each in _addresses(place, "tcp", inodes)}
    others = [_reordered(each) for each in _addresses(place, "tcp6", inodes)]
    # An IPv4 address may be written as an IPv6 address.
    found |= {interface_of(socket.inet_ntoa(address[-4:]), place) for address in others if address.startswith(MAPPED)}
    own = {address.hex() for address in others if not address.startswith(MAPPED)}
    if own:
        rows = (line.split() for line in texts.read(place / "net" / "if_inet6").splitlines())
        found |= {row[-1] for row in rows if row[0] in own}
    return found - {""}


#: First bytes of an IPv6 address that stands for an IPv4 address (RFC 4291, 2.5.5.2).
MAPPED = bytes(10) + b"\xff\xff"


def _addresses(place: Path, kind: str, inodes: Set[str]) -> Set[str]:
    """Return the local addresses of established connections in the form of /proc/net; none if the file is missing."""
    with contextlib.suppress(FileNotFoundError):
        rows = [line.split() for line in texts.read(place / "net" / kind).splitlines()[1:]]
        return {row[1].split(":")[0] for row in rows if row[9] in inodes and row[3] == "01"}
    return set()


def _reordered(text: str) -> bytes:
    """Return the bytes of an address in /proc/net, in which each word of four bytes has the processor's order."""
    words = [int(text[place : place + 8], 16) for place in range(0, len(text), 8)]
    return struct.pack(f"={len(words)}I", *words)


def read_by(pid: int) -> int:
    """Return the bytes that a process has read from disks, as the kernel counts them; 0 if unreadable.

    See proc(5), /proc/pid/io.
    """
    # The file may be empty if the process has just ended.
    with contextlib.suppress(OSError, ValueError, KeyError):
        counts = dict(line.split(": ") for line in texts.read(Path("/proc", str(pid), "io")).splitlines())
        return int(counts["read_bytes"])
    return 0


def interface_of(address: str, place: Path) -> str:
    """Return the interface with the network that contains an address; empty if none does.

    :param place: directory in /proc of a process in this network namespace.
    """
    number = struct.unpack("<I", socket.inet_aton(address))[0]
    best = ("", 0)
    for line in texts.read(place / "net" / "route").splitlines()[1:]:
        words = line.split()
        network, mask = int(words[1], 16), int(words[7], 16)
        length = bin(mask).count("1")
        if mask and number & mask == network and length > best[1]:
            best = (words[0], length)
    # After the routes: a machine's own network may use these addresses.
    return best[0] or ("lo" if address.startswith("127.") else "")
