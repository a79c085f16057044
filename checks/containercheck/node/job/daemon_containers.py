"""Remove containers of a daemon, which outlive the command that started them (standard library only, Python 3.6).

A container of Docker or Podman goes on when ``docker run`` is killed, and need not have its environment. So each has a
label that names its runner (see belonging.py), and containers with the label are removed when their run is over. Only
the daemon of this node is asked: on a job's other nodes, containers end with their commands or not at all. All engines
understand the same commands.
"""

import json
import subprocess
from pathlib import Path
from typing import List, Set

from containercheck.node import container_runtimes, contract, texts
from containercheck.node.job import belonging, processes

#: Seconds that an engine may take to list or remove containers.
PATIENCE = 60.0


def remove(left: List[str]) -> None:
    """Remove the run's containers, before their processes are killed.

    Podman's processes descend from the runner, and Podman waits in vain for those that were killed.

    :param left: list to which a description of each container that still ran is appended.
    """
    for engine in sorted(_engines()):
        for line in _listed(engine, "{{.ID}} {{.Image}}"):
            number, _, image = texts.printable(line).partition(" ")
            left.append(f"container of {image} ({Path(engine).name} {number})")
            _call(engine, "kill", number)
        for number in _listed(engine, "{{.ID}}", "--all"):
            _call(engine, "rm", "--force", number)


def _listed(engine: str, columns: str, *options: str) -> List[str]:
    words = [engine, "ps", *options, f"--filter=label={belonging.MARK}", f"--format={columns}"]
    return processes.output_of(words, PATIENCE, stderr=subprocess.DEVNULL).splitlines()


def _call(engine: str, *words: str) -> None:
    processes.output_of([engine, *words], PATIENCE, stderr=subprocess.DEVNULL)


def _engines() -> Set[str]:
    """Return the commands of the runtimes with a daemon among those of the job's sides (see runtime_start.py)."""
    engines = set()
    for path in Path().glob(contract.runtime_file("*")):
        try:
            runtime = json.loads(path.read_text())
            command = runtime["command"]
        except (OSError, ValueError, KeyError):
            continue
        if container_runtimes.recognized(command, runtime.get("version", "")).is_engine:
            engines.add(command)
    return engines
