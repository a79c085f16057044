"""What the rounds of a job came to: comparisons, and the rows of the results."""

from __future__ import annotations

import re
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from containercheck.application.facts import Figure
from containercheck.node.outputs.evaluation import Evaluation
from containercheck.node.stats.sequential import INCONCLUSIVE, PASS
from containercheck.sides.sides import Side
from containercheck.verdict import identities, too_slow
from containercheck.verdict.comparison import EMULATED, NOT_JUDGED, Comparison, mean_error
from containercheck.verdict.identities import Build


class Outcome:
    """A job's valid runs, judged.

    :param figures: what the check declares.
    :param sides: what was run; each is compared with the side that it names, if it names one.
    :param evaluation: all rounds, read.
    :param expected: names of the figures whose overhead a reference expects.
    :param told: the build of each side that tells it; where those of two that are compared differ, every line says so.
    :ivar comparisons: one for each figure of each side that is compared, in the order of the declarations.
    """

    def __init__(
        self,
        figures: Sequence[Figure],
        sides: Sequence[Side],
        evaluation: Evaluation,
        expected: Collection[str],
        told: Mapping[str, Build],
    ) -> None:
        """Compare the sides."""
        self._sides = {side.name: side for side in sides}
        self._emulated, self._duet = evaluation.emulated, evaluation.duet
        self._answers_compared = evaluation.compares_answers
        self._values = evaluation.values()
        self._figures = {figure.name: figure for figure in figures if figure.name in self._values}
        self.comparisons = []
        for (name, figure), pairs in evaluation.pairs.items():
            side = self._sides[name]
            values = self._values[figure]
            self.comparisons.append(
                Comparison(
                    self._figures[figure],
                    self._sides[side.compared_with].label,
                    side.label,
                    values[side.compared_with],
                    values[name],
                    pairs,
                    figure in expected,
                    evaluation.round_seconds,
                    evaluation.emulated,
                    identities.difference(told.get(side.compared_with, {}), told.get(name, {})),
                )
            )

    @property
    def failures(self) -> list[str]:
        """Lines that name the figures that failed, then those that may have; nothing where none failed."""
        return too_slow.lines(self.comparisons)

    @property
    def doubts(self) -> list[str]:
        """A line for each figure whose verdict is not clear, with what it would take, or less clear than it looks.

        One for all where nothing is judged.
        """
        lines = [NOT_JUDGED] if self.comparisons and self._emulated else []
        lines += [one.doubt for one in self.comparisons if one.verdict == INCONCLUSIVE]
        lines += [one.warning for one in self.comparisons if one.warning]
        # What is no doubt has no line of its own.
        passed = [one for one in self.comparisons if one.difference and one.verdict in (PASS, EMULATED)]
        return lines + list(dict.fromkeys(f"{one.subject_label}: {one.difference}" for one in passed))

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each comparison, or for each figure where there is nothing to compare.

        A row has figure, unit, better (which direction is), baseline and baseline_label; and scaling (strong or weak)
        where the figure shows how the application scales over nodes; and emulated (true) where the nodes' processors
        are, so that nothing is judged; and duet (true) where both sides ran at the same time, so that both values are
        of half a node. A comparison also has subject and subject_label;
        overhead, the ends of its interval (low, high; None where there is none yet) and half its width (interval), in
        overhead_unit; accepted, expected and verdict; rounds, and in how many of them the overhead was above what is
        accepted; spread (in overhead_unit) and correlation of the rounds; for an open verdict, rounds_needed in all
        (None: too many), round_seconds, why it is open (open_kind: slower, faster, close or noisy), the largest
        overhead that is not excluded (bound; None while there is none), and what is known in words (answer); where the
        spread was known before, known_spread and from where (spread_source), and contradicted (true) where the rounds
        spread otherwise; where the two are not the same build, a line that names both (difference); and
        answers_compared (false) where the check has no answers, so that nobody knows whether both computed the same.
        ``baseline`` is a median, and ``subject`` what that and the overhead come to; ``baseline_error`` and
        ``subject_error`` are the mean errors of the sides' values, in the figure's unit (absent where there was one
        run).
        """
        if self.comparisons or len(self._sides) > 1:
            unknown = {} if self._answers_compared else {"answers_compared": False}
            return [self._marked({**one.row(), **unknown}) for one in self.comparisons]
        (side,) = self._sides.values()
        rows = []
        for name, figure in self._figures.items():
            values = self._values[name][side.name]
            row = {"figure": name, "unit": figure.unit, "better": figure.better}
            row["baseline"] = statistics.median(values)
            row["baseline_label"] = side.label
            if figure.scaling:
                row["scaling"] = figure.scaling
            if len(values) > 1:
                row["baseline_error"] = mean_error(values)
            rows.append(self._marked(row))
        return rows

    def _marked(self, row: dict[str, Any]) -> dict[str, Any]:
        row = {**row, "emulated": True} if self._emulated else row
        if not self._duet:
            return row
        # Half of a node is no point of a scaling over nodes.
        return {**{name: value for name, value in row.items() if name != "scaling"}, "duet": True}

    def performance(self) -> Iterator[tuple[str, float, str]]:
        """Yield name, value and unit of all that ReFrame logs: for a comparison the subject's figure by its own name.

        Where several sides are compared, the names end with the subject's label.
        """
        subjects = {one.subject_label for one in self.comparisons}
        for row in self.rows():
            name = row["figure"]
            if "subject" not in row:
                yield name, row["baseline"], row["unit"]
                continue
            if len(subjects) > 1:
                name += "_" + re.sub(r"\W+", "_", row["subject_label"])
            yield name, row["subject"], row["unit"]
            yield f"{name}_baseline", row["baseline"], row["unit"]
            yield f"{name}_overhead", row["overhead"], row["overhead_unit"]
            if row["interval"] is not None:
                yield f"{name}_interval", row["interval"], row["overhead_unit"]
