"""Run rounds of all sides, in the job (standard library only, Python 3.6 or newer).

    python3 checks/containercheck rounds --seconds 60 --limit 300 --local-ranks 2

A round runs the script of each side once (``baseline.sh``, ``subject.sh``), in random order, so that neither the first
nor the second has an advantage, whatever the machine does. In a *duet* (``duet`` in ``facts.json``) both run at the
same time, each on half of the cores, and a second time with the halves swapped, so that disturbance by the host affects
both alike (Bulej and others, Duet Benchmarking, 2020); the first half of each is random. Rounds go on until every
figure has its verdict, further rounds would not decide, or the time is used up; a round that was disturbed is replaced.
Each run has its own time limit: the check's and, once bare's time is known, a multiple of that. A run that exceeds it
is ended with all its processes, and the next run follows; the second failure of the same kind ends the rounds. With one
side there is one run.

Runs print into ``rounds/<round>-<side>/``, with swapped halves into ``...-swapped/``. ``rounds.json`` is their record:
``why`` there were no more, ``"complete": true`` if the runner came to its end, and ``ended`` with the name of the
signal if it did not. It is evaluated with ``facts.json`` after each run, and finally in ReFrame's process, by the same
code.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from containercheck.node import contract, locks
from containercheck.node.job import awake, belonging, disturbance, halves, node_state, node_watch, processes, reproducer
from containercheck.node.job.halves import Half
from containercheck.node.job.prepare_script import prepare
from containercheck.node.job.single_run import describe, remove, run_once
from containercheck.node.outputs.evaluation import Evaluation, Facts

#: Most rounds that are replaced, in all and in a row. Beyond that the machine is busy, and disturbed rounds count:
#: what disturbs every round disturbs both sides. It costs certainty, and favours none.
MOST_REPLACED, MOST_IN_A_ROW = 10, 3
#: Longest run, as a multiple of its baseline's time; and seconds that every run may take.
SLOWEST, LEAST_LIMIT = 20.0, 60.0
#: Part by which a remedy's run may take longer than the one before: one that has no time for that is not begun.
SPARE = 0.2
#: Longest wait before the first round for a quiet node, in seconds.
PATIENCE = 12.0


class Rounds:
    """The rounds of one job, and the record of them.

    :param arguments: of the command line.
    :param began: start of the job.
    :ivar sides: names of the sides.
    :ivar labels: name and label of each.
    :ivar left_out: why rounds of an earlier job do not count.
    """

    def __init__(self, arguments: argparse.Namespace, began: float) -> None:
        """Write a record without rounds."""
        self._arguments, self._began = arguments, began
        self._facts = Facts(json.loads(Path(contract.FACTS).read_text()))
        self._evaluation = Evaluation(self._facts, Path())
        self.sides = [side.name for side in self._facts.sides]
        self.labels = [(side.name, side.label) for side in self._facts.sides]
        self.left_out = self._evaluation.left_out
        self._baselines = {side.name: side.compared_with for side in self._facts.sides}
        self._took: Dict[str, float] = {}
        self._remedies = [(remedy.name, remedy.of) for remedy in self._facts.remedies]
        # Seconds of the longest round without remedies, of all that was run for the sake of remedies only, and of
        # their runs in a round that has not ended.
        self._longest = self._of_remedies = self._in_round = 0.0
        self._in_a_row = 0
        # The processors of both halves; empty where the sides run one after the other.
        self._halves = halves.halves(self._facts.duet["cores"], os.sched_getaffinity(0)) if self._facts.duet else ()
        self._started = 0.0
        seed = int.from_bytes(os.urandom(4), "big")
        self._coin = random.Random(seed)
        self.record: Dict[str, Any] = {
            "host": os.uname().nodename,
            "machine": node_state.facts(),
            "seed": seed,
            "complete": False,
            "ended": None,
            "kept_awake": False,
            "halves": [halves.listed(half) for half in self._halves],
            "why": "",
            "took": 0.0,
            "replaced": {},
            "busy": "",
            "runs": [],
        }
        self.write()

    def write(self) -> None:
        """Write ``rounds.json`` atomically, so that no reader sees half of it."""
        self.record["took"] = round(time.monotonic() - self._began, 3)
        temporary = Path(contract.RECORD + ".tmp")
        temporary.write_text(json.dumps(self.record, indent=1))
        temporary.replace(contract.RECORD)

    def has_nothing_to_judge(self) -> bool:
        """Tell whether all that would be compared with bare could not be prepared."""
        compared = [name for name, baseline in self._baselines.items() if baseline is not None]
        return bool(compared) and all(name in self._evaluation.lost for name in compared)

    def run(self) -> None:
        """Run rounds until :meth:`_over` gives a reason to stop."""
        if self._facts.duet:
            halves.make_directories(self.sides, self._facts.duet["stagedir"])
        for name, unprepared in self._evaluation.lost.items():
            print(f"the others are run without {name}: {unprepared}", flush=True)
        self._started = time.monotonic()
        number = 0
        while True:
            why = self._over(number)
            if why:
                break
            number += 1
            self._round(number)
        self._try_ends(number)
        self.record["why"] = why
        print(f"no more rounds: {why}", flush=True)

    def _over(self, number: int) -> Optional[str]:
        """Return why there are no more rounds; None if there are."""
        counted = number - self._evaluation.replaced
        if number == 0:
            # Even if earlier rounds decide it: versions, libraries and so on are known only from a run of this session.
            return None
        if self._evaluation.repeated():
            return self._evaluation.repeated()
        if self._arguments.rounds:
            return "as many as were asked for" if counted >= self._arguments.rounds else None
        if not self._evaluation.more_would_tell() and not self._experiments_go_on(counted):
            return "every figure has its verdict, or more would not tell"
        # A round that would not end in time is not started, unless no other counts.
        if self._evaluation.rounds and self._is_late():
            return "the time is used up"
        return None

    def _round(self, number: int) -> None:
        """Run each side, and replace the round if something else disturbed it."""
        began = time.monotonic()
        sides = [side for side in self.sides if side not in self._evaluation.lost] + self._remedies_of_round()
        self._coin.shuffle(sides)
        disturbers = []
        of_remedies, is_decided = 0.0, not self._evaluation.more_would_tell()
        turns = [sides, sides[::-1]] if self._halves else [[side] for side in sides]
        for turn in turns:
            if turn[0] in self._evaluation.lost or self._has_no_time(turn[0]):
                continue
            runs = self._run_both(number, turn, turn is not sides) if self._halves else [self._run(number, *turn)]
            disturbers += [runs[0]["disturbed_by"]] if runs[0]["disturbed_by"] else []
            of_remedies += runs[0]["seconds"] if runs[0]["side"] not in self.sides else 0.0
            self._in_round = of_remedies
            if self._evaluation.repeated():
                # The record is evaluated in the same way afterwards.
                self._evaluation.end_round(False)
                return
            if self._halves and any(map(halves.has_failed, runs)):
                # The round cannot have a pair any more.
                break
        seconds = time.monotonic() - began
        self._of_remedies += seconds if is_decided else of_remedies
        self._in_round = 0.0
        self._longest = max(self._longest, seconds - of_remedies)
        if len(sides) > 1 and disturbers:
            self._replace(number, disturbers)
        else:
            self._in_a_row = 0
        self._evaluation.end_round(str(number) in self.record["replaced"])

    def _try_ends(self, number: int) -> None:
        """Run the remedies for a side whose runs end or hang some times more: a run ends well by chance too."""
        experiments = self._evaluation.experiments
        for name, _ in self._remedies:
            while 0 < experiments.ended_well[name] < self._facts.remedy_runs:
                if name in experiments.failed or self._has_no_time(name):
                    break
                number += 1
                self._of_remedies += self._run(number, name)["seconds"]
                self._evaluation.end_round(False)

    def _experiments_go_on(self, counted: int) -> bool:
        """Tell whether another round may decide a remedy, and has time for one."""
        return self._evaluation.experiments.more_would_tell(counted) and bool(self._remedies_of_round())

    def _remedies_of_round(self) -> List[str]:
        """Return the remedies that run in the next round: those for which there is time left beside the verdict's."""
        if self._halves:
            return []
        left, chosen = self._left_for_remedies(), []
        for name, _ in self._remedies:
            needed = self._needed(name)
            if name not in self._evaluation.experiments.failed and needed <= left:
                chosen.append(name)
                left -= needed
        return chosen

    def _needed(self, remedy: str) -> float:
        """Return the seconds without which a run of a remedy is not begun."""
        of = dict(self._remedies)[remedy]
        return (1 + SPARE) * (self._took.get(remedy) or self._took.get(of) or self._facts.remedy_seconds)

    def _has_no_time(self, side: str) -> bool:
        """Tell whether a side is a remedy for which others of the same round left too little."""
        return side not in self.sides and self._needed(side) > self._left_for_remedies()

    def _left_for_remedies(self) -> float:
        """Return the seconds that may still be spent on remedies: they are never more than the job's budget."""
        left = self._facts.remedy_budget - self._of_remedies - self._in_round
        # A round after the verdict is for them as a whole.
        return left if self._evaluation.more_would_tell() else left - self._longest

    def _replace(self, number: int, disturbers: List[str]) -> None:
        """Leave a disturbed round out, if another may replace it."""
        if self._may_replace():
            self._in_a_row += 1
            self.record["replaced"][str(number)] = "; ".join(disturbers)
            print(f"round {number} is replaced: disturbed by {contract.names(disturbers)}", flush=True)
        else:
            self.record["busy"] = contract.names(disturbers)
            print(f"the machine is busy: {contract.names(disturbers)}; round {number} counts", flush=True)
        self.write()

    def _may_replace(self) -> bool:
        """Tell whether another round may replace a disturbed one: not if too many were, or no round would count."""
        if self._arguments.rounds == 1:
            # A single round shows that a case runs, and gives no verdict: a better one is not worth its time.
            return False
        if self._evaluation.replaced >= MOST_REPLACED or self._in_a_row >= MOST_IN_A_ROW:
            return False
        return bool(self._arguments.rounds or self._evaluation.rounds) or not self._is_late()

    def _is_late(self) -> bool:
        """Tell whether another round would not end in time."""
        seconds = time.monotonic() - self._started - self._of_remedies
        return seconds + self._longest > self._arguments.seconds

    def _run(self, number: int, side: str) -> Dict[str, Any]:
        arguments = self._arguments
        output = Path(contract.RUNS, f"{number:02d}-{side}")
        script = Path(contract.script_file(side))
        run = run_once(script, output, self._limit(side), arguments.collect, arguments.local_ranks)
        self._add(run, number, side)
        return run

    def _run_both(self, number: int, sides: List[str], swapped: bool) -> List[Dict[str, Any]]:
        """Run both sides at the same time, the first on the first half."""
        places = [Path(contract.RUNS, f"{number:02d}-{side}" + "-swapped" * swapped) for side in sides]
        both = [Half(side, half, place, self._limit(side)) for side, half, place in zip(sides, self._halves, places)]
        runs = halves.run_both(both, self._arguments.collect, self._arguments.local_ranks)
        for run, side in zip(runs, sides):
            self._add(run, number, side)
        return runs

    def _add(self, run: Dict[str, Any], number: int, side: str) -> None:
        """Add a run to the record, and evaluate it."""
        run.update({"round": number, "side": side})
        # A failed run may have ended at once, and its time is no measure for other runs.
        if run["status"] == 0:
            self._took[side] = run["seconds"]
        self.record["runs"].append(run)
        self.write()
        where = " on processors {}".format(run["processors"]) if self._halves else ""
        print(f"round {number} {side}{where}: {describe(run)}", flush=True)
        known = dict(self._evaluation.lost)
        self._evaluation.add(run)
        for name in [name for name in self._evaluation.lost if name not in known]:
            print(f"the others are run on without {name}: {self._evaluation.lost[name]}", flush=True)

    def _limit(self, side: str) -> float:
        """Return the seconds that a run of this side may take; a remedy's no more than are left for remedies."""
        mended = dict(self._remedies).get(side, side)
        baseline = self._took.get(self._baselines[mended])
        limit = self._arguments.limit
        if baseline is not None:
            limit = min(limit, max(LEAST_LIMIT, SLOWEST * baseline))
        return limit if mended == side else max(0.0, min(limit, self._left_for_remedies()))


