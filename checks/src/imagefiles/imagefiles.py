#!/usr/bin/env python3
"""Measure how long processes take to look at, read and import many small files (standard library only, Python 3.6).

    imagefiles make DIRECTORY          # makes the files
    imagefiles use                     # one process, on the files that were installed with this program
    python3 imagefiles.py measure --copies 2 --cold image.sif -- apptainer exec image.sif imagefiles use

``use`` prints the seconds of each step. Then it waits until its input ends: ``measure`` can look at the container
runtime's helper processes, such as ``squashfuse_ll``, and at their processor time. ``measure`` starts the given
number of copies at the same time: first with the files dropped from the page cache, then again.
"""

import argparse
import compileall
import ctypes
import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List

PR_SET_CHILD_SUBREAPER = 36
#: Number of files to look at and read, of modules to import, and of either in a directory.
FILES, MODULES, TOGETHER = 3000, 1000, 50
#: Steps of a process, in order.
STEPS = ("stat", "read", "import")
#: Facts that each copy prints: number of files, their size and the bytes read, the sum of the modules' numbers.
FOUND = ("files", "bytes", "content", "sum")


def make(tree: Path) -> None:
    """Write the files (0.5 to 16 KB each), and modules of Python with their byte code."""
    for number in range(FILES):
        path = tree / "data" / f"{number // TOGETHER:03}" / f"{number:05}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((b"%08d" % number) * (64 << number % 6))
    for number in range(MODULES):
        path = tree / "modules" / f"package{number // TOGETHER:03}" / f"module{number:05}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(f"NUMBER = {number}\n\n\ndef add(value):\n    return value + NUMBER\n")
    compileall.compile_dir(str(tree / "modules"), quiet=1)


def files_below(directory: Path) -> Iterator[str]:
    """Return the paths of all files below a directory."""
    for place, _, names in os.walk(directory):
        yield from (os.path.join(place, name) for name in names)


def use(tree: Path) -> Dict[str, Any]:
    """Run all steps on the files once; return the seconds of each step, and the facts in :data:`FOUND`.

    :raises OSError: there are no files.
    """
    if not tree.is_dir():
        raise OSError(f"no files in {tree}")
    clocks = [time.monotonic()]
    data = list(files_below(tree / "data"))
    size = sum(os.stat(path).st_size for path in data)
    clocks.append(time.monotonic())
    content = 0
    for path in data:
        with open(path, "rb") as stream:
            content += len(stream.read())
    clocks.append(time.monotonic())
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(tree / "modules"))
    names = [f"package{number // TOGETHER:03}.module{number:05}" for number in range(MODULES)]
    total = sum(importlib.import_module(name).add(0) for name in names)
    clocks.append(time.monotonic())
    seconds = {step: after - before for step, before, after in zip(STEPS, clocks, clocks[1:])}
    return {**seconds, "files": len(data), "bytes": size, "content": content, "sum": total}


def drop(path: Path) -> None:
    """Drop a file, or all files below a directory, from the page cache; the path may not exist."""
    for name in [str(path)] if path.is_file() else files_below(path):
        descriptor = os.open(name, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def ticks_below(own: List[int]) -> Dict[int, int]:
    """Return the processor time (in clock ticks) of each process below this one, except the program's own.

    :param own: ids of the started processes: the runtime's commands, or the programs that replaced them.
    """
    ticks: Dict[int, int] = {}
    found: List[int] = []
    todo = [os.getpid()]
    while todo:
        for task in Path("/proc", str(todo.pop()), "task").glob("*/children"):
            children = [int(word) for word in task.read_text().split()]
            found += children
            todo += children
    for pid in found:
        try:
            if pid in own or b"\0use\0" in Path("/proc", str(pid), "cmdline").read_bytes():
                continue
            # The fields after the name, which may have blanks: state, ten more, user and system time.
            fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        ticks[pid] = int(fields[11]) + int(fields[12])
    return ticks


def measure(command: List[str], copies: int) -> Dict[str, Any]:
    """Run ``copies`` of the command at the same time.

    :return: seconds of each step for the slowest copy, the facts in :data:`FOUND`, and the helpers' processor time.
    :raises RuntimeError: a copy failed, or its facts differ from the others'.
    """
    # Helpers of earlier copies may still exist: their processor time until now does not count.
    before = ticks_below([])
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(copies)]
    told = []
    for process in running:
        line = process.stdout.readline()
        if not line.startswith(b"{"):
            raise RuntimeError(f"{command[0]} did not do its work (exit status {process.wait()})")
        told.append(json.loads(line.decode()))
    after = ticks_below([process.pid for process in running])
    helpers = sum(ticks - before.get(pid, 0) for pid, ticks in after.items()) / os.sysconf("SC_CLK_TCK")
    for process in running:
        process.stdin.close()
    statuses = [process.wait() for process in running]
    if any(statuses):
        raise RuntimeError(f"{command[0]} ended with exit status {max(statuses, key=abs)}")
    found = [{name: copy[name] for name in FOUND} for copy in told]
    if any(copy != found[0] for copy in found):
        raise RuntimeError(f"the copies did not find the same: {found}")
    return {**found[0], **{step: max(copy[step] for copy in told) for step in STEPS}, "helpers": helpers}


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    commands.required = True
    making = commands.add_parser("make", help="make the files")
    making.add_argument("directory", type=Path)
    commands.add_parser("use", help="run all steps on the files that were installed with this program")
    measuring = commands.add_parser("measure", help="start copies of a command that runs this program's use")
    measuring.add_argument("--copies", type=int, default=2)
    measuring.add_argument("--cold", type=Path, action="append", default=[], help="drop it from the page cache")
    measuring.add_argument("words", nargs="+")
    arguments = parser.parse_args()
    try:
        if arguments.command == "make":
            make(arguments.directory)
        elif arguments.command == "use":
            print(json.dumps(use(Path(__file__).resolve().parent.parent / "share" / "imagefiles")), flush=True)
            sys.stdin.read()
        else:
            # Orphaned helpers of a runtime stay below this process.
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            os.sync()
            for path in arguments.cold:
                drop(path)
            for name in ("cold", "warm"):
                found = measure(arguments.words, arguments.copies)
                steps = " ".join(f"{step} {found[step]:.6f} s" for step in (*STEPS, "helpers"))
                print(f"{name}: copies {arguments.copies} {steps}", flush=True)
            print("found: " + " ".join(f"{name} {found[name]}" for name in FOUND))
    except (OSError, RuntimeError) as error:
        sys.exit(f"imagefiles: error: {error}")


if __name__ == "__main__":
    main()
