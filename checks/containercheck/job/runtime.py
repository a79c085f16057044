"""What the container runtime of this node needs, asked where it will run (standard library only; in the job).

    python3 checks/containercheck runtime --command apptainer --ranks 4 subject

writes ``subject.options``, which the side's commands take in, and ``subject.runtime.json`` with the runtime's version.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List

from containercheck import contract


def options(command: str, ranks: int) -> List[str]:
    """Return the options for running an image as one of ``ranks`` ranks of MPI on this node.

    ``--sharens`` puts the ranks of a node into one user namespace: in separate ones they cannot reach each other's
    memory, and Open MPI and MPICH lose their single-copy transfers. Apptainer has it since 1.3. Only MPI's ranks wait
    for each other, in MPI_Init: where one ends before another has joined it, Apptainer fails, one time in four
    for a program of milliseconds ("could not open proc directory").
    """
    if Path(command).name not in ("apptainer", "singularity"):
        return []
    chosen = []
    if _is_crippled_root():
        chosen.append("--userns")
    if ranks > 1 and "--sharens" in _said([command, "exec", "--help"]):
        chosen.append("--sharens")
    return chosen


def version(command: str) -> str:
    """Return what the runtime says of its version, or an empty text."""
    return _said([command, "--version"]).strip()


def _said(command: List[str]) -> str:
    try:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, universal_newlines=True, timeout=60
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _is_crippled_root() -> bool:
    """Root without all capabilities (in a sandbox, say) can run images in a user namespace only."""
    if os.geteuid() != 0:
        return False
    status = Path("/proc/self/status").read_text().splitlines()
    effective = next(line for line in status if line.startswith("CapEff")).split()[1]
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    return int(effective, 16) != (1 << (last + 1)) - 1


def main() -> None:
    """Write both files.

    :raises SystemExit: the runtime is not on this node.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", required=True, help="the runtime, as it is typed")
    parser.add_argument("--ranks", type=int, required=True, help="ranks of MPI on a node; 0 without MPI")
    parser.add_argument("side")
    arguments = parser.parse_args()
    if shutil.which(arguments.command) is None:
        sys.exit(f"error: {arguments.command} is not on the PATH of {os.uname().nodename}")
    words = options(arguments.command, arguments.ranks)
    Path(contract.options_file(arguments.side)).write_text(" ".join(words) + "\n")
    known = {"command": arguments.command, "version": version(arguments.command)}
    Path(contract.runtime_file(arguments.side)).write_text(json.dumps(known))


if __name__ == "__main__":
    main()
