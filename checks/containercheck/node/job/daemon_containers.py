"""Containers that a daemon runs, and that outlive who asked for them (standard library only, Python 3.6 or newer).

A container of Docker or Podman goes on when ``docker run`` is killed, and need not have its environment. So each has a
label with the number of its runner (see belonging.py), and what has it is removed when its run is over. The daemon of
this node is asked; of a job with several nodes, the others' containers end with their commands or not at all. All
engines understand the same commands.
"""

import json
import subprocess
from pathlib import Path
from typing import List, Set

from containercheck.node import container_runtimes, contract, texts
from containercheck.node.job import belonging, processes

#: Seconds that one may take to say what it runs, or to remove it.
PATIENCE = 60.0


def remove(left: List[str]) -> None:
    """Remove our containers.

    They go before their processes are killed: Podman's are our descendants, and without them it waits for nothing.

    :param left: takes what is to be said of those that still ran.
    """
    for engine in sorted(_engines()):
        for line in _listed(engine, "{{.ID}} {{.Image}}"):
            number, _, image = texts.printable(line).partition(" ")
            left.append(f"container of {image} ({Path(engine).name} {number})")
            _tell(engine, "kill", number)
        for number in _listed(engine, "{{.ID}}", "--all"):
            _tell(engine, "rm", "--force", number)


def _listed(engine: str, wanted: str, *options: str) -> List[str]:
    words = [engine, "ps", *options, f"--filter=label={belonging.MARK}", f"--format={wanted}"]
    return processes.output_of(words, PATIENCE, stderr=subprocess.DEVNULL).splitlines()


def _tell(engine: str, *words: str) -> None:
    processes.output_of([engine, *words], PATIENCE, stderr=subprocess.DEVNULL)


def _engines() -> Set[str]:
    """Return the commands of such runtimes among those of the job's sides (see runtime_start.py)."""
    found = set()
    for path in Path().glob(contract.runtime_file("*")):
        try:
            known = json.loads(path.read_text())
            command = known["command"]
        except (OSError, ValueError, KeyError):
            continue
        if container_runtimes.recognized(command, known.get("version", "")).is_engine:
            found.add(command)
    return found
