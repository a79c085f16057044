"""Compare the course of a metric over an axis with a document: its trend, its order, or the place of its best value.

Two values within five percent of each other are the same. A metric *rises* where its last value is larger than its
first, and none is smaller than the one before; over names, such as instruction sets, each has to be larger than the one
before. It *falls* the other way round, and *varies* where its best and its worst value are not the same. Where a place
is named as the best, no other place may be better. The values are of one side: bare, unless another is named.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from containercheck.report.page import over_axis
from containercheck.report.page.wording import finite
from containercheck.results.cases import Case
from containercheck.results.formatting import number
from containercheck.results.row import Row

#: Relative difference within which two values are the same: the default tolerance of a check.
NEAR = 0.05
#: Trends.
RISES, FALLS, VARIES = "rises", "falls", "varies"
#: Axes that are not a parameter of a check: the number of nodes, and the sides that are compared, such as policies.
NODES, SIDES = "nodes", "policies"
#: Most values that are listed; of more, the first and the last ones.
MOST_LISTED = 8


@dataclass(frozen=True)
class Course:
    """A document's statement about a metric over an axis; as_published.yaml explains the fields."""

    metric: str
    axis: str
    trend: str = ""
    best: str = ""
    places: tuple[str, ...] = ()
    up_to: float = math.inf
    side: str = "bare"
    relative: bool = False
    subject: str = ""
    ratios: bool = False
    where: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """The statement in words."""
        metric = self.metric + (f", {self.side}" if self.side != "bare" else "")
        metric += " against its baseline" if self.relative else ""
        if self.best:
            return f"{metric}: best at {self.best} ({self.axis})"
        if self.places:
            return f"{metric}: {' < '.join(self.places) if self.trend == RISES else ' > '.join(self.places)}"
        metric += "," if self.side != "bare" else ""
        return f"{metric} {self.trend} over {self.axis}" + (f" up to {self.up_to:g}" if self.up_to < math.inf else "")


@dataclass(frozen=True)
class Part:
    """The results of a night on a part of a statement.

    :ivar holds: whether the statement holds; None where it may.
    :ivar ours: the values, in short.
    :ivar reason: why it does not hold, or may not.
    """

    holds: bool | None
    ours: str
    reason: str = ""


@dataclass(frozen=True)
class Line:
    """Values of a side over an axis, all else being the same, by their places in order."""

    points: tuple[tuple[str, float], ...]
    unit: str
    is_lower_better: bool


def judge(course: Course, cases: Sequence[Case]) -> Part | None:
    """Return whether all lines have this course, with the values of the worst one; None without two values."""
    judged = [_judge(course, line) for line in _lines(course, cases)]
    if not judged:
        return None
    worst = min(judged, key=lambda part: (part.holds is not False, part.holds is not None))
    holding = f"{sum(part.holds is True for part in judged)} of {len(judged)} curves; " if len(judged) > 1 else ""
    return Part(worst.holds, holding + worst.ours, worst.reason)


def _judge(course: Course, line: Line) -> Part:
    values = sorted(line.points, key=lambda point: point[1], reverse=not line.is_lower_better)
    (best_place, best), (worst_place, worst) = values[0], values[-1]
    if course.best:
        ours = f"best at {best_place}; {_listed(course, line)}"
        if best_place == course.best:
            return Part(True, ours)
        same = _step(best, dict(line.points)[course.best]) == 0
        return Part(None if same else False, ours, f"{best_place} is {'as good' if same else 'better'}")
    if course.trend == VARIES:
        largest = max(abs(best), abs(worst))
        share = 100 * abs(best - worst) / largest if largest else 0.0
        ours = f"best at {best_place}, worst at {worst_place}: {number(share, 3)} % between them"
        return Part(_step(best, worst) != 0, ours, "" if _step(best, worst) else "best and worst are the same")
    return _has_trend(course, line)


def _has_trend(course: Course, line: Line) -> Part:
    wanted = 1 if course.trend == RISES else -1
    ours = _listed(course, line)
    pairs = list(zip(line.points, line.points[1:]))
    for (before, first), (after, second) in pairs:
        if _step(first, second) == -wanted:
            return Part(False, ours, f"it {FALLS if wanted == 1 else RISES} from {before} to {after}")
    for (before, first), (after, second) in pairs if course.places else [(line.points[0], line.points[-1])]:
        if _step(first, second) != wanted:
            return Part(None, ours, f"{before} and {after} are the same")
    return Part(True, ours)


