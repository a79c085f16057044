"""Compare the sides of a job: comparisons, messages, and the rows of the results.

Standard library only, Python 3.6 or newer.
"""

import re
from typing import Any, Collection, Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple

from containercheck.job.outputs.evaluation import Evaluation, Place
from containercheck.job.stats.pairs import FAIL, INCONCLUSIVE, PASS
from containercheck.job.verdict import builds as builds_of
from containercheck.job.verdict.builds import Build
from containercheck.job.verdict.comparison import EMULATED, Comparison, Confirmed, baseline_row

#: Message about emulated processors.
NOT_JUDGED = "emulated: overheads are reported, not judged"


class JobOutcome:
    """The comparisons of a job's valid runs.

    :param metrics: declared metrics of the check.
    :param sides: sides of the job; each is compared with the side that it names, if it names one.
    :param evaluation: all rounds, as read.
    :param expected: names of the metrics whose overhead a reference expects.
    :param builds: the build of each side that prints it; where those of two sides differ, every line has both.
    :param confirmed: result of the fresh rounds, by side and metric that failed.
    :ivar comparisons: one for each metric of each side that is compared, in the order of the declarations.
    """

    def __init__(
        self,
        metrics: Sequence[Any],
        sides: Sequence[Any],
        evaluation: Evaluation,
        expected: Collection[str],
        builds: Mapping[str, Build],
        confirmed: Mapping[Place, Confirmed],
    ) -> None:
        """Compare the sides."""
        self._sides = {side.name: side for side in sides}
        self._evaluation, self._values = evaluation, evaluation.values()
        self._metrics = {metric.name: metric for metric in metrics if metric.name in self._values}
        self.comparisons = []
        for place, pairs in evaluation.pairs.items():
            subject = self._sides[place.side]
            baseline = self._sides[subject.compared_with]
            values = self._values[place.metric]
            self.comparisons.append(
                Comparison(
                    self._metrics[place.metric],
                    baseline.label,
                    subject.label,
                    values[baseline.name],
                    values[subject.name],
                    pairs,
                    place.metric in expected,
                    evaluation.round_seconds,
                    evaluation.emulated,
                    builds_of.difference(builds.get(baseline.name, {}), builds.get(subject.name, {})),
                    confirmed.get(place),
                )
            )

    @property
    def failures(self) -> List[str]:
        """Lines that name the metrics that failed, then those that may have; nothing where none failed."""
        return failure_lines(self.comparisons)

    @property
    def doubts(self) -> List[str]:
        """A line for each metric whose verdict is open, with what would close it, or less certain than it looks.

        A single line where nothing is judged.
        """
        lines = [NOT_JUDGED] if self.comparisons and self._evaluation.emulated else []
        lines += [comparison.doubt for comparison in self.comparisons if comparison.verdict == INCONCLUSIVE]
        lines += [comparison.warning for comparison in self.comparisons if comparison.warning]
        # No other line names the different builds of metrics that passed.
        passed = [pair for pair in self.comparisons if pair.difference and pair.verdict in (PASS, EMULATED)]
        return lines + list(dict.fromkeys(f"{pair.subject_label}: {pair.difference}" for pair in passed))

    def rows(self) -> List[Dict[str, Any]]:
        """Return a row for each comparison, and for each metric that a single side has.

        A metric of several sides without comparison has none.
        """
        rows = [comparison.row(self._evaluation.compares_answers) for comparison in self.comparisons]
        for name, metric in self._metrics.items():
            if len(self._values[name]) == 1:
                ((side, values),) = self._values[name].items()
                row = baseline_row(metric, self._sides[side].label, values)
                rows.append({**row, "emulated": self._evaluation.emulated})
        # A value of half a node is no point of a scaling over nodes.
        return [{**row, "duet": True, "scaling": ""} if self._evaluation.duet else row for row in rows]

    def performance(self) -> Iterator[Tuple[str, float, str]]:
        """Yield name, value and unit of what ReFrame logs; a subject's value has the name of the metric.

        Where several sides are compared, the names end with the subject's label.
        """
        subjects = {comparison.subject_label for comparison in self.comparisons}
        for row in self.rows():
            name, unit = row["metric"], row["unit"]
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


def failure_lines(comparisons: Iterable[Comparison]) -> List[str]:
    """Return a line that names all metrics that failed, and lines for those that may fail; none where none failed.

    Metrics that are compared with another side, or better than their reference, have lines of their own.
    """
    comparisons = list(comparisons)
    groups: Dict[Tuple[str, str, str], List[Comparison]] = {}
    for comparison in comparisons:
        if comparison.verdict == FAIL:
            # Each reference that a metric is better than needs a new value of its own.
            metric = comparison.metric.name if comparison.vanished else ""
            key = (comparison.baseline_label, comparison.subject_label, metric)
            groups.setdefault(key, []).append(comparison)
    messages = [_failed(group) for group in groups.values()]
    return messages + _may_fail([comparison for comparison in comparisons if comparison.may_fail]) if messages else []


def _failed(group: Sequence[Comparison]) -> str:
    if len(group) == 1:
        return group[0].failure
    details = {comparison.details for comparison in group}
    sizes = [f"{comparison.metric.name} by {comparison.size}{comparison.uncertainty}" for comparison in group]
    if len(details) == 1:
        names = f"{', '.join(sizes)} ({details.pop()})"
    else:
        names = ", ".join(f"{size} ({comparison.details})" for size, comparison in zip(sizes, group))
    return f"{len(group)} metrics are worse than {group[0].baseline_label} in this session: {names}"


def _may_fail(comparisons: Iterable[Comparison]) -> List[str]:
    """Return a line for each answer on open metrics: it names the metrics that share it."""
    by_answer: Dict[str, List[str]] = {}
    for comparison in comparisons:
        name = f"{comparison.metric.name} ({comparison.size} {comparison.direction})"
        by_answer.setdefault(comparison.answer, []).append(name)
    messages = []
    for answer, (*before, last) in by_answer.items():
        if before:
            answer = answer.replace("its reference", "their references")
        messages.append(f"{', '.join(before)} and {last} are {answer}" if before else f"{last} is {answer}")
    return messages
