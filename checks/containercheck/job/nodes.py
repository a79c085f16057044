"""Who disturbs a run on the job's other nodes: a watch on each of them (standard library only, Python 3.6 or newer).

    python3 checks/containercheck watch

writes a line a second into ``watch/<node>.lines``, while the job lasts: when, and who took how much of the node since
the last line. Slurm starts it on every node of a job, beside the job's own steps. Under other schedulers only the first
node, on which the runner is, is looked at.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import List

from containercheck import contract
from containercheck.job import disturbance

#: Seconds between two looks. One look takes milliseconds.
INTERVAL = 1.0


def start() -> None:
    """Start the watch on all nodes of a Slurm job that has several. Where it does not start, nothing is seen there."""
    if int(os.environ.get("SLURM_JOB_NUM_NODES", 1)) < 2 or not shutil.which("srun"):
        return
    shutil.rmtree(contract.WATCH, ignore_errors=True)
    Path(contract.WATCH).mkdir()
    # It shares the processors with the job's own steps, and has nothing to do with MPI.
    words = ["srun", "--overlap", "--ntasks-per-node=1", "--ntasks=" + os.environ["SLURM_JOB_NUM_NODES"], "--mpi=none"]
    room = str(Path(__file__).resolve().parents[1])
    with Path(contract.WATCH, "err").open("wb") as err:
        subprocess.Popen(
            [*words, "--mem=0", sys.executable, room, "watch"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=err,
        )


def disturbers(began: float, ended: float) -> List[str]:
    """Return who disturbed the other nodes between two moments, with the node's name.

    :param began, ended: in seconds since 1970: the nodes' clocks are taken to agree to a second.
    """
    found = []
    for path in sorted(Path(contract.WATCH).glob("*.lines")):
        if path.stem == os.uname().nodename:
            continue
        capacity = 0.0
        taken = {}  # type: Dict[str, float]
        # What follows the last end of a line is being written.
        for line in path.read_text().split("\n")[:-1]:
            seen = json.loads(line)
            # A line is about the second before it.
            if began + INTERVAL <= seen["when"] <= ended:
                capacity += seen["capacity"]
                for who, ticks in seen["taken"].items():
                    taken[who] = taken.get(who, 0.0) + ticks
        said = disturbance.verdict(taken, capacity, f" on {path.stem}")
        found += [said] if said else []
    return found


def main() -> None:
    """Look, and write down what there was, until the job ends."""
    path = Path(contract.WATCH, os.uname().nodename + ".lines")
    before = disturbance.look()
    with path.open("w") as stream:
        while True:
            time.sleep(INTERVAL)
            after = disturbance.look()
            taken = disturbance.taken_between(before, after, set())
            line = {"when": time.time(), "capacity": disturbance.capacity(before, after), "taken": taken}
            stream.write(json.dumps(line) + "\n")
            stream.flush()
            before = after
