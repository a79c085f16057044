"""Judge remedies: the container with one change each, run in the same rounds as bare and the container.

A remedy *helps* with a metric if the container is worse than the container with the remedy. The difference must be half
of the overhead in the first rounds, or the tolerance. The test is the verdict of a failure, with its error
probabilities, among all remedies and metrics. The remedy is *all* of it if the container with the remedy passes against
bare. Remedies change no verdict on the container: a remedy that fails, or computes other answers, is only left out.

Standard library only, Python 3.6 or newer: the job uses this after each round.
"""

import collections
import math
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional

from containercheck.job.outputs import reading
from containercheck.job.outputs.facts import Facts
from containercheck.job.outputs.reading import Values, read_run
from containercheck.job.stats.pairs import FAIL, INCONCLUSIVE, PASS, Pairs

#: Most rounds for remedies; and for one that helps, until it is known whether it is all. If rounds spread by 5 %, eight
#: rounds prove 43 of 100 remedies that are all, and 24 rounds prove 97 (simulated).
MOST_ROUNDS, MOST_TO_PROVE = 8, 24
#: Part of the overhead that a remedy must take away to help.
PART = 0.5


class RemedyTrial(NamedTuple):
    """Hold one remedy and one metric: container against remedy, then remedy and container against bare.

    ``half`` is container against remedy too, and accepts half of the overhead in the first rounds.
    """

    helps: Pairs
    rest: Pairs
    whole: Pairs
    half: Pairs

    @property
    def is_open(self) -> bool:
        """Whether another round may decide that it helps, or that it is all."""
        if self.helps.verdict == INCONCLUSIVE:
            return not self.helps.is_hopeless
        return self.helps.verdict == FAIL and self.rest.verdict == INCONCLUSIVE and not self.rest.is_hopeless

    @property
    def is_proof(self) -> bool:
        """Whether the overhead disappears with the remedy, and only with it."""
        return self.helps.verdict == FAIL and self.rest.verdict == PASS

    def result(self) -> Dict[str, Any]:
        """Return verdicts and overheads in the form of the record."""
        rest = self.rest
        return {
            "helps": self.helps.verdict,
            "rest": rest.verdict,
            "rounds": rest.rounds,
            "overhead": rest.estimate,
            "interval": [end if math.isfinite(end) else None for end in rest.interval],
            "without": self.whole.estimate,
            "unit": "%" if rest.compare == "ratio" else "",
        }


class Remedy(NamedTuple):
    """Describe a side that runs in the same rounds as the others, to test a change.

    :ivar name: of the side.
    :ivar of: name of the side that it repeats with one change.
    :ivar metrics: the overhead of each failed metric; empty if runs ended or hung, or ranks did not start.
    """

    name: str
    of: str
    metrics: Dict[str, float]


def disagreement(facts: Facts, answers: Mapping[str, Any], of_baseline: Mapping[str, Any], label: str = "bare") -> str:
    """Return the differences between answers and those of the baseline; empty if they agree.

    :param facts: of the job.
    :param label: of the baseline.
    """
    shared = [each for each in facts.answers if each.side is None and each.name in answers and each.name in of_baseline]
    differences = (reading.disagreement(each, of_baseline[each.name], answers[each.name], label) for each in shared)
    return "; ".join(filter(None, differences))


