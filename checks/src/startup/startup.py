"""Measures how long a command takes to start and to end, and how much memory it holds (standard library only).

    python3 startup.py --copies 2 --repeats 5 -- apptainer exec image.sif cat

The command must copy its input to its output, as ``cat`` does. It has started when it answers a line, and it has ended
when it is gone after its input was closed: this needs no clock inside. Memory is the proportional set size (what is
shared counts in parts) of the command with all its helpers, a container runtime's own processes included.
Once alone, then as many as ``--copies`` at the same time; at the end one is held for a second, not measured, so that
whoever watches the run sees what it has loaded.
"""

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import List, Tuple

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


def proportional_set_size() -> float:
    """Return the memory of all processes below this one, in MB.

    :raises OSError: it cannot be read.
    """
    kilobytes = 0
    for pid in descendants():
        try:
            text = Path("/proc", str(pid), "smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        kilobytes += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
    return kilobytes * 1024 / 1e6


def measure(command: List[str], copies: int, hold: float = 0.0) -> Tuple[float, float, float]:
    """Start and end ``copies`` of the command at the same time.

    :return: seconds until the last one answered, seconds until the last one was gone, MB of one.
    :raises RuntimeError: one did not answer.
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
    parser.add_argument("--copies", type=int, default=2, help="how many at the same time")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    # Helpers that a runtime leaves to themselves are still found below this process.
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
