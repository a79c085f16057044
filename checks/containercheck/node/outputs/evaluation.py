"""Turn runs into figures, answers, problems and verdicts, in the job after every run.

Standard library only, Python 3.6 or newer.
"""

import collections
import copy
import json
import math
import types
from pathlib import Path
from typing import Any, Collection, Dict, List, Optional, Sequence, Tuple

from containercheck.node import contract, texts
from containercheck.node.outputs import problems, reading, reasons, run_failures
from containercheck.node.outputs.experiments import Experiments, Remedy
from containercheck.node.outputs.problems import DIFFER, HANG, OUTPUT, RANKS, STATUS, UNREADABLE, WRONG, Problem
from containercheck.node.outputs.reading import UnreadableError
from containercheck.node.stats import together
from containercheck.node.stats.prior import Prior
from containercheck.node.stats.scale import middle
from containercheck.node.stats.sequential import Pairs

#: Number of problems of one kind that ends a check: node-hours are not spent on proving it a third time.
ENOUGH = 2
#: Rounds where processors are emulated: nothing is judged there, and in two each side mostly runs first once.
WHERE_EMULATED = 2


#: What is not said of a side.
_SIDE: Dict[str, Any] = {
    "accepted": {},
    "may_fail": False,
    "contained": False,
    "host_mpi": False,
    "image": "",
    "trees": (),
    "mpi": False,
    "preloads_mpi": False,
    "replaces": False,
    "shares_cores": False,
}


class Facts:
    """The facts by which runs are read, as in ``facts.json``.

    :ivar figures: declared figures, in their order; ``accepted`` is the range in which the overhead must lie, and
        ``expected`` the overhead that a reference expects in it, None where it expects none.
    :ivar priors: by figure, the known spread and its source.
    :ivar answers: declared answers.
    :ivar rank_count: the answer with the number of ranks of a run; None for a program without MPI.
    :ivar ranks: the number that it must be.
    :ivar sides: ``name``, ``label`` and ``compared_with`` of each side; ``compared_with`` names the side that it is
        compared with, None for one that is only a measure. ``accepted`` are ranges for this side alone, by figure;
        ``may_fail`` tells whether the others are run on without it. ``contained``, ``host_mpi``, ``image``, ``trees``,
        ``mpi``, ``preloads_mpi``, ``replaces`` and ``shares_cores`` say what it runs (sides/sides.py).
    :ivar cores: processors that a side has on a node.
    :ivar identity: what the program prints about its own build.
    :ivar expected: figures whose overhead has a reference.
    :ivar emulated: whether the nodes' processors are emulated, so that no overhead says anything.
    :ivar duet: ``cores`` of each side where both run at the same time, and the ``stagedir`` as their commands name it;
        None where they take turns.
    :ivar remedies: most changes to a container that are tried where it failed.
    :ivar deadline: seconds of the job after which no further run of a confirmation is begun.
    :ivar earlier: the figures of rounds of an earlier job, which count: of each round side, figure and value.
    :ivar earlier_runtimes: ``command`` and ``version`` of the runtimes that they were measured with, by side.
    :ivar earlier_builds: the builds of the programs that they were measured with (node/verdict/identities.py).
    :ivar earlier_refused: why rounds of an earlier job do not count; empty where they do, or there are none.
    """

    def __init__(self, content: Dict[str, Any]) -> None:
        """Take the facts from the object in the JSON file.

        :raises KeyError: one is missing.
        """
        defaults: Dict[str, Any] = {"expected": None, "sides": ()}
        self.figures = [types.SimpleNamespace(**{**defaults, **figure}) for figure in content["figures"]]
        self.priors: Dict[str, Tuple[float, str]] = content.get("priors", {})
        self.answers = [types.SimpleNamespace(**answer) for answer in content["answers"]]
        self.rank_count = types.SimpleNamespace(**content["rank_count"]) if content["rank_count"] else None
        self.ranks: int = content["ranks"]
        self.sides = [types.SimpleNamespace(**{**_SIDE, **side}) for side in content["sides"]]
        self.emulated: bool = content["emulated"]
        self.cores: int = content.get("cores", 1)
        self.identity = [types.SimpleNamespace(**fact) for fact in content.get("identity", ())]
        self.expected: List[str] = content.get("with_reference", [])
        self.duet: Optional[Dict[str, Any]] = content.get("duet")
        self.remedies: int = content.get("remedies", 0)
        self.deadline: float = content.get("deadline", math.inf)
        self.earlier: List[Dict[str, Dict[str, float]]] = content["earlier"]
        self.earlier_runtimes: Dict[str, Dict[str, str]] = content.get("earlier_runtimes", {})
        self.earlier_builds: Dict[str, str] = content.get("earlier_builds", {})
        self.earlier_refused: str = content.get("earlier_refused", "")

    def figures_of(self, side: str) -> List[Any]:
        """Return the figures that a side has."""
        return [figure for figure in self.figures if not figure.sides or side in figure.sides]

    def of_sides(self, names: Collection[str]) -> "Facts":
        """Return the facts for some of the sides only, without rounds of an earlier job."""
        facts = copy.copy(self)
        facts.sides = [side for side in self.sides if side.name in names]
        facts.earlier, facts.earlier_runtimes, facts.earlier_refused = [], {}, ""
        return facts

    def refuse_earlier(self, reason: str) -> None:
        """Have rounds of an earlier job not count."""
        self.earlier, self.earlier_refused = [], reason

    def label(self, name: str) -> str:
        """Return the label of the side with this name."""
        return next((side.label for side in self.sides if side.name == name), name)


