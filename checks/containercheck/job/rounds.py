"""Run rounds of all sides, in the job (standard library only, Python 3.6 or newer).

    python3 checks/containercheck/job rounds --seconds 60 --limit 300 --local-ranks 2

A round runs each side once (``baseline``, ``subject``: launch.py). The order is random, so that neither the first nor
the second has an advantage.

In a *duet* (``duet`` in ``facts.json``) both run at the same time, each on half of the cores. They run a second time
with the halves swapped. So a disturbance by the host affects both alike (Bulej and others, Duet Benchmarking, 2020).
The first half of each side is random.

Rounds go on until every metric has its verdict, further rounds would not decide, or the time is used up; there are at
least two. A disturbed round that lies far off the others is replaced. Each run has its own time limit: the check's, and
once bare's time is known, a multiple of that. A run that exceeds it is ended with all its processes, and the next run
follows. The second failure of the same kind ends the rounds. With one side there is one run.

Failures are then confirmed, and their likeliest causes tried (confirmation.py). The record of all runs is
``rounds.json`` (runner.py).
"""

import argparse
import contextlib
import json
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

from containercheck.job import contract, disturbance, launch, locks, processes, start_ranks, texts, this_node
from containercheck.job.build import file_trees
from containercheck.job.confirmation import Confirmation
from containercheck.job.explain import observations, rules
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts
from containercheck.job.runner import HalvesError, Runner
from containercheck.job.single_run import prepare
from containercheck.job.stats.boundaries import FEWEST
from containercheck.job.verdict import builds as builds_of
from containercheck.job.verdict.comparison import JobOutcome
from containercheck.job.verdict.findings import Findings

#: Longest wait for a quiet node before the first round, in seconds: on a busy node each case waits in vain.
PATIENCE = 4.0


class Rounds:
    """Run the rounds of one job.

    :param arguments: of the command line.
    :param facts: of the job.
    :param runner: runs the sides, and keeps the record.
    :ivar evaluation: of all rounds.
    :ivar seconds: duration of the rounds.
    """

    def __init__(self, arguments: argparse.Namespace, facts: Facts, runner: Runner) -> None:
        """Begin without rounds, or with those of an earlier job."""
        self._arguments, self._facts, self._runner = arguments, facts, runner
        self.evaluation = Evaluation(facts, Path())
        self._longest = 0.0
        self._disturbers: List[str] = []
        self._started = time.monotonic()
        self.seconds = 0.0

    def has_nothing_to_judge(self) -> bool:
        """Return whether none of the sides that are compared with bare could be prepared."""
        compared = [side.name for side in self._facts.sides if side.compared_with is not None]
        return bool(compared) and all(name in self.evaluation.lost for name in compared)

    def run(self) -> int:
        """Run rounds until :meth:`_over` gives a reason to stop; return the number of the last one.

        There is one round even if earlier rounds decide: only a run of this session shows versions and libraries.
        """
        for name, unprepared in self.evaluation.lost.items():
            print(f"the others are run without {name}: {unprepared}", flush=True)
        self._started = time.monotonic()
        number, why = 0, ""
        while not why:
            number += 1
            self._round(number)
            if number == 1:
                self.refuse_other_builds()
            why = self._over(number)
        self.seconds = time.monotonic() - self._started
        self._runner.record["why"] = why
        print(f"no more rounds: {why}", flush=True)
        return number

    def refuse_other_builds(self) -> None:
        """Discard rounds of an earlier job if a runtime or a program's build has changed, which only the job shows."""
        runs = self._runner.record["runs"]
        builds = builds_of.known(self._facts.identity, runs, Path())
        for name, old in self._facts.earlier_builds.items() if self._facts.earlier else ():
            if builds.get(name, old) != old:
                self._facts.earlier, self._facts.earlier_refused = [], f"{name} was {old}, and is {builds[name]}"
                self.evaluation = Evaluation(self._facts, Path())
                for run in runs:
                    self.evaluation.add(run)
                self.evaluation.end_round("; ".join(self._disturbers))
                return

    def _over(self, number: int) -> str:
        """Return the reason why there are no more rounds; empty to go on."""
        counted = number - len(self.evaluation.replaced)
        repeated = self.evaluation.repeated()
        if repeated:
            return repeated
        if self._arguments.rounds:
            return "as many as were asked for" if counted >= self._arguments.rounds else ""
        if not self.evaluation.more_would_tell():
            return "every metric has its verdict, or more would not decide"
        # A round that would not end in time is not started. But one round alone never gives a verdict.
        if self._is_late() and (len(self.evaluation.rounds) >= FEWEST or self._meets_limit()):
            return "the time is used up"
        return ""

    def _round(self, number: int) -> None:
        """Run each side, and record the disturbers of the round."""
        began, runner = time.monotonic(), self._runner
        sides = [side.name for side in self._facts.sides if side.name not in self.evaluation.lost]
        runner.coin.shuffle(sides)
        disturbers: List[str] = []
        for runs in runner.turns(number, sides):
            for run in runs:
                self._evaluate(run)
            disturbers += [runs[0]["disturbed_by"]] if runs[0]["disturbed_by"] else []
            if self.evaluation.repeated():
                self.evaluation.end_round()
                return
        self._longest = max(self._longest, time.monotonic() - began)
        self._end_round(number, disturbers if len(sides) > 1 else [])

    def _evaluate(self, run: Dict[str, Any]) -> None:
        known = dict(self.evaluation.lost)
        self.evaluation.add(run)
        for name in [name for name in self.evaluation.lost if name not in known]:
            print(f"the others are run on without {name}: {self.evaluation.lost[name]}", flush=True)

    def _end_round(self, number: int, disturbers: List[str]) -> None:
        """End a round; record the replaced rounds, and the disturbers if most rounds were disturbed."""
        record, evaluation = self._runner.record, self.evaluation
        replaced = set(evaluation.replaced)
        evaluation.end_round("; ".join(disturbers))
        for other in evaluation.replaced.keys() - replaced:
            names = contract.names([evaluation.replaced[other]])
            print(f"round {other} is replaced: disturbed by {names}, and far off the others", flush=True)
        self._disturbers += ["; ".join(disturbers)] if disturbers else []
        is_busy = 2 * len(self._disturbers) > number
        record.update(replaced=evaluation.replaced, busy=contract.names(self._disturbers) if is_busy else "")
        self._runner.write()

    def _is_late(self) -> bool:
        """Return whether another round would not end in the time for rounds."""
        return time.monotonic() - self._started + self._longest > self._arguments.seconds

    def _meets_limit(self) -> bool:
        """Return whether a round counts, and the job would be ended in another one."""
        return bool(self.evaluation.rounds) and self._runner.seconds + self._longest > self._facts.deadline


