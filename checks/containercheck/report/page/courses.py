"""Whether the course of a figure over an axis is what a document says: its trend, its order, or where it is best.

Two values within five percent of each other are the same. A figure *rises* where its last value is larger than its
first, and none is smaller than the one before; over names, such as instruction sets, each has to be larger than the one
before. It *falls* the other way round, and *varies* where its best and its worst value are not the same. Where a place
is named as the best, no other place may be better. All of this is about the values of one side, bare unless it is said.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from containercheck.report.page import places
from containercheck.report.page.wording import finite
from containercheck.results.cases import Case
from containercheck.results.formatting import number
from containercheck.results.row import Row

#: Relative difference within which two values are the same: the default tolerance of a check.
NEAR = 0.05
#: Trends.
RISES, FALLS, VARIES = "rises", "falls", "varies"
#: Axes that are no parameter of a check: the number of nodes, and the sides that are compared, such as policies.
NODES, SIDES = "nodes", "policies"
#: Most values that are listed; of more, the first and the last ones.
MOST_LISTED = 8


@dataclass(frozen=True)
class Course:
    """What a document says of a figure over an axis.

    :ivar axis: parameter of the check, :data:`NODES` or :data:`SIDES`.
    :ivar trend: one of the words above; empty where the best place is named.
    :ivar best: place with the best value.
    :ivar places: names on the axis that count, in the order of the trend; empty for all, which then are numbers.
    :ivar up_to: largest number on the axis that the trend is said of.
    :ivar side: whose values count: bare, or a variant.
    :ivar relative: whether the speed of what is compared counts, in percent of the speed of its baseline.
    :ivar subject: word in the label of what is compared; empty for any.
    :ivar ratios: whether the document has ratios to the first value.
    :ivar where: another axis, and the beginning of the values of it that count.
    """

    figure: str
    axis: str
    trend: str = ""
    best: str = ""
    places: tuple[str, ...] = ()
    up_to: float = math.inf
    side: str = "bare"
    relative: bool = False
    subject: str = ""
    ratios: bool = False
    where: tuple[str, str] = ("", "")

    @property
    def words(self) -> str:
        """What the document says, in words."""
        what = self.figure + (f", {self.side}" if self.side != "bare" else "")
        what += " against its baseline" if self.relative else ""
        if self.best:
            return f"{what}: best at {self.best} ({self.axis})"
        if self.places:
            return f"{what}: {' < '.join(self.places) if self.trend == RISES else ' > '.join(self.places)}"
        what += "," if self.side != "bare" else ""
        return f"{what} {self.trend} over {self.axis}" + (f" up to {self.up_to:g}" if self.up_to < math.inf else "")


@dataclass(frozen=True)
class Part:
    """What a night says of a part of a figure.

    :ivar holds: whether that is what the document says; None where it may be.
    :ivar ours: the values, in short.
    :ivar why: why it does not hold, or may not.
    """

    holds: bool | None
    ours: str
    why: str = ""


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
    return Part(worst.holds, holding + worst.ours, worst.why)


def _judge(course: Course, line: Line) -> Part:
    if course.best:
        return _is_best(course, line)
    values = sorted(line.points, key=lambda point: point[1], reverse=not line.is_lower_better)
    (best_place, best), (worst_place, worst) = values[0], values[-1]
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


def _is_best(course: Course, line: Line) -> Part:
    points = dict(line.points)
    better = min if line.is_lower_better else max
    best = better(points, key=lambda place: points[place])
    ours = f"best at {best}; {_listed(course, line)}"
    if best == course.best:
        return Part(True, ours)
    same = _step(points[best], points[course.best]) == 0
    return Part(None if same else False, ours, f"{best} is {'as good' if same else 'better'}")


def _step(first: float, second: float) -> int:
    """Return whether the second of two values is larger (1), smaller (-1) or the same (0).

    >>> _step(100, 110), _step(110, 100), _step(100, 104)
    (1, -1, 0)
    """
    if abs(second - first) <= NEAR * min(abs(first), abs(second)):
        return 0
    return 1 if second > first else -1


def _listed(course: Course, line: Line) -> str:
    if course.ratios:
        first = line.points[0][1]
        places = ", ".join(place for place, _ in line.points)
        return f"{' : '.join(number(value / first, 2) for _, value in line.points)} ({places})"
    points = line.points
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
        for row in case.rows if case.axes.get(course.where[0], "").startswith(course.where[1]) else ():
            value, place = _value(course, case, row), _place(course, case, row)
            if row.figure == course.figure and value is not None and place:
                groups.setdefault(_group(course, case), {}).setdefault(place, (value, row, case))
    for found in groups.values():
        by_place = _numbered(course, found)
        ordered = _ordered(course, by_place)
        if len(ordered) > 1 and (not course.best or course.best in ordered):
            row = next(iter(by_place.values()))[1]
            is_lower_better = row.better == "lower" and not course.relative
            unit = "%" if course.relative else row.unit
            yield Line(tuple((place, by_place[place][0]) for place in ordered), unit, is_lower_better)


def _value(course: Course, case: Case, row: Row) -> float | None:
    baseline, subject = finite(row.baseline), finite(row.subject)
    if course.relative:
        meant = case.variant == course.side and course.subject in row.subject_label
        if not meant or not baseline or not subject:
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


def _numbered(course: Course, by_place: Mapping[str, tuple[float, Row, Case]]) -> Mapping[str, tuple[float, Row, Case]]:
    """Return the values of a trend over numbers by these, where the axis has a default: ``ranks=0`` is 28 of them."""
    if course.best or course.places or course.axis in (NODES, SIDES):
        return by_place
    placed = places.of(course.axis, [case for _, _, case in by_place.values()])
    return {f"{placed.numbers[at]:g}": by_place[at] for at in placed.numbers if at in by_place} if placed else {}


def _ordered(course: Course, values: Collection[str]) -> list[str]:
    """Return the values of the axis that count, in their order."""
    if course.places:
        return [place for place in course.places if place in values]
    numbers = sorted(filter(places.is_number, values), key=float)
    if course.best or course.axis == SIDES:
        return [*numbers, *(place for place in values if place not in numbers)]
    return [place for place in numbers if float(place) <= course.up_to]
