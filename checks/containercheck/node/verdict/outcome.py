"""Compare the sides of a job: comparisons, messages, and the rows of the results."""

import re
import statistics
from typing import Any, Collection, Dict, Iterator, List, Mapping, Sequence, Tuple

from containercheck.node.outputs.evaluation import Evaluation
from containercheck.node.stats.sequential import INCONCLUSIVE, PASS
from containercheck.node.verdict import identities, too_slow
from containercheck.node.verdict.comparison import EMULATED, Comparison, Confirmed, mean_error, spread_of
from containercheck.node.verdict.identities import Build

#: Message about emulated processors.
NOT_JUDGED = "emulated: overheads are reported, not judged"


class Outcome:
    """The comparisons of a job's valid runs.

    :param figures: what the check declares.
    :param sides: what was run; each is compared with the side that it names, if it names one.
    :param evaluation: all rounds, as read.
    :param expected: names of the figures whose overhead a reference expects.
    :param builds: the build of each side that prints it; where those of two sides differ, every line says so.
    :param confirmed: what fresh rounds said, by side and figure that failed.
    :ivar comparisons: one for each figure of each side that is compared, in the order of the declarations.
    """

    def __init__(
        self,
        figures: Sequence[Any],
        sides: Sequence[Any],
        evaluation: Evaluation,
        expected: Collection[str],
        builds: Mapping[str, Build],
        confirmed: Mapping[Tuple[str, str], Confirmed],
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
                    confirmed.get((name, figure)),
                )
            )

    @property
    def failures(self) -> List[str]:
        """Lines that name the figures that failed, then those that may have; nothing where none failed."""
        return too_slow.lines(self.comparisons)

    @property
    def doubts(self) -> List[str]:
        """A line for each figure whose verdict is open, with what would close it, or less certain than it looks.

        A single line where nothing is judged.
        """
        lines = [NOT_JUDGED] if self.comparisons and self._emulated else []
        lines += [comparison.doubt for comparison in self.comparisons if comparison.verdict == INCONCLUSIVE]
        lines += [comparison.warning for comparison in self.comparisons if comparison.warning]
        # No other line names the different builds of figures that passed.
        passed = [pair for pair in self.comparisons if pair.difference and pair.verdict in (PASS, EMULATED)]
        return lines + list(dict.fromkeys(f"{pair.subject_label}: {pair.difference}" for pair in passed))

    def rows(self) -> List[Dict[str, Any]]:
        """Return a row for each comparison, or for each figure where there is nothing to compare."""
        if self.comparisons or len(self._sides) > 1:
            rows = [comparison.row(self._answers_compared) for comparison in self.comparisons]
            return [self._with_marks(row) for row in [*rows, *self._of_one_side()]]
        (side,) = self._sides.values()
        return [
            self._with_marks(self._uncompared(figure, side.label, self._values[name][side.name]))
            for name, figure in self._figures.items()
        ]

    def _of_one_side(self) -> Iterator[Dict[str, Any]]:
        """Yield the rows of figures that a single side has, such as a report that the others do not print."""
        for name, figure in self._figures.items():
            sides = self._values[name]
            if len(sides) == 1:
                ((side, values),) = sides.items()
                yield self._uncompared(figure, self._sides[side].label, values)

    def _uncompared(self, figure: Any, label: str, values: Sequence[float]) -> Dict[str, Any]:
        """Return the row of a figure of the only side."""
        return dict(
            figure=figure.name,
            unit=figure.unit,
            better=figure.better,
            baseline=statistics.median(values),
            baseline_label=label,
            baseline_error=mean_error(values),
            baseline_spread=spread_of(values),
            scaling=figure.scaling or "",
            emulated=self._emulated,
            measures=list(figure.measures),
        )

    def _with_marks(self, row: Dict[str, Any]) -> Dict[str, Any]:
        """Return a row with the marks that all rows of the job have."""
        # A value of half a node is no point of a scaling over nodes.
        return {**row, "duet": True, "scaling": ""} if self._duet else row

    def performance(self) -> Iterator[Tuple[str, float, str]]:
        """Yield name, value and unit of what ReFrame logs; a subject's value has the name of the figure.

        Where several sides are compared, the names end with the subject's label.
        """
        subjects = {comparison.subject_label for comparison in self.comparisons}
        for row in self.rows():
            name, unit = row["figure"], row["unit"]
            if "overhead" not in row:
                yield name, row["baseline"], unit
                continue
            if len(subjects) > 1:
                name += "_" + re.sub(r"\W+", "_", row["subject_label"])
            yield name, row["subject"], unit
            yield f"{name}_baseline", row["baseline"], unit
            yield f"{name}_overhead", row["overhead"], row["overhead_unit"]
            if row["interval"] is not None:
                yield f"{name}_interval", row["interval"], row["overhead_unit"]
