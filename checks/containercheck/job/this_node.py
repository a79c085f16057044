"""Look at the node of a job, its cores and its state, and keep its processors busy (standard library only, Python 3.6).

A hypervisor may move an idle processor to another core when it wakes up. Two ranks then run on neighbouring cores in
one run and on distant ones in the next. So a process for each processor spins in Linux's class SCHED_IDLE, which runs
only when no other process wants to (sched(7)). On the tested virtual machine, the spread of pairs of bare runs became
smaller:

- Ping Pong: latency 2.5 in place of 17 %, bandwidth 4 in place of 6 %;
- HPCC: HPL 11 in place of 18 %, median of its fourteen metrics 9 in place of 14 %.

The class counts only among processes of the same session (autogroup) or cgroup. So this works for runs in the runner's
own session, but not for those that a daemon starts.
"""

import contextlib
import itertools
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Dict, Iterator, List, Set, Tuple

from containercheck.job import architectures, processes, texts

#: Files of Linux and of the distribution with facts of a node.
CPUINFO, RELEASE = Path("/proc/cpuinfo"), Path("/etc/os-release")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
SYSTEM = re.compile(r"^PRETTY_NAME=\"?([^\"\n]+)", re.MULTILINE)
#: Directory with Linux's lists of a core's hardware threads, and its socket.
TOPOLOGY = "sys/devices/system/cpu/cpu{}/topology"


def facts() -> Dict[str, str]:
    """Return kernel, processor, system and frequency governor: facts that may explain a change of bare metrics.

    Facts that cannot be read are left out.
    """
    system = SYSTEM.search(texts.small(RELEASE))
    known = {
        "kernel": os.uname().release,
        "processor": architectures.processor(texts.small(CPUINFO)),
        "system": system.group(1).strip() if system else "",
        "governor": texts.small(GOVERNOR),
    }
    return {name: value for name, value in known.items() if value}


def cores(usable: Set[int], root: Path = Path("/")) -> List[List[int]]:
    """Return the processors of each core, socket after socket.

    :param usable: processors that may be used.
    :param root: root of the file system with Linux's lists of cores' threads.
    """
    by_core: Dict[Tuple[int, str], List[int]] = {}
    for processor in sorted(usable):
        topology = root / TOPOLOGY.format(processor)
        siblings = texts.small(topology / "thread_siblings_list") or str(processor)
        by_core.setdefault((int(texts.small(topology / "physical_package_id") or 0), siblings), []).append(processor)
    return [core for _, core in sorted(by_core.items(), key=lambda pair: (pair[0][0], pair[1]))]


def listed(processors: Set[int]) -> str:
    """Return processors in the form of Linux's lists.

    >>> listed({8, 0, 1, 2})
    '0-2,8'
    """
    ranges = []
    for _, group in itertools.groupby(enumerate(sorted(processors)), lambda pair: pair[1] - pair[0]):
        members = [processor for _, processor in group]
        ranges.append(str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}")
    return ",".join(ranges)


def is_virtual(cpuinfo: str) -> bool:
    """Return whether a hypervisor runs this machine, from ``/proc/cpuinfo``; only x86 processors report it."""
    return any(line.startswith("flags") and "hypervisor" in line.split() for line in cpuinfo.splitlines())


@contextlib.contextmanager
def kept_awake(wanted: bool) -> Iterator[bool]:
    """Keep the processors of this process busy on a virtual machine; yield whether this is done.

    :param wanted: whether to do so if the machine is virtual.
    """
    virtual = wanted and is_virtual(texts.small(CPUINFO))
    spinning = [_spin(cpu) for cpu in sorted(os.sched_getaffinity(0))] if virtual else []
    pids = {process.pid for process in spinning}
    processes.HELPERS.update(pids)
    try:
        yield virtual
    finally:
        for process in spinning:
            process.kill()
            # Its number is not used again before: see ``processes.reap``.
            process.wait()
        processes.HELPERS.difference_update(pids)


def _spin(cpu: int) -> "subprocess.Popen[bytes]":
    """Start a process that keeps a processor busy."""
    parent = os.getpid()

    def confine() -> None:
        processes.die_with_parent(parent, signal.SIGKILL)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(0, {cpu})

    words = ["containercheck: keeps a processor awake", "-c", "while :; do :; done"]
    return subprocess.Popen(words, executable="/bin/sh", preexec_fn=confine)