class Evaluation:
    """All rounds of a job so far: the problems of their runs, their figures, and the verdict on each.

    :param facts: by which runs are read.
    :param stagedir: directory with the runs' outputs.
    :param remedies: sides that run in the same rounds, and change no verdict.
    :param only: the pairs of side and figure that are judged; None for all.
    :ivar rounds: of each complete round side, figure and value; earlier ones first, replaced ones left out.
    :ivar replaced: how many rounds were replaced because something else disturbed them.
    :ivar pairs: by side and figure, the pairs of all rounds with their verdict.
    :ivar emulated: whether nothing is judged, because the nodes' processors are emulated.
    :ivar duet: whether both sides run at the same time, on each half of the node once a round.
    :ivar left_out: why rounds of an earlier job do not count, in a line; empty where they do, or there are none.
    :ivar lost: sides that the others are run on without, and why, by their name.
    :ivar experiments: the remedies that run in the same rounds, and change no verdict.
    """

    def __init__(
        self,
        facts: Facts,
        stagedir: Path,
        remedies: Sequence[Remedy] = (),
        only: Optional[Collection[Tuple[str, str]]] = None,
    ) -> None:
        """No runs yet."""
        self.experiments = Experiments(facts, remedies)
        self._only = only
        self._facts, self._stagedir = facts, stagedir
        self.emulated, self.duet = facts.emulated, facts.duet is not None
        self._runs_a_round = 2 if self.duet else 1
        self.problems: List[Problem] = []
        self.seconds = 0.0
        self.rounds: List[Dict[str, Dict[str, float]]] = []
        self.replaced = self._ended = 0
        self.pairs: Dict[Tuple[str, str], Pairs] = collections.OrderedDict()
        self._round: Dict[str, List[Dict[str, float]]] = {}
        self._answers: Dict[str, Dict[str, Any]] = {}
        self._runs: Dict[str, int] = collections.Counter()
        self._leftovers: Dict[str, List[str]] = {}
        self._unprepared = self._read_unprepared()
        self.lost = dict(self._unprepared)
        refused = facts.earlier_refused or other_runtime(facts.earlier_runtimes, stagedir)
        self.left_out = [f"earlier rounds do not count, and all begin anew: {refused}"] if refused else []
        for values in [] if refused else facts.earlier:
            # In one that lacks a side, that side had been lost.
            if all(side.name in values for side in self._left()):
                self.count(values)

    @property
    def compares_answers(self) -> bool:
        """Whether the sides have answers that must agree, or that each must have."""
        return any(answer.side is None for answer in self._facts.answers)

    def end_round(self, replaced: bool) -> None:
        """Count the round whose runs were added last, unless it is replaced or one of its runs is not valid."""
        self._ended += 1
        values = None
        if replaced:
            self.replaced += 1
        elif all(len(self._round.get(side.name, ())) == self._runs_a_round for side in self._left()):
            values = {side.name: self._middle(self._round[side.name]) for side in self._left()}
            self.count(values)
        compared = {side.name: side.compared_with for side in self._facts.sides}
        self.experiments.end_round(values, self._answers, compared)
        self._round, self._answers = {}, {}

    def _middle(self, runs: List[Dict[str, float]]) -> Dict[str, float]:
        """Return a side's figures of a round, of those that each of its runs has."""
        figures = [figure for figure in self._facts.figures if all(figure.name in values for values in runs)]
        return {figure.name: middle([values[figure.name] for values in runs], figure.compare) for figure in figures}

    def count(self, values: Dict[str, Dict[str, float]]) -> None:
        """Add the pairs of a round; the first round determines how many figures are judged together.

        :param values: of each side that ran, by figure.
        """
        if not self.rounds:
            self._begin_pairs(values)
        self.rounds.append(values)
        for (name, figure), pairs in self.pairs.items():
            baseline = next(side.compared_with for side in self._facts.sides if side.name == name)
            if figure in values.get(name, ()) and figure in values.get(baseline, ()):
                pairs.add(values[baseline][figure], values[name][figure])
        together.step_down(self.pairs.values())

    def _begin_pairs(self, values: Dict[str, Dict[str, float]]) -> None:
        left = self._left()
        compared = [side for side in left if side.compared_with is not None]
        sides = {side.name: side for side in left}
        # One that does not apply to a run of one side is reported as missing, and compared in none.
        complete = [
            figure
            for figure in self._facts.figures
            if all(figure.name in values[side.name] for side in left if self._has(side, figure))
        ]
        both = [
            (side, figure)
            for side in compared
            for figure in complete
            if self._has(side, figure) and self._has(sides[side.compared_with], figure)
            if self._only is None or (side.name, figure.name) in self._only
        ]
        for side, figure in both:
            low, high = side.accepted.get(figure.name, figure.accepted)
            # A reference expects an overhead against the host, and none against another container.
            succeeds = figure.name in side.accepted
            expected = None if succeeds else figure.expected
            prior = Prior(*self._facts.priors[figure.name]) if figure.name in self._facts.priors else None
            pairs = Pairs(figure.better, figure.compare, low, high, len(both), expected, prior, succeeds)
            self.pairs[side.name, figure.name] = pairs

    @staticmethod
    def _has(side: Any, figure: Any) -> bool:
        return not figure.sides or side.name in figure.sides

    @property
    def round_seconds(self) -> float:
        """The mean duration of a round, in seconds."""
        return self.seconds / max(1, self._ended)

    def more_would_tell(self) -> bool:
        """Tell whether another round may give a verdict: a figure is open, and its verdict within reach."""
        if not self.rounds:
            return True
        if self.emulated:
            return len(self.rounds) < WHERE_EMULATED
        return together.more_would_tell(list(self.pairs.values()), len(self.rounds))

    def add(self, run: Dict[str, Any]) -> None:
        """Read one run of the record."""
        side = run["side"]
        if self.experiments.is_remedy(side):
            self.experiments.add(run, self._stagedir / run["output"])
            return
        # Two runs at the same time take the time of one.
        self.seconds += run["seconds"] / self._runs_a_round
        if run.get("ended_with"):
            # It was ended because the other side's run failed.
            return
        output = self._stagedir / run["output"]
        if run["leftover_processes"]:
            self._leftovers.setdefault(side, []).extend(run["leftover_processes"])
        self._runs[side] += 1
        if run.get("printed_too_much"):
            self._note(OUTPUT, run, contract.PRINTED_TOO_MUCH, output)
        elif run["timed_out"]:
            self._note(
                HANG,
                run,
                run_failures.hang(run, output, run_failures.has_all_figures(self._facts, run, output)),
                output,
            )
        elif run["status"] != 0:
            complete = run_failures.has_all_figures(self._facts, run, output)
            self._note(STATUS, run, run_failures.failure(run, output, complete), output)
        else:
            self._add_finished(run, output)
        self._compare_answers(run["round"], side)
        self._lose()

    def _read_unprepared(self) -> Dict[str, str]:
        """Return the sides that could not be prepared, and why."""
        lost = {}
        for side in self._facts.sides:
            path = self._stagedir / contract.lost_file(side.name)
            if path.exists():
                lost[side.name] = f"it cannot be prepared: {texts.sanitized(reasons.why(texts.tail(path), ''))}"
        return lost

    def _left(self) -> List[Any]:
        """Return the sides that are not lost."""
        return [side for side in self._facts.sides if side.name not in self.lost]

    def _lose(self) -> None:
        """Go on without a side that has one problem too often, as long as there is another to judge."""
        repeated = self._repeatedly()
        for side in self._left():
            others = [other for other in self._left() if other.compared_with is not None and other is not side]
            if side.may_fail and side.name in repeated and others:
                self.lost[side.name] = repeated[side.name]
                # More rounds tell nothing of it.
                for place in [place for place in self.pairs if place[0] == side.name]:
                    del self.pairs[place]

    def _add_finished(self, run: Dict[str, Any], output: Path) -> None:
        """Read a run whose launcher ended with status 0."""
        death = run_failures.death(output)
        if death:
            self._note(STATUS, run, death, output)
            return
        try:
            self._read(run, output)
        except UnreadableError as error:
            self._note(UNREADABLE, run, run_failures.unreadable(error, output))

    def _note(self, kind: str, run: Dict[str, Any], text: str, output: Optional[Path] = None) -> None:
        place = "" if output is None else str(output)
        self.problems.append(Problem(kind, run["side"], run["round"], texts.sanitized(text), place))

    def _read(self, run: Dict[str, Any], directory: Path) -> None:
        facts, side, output = self._facts, run["side"], reading.Output(directory)
        if facts.rank_count is not None:
            counted = reading.read_answer(facts.rank_count, output)
            if counted != facts.ranks:
                self._note(
                    RANKS,
                    run,
                    f"ran with {counted:g} ranks instead of {facts.ranks}: the launcher and the program's MPI do not "
                    "understand each other (n singletons instead of one job)",
                )
                return
        values = {figure.name: reading.read_figure(figure, output) for figure in facts.figures_of(side)}
        answers = [answer for answer in facts.answers if answer.side in (None, side)]
        answer_values = {answer.name: reading.read_answer(answer, output) for answer in answers}
        for answer in answers:
            wrong = reading.problem(answer, answer_values[answer.name])
            if wrong:
                self._note(WRONG, run, f"wrong answer: {wrong}")
        applicable = {name: value for name, value in values.items() if value is not None}
        self._round.setdefault(side, []).append(applicable)
        self._answers[side] = answer_values

    def _compare_answers(self, number: int, latest: str) -> None:
        """Compare the latest side's answers with those of the sides that it belongs to, in the same round."""
        answers = self._answers
        for side in self._facts.sides:
            if (
                latest not in (side.name, side.compared_with)
                or side.name not in answers
                or side.compared_with not in answers
            ):
                continue
            for answer in (answer for answer in self._facts.answers if answer.side is None):
                baseline, subject = answers[side.compared_with][answer.name], answers[side.name][answer.name]
                differ = reading.disagreement(answer, baseline, subject, self._facts.label(side.compared_with))
                if differ:
                    text = texts.sanitized(f"answers differ: {differ}")
                    self.problems.append(Problem(DIFFER, side.name, number, text, ""))

    def values(self) -> Dict[str, Dict[str, List[float]]]:
        """Return the values of the rounds in their order, by figure and side."""
        series: Dict[str, Dict[str, List[float]]] = collections.OrderedDict()
        for figure in self._facts.figures:
            for sides in self.rounds:
                for side, values in sides.items():
                    if figure.name in values:
                        series.setdefault(figure.name, {}).setdefault(side, []).append(values[figure.name])
        return series

    def repeated(self) -> Optional[str]:
        """Return the problem that one side has had so often that the check ends; None while there is none."""
        found = [why for side, why in self._repeatedly().items() if side not in self.lost]
        return found[0] if found else None

    def _repeatedly(self) -> Dict[str, str]:
        """Return the problem of each side that has had one too often."""
        runs = {(problem.kind, problem.side, problem.round) for problem in self.problems}
        counts = collections.Counter((kind, side) for kind, side, _ in sorted(runs))
        found: Dict[str, str] = collections.OrderedDict()
        for (kind, side), count in counts.items():
            if count >= ENOUGH:
                found.setdefault(side, f"{kind} of {side}, {count} times")
        return found

    def final_problems(self) -> List[str]:
        """Return the reasons why the runs are invalid, a line each, after the last run."""
        lines = [f"{self._facts.label(name)}: {why}" for name, why in self._unprepared.items()]
        lines += problems.lines(self.problems, self._runs)
        for side in self._facts.sides:
            left = self._leftovers.get(side.name, [])
            if left and side.compared_with is not None and side.compared_with not in self._leftovers:
                lines.append(
                    "{} leaves processes behind when it ends, which {} does not: {}".format(
                        side.name, self._facts.label(side.compared_with), ", ".join(sorted(set(left)))
                    )
                )
        if not lines:
            lines += self._lost_figures()
        return lines

    def _lost_figures(self) -> List[str]:
        """Return a line for each figure that only some of the runs have, even where it does not apply to the others.

        One that the first round lacks has no verdict.
        """
        lines = []
        names = {side.name: {figure.name for figure in self._facts.figures_of(side.name)} for side in self._facts.sides}
        for name, sides in self.values().items():
            having = [side.name for side in self._left() if name in names[side.name]]
            counts = {side: len(sides.get(side, [])) for side in having}
            # Rounds that confirm have only the sides that they are about.
            ran = {side: sum(side in values for values in self.rounds) for side in having}
            if any(counts[side] < ran[side] for side in having):
                lines.append(f"figure {name} is missing in some runs of {len(self.rounds)} rounds: {counts}")
        return lines

    @property
    def not_applicable(self) -> List[str]:
        """The line that names the figures that no run has; none where there are no such figures, or no rounds."""
        names = [figure.name for figure in self._facts.figures if figure.name not in self.values()]
        return [f"not judged, as the program says that it does not apply here: {', '.join(names)}"] * bool(
            names and self.rounds
        )


def other_runtime(earlier: Dict[str, Dict[str, str]], stagedir: Path) -> str:
    """Return which side's runtime on this node differs from that of the earlier job; empty where all are the same."""
    for side in sorted(earlier):
        path = stagedir / contract.runtime_file(side)
        now = json.loads(path.read_text()) if path.exists() else {}
        for what in ("command", "version"):
            if now.get(what) != earlier[side].get(what):
                return f"the runtime of {side} was {earlier[side].get(what)}, and is {now.get(what, 'not known')}"
    return ""
