"""Keep the processors of a virtual machine busy during measurements (Linux, standard library only, Python 3.6).

A hypervisor may move an idle processor to another core when it wakes up, so that two ranks run on neighbouring cores
in one run and on distant ones in the next. So a process for each processor spins in Linux's class SCHED_IDLE, which
runs when no other process wants to (sched(7)). On the virtual machine where this was tried, pairs of bare
runs then spread by 2.5 in place of 17 % (Ping Pong's latency), 4 in place of 6 % (its bandwidth), 11 in place of 18 %
(HPL in HPCC) and, in the median of HPCC's fourteen figures, 9 in place of 14 %.

The class counts only among processes of the same session (autogroup) or cgroup. So this works for runs in the runner's
own session, and not for those that a daemon starts.
"""

import contextlib
import os
import signal
from pathlib import Path
from typing import Iterator

from containercheck.node.job import processes


def is_virtual(cpuinfo: str) -> bool:
    """Tell whether a hypervisor runs this machine, from ``/proc/cpuinfo``; on x86 only, where processors say so."""
    return any(line.startswith("flags") and "hypervisor" in line.split() for line in cpuinfo.splitlines())


@contextlib.contextmanager
def kept(wanted: bool) -> Iterator[bool]:
    """Keep the processors of this process busy on a virtual machine; give whether that is done.

    :param wanted: whether to do so if the machine is virtual.
    """
    virtual = wanted and is_virtual(Path("/proc/cpuinfo").read_text())
    spinning = [_spin(cpu) for cpu in sorted(os.sched_getaffinity(0))] if virtual else []
    processes.HELPERS.update(spinning)
    try:
        yield virtual
    finally:
        for pid in spinning:
            _end(pid)
        processes.HELPERS.difference_update(spinning)


def _end(child: int) -> None:
    """End a child process, and print a line if it ended by itself before.

    Its number is not used again before it is waited for: see ``processes.reap``.
    """
    with contextlib.suppress(ChildProcessError):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            print(f"a process that kept a processor awake ended before the rounds did (status {status})", flush=True)
            return
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _spin(cpu: int) -> int:
    """Start a process that keeps a processor busy, and return its id."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        processes.die_with_parent(parent, signal.SIGKILL)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(0, {cpu})
        os.execv("/bin/sh", ["containercheck: keeps a processor awake", "-c", "while :; do :; done"])
    finally:
        os._exit(1)