def parse(argv: List[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    amount = parser.add_mutually_exclusive_group(required=True)
    amount.add_argument("--rounds", type=int, help="so many, whatever the verdict")
    amount.add_argument("--seconds", type=float, help="no round begins that would end later")
    parser.add_argument("--limit", type=float, required=True, help="seconds that one run may take")
    parser.add_argument(
        "--collect", action="append", default=[], help="a file that each run writes, to be kept with it"
    )
    parser.add_argument("--quiet", type=float, default=2.0, help="seconds without disturbance before the first round")
    parser.add_argument("--keep-awake", action="store_true", help="the processors of a virtual machine")
    parser.add_argument("--alone", action="store_true", help="no other jobs run on this node: do not wait for any")
    parser.add_argument("--local-ranks", type=int, required=True, help="MPI processes expected on this node")
    parser.add_argument("--prepare", type=Path, help="script that makes the input, once, before the rounds")
    parser.add_argument("--prepare-limit", type=float, default=3600, help="seconds that this script may take")
    return parser.parse_args(argv)


def main() -> None:
    """Run the rounds with the machine's lock held."""
    arguments, began = parse(sys.argv[1:]), time.monotonic()
    node_watch.start()
    processes.supervise(belonging.kill_all)
    shutil.rmtree(contract.RUNS, ignore_errors=True)
    remove(Path(contract.RECORD))
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(contextlib.ExitStack() if arguments.alone else locks.measuring())
        except OSError as error:
            sys.exit(f"error: {error}")
        # Only with the lock: it would disturb another measurement.
        if arguments.prepare:
            prepare(arguments.prepare, arguments.prepare_limit)
        try:
            rounds = Rounds(arguments, began)
        except halves.HalvesError as error:
            sys.exit(f"error: {error}")
        if rounds.has_nothing_to_judge():
            Path(contract.UNPREPARED).touch()
            sys.exit("error: none of what is compared can be prepared: see what the job printed")
        # The options of the runtimes are known now.
        reproducer.write(rounds.labels, Path(contract.JOB), Path.cwd(), "".join(rounds.record["halves"][:1]))
        for line in rounds.left_out:
            print(line, flush=True)
        if len(rounds.sides) > 1 and arguments.quiet:
            disturbance.settle(arguments.quiet, PATIENCE)
        try:
            with awake.kept(arguments.keep_awake and len(rounds.sides) > 1) as rounds.record["kept_awake"]:
                rounds.run()
            rounds.record["complete"] = True
        except processes.Terminated as error:
            rounds.record["ended"] = signal.Signals(int(error.code or 0) - 128).name
            raise
        finally:
            rounds.write()
