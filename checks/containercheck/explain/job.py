"""Explain a job: why its ranks did not come up, its runs ended or hung, or its container is too slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from containercheck.explain import explanation, observations
from containercheck.explain.causes import Cause
from containercheck.explain.experiments import Plan
from containercheck.explain.pairs import Pair, pairs_of
from containercheck.node import contract, texts
from containercheck.node.outputs.problems import HANG, RANKS, STATUS, Problem
from containercheck.sides.sides import Side
from containercheck.site.layout import Layout
from containercheck.verdict.comparison import Comparison

#: Causes as the report has them.
Causes = list[dict[str, Any]]


@dataclass(frozen=True)
class Job:
    """What is known of a job that ended.

    :ivar stagedir: with what its sides saw.
    :ivar sides: those that are compared.
    :ivar plan: the causes that remedies were to take away.
    :ivar layout: ranks and threads of a side.
    :ivar runs: of the record; none where it has none.
    """

    stagedir: Path
    sides: Sequence[Side]
    plan: Plan
    layout: Layout
    runs: Sequence[Mapping[str, Any]] = ()

    def explain_start(self, end: str) -> Causes:
        """Return why ranks may not have come up before the rounds, where what was tried there has not proven it.

        :param end: how the job ended.
        """
        pairs, tried = pairs_of(self.sides), (self.stagedir / contract.TRIALS).exists()
        # Of several containers it is not known which one did not come up.
        if len(pairs) != 1 or not tried or contract.PROVEN in end or (self.stagedir / contract.RECORD).exists():
            return []
        return texts.cleaned(explanation.stored(self._ending(pairs)))

    def explain_end(self, problems: Sequence[Problem], results: Sequence[Mapping[str, Any]]) -> Causes:
        """Return why runs of a container may have ended or hung, where those that it is compared with did not.

        :param problems: of the runs.
        :param results: what the remedies showed (``Experiments.results``).
        """
        problems = [problem for problem in problems if problem.kind in (HANG, RANKS, STATUS)]
        failed = {problem.side for problem in problems}
        pairs = [pair for pair in pairs_of(self.sides) if pair.subject.name in failed]
        pairs = [pair for pair in pairs if pair.baseline.name not in failed]
        found = self._ending(pairs)
        if len(pairs) != 1 or not pairs[0].is_only:
            return texts.cleaned(explanation.stored(found))
        before = self.plan.ended or (0, 0)
        runs = [run for run in self.runs if run["side"] == pairs[0].subject.name]
        count = [before[0] + len({problem.round for problem in problems}), before[1] + len(runs)]
        tried = self.plan.causes if self.plan.ended else ()
        shown = self._with_effect(pairs[0], results) if self.plan.ended else []
        return texts.cleaned([{**cause, "ended": count} for cause in explanation.stored(found, tried, shown)])

    def explain_slowness(
        self, comparisons: Sequence[Comparison], results: Sequence[Mapping[str, Any]]
    ) -> tuple[Causes, str]:
        """Return what can explain the figures that failed, and where the time of the worst went, in a line.

        :param comparisons: of all figures.
        :param results: what the remedies showed (``Experiments.results``).
        """
        slow = [each for each in comparisons if each.failed and not each.vanished]
        if not slow:
            return [], ""
        worst = max(slow, key=lambda each: each.loss)
        found, shown, where_time_went = [], [], ""
        for pair in pairs_of(self.sides):
            label = pair.subject.label
            failed = [each.figure for each in slow if each.subject_label == label]
            if not failed:
                continue
            host, inside, uses = pair.seen(self.stagedir, self.runs)
            if worst.subject_label == label and worst.figure.compare == "ratio":
                cores = self.layout.ranks_per_node * self.layout.threads
                line = explanation.time_line(*uses, cores, worst.loss)
                where_time_went = f"{label}: {line}" if line and not pair.is_only else line
            # Only a job with one container has any.
            shown = self._with_effect(pair, results)
            found += pair.named(explanation.causes(host, inside, uses, failed, self.layout.ranks))
        tried = [*self.plan.tried, *self.plan.causes]
        known = [*(cause["result"] for cause in self.plan.tried), *shown]
        return texts.cleaned(explanation.stored(found, tried, known)), where_time_went

    def _ending(self, pairs: Sequence[Pair]) -> list[Cause]:
        """Return what can end or hang runs of some containers."""
        found = []
        for pair in pairs:
            seen = pair.seen(self.stagedir, self.runs)
            found += pair.named(explanation.causes_of_end(*seen, self.layout.ranks))
        return found

    def _with_effect(self, pair: Pair, results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return what the remedies of this job showed, and whether each took effect."""
        shown = []
        for cause, result in zip(self.plan.causes, results):
            seen = observations.of_pair(self.stagedir, self.runs, (pair.baseline.name, result["name"]))
            shown.append({**result, "took_effect": explanation.took_effect(cause, *seen)})
        return shown