def conclude_start(record: Dict[str, Any], confirmation: Confirmation) -> None:
    """Put the causes into the record of a job in which no compared side could start."""
    causes, _ = _explained(confirmation)
    lines = [*confirmation.lines(causes), *confirmation.notes]
    record["verdict"] = texts.cleaned({"causes": causes, "explained": lines})


def _explained(confirmation: Confirmation) -> Tuple[List[Dict[str, Any]], str]:
    """Return the explanation of a failure; an error in it does not cost the verdict."""
    try:
        return confirmation.explain()
    except Exception as error:
        print(f"the failure is not explained: {error!r}", flush=True)
        return [], ""


def conclude(record: Dict[str, Any], facts: Facts, evaluation: Evaluation, confirmation: Confirmation) -> None:
    """Put the verdict on the rounds so far into the record of a job, as these entries.

    - ``problems``: lines about runs that are not valid, or prove a fault; with problems, there may be no rows.
    - ``rows``: see ``results.row.Row``. ``performance``: name, value and unit of ReFrame's logged values.
    - ``failures``, ``doubts``: lines about failed metrics, and about open ones.
    - ``causes``, ``where_time_went``, ``explained``: possible causes of a failure, and lines about it.
    - ``notes``: remarks that are not faults. ``measured``: metrics of each round, by side and name.
    - ``lost``: sides without which the others ran on, with the reason. ``seconds`` of the application.
    - ``provenance``: programs, libraries and images of the runs.

    :param record: kept by the runner; the current directory is the job's stage directory.
    """
    stage, runs = Path(), record["runs"]
    left = [side for side in facts.sides if side.name not in evaluation.lost]
    found = Findings(record, left, stage)
    faults, changes = found.changes()
    # A remedy is not one of the compared sides.
    names = {side.name for side in facts.sides}
    compared = {**record, "runs": [run for run in runs if run["side"] in names]}
    builds = builds_of.read(facts.identity, compared["runs"], stage)
    outcome = JobOutcome(facts.metrics, facts.sides, evaluation, facts.expected, builds, confirmation.confirmed)
    problems = evaluation.final_problems()
    if problems:
        # Ranks that wait for one another on a core may never end.
        problems += found.binding_problems()
    problems = problems or found.start_problems() or faults
    causes, line = _explained(confirmation)
    seen = {side.label: observations.read(stage, side.name) for side in left}
    notes: List[str] = [*evaluation.left_out, *evaluation.not_applicable, *found.disturbances(), *found.remarks()]
    notes += [*confirmation.notes, *changes, *rules.remarks(seen)]
    rows = outcome.rows() if not problems or evaluation.lost else []
    record["verdict"] = texts.cleaned(
        {
            "problems": problems,
            "rows": rows,
            "performance": [list(entry) for entry in outcome.performance()] if not problems else [],
            "failures": outcome.failures if not problems else [],
            "doubts": outcome.doubts if not problems else [],
            "causes": causes,
            "where_time_went": line,
            "explained": confirmation.lines(causes),
            "notes": notes,
            "measured": evaluation.rounds,
            "lost": evaluation.lost,
            "seconds": round(evaluation.seconds, 3),
            "provenance": builds_of.provenance(compared, builds, stage),
        }
    )


