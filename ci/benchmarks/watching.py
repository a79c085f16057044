"""What it costs to look at the processes of a run while they compute: the same run with and without, in rounds.

    ci/benchmark watching [--rounds N] [--seconds S]

A process on each processor of this machine computes, so that whatever looks takes its time from them: the worst case.
Prints the seconds of what is recorded once before the rounds; the processor time that the watch takes, in percent of
the run's, which noise hardly changes; and the ratio of the runs' seconds, with what these rounds do not exclude.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from unittest import mock

from containercheck.node.job import observation, processes, run_observation, single_run
from containercheck.node.stats.pairs import INCONCLUSIVE, Pairs
from reframe.utility import osext

#: Largest cost that is acceptable, in percent.
MOST = 1.0
PROCESSORS = len(os.sched_getaffinity(0))
#: Counts, on all processors at the same time.
SCRIPT = """
for number in $(seq {processors}); do
    python3 -c 'for number in range({count}): pass' &
done
wait
"""
#: Steps of the loop that are tried first, to see how long they take.
TRIED = 5_000_000


class Blind:
    """Stands in for the watch of a run, and looks at nothing."""

    def __init__(self, finished: object) -> None:
        """Take what the watch takes."""

    def start(self) -> None:
        """Begin nothing."""

    def result(self) -> dict[str, float]:
        """Return nothing."""
        return {}


def main() -> None:
    """Measure, and print what it costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="most rounds (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a run (default: %(default)s)")
    arguments = parser.parse_args()
    processes.adopt_orphans()
    with tempfile.TemporaryDirectory() as directory, osext.change_dir(directory):
        took = _once()
        print(f"once before the rounds: {took:.2f} s for what one side sees, without its launcher and container")
        pairs = Pairs("lower", "ratio", -math.inf, MOST, 1)
        count = max(TRIED, int(TRIED * arguments.seconds / _run("tried", TRIED, True)))
        own: dict[bool, list[float]] = {False: [], True: []}
        whole: list[float] = []
        for number in range(1, arguments.rounds + 1):
            seconds = {}
            for watched in random.sample([False, True], 2):
                before = resource.getrusage(resource.RUSAGE_SELF)
                seconds[watched] = _run(f"{number}-{watched}", count, watched)
                after = resource.getrusage(resource.RUSAGE_SELF)
                own[watched].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            pairs.add(seconds[False], seconds[True])
            whole.append(PROCESSORS * seconds[False])
            print(f"round {number}: {seconds[False]:.3f} s without, {seconds[True]:.3f} s with", flush=True)
            if pairs.verdict != INCONCLUSIVE:
                break
        more = statistics.median(own[True]) - statistics.median(own[False])
        all_ = statistics.median(whole)
        print(f"the watch takes {more:.3f} s of processor time, {100 * more / all_:.2f} % of the run's {all_:.1f} s")
        low, high = pairs.interval
        interval = f"{pairs.estimate:+.2f} % ({low:+.2f} to {high:+.2f})"
        print(f"watched: {interval} in {pairs.rounds} rounds; at most {MOST:g} % is accepted: {pairs.verdict}")


def _once() -> float:
    """Return the seconds of the script that prints what a rank sees."""
    Path("observe.sh").write_text(observation.SCRIPT)
    Path("gathering").mkdir()
    Path("gathering", "expected").write_text("1\n")
    began = time.monotonic()
    subprocess.run(["sh", "./observe.sh", "./gathering"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def _run(name: str, count: int, watched: bool) -> float:
    """Return the seconds of a run.

    :raises RuntimeError: it failed.
    """
    Path("run.sh").write_text(SCRIPT.format(processors=PROCESSORS, count=count))
    blind = contextlib.nullcontext() if watched else mock.patch.object(run_observation, "Observer", Blind)
    with blind:
        run = single_run.run_once(Path("run.sh"), Path("rounds", name), 600.0, [], 0)
    if run["status"] != 0:
        raise RuntimeError(f"a run ended with status {run['status']}: see {run['output']}")
    return float(run["seconds"])


if __name__ == "__main__":
    main()
