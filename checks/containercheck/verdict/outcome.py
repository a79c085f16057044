"""Compare the sides of a job: comparisons, messages, and the rows of the results."""

from __future__ import annotations

import re
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from containercheck.application.facts import Figure
from containercheck.node.outputs.evaluation import Evaluation
from containercheck.node.stats.sequential import INCONCLUSIVE, PASS
from containercheck.results.row import EMULATED, NOT_JUDGED, Row
from containercheck.sides.sides import Side
from containercheck.verdict import identities, too_slow
from containercheck.verdict.comparison import Comparison, mean_error, spread_of
from containercheck.verdict.identities import Build


class Outcome:
    """The comparisons of a job's valid runs.

    :param figures: what the check declares.
    :param sides: what was run; each is compared with the side that it names, if it names one.
    :param evaluation: all rounds, as read.
    :param expected: names of the figures whose overhead a reference expects.
    :param builds: the build of each side that prints it; where those of two sides differ, every line says so.
    :ivar comparisons: one for each figure of each side that is compared, in the order of the declarations.
    """

    def __init__(
        self,
        figures: Sequence[Figure],
        sides: Sequence[Side],
        evaluation: Evaluation,
        expected: Collection[str],
        builds: Mapping[str, Build],
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
                    identities.difference(builds.get(side.compared_with, {}), builds.get(name, {})),
                )
            )

    @property
    def failures(self) -> list[str]:
        """Lines that name the figures that failed, then those that may have; nothing where none failed."""
        return too_slow.lines(self.comparisons)

    @property
    def doubts(self) -> list[str]:
        """A line for each figure whose verdict is open, with what would close it, or less certain than it looks.

        A single line where nothing is judged.
        """
        lines = [NOT_JUDGED] if self.comparisons and self._emulated else []
        lines += [comparison.doubt for comparison in self.comparisons if comparison.verdict == INCONCLUSIVE]
        lines += [comparison.warning for comparison in self.comparisons if comparison.warning]
        # No other line names the different builds of figures that passed.
        passed = [pair for pair in self.comparisons if pair.difference and pair.verdict in (PASS, EMULATED)]
        return lines + list(dict.fromkeys(f"{pair.subject_label}: {pair.difference}" for pair in passed))

    def rows(self) -> list[Row]:
        """Return a row for each comparison, or for each figure where there is nothing to compare."""
        if self.comparisons or len(self._sides) > 1:
            rows = [comparison.row(self._answers_compared) for comparison in self.comparisons]
            return [self._with_marks(row) for row in [*rows, *self._of_one_side()]]
        (side,) = self._sides.values()
        return [
            self._with_marks(self._uncompared(figure, side.label, self._values[name][side.name]))
            for name, figure in self._figures.items()
        ]

    def _of_one_side(self) -> Iterator[Row]:
        """Yield the rows of figures that a single side has, such as a report that the others do not print."""
        for name, figure in self._figures.items():
            sides = self._values[name]
            if len(sides) == 1:
                ((side, values),) = sides.items()
                yield self._uncompared(figure, self._sides[side].label, values)

    def _uncompared(self, figure: Figure, label: str, values: Sequence[float]) -> Row:
        """Return the row of a figure of the only side."""
        return Row(
            figure=figure.name,
            unit=figure.unit,
            better=figure.better,
            baseline=statistics.median(values),
            baseline_label=label,
            baseline_error=mean_error(values),
            baseline_spread=spread_of(values),
            scaling=figure.scaling or "",
            emulated=self._emulated,
            measures=tuple(figure.measures),
        )

    def _with_marks(self, row: Row) -> Row:
        """Return a row with the marks that all rows of the job have."""
        # A value of half a node is no point of a scaling over nodes.
        return replace(row, duet=True, scaling="") if self._duet else row

    def performance(self) -> Iterator[tuple[str, float, str]]:
        """Yield name, value and unit of what ReFrame logs; a subject's value has the name of the figure.

        Where several sides are compared, the names end with the subject's label.
        """
        subjects = {comparison.subject_label for comparison in self.comparisons}
        for row in self.rows():
            name = row.figure
            if not row.is_comparison:
                yield name, row.baseline, row.unit
                continue
            if len(subjects) > 1:
                name += "_" + re.sub(r"\W+", "_", row.subject_label)
            yield name, row.subject, row.unit
            yield f"{name}_baseline", row.baseline, row.unit
            yield f"{name}_overhead", row.overhead, row.overhead_unit
            if row.interval is not None:
                yield f"{name}_interval", row.interval, row.overhead_unit
