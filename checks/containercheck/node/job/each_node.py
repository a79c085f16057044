"""Run a program on each node of a Slurm job (standard library only, Python 3.6 or newer).

    python3 checks/containercheck each-node convert --load image.oci --runtime podman

runs ``convert`` once on every node, and ends with the status of the one that failed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import List

#: The programs for nodes, for Python to run.
PROGRAMS = str(Path(__file__).resolve().parents[1])


def launcher(first: int = 0) -> List[str]:
    """Return the words that start a command once on each of the job's nodes; empty if there is none, or no Slurm.

    It shares the processors with the job's own steps, and does not use MPI.

    :param first: number of the first node that counts; 1 leaves out the one where the job's script runs.
    """
    nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", 0)) - first
    if nodes < 1 or not shutil.which("srun"):
        return []
    words = ["srun", "--overlap", f"--relative={first}", f"--nodes={nodes}", f"--ntasks={nodes}"]
    return [*words, "--ntasks-per-node=1", "--mpi=none", "--mem=0"]


def main() -> None:
    """Run the program.

    :raises SystemExit: it failed on a node, or only this node can be reached.
    """
    words = launcher()
    if not words:
        sys.exit(
            "error: a program is to run on each node of a job, and this is no job of Slurm's with srun on the PATH"
        )
    sys.exit(subprocess.run([*words, sys.executable, PROGRAMS, *sys.argv[1:]], stdin=subprocess.DEVNULL).returncode)


if __name__ == "__main__":
    main()
