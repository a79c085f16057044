"""Containers that a daemon runs, and that outlive who asked for them (standard library only, Python 3.6 or newer).

A container of Docker or Podman is no descendant of the run's: when ``docker run`` is killed, it goes on. So each has a
label with the number of its run (``contract.RUN``), and what has it is removed when the run is over. The daemon of this
node is asked; of a job with several nodes, the others' containers end with their commands or not at all.
"""

import json
import os
import subprocess
import uuid
from pathlib import Path
from typing import List, Set

from containercheck import contract, texts
from containercheck.job import processes

#: Runtimes that leave the running to somebody else.
ENGINES = ("docker", "podman")
#: Seconds that one may take to say what it runs, or to remove it.
PATIENCE = 60.0


class Run:
    """One run, whose containers can be told from all others.

    :ivar environment: of the run's processes.
    :ivar left: what is to be said of those that were removed while they ran.
    """

    def __init__(self) -> None:
        """No container yet."""
        self._number = uuid.uuid4().hex
        self.left = []  # type: List[str]
        self.environment = {**os.environ, contract.RUN: self._number}  # type: Dict[str, str]

    def remove(self) -> bool:
        """Remove this run's containers; tell whether some still ran.

        Before their processes are killed: Podman's are our descendants, and without them it waits for nothing.
        """
        before = len(self.left)
        for engine in sorted(_engines()):
            for line in self._listed(engine, "{{.ID}} {{.Image}}"):
                number, _, image = texts.printable(line).partition(" ")
                self.left.append(f"container of {image} ({Path(engine).name} {number})")
                _tell(engine, "kill", number)
            for number in self._listed(engine, "{{.ID}}", "--all"):
                _tell(engine, "rm", "--force", number)
        return len(self.left) > before

    def _listed(self, engine: str, wanted: str, *options: str) -> List[str]:
        words = [engine, "ps", *options, f"--filter=label={contract.RUN}={self._number}", f"--format={wanted}"]
        return processes.said(words, PATIENCE, stderr=subprocess.DEVNULL).splitlines()


def _tell(engine: str, *words: str) -> None:
    processes.said([engine, *words], PATIENCE, stderr=subprocess.DEVNULL)


def _engines() -> Set[str]:
    """Return the commands of such runtimes among those of the job's sides (see runtime.py)."""
    found = set()
    for path in Path().glob(contract.runtime_file("*")):
        try:
            command = json.loads(path.read_text())["command"]
        except (OSError, ValueError, KeyError):
            continue
        if Path(command).name in ENGINES:
            found.add(command)
    return found
