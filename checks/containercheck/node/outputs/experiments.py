"""Judge remedies: the container with one change each, run in the same rounds as bare and the container.

Standard library only, Python 3.6 or newer: the job asks after each round.

A remedy *helps* with a figure if the container is worse than the container with the remedy, by half of what the first
rounds found or by the tolerance: the verdict of a failure, with its error probabilities, among all remedies and
figures. It is *all* of it if the container with the remedy passes against bare. Remedies change no verdict on the
container: a remedy that fails, or computes other answers, is only left out.
"""

import collections
import math
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from containercheck.node.outputs import reading, run_failures
from containercheck.node.outputs.reading import UnreadableError
from containercheck.node.stats.prior import Prior
from containercheck.node.stats.sequential import FAIL, INCONCLUSIVE, PASS, Pairs

#: Rounds after which remedies are no longer waited for.
MOST_ROUNDS = 8
#: Part of the overhead that a remedy must take away to help.
PART = 0.5


class Trial(NamedTuple):
    """One remedy and one figure: the container against the remedy, the remedy and the container against bare."""

    helps: Pairs
    rest: Pairs
    whole: Pairs

    @property
    def is_open(self) -> bool:
        """Whether another round may tell whether it helps, or whether it is all."""
        if self.helps.verdict == INCONCLUSIVE:
            return not self.helps.hopeless
        return self.helps.verdict == FAIL and self.rest.verdict == INCONCLUSIVE and not self.rest.hopeless

    @property
    def is_proof(self) -> bool:
        """Whether the overhead is gone with the remedy, and only with it."""
        return self.helps.verdict == FAIL and self.rest.verdict == PASS


class Remedy(NamedTuple):
    """A side that is run beside the others, to see whether a change helps.

    :ivar name: of the side, and ``of`` of the side that it repeats with one change.
    :ivar figures: of each figure that failed, its overhead; empty where runs ended or hung.
    """

    name: str
    of: str
    figures: Dict[str, float]


