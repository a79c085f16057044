"""Measure how long a command takes to start and to end, and how much memory it holds (standard library only).

    python3 startup.py --copies 2 --repeats 5 -- apptainer exec image.sif cat

The command must copy its input to its output, as ``cat`` does. It has started when it answers a line. Then its input is
closed, and it has ended when its process is gone. So no clock is needed inside. Memory is the proportional set size
(shared pages count in parts) of the command and all its helpers, such as a container runtime's processes. For
processes of another user it is an estimate. The command runs once alone, then in ``--copies`` at the same time. At the
end one copy is held for a second, unmeasured, so that an observer of the run sees the libraries it has loaded.
"""

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, Iterable, List, Tuple

PR_SET_CHILD_SUBREAPER = 36
#: Seconds that the last copy is held.
HOLD = 1.0


def descendants() -> List[int]:
    """Return all processes below this one."""
    found, todo = [], [os.getpid()]
    while todo:
        for task in Path("/proc", str(todo.pop()), "task").glob("*/children"):
            children = [int(word) for word in task.read_text().split()]
            found += children
            todo += children
    return found


def status_of(pid: int) -> Dict[str, str]:
    """Return the lines of ``/proc/PID/status`` by their names; every user may read it (proc(5)).

    :raises OSError: the process is gone.
    """
    lines = Path("/proc", str(pid), "status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def estimated_set_sizes(statuses: Iterable[Dict[str, str]]) -> int:
    """Return an estimate of the memory, in kB, of processes with pages that only their owner may read.

    Private pages count fully, and pages of files (program, libraries) once for all processes of a program. The estimate
    is too high by the pages shared with processes of another program. Kernels before 4.5 do not report the two kinds
    separately; then all pages count.
    """
    statuses = list(statuses)
    names = [status.get("Name") for status in statuses]
    total = 0.0
    for status in statuses:
        of_files, shared, whole = (
            int(status.get(name, "0 kB").split()[0]) for name in ("RssFile", "RssShmem", "VmRSS")
        )
        common = of_files + shared
        total += whole - common + common / names.count(status.get("Name"))
    return round(total)


def proportional_set_size() -> float:
    """Return the memory of all processes below this one, in MB.

    Root's processes (sudo and its children, setuid programs) show only their sizes to a user: their shares are
    estimated.

    :raises OSError: the memory cannot be read.
    """
    kilobytes, hidden = 0, []
    for pid in descendants():
        try:
            try:
                text = Path("/proc", str(pid), "smaps_rollup").read_text()
            except PermissionError:
                hidden.append(status_of(pid))
                continue
        except (FileNotFoundError, ProcessLookupError):
            continue
        kilobytes += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return (kilobytes + estimated_set_sizes(hidden)) * 1024 / 1e6


def measure(command: List[str], copies: int, hold: float = 0.0) -> Tuple[float, float, float]:
    """Start and end ``copies`` of the command at the same time.

    :return: seconds until the last copy answered, seconds until the last one was gone, MB of one copy.
    :raises RuntimeError: a copy did not answer.
    """
    began = time.monotonic()
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(copies)]
    for process in running:
        process.stdin.write(b"hello\n")
        process.stdin.flush()
    for process in running:
        if process.stdout.readline() != b"hello\n":
            raise RuntimeError(f"{command[0]} did not answer (exit status {process.wait()})")
    started = time.monotonic() - began
    memory = proportional_set_size() / copies
    time.sleep(hold)
    began = time.monotonic()
    for process in running:
        process.stdin.close()
    statuses = [process.wait() for process in running]
    ended = time.monotonic() - began
    if any(statuses):
        raise RuntimeError(f"{command[0]} ended with exit status {max(statuses, key=abs)}")
    return started, ended, memory


def main() -> None:
    """Print the medians of the repeats."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=2, help="number of copies at the same time")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    # Orphaned helpers of a runtime stay below this process.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        for copies, name in ((1, "one"), (arguments.copies, "several")):
            repeats = [measure(arguments.command, copies) for _ in range(arguments.repeats)]
            started, ended, memory = (statistics.median(column) for column in zip(*repeats))
            print(f"{name}: copies {copies} start {started:.6f} s end {ended:.6f} s memory {memory:.3f} MB", flush=True)
        measure(arguments.command, 1, HOLD)
    except (OSError, RuntimeError) as error:
        sys.exit(f"startup.py: error: {error}")


if __name__ == "__main__":
    main()
