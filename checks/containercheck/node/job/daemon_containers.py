"""Remove containers of a daemon, which outlive the command that started them (standard library only, Python 3.6).

A container of Docker or Podman goes on when ``docker run`` is killed, and need not have its environment. So each has a
label that names its runner (see belonging.py), and containers with the label are removed when their run is over. The
engines of a Slurm job's other nodes are asked too (see each_node.py); elsewhere, containers there end with their
commands or not at all. All engines understand the same commands.

    python3 checks/containercheck containers LABEL

removes those of one node, and prints a line for each that still ran.
"""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import FrozenSet, Iterator, List, Set, Tuple

from containercheck.node import container_runtimes, contract, texts
from containercheck.node.job import belonging, each_node, processes

#: Seconds that an engine may take to list or remove containers.
PATIENCE = 60.0


def remove(left: List[str]) -> None:
    """Remove the run's containers, before their processes are killed.

    Podman's processes descend from the runner, and Podman waits in vain for those that were killed.

    :param left: list to which a description of each container that still ran is appended.
    """
    engines = _engines()
    if not engines:
        return
    left += _removed(engines, belonging.MARK)
    words = each_node.launcher(first=1)
    if words:
        words += [sys.executable, each_node.PROGRAMS, "containers", belonging.MARK]
        left += processes.output_of(words, PATIENCE, stderr=subprocess.DEVNULL).splitlines()


def _removed(engines: Set[str], label: str) -> List[str]:
    """Remove this node's containers that have a label, and return a description of each that still ran."""
    left = []
    for engine in sorted(engines):
        for line in _listed(engine, label, "{{.ID}} {{.Image}}"):
            number, _, image = texts.printable(line).partition(" ")
            left.append(f"container of {image} ({Path(engine).name} {number})")
            _call(engine, "kill", number)
        for number in _listed(engine, label, "{{.ID}}", "--all"):
            _call(engine, "rm", "--force", number)
    return left


def _listed(engine: str, label: str, columns: str, *options: str) -> List[str]:
    words = [engine, "ps", *options, f"--filter=label={label}", f"--format={columns}"]
    return processes.output_of(words, PATIENCE, stderr=subprocess.DEVNULL).splitlines()


def _call(engine: str, *words: str) -> None:
    processes.output_of([engine, *words], PATIENCE, stderr=subprocess.DEVNULL)


def _engines() -> Set[str]:
    """Return the commands of the runtimes with a daemon among those of the job's sides (see runtime_start.py)."""
    return {command for command, runtime in _runtimes() if runtime.is_engine}


@functools.lru_cache(maxsize=1)
def daemons() -> FrozenSet[str]:
    """Return the names of the daemons' processes that serve containers of the job's sides."""
    return frozenset(name for _, runtime in _runtimes() for name in runtime.daemons)


def _runtimes() -> Iterator[Tuple[str, container_runtimes.Runtime]]:
    """Yield the runtimes of the job's sides, each with its command."""
    for path in Path().glob(contract.runtime_file("*")):
        try:
            runtime = json.loads(path.read_text())
            command = runtime["command"]
        except (OSError, ValueError, KeyError):
            continue
        yield command, container_runtimes.recognized(command, runtime.get("version", ""))


def main() -> None:
    """Remove this node's containers with the label that the command line names, and print what still ran."""
    for line in _removed(_engines(), sys.argv[1]):
        print(f"{line} on {os.uname().nodename}")


if __name__ == "__main__":
    main()