class Experiments:
    """Hold the remedies of a job and their trials.

    :param facts: by which runs are read.
    :ivar trials: by remedy and metric.
    :ivar failed: the reason for leaving out a remedy, by its name.
    """

    def __init__(self, facts: Facts, remedies: Iterable[Remedy] = ()) -> None:
        """Begin without rounds."""
        self._facts = facts
        self._remedies = collections.OrderedDict((remedy.name, remedy) for remedy in remedies)
        self._values: Dict[str, Values] = {}
        self.trials: Dict[str, Dict[str, RemedyTrial]] = collections.defaultdict(collections.OrderedDict)
        self.failed: Dict[str, str] = {}

    @property
    def names(self) -> List[str]:
        """The names of the remedies, in their order."""
        return [*self._remedies]

    def add(self, run: Dict[str, Any], stagedir: Path) -> None:
        """Read the run of a remedy; a failed run ends its experiment."""
        name = run["side"]
        result = read_run(run, self._facts, stagedir, self._remedies[name].of)
        if result.problems:
            self.failed[name] = result.problems[0].text
        elif result.values:
            self._values[name] = result.values

    def end_round(self, metrics: Optional[Mapping[str, Mapping[str, float]]], answers: Mapping[str, Any]) -> None:
        """Count the round of the latest runs.

        :param metrics: of the judged sides; None if the round does not count.
        :param answers: of the judged sides, by name.
        """
        values, self._values = self._values, {}
        for name, of_remedy in values.items():
            remedy = self._remedies[name]
            bare = self._facts.side(remedy.of).compared_with or ""
            differ = disagreement(self._facts, of_remedy.answers, answers.get(bare, {}))
            if differ:
                self.failed[name] = f"answers differ: {differ}"
            elif metrics is not None and name not in self.failed:
                self._add_round(remedy, of_remedy.metrics, metrics.get(bare, {}), metrics.get(remedy.of, {}))

    def _add_round(
        self, remedy: Remedy, mended: Mapping[str, float], bare: Mapping[str, float], container: Mapping[str, float]
    ) -> None:
        for metric in self._facts.metrics:
            name = metric.name
            if name in remedy.metrics and name in mended and name in container:
                trials = self.trials[remedy.name]
                trial = trials.setdefault(name, self._new_trial(remedy, metric))
                trial.helps.add(mended[name], container[name])
                trial.half.add(mended[name], container[name])
                # Steps of halving run without bare.
                if name in bare:
                    trial.rest.add(bare[name], mended[name])
                    trial.whole.add(bare[name], container[name])

    def _new_trial(self, remedy: Remedy, metric: Any) -> RemedyTrial:
        count = max(1, sum(len(other.metrics) for other in self._remedies.values()))
        side = self._facts.side(remedy.of)
        rest, whole = (self._facts.new_pairs(side, metric, count, may_gain=True) for _ in range(2))
        part = PART * remedy.metrics[metric.name]
        # A reference may expect a large overhead: only the excess has to disappear.
        enough = min(part, rest.highest) if rest.highest > 0 else part
        prior = self._facts.priors.get(metric.name)
        helps, half = (
            Pairs(metric.better, metric.compare, -math.inf, least, count, None, prior, True) for least in (enough, part)
        )
        return RemedyTrial(helps, rest, whole, half)

    def drop_useless(self, rounds: int) -> None:
        """Leave out each remedy that has not taken away half of each overhead in each round.

        :param rounds: number of rounds."""
        for name, remedy in self._remedies.items():
            trials = self.trials.get(name, {})
            if len(trials) < len(remedy.metrics) or any(each.half.above_tolerance < rounds for each in trials.values()):
                self.failed.setdefault(name, "it does not help")

    def helps(self, name: str) -> List[str]:
        """Return the verdicts on whether a remedy helps, one for each metric."""
        return [trial.helps.verdict for trial in self.trials.get(name, {}).values()]

    def more_would_tell(self, rounds: int) -> bool:
        """Return whether another round may decide an experiment.

        :param rounds: number of complete rounds.
        """
        # A proof for all metrics ends the trial: the same rounds have tried the other remedies.
        if any(self._is_proven(name) for name in self._remedies if name not in self.failed):
            return False
        most = MOST_TO_PROVE if any(FAIL in self.helps(name) for name in self.left) else MOST_ROUNDS
        return bool(self.left) and rounds < most

    @property
    def left(self) -> List[str]:
        """The names of the remedies that another round may decide."""
        return [
            name
            for name in self._remedies
            if name not in self.failed
            and (name not in self.trials or any(trial.is_open for trial in self.trials[name].values()))
        ]

    def _is_proven(self, name: str) -> bool:
        trials = self.trials.get(name, {}).values()
        return bool(trials) and all(trial.is_proof for trial in trials)

    def results(self) -> List[Dict[str, Any]]:
        """Return each remedy's name and its failure, and the verdicts and overheads of each metric."""
        return [
            {
                "name": name,
                "failed": self.failed.get(name, ""),
                "metrics": {metric: trial.result() for metric, trial in self.trials.get(name, {}).items()},
            }
            for name in self._remedies
        ]
