"""Bars over policies of sharing cores: time of the whole, speed-up of each program (D12.5 figures 13, 14, 20, 21)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from containercheck.report import policies
from containercheck.report.page import drawing, shapes, wording
from containercheck.report.page.charts import Chart
from containercheck.report.page.plots import ERRORS
from containercheck.report.page.shapes import Curve
from containercheck.report.page.wording import Table, measured
from containercheck.report.policies import WHOLE, Value
from containercheck.results.cases import Case
from containercheck.results.formatting import number


def charts(prefix: str, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield the plots of cases of an application, of each group that differs in its variant only.

    :param prefix: beginning of the names of the plots.
    """
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in cases:
        if policies.figures(case):
            key = (wording.partition(case), case.key[2], str(case.nodes), wording.axes(case.axes))
            groups.setdefault(key, []).append(case)
    for place, group in enumerate(groups.values(), 1):
        heading = f"{group[0].label}, {wording.partition(group[0])}"
        for number_of, figure in enumerate(dict.fromkeys(name for case in group for name in policies.figures(case))):
            sides = _merged(group, figure)
            name = f"{prefix}-{place}-{number_of}"
            if figure == WHOLE and sides:
                yield _times(f"{name}-seconds", f"{heading}: {figure} under each policy", sides)
            gains = {side: values for side, values in sides.items() if len(values) > 1}
            if gains:
                none = next(iter(next(iter(gains.values()))))
                yield _gains(f"{name}-speed-up", f"{heading}: speed-up of {figure} against {none}", none, gains)


def _merged(group: Sequence[Case], figure: str) -> policies.Times:
    """Return the times of all sides, of bare those of its own case where it ran, else of a container's job."""
    sides: dict[str, Mapping[str, Value]] = {}
    for case in sorted(group, key=lambda case: shapes.style_of(case.variant)):
        for side, values in policies.times(case, figure).items():
            if values:
                sides.setdefault(side, values)
    return sides


def _times(name: str, title: str, sides: policies.Times) -> Chart:
    """Return the plot of the times, as figures 13 and 21."""
    points = {side: {policy: (value.seconds, value.error) for policy, value in sides[side].items()} for side in sides}
    return _chart(name, title, "Seconds under each policy; bars are two standard errors.", "s", points)


def _gains(name: str, title: str, none: str, sides: policies.Times) -> Chart:
    """Return the plot of the speed-ups, each against the same side without a policy, as figures 14 and 20."""
    points = {
        side: {policy: value.speed_up(values[none]) for policy, value in values.items() if policy != none}
        for side, values in sides.items()
        if none in values
    }
    text = f"Time with {none} / time under each policy, of the same side: bare, or in the same container."
    return _chart(name, title, text, "speed-up", points)


def _chart(
    name: str, title: str, text: str, unit: str, sides: Mapping[str, Mapping[str, tuple[float, float | None]]]
) -> Chart:
    names = list(dict.fromkeys(policy for values in sides.values() for policy in values))
    curves = []
    for side, values in sides.items():
        points = []
        for policy, (value, error) in values.items():
            ends = (None, None) if error is None else (value - ERRORS * error, value + ERRORS * error)
            points.append((float(names.index(policy)), value, *ends))
        curves.append(Curve(side, shapes.style_of(side), tuple(points)))
    shown = "s" if unit == "s" else ""
    rows = tuple(
        (policy, side, measured(value, error, shown))
        for policy in names
        for side, values in sides.items()
        if policy in values
        for value, error in [values[policy]]
    )
    best = [f"{side}: {_most(values, unit == 's')}" for side, values in sides.items()]
    data = Table(f"Data of the plot: {title}", ("policy", "side", unit), rows, 2)
    return Chart.of(name, title, f"{text} Best: {'; '.join(best)}.", drawing.over_names(curves, names, unit), data)


def _most(values: Mapping[str, tuple[float, float | None]], least: bool) -> str:
    """Return the best policy with its value: the one with the least, or the most."""
    policy = (min if least else max)(values, key=lambda name: values[name][0])
    return f"{policy} {number(values[policy][0], 3)}"
