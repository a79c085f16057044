"""Rank what differs between the sides of a job as causes of what failed (standard library only, Python 3.6)."""

import itertools
from pathlib import Path
from typing import Any, Collection, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

from containercheck.job.explain import explanation, observations
from containercheck.job.explain.causes import Cause
from containercheck.job.explain.observations import Pair, pairs_of
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.experiments import Remedy
from containercheck.job.outputs.facts import Facts

#: A cause, the name of the side that it slows, and the overhead of each of its metrics that failed.
Slowing = Tuple[Cause, str, Dict[str, float]]


class Tried(NamedTuple):
    """A cause whose remedy ran beside the others, and that remedy."""

    cause: Cause
    remedy: Remedy


class Endings(NamedTuple):
    """How many runs of a container ended ``badly`` or hung, and how many ``runs`` it had."""

    badly: int
    runs: int

    @classmethod
    def of(cls, well: Sequence[bool]) -> "Endings":
        """Count whether each run ended well."""
        return cls(len(well) - sum(well), len(well))


class Explaining:
    """What is known of the sides of a job.

    :param facts: of the job.
    :param runs: of the record, which grows.
    """

    def __init__(self, facts: Facts, runs: List[Dict[str, Any]]) -> None:
        """Pair each container with what it is compared with."""
        self._facts, self._runs = facts, runs
        self._pairs = pairs_of(facts.sides)
        self._metrics = {metric.name: metric for metric in facts.metrics}

    def slow(self, evaluation: Evaluation, failed: Collection[Tuple[str, str]]) -> List[Slowing]:
        """Return the causes that can explain metrics, the likeliest of each container first.

        :param failed: side and metric of those that failed.
        """
        by_pair = [
            [(cause, pair.subject.name, metrics) for cause in self._causes(pair, metrics)]
            for pair, metrics in self._slow_pairs(evaluation, failed)
        ]
        # The likeliest of each container first.
        return [each for turn in itertools.zip_longest(*by_pair) for each in turn if each]

    def explain_slowness(
        self,
        evaluation: Evaluation,
        failed: Collection[Tuple[str, str]],
        tried: Sequence[Tried],
        results: Sequence[Mapping[str, Any]],
    ) -> Tuple[List[Dict[str, Any]], str]:
        """Return what can explain the metrics that failed, and where the time of the worst went, in a line.

        :param failed: side and metric of those that failed.
        :param tried: causes whose remedies ran, in the order of ``results`` (``Experiments.results``).
        """
        found: List[Cause] = []
        line, most = "", 0.0
        for pair, metrics in self._slow_pairs(evaluation, failed):
            found += pair.named(self._causes(pair, metrics))
            name, overhead = max(metrics.items(), key=lambda item: self._loss(*item))
            if self._metrics[name].compare == "ratio" and self._loss(name, overhead) > most:
                most = self._loss(name, overhead)
                uses = pair.seen(Path(), self._runs)[2]
                line = explanation.time_line(*uses, self._facts.cores, most)
                line = line if pair.is_only or not line else f"{pair.subject.label}: {line}"
        return self._stored(found, tried, results), line

    def ending(self, name: str) -> List[Cause]:
        """Return the causes that can end or hang runs of a container, the likeliest first."""
        return [
            cause
            for pair in self._pairs
            if pair.subject.name == name
            for cause in explanation.causes_of_end(*pair.seen(Path(), self._runs), self._facts.ranks)
        ]

    def explain_end(
        self, endings: Mapping[str, Endings], tried: Sequence[Tried], results: Sequence[Mapping[str, Any]]
    ) -> List[Dict[str, Any]]:
        """Return why runs of containers may have ended or hung, where those that they are compared with did not.

        :param endings: of each side with runs that ended badly or hung.
        :param tried: as for :meth:`explain_slowness`.
        """
        pairs = [pair for pair in self._pairs if pair.subject.name in endings and pair.baseline.name not in endings]
        found = [cause for pair in pairs for cause in pair.named(self.ending(pair.subject.name))]
        entries = self._stored(found, tried, results)
        if len(pairs) != 1:
            # Of several it is not known which one was mended.
            return entries
        ended = [*endings[pairs[0].subject.name]]
        return [{**entry, "ended": ended} for entry in entries]

    def _slow_pairs(
        self, evaluation: Evaluation, failed: Collection[Tuple[str, str]]
    ) -> Iterable[Tuple[Pair, Dict[str, float]]]:
        """Yield each container that is too slow, with the overhead of its metrics that failed."""
        for pair in self._pairs:
            metrics = {
                metric: pairs.estimate or 0.0
                for (side, metric), pairs in evaluation.pairs.items()
                if side == pair.subject.name and (side, metric) in failed and (pairs.estimate or 0.0) > pairs.lowest
            }
            if metrics:
                yield pair, metrics

    def _causes(self, pair: Pair, metrics: Iterable[str]) -> List[Cause]:
        failed = [self._metrics[name] for name in metrics]
        return explanation.causes(*pair.seen(Path(), self._runs), failed, self._facts.ranks)

    def _loss(self, metric: str, worse: float) -> float:
        """Return by how many percent longer the container takes: 100 for half the rate."""
        return worse if self._metrics[metric].better == "lower" else 100 * worse / max(1e-9, 100 - worse)

    def _stored(
        self, found: Sequence[Cause], tried: Sequence[Tried], results: Sequence[Mapping[str, Any]]
    ) -> List[Dict[str, Any]]:
        baselines = {pair.subject.name: pair.baseline.name for pair in self._pairs}
        named = {pair.subject.name: pair.named for pair in self._pairs}
        shown = []
        for (cause, remedy), result in zip(tried, results):
            seen = observations.of_pair(Path(), self._runs, (baselines[remedy.of], remedy.name))
            shown.append({**result, "took_effect": explanation.took_effect(explanation.entry(cause), *seen)})
        entries = [explanation.entry(named[remedy.of]([cause])[0]) for cause, remedy in tried]
        return explanation.stored(found, entries, shown)