class Experiments:
    """The remedies of a job and their trials.

    :param facts: by which runs are read.
    :ivar trials: by remedy and figure.
    :ivar failed: why a remedy is left out, by its name.
    :ivar ended_well: of each remedy the runs that ended, with right answers.
    :ivar rounds: number of rounds that all remedies together had; of each remedy see :attr:`trials`.
    """

    def __init__(self, facts: Any, remedies: Iterable[Remedy] = ()) -> None:
        """No rounds yet."""
        self._facts = facts
        self._remedies = collections.OrderedDict((remedy.name, remedy) for remedy in remedies)
        self._values: Dict[str, Tuple[Dict[str, Optional[float]], Dict[str, Any]]] = {}
        self.trials: Dict[Tuple[str, str], Trial] = collections.OrderedDict()
        self.failed: Dict[str, str] = {}
        self.ended_well: Dict[str, int] = collections.Counter()

    def begin(self, remedy: Remedy) -> None:
        """Add a remedy for what ends or hangs; its figures are not judged."""
        self._remedies[remedy.name] = remedy

    def is_remedy(self, side: str) -> bool:
        """Tell whether a side is a remedy, and not judged."""
        return side in self._remedies

    def add(self, run: Dict[str, Any], output: Path) -> None:
        """Read the run of a remedy; one that failed ends its experiment."""
        name = run["side"]
        if run.get("printed_too_much") or run["timed_out"]:
            self.failed[name] = "it did not end in time"
        elif run["status"] != 0:
            self.failed[name] = run_failures.failure(run, output, False)
        elif run_failures.death(output):
            self.failed[name] = run_failures.death(output)
        else:
            try:
                self._values[name] = self._read(reading.Output(output), name)
                self.ended_well[name] += 1
            except UnreadableError as error:
                self.failed[name] = str(error)

    def _read(self, output: Any, name: str) -> Tuple[Dict[str, Optional[float]], Dict[str, Any]]:
        facts = self._facts
        if facts.rank_count is not None:
            counted = reading.read_answer(facts.rank_count, output)
            if counted != facts.ranks:
                raise UnreadableError(f"it ran with {counted:g} ranks instead of {facts.ranks}")
        wanted = [answer for answer in facts.answers if answer.side in (None, self._remedies[name].of)]
        answers = {answer.name: reading.read_answer(answer, output) for answer in wanted}
        for answer in wanted:
            wrong = reading.problem(answer, answers[answer.name])
            if wrong:
                raise UnreadableError(f"wrong answer: {wrong}")
        return {figure.name: reading.read_figure(figure, output) for figure in facts.figures}, answers

    def end_round(
        self,
        figures: Optional[Dict[str, Dict[str, float]]],
        answers: Dict[str, Dict[str, Any]],
        compared: Dict[str, str],
    ) -> None:
        """Count the round of the runs that were added last.

        :param figures: of the sides that are judged; None where the round does not count.
        :param answers: of the sides that are judged.
        :param compared: the name of the side that each judged side is compared with.
        """
        values, self._values = self._values, {}
        for name, (of_remedy, own_answers) in values.items():
            remedy = self._remedies[name]
            bare = compared[remedy.of]
            wrong = self._disagreement(own_answers, answers.get(bare, {}))
            if wrong:
                self.failed[name] = f"answers differ: {wrong}"
            if figures is None or name in self.failed:
                continue
            for figure in self._facts.figures:
                value = of_remedy[figure.name]
                host, container = (figures[side].get(figure.name) for side in (bare, remedy.of))
                if figure.name not in remedy.figures or value is None or host is None or container is None:
                    continue
                trial = self.trials.setdefault((name, figure.name), self._trial(remedy, figure))
                trial.helps.add(value, container)
                trial.rest.add(host, value)
                trial.whole.add(host, container)

    def _disagreement(self, own: Dict[str, Any], of_bare: Dict[str, Any]) -> str:
        for answer in self._facts.answers:
            if answer.side is None and answer.name in own and answer.name in of_bare:
                differ = reading.disagreement(answer, of_bare[answer.name], own[answer.name], "bare")
                if differ:
                    return differ
        return ""

    def _trial(self, remedy: Any, figure: Any) -> Trial:
        count = max(1, sum(len(other.figures) for other in self._remedies.values()))
        prior = Prior(*self._facts.priors[figure.name]) if figure.name in self._facts.priors else None
        side = next(side for side in self._facts.sides if side.name == remedy.of)
        low, high = side.accepted.get(figure.name, figure.accepted)
        expected = None if figure.name in side.accepted else figure.expected
        found = PART * remedy.figures[figure.name]
        # An overhead that a reference expects may be large; what is to go is what exceeds it.
        enough = min(found, high) if high > 0 else found
        helps = Pairs(figure.better, figure.compare, -math.inf, enough, count, None, prior, True)
        rest, whole = (Pairs(figure.better, figure.compare, low, high, count, expected, prior, True) for _ in range(2))
        return Trial(helps, rest, whole)

    def more_would_tell(self, rounds: int) -> bool:
        """Tell whether another round may decide an experiment.

        :param rounds: number of complete rounds.
        """
        if rounds >= MOST_ROUNDS:
            return False
        left = [name for name in self._remedies if name not in self.failed]
        if any(trial.is_proof for (name, _), trial in self.trials.items()):
            # A proof of all figures ends it: what else there is was tried in the same rounds.
            proven = [name for name in left if self._proves(name)]
            if proven:
                return False
        tried = {name for name, _ in self.trials}
        return any(name not in tried for name in left) or any(
            trial.is_open for (name, _), trial in self.trials.items() if name in left
        )

    def _proves(self, name: str) -> bool:
        return all(trial.is_proof for (remedy, _), trial in self.trials.items() if remedy == name)

    def results(self) -> List[Dict[str, Any]]:
        """Return for each remedy its name, why it failed, and for each figure the verdicts and overheads.

        With how far the rounds of bare and the remedy spread, and the highest accepted overhead.
        """
        listed = []
        for name in self._remedies:
            figures = {}
            for (of, figure), trial in self.trials.items():
                if of == name:
                    figures[figure] = {
                        "helps": trial.helps.verdict,
                        "rest": trial.rest.verdict,
                        "rounds": trial.rest.rounds,
                        "overhead": trial.rest.estimate,
                        "interval": _finite(trial.rest.interval),
                        "without": trial.whole.estimate,
                        "spread": trial.rest.spread,
                        "tolerance": trial.rest.highest if math.isfinite(trial.rest.highest) else None,
                        "unit": "%" if trial.rest.compare == "ratio" else "",
                    }
            facts = {"failed": self.failed.get(name, ""), "ended_well": self.ended_well[name]}
            listed.append({"name": name, **facts, "figures": figures})
        return listed


def _finite(ends: Tuple[float, float]) -> List[Optional[float]]:
    return [end if math.isfinite(end) else None for end in ends]