def parse(argv: List[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    amount = parser.add_mutually_exclusive_group(required=True)
    amount.add_argument("--rounds", type=int, help="number of rounds, for any verdict")
    amount.add_argument("--seconds", type=float, help="no third round begins that would end later")
    parser.add_argument("--limit", type=float, required=True, help="seconds that one run may take")
    parser.add_argument("--collect", action="append", default=[], help="a file of each run, to be kept with it")
    parser.add_argument(
        "--quiet", type=float, default=contract.QUIET, help="seconds without disturbance before the first round"
    )
    parser.add_argument("--keep-awake", action="store_true", help="the processors of a virtual machine")
    parser.add_argument("--alone", action="store_true", help="no other jobs run on this node: do not wait for any")
    parser.add_argument("--local-ranks", type=int, required=True, help="MPI processes expected on this node")
    parser.add_argument("--prepare", type=Path, help="script that makes the input, once, before the rounds")
    parser.add_argument("--prepare-limit", type=float, default=3600, help="seconds that this script may take")
    return parser.parse_args(argv)


def main() -> None:
    """Run the rounds with the machine's lock held."""
    arguments, began = parse(sys.argv[1:]), time.monotonic()
    disturbance.watch_other_nodes()
    processes.supervise()
    for directory in (contract.RUNS, contract.TRIALS):
        shutil.rmtree(directory, ignore_errors=True)
    file_trees.remove(Path(contract.RECORD))
    with contextlib.ExitStack() as held:
        try:
            if not arguments.alone:
                held.enter_context(locks.measuring())
            facts = Facts(json.loads(Path(contract.FACTS).read_text()))
            runner = Runner(arguments, facts, began)
        except (OSError, HalvesError) as error:
            sys.exit(f"error: {error}")
        # Only with the lock: it would disturb another measurement.
        if arguments.prepare:
            prepare(arguments.prepare, arguments.prepare_limit)
        not_started = start_ranks.start_all(facts)
        rounds = Rounds(arguments, facts, runner)
        confirmation = Confirmation(arguments, facts, runner, rounds, not_started)
        held.callback(confirmation.clean_up)
        if rounds.has_nothing_to_judge():
            Path(contract.UNPREPARED).touch()
            if not_started:
                confirmation.run(0)
                conclude_start(runner.record, confirmation)
                runner.write()
            sys.exit("\n".join(f"error: {lost}" for lost in rounds.evaluation.lost.values()))
        # The options of the runtimes are known now.
        launch.write_reproducer([(side.name, side.label) for side in facts.sides], "".join(runner.record["halves"][:1]))
        for line in rounds.evaluation.left_out:
            print(line, flush=True)
        if len(facts.sides) > 1 and arguments.quiet:
            disturbance.settle(arguments.quiet, PATIENCE)
        try:
            with this_node.kept_awake(arguments.keep_awake and len(facts.sides) > 1) as runner.record["kept_awake"]:
                number = rounds.run()
                # If the job is killed while it confirms, the verdict on the first rounds stays.
                conclude(runner.record, facts, rounds.evaluation, confirmation)
                runner.record["judged"] = True
                runner.write()
                confirmation.run(number)
            runner.record["complete"] = True
        except processes.Terminated as error:
            runner.record["ended"] = signal.Signals(int(error.code or 0) - 128).name
            raise
        finally:
            conclude(runner.record, facts, rounds.evaluation, confirmation)
            runner.write()