def _step(first: float, second: float) -> int:
    """Return whether the second of two values is larger (1), smaller (-1) or the same (0).

    >>> _step(100, 110), _step(110, 100), _step(100, 104)
    (1, -1, 0)
    """
    if abs(second - first) <= NEAR * min(abs(first), abs(second)):
        return 0
    return 1 if second > first else -1


def _listed(course: Course, line: Line) -> str:
    points = line.points
    if course.ratios:
        places = ", ".join(place for place, _ in points)
        return f"{' : '.join(number(value / points[0][1], 2) for _, value in points)} ({places})"
    if len(points) > MOST_LISTED:
        points = (*points[: MOST_LISTED // 2], *points[-MOST_LISTED // 2 :])
    values = ", ".join(number(value, 3) for _, value in points)
    places = ", ".join(place for place, _ in points)
    at = f"{places} nodes" if course.axis == NODES else places if course.axis == SIDES else f"{course.axis} {places}"
    return f"{values} {line.unit} at {at}"


def _lines(course: Course, cases: Sequence[Case]) -> Iterator[Line]:
    """Yield the values over the axis, for each group of cases that differ in nothing else."""
    groups: dict[tuple[object, ...], dict[str, tuple[float, Row, Case]]] = {}
    # The bare cases come first: they ran one after the other, and a course compares them with each other.
    for case in sorted(cases, key=lambda case: case.variant != "bare"):
        if all(case.axes.get(axis, "").startswith(beginning) for axis, beginning in course.where.items()):
            for row in case.rows:
                value, place = _value(course, case, row), _place(course, case, row)
                if row.metric == course.metric and value is not None and place:
                    groups.setdefault(_group(course, case), {}).setdefault(place, (value, row, case))
    for by_place in groups.values():
        points = _ordered(course, by_place)
        if len(points) > 1 and (not course.best or course.best in dict(points)):
            _, row, _ = next(iter(by_place.values()))
            unit = "%" if course.relative else row.unit
            yield Line(points, unit, row.better == "lower" and not course.relative)


def _value(course: Course, case: Case, row: Row) -> float | None:
    baseline, subject = finite(row.baseline), finite(row.subject)
    if course.relative:
        is_meant = case.variant == course.side and course.subject in row.subject_label
        if not is_meant or not baseline or not subject:
            return None
        return 100 * (baseline / subject if row.better == "lower" else subject / baseline)
    if course.side == "bare":
        return baseline if row.baseline_label == "bare" or case.variant == "bare" else None
    return subject if case.variant == course.side and row.subject_label in ("", course.side) else None


def _place(course: Course, case: Case, row: Row) -> str:
    if course.axis == NODES:
        return str(case.nodes)
    return row.subject_label if course.axis == SIDES else case.axes.get(course.axis, "")


def _group(course: Course, case: Case) -> tuple[object, ...]:
    others = tuple(sorted(item for item in case.axes.items() if item[0] != course.axis))
    return (case.key[:3], others, 0 if course.axis == NODES else case.nodes)


def _ordered(course: Course, by_place: Mapping[str, tuple[float, Row, Case]]) -> tuple[tuple[str, float], ...]:
    """Return the places that count with their values, in their order: numbers, or the names of the statement.

    A default of the axis stands at its number: ``ranks=0`` at 28, where it is 28 of them.
    """
    if course.places:
        return tuple((place, by_place[place][0]) for place in course.places if place in by_place)
    names = {place: place for place in by_place}
    if not course.best and course.axis not in (NODES, SIDES):
        placed = over_axis.places(course.axis, [case for _, _, case in by_place.values()])
        names = {place: f"{at:g}" for place, at in placed.numbers.items()} if placed else {}
    points = [(name, by_place[place][0]) for place, name in names.items() if place in by_place]
    numbers = sorted((point for point in points if over_axis.is_number(point[0])), key=lambda point: float(point[0]))
    if course.best or course.axis == SIDES:
        return (*numbers, *(point for point in points if not over_axis.is_number(point[0])))
    return tuple(point for point in numbers if float(point[0]) <= course.up_to)
