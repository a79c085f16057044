"""What there is to see of each application: its plots, and all its figures as a table."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from containercheck.history.nights import Night
from containercheck.report import table
from containercheck.report.page import charts, drawing, shapes, wording
from containercheck.report.page.charts import Chart
from containercheck.report.page.plots import accepted, plots
from containercheck.report.page.shapes import Curve
from containercheck.report.page.states import state
from containercheck.report.page.wording import Table, finite
from containercheck.results.cases import Case
from containercheck.results.formatting import number
from containercheck.results.row import PASS, Row

#: The check that measures what the runtime itself costs; the documents compare its versions by that (D12.6 section 9).
START_UP = "StartUp"
#: So many rows has a table that no plot is above; all are in the CSV. A page with 5000 results loads in a second.
MOST_ROWS = 60
FIGURES = ("case", "partition", "figure", "bare", "container", "overhead", "accepted", "rounds", "verdict")


@dataclass(frozen=True)
class Application:
    """The part of the page about an application.

    :ivar anchor: identifies it there.
    :ivar figures: of all its cases that ran.
    """

    name: str
    anchor: str
    charts: tuple[Chart, ...]
    figures: Table


def applications(nights: Sequence[Night], most: int) -> list[Application]:
    """Return the applications that ran in the last night.

    :param most: so many plots are drawn, as many of each application.
    """
    found: dict[str, list[Case]] = {}
    for case in sorted(nights[-1].cases, key=lambda case: (case.label, shapes.style_of(case.variant), case.nodes)):
        # One without figures is told where it is missing in those of the others.
        if case.result != "skip":
            found.setdefault(case.application, []).append(case)
    found = {name: cases for name, cases in found.items() if _have_figures(cases)}
    each = min(charts.MOST_OF_APPLICATION, max(1, most // max(1, len(found))))
    return [
        Application(name, f"application-{place}", _charts(place, cases, nights, each), _figures(cases))
        for place, (name, cases) in enumerate(sorted(found.items()), 1)
    ]


def _charts(number_of: int, cases: Sequence[Case], nights: Sequence[Night], most: int) -> tuple[Chart, ...]:
    """Return the plots of an application: as many of each of its groups, and all of the groups where they are few."""
    groups: dict[tuple[str, str, str, str], list[Case]] = {}
    for case in cases:
        key = (wording.partition(case), case.key[2], case.label, wording.axes(case.axes))
        groups.setdefault(key, []).append(case)
    groups = {key: those for key, those in groups.items() if _have_figures(those)}
    often = collections.Counter(key[:-1] for key in groups)
    found: list[Chart] = []
    if cases[0].application == START_UP:
        found += versions(f"versions-{number_of}", nights)
    for place, ((partition, environ, label, axes), those) in enumerate(groups.items()):
        left = most - len(found)
        if left < 1:
            break
        heading = f"{label}, {partition}" + ("" if environ == "builtin" else f" {environ}")
        # One that a check has only since some session of the night.
        heading += f" ({axes or 'no axes'})" if often[partition, environ, label] > 1 else ""
        share = max(1, left // (len(groups) - place))
        found += plots(f"plot-{number_of}-{place + 1}", heading, those, share)
    return tuple(found)


def _have_figures(cases: Sequence[Case]) -> bool:
    return any(case.rows for case in cases)


def _figures(cases: Sequence[Case]) -> Table:
    """Return the figures; where they are many, those that did not pass, and of the others the first ones."""
    found = [(case, row) for case in cases for row in case.rows]
    chosen = sorted(range(len(found)), key=lambda place: found[place][1].verdict in ("", PASS))[:MOST_ROWS]
    rows = tuple(_figure(*found[place]) for place in sorted(chosen))
    caption = f"{cases[0].application}: {wording.shown_count(len(rows), len(found), 'figure')}"
    return Table(caption, FIGURES, rows, left=3)


def _figure(case: Case, row: Row) -> tuple[str, ...]:
    labelled = row.baseline_label != "bare"
    sides = (table.side(row, side, labelled) for side in ("baseline", "subject"))
    cells = (*sides, table.overhead(row), accepted(row), str(row.rounds or ""))
    head = (wording.name(case), wording.partition(case), row.figure)
    return (*head, *cells, table.verdict(row) or state(case).word)


def versions(prefix: str, nights: Sequence[Night]) -> list[Chart]:
    """Return the plots of start-up over the versions of the runtime, where a partition had several of them."""
    groups: dict[tuple[str, str], dict[tuple[str, str], list[float]]] = {}
    for case in (case for night in nights for case in night.cases if case.application == START_UP):
        row = next((row for row in case.rows if row.overhead_unit == row.unit == "s"), None)
        for variant, version, value in _started(case, row) if row else ():
            group = groups.setdefault((f"{case.label}, {wording.partition(case)}", row.figure), {})
            group.setdefault((variant, version), []).append(value)
    several = {key: those for key, those in groups.items() if len({version for _, version in those}) > 1}
    return [
        _over_versions(f"{prefix}-{place + 1}", f"{heading}: {figure} under each version of the runtime", those)
        for place, ((heading, figure), those) in enumerate(several.items())
    ]


def _started(case: Case, row: Row) -> list[tuple[str, str, float]]:
    """Return variant, version of the runtime and seconds of the sides that ran in a container."""
    runtimes = case.provenance.get("runtimes") or {}
    found = []
    for side in ("baseline", "subject"):
        one, value = runtimes.get(side) or runtimes.get(getattr(row, f"{side}_label")) or {}, getattr(row, side)
        if one.get("version") and finite(value) is not None:
            found.append((case.variant, one["version"], value))
    return found


def _over_versions(name: str, title: str, those: Mapping[tuple[str, str], Sequence[float]]) -> Chart:
    order = list(dict.fromkeys(version for _, version in those))
    variants = sorted({variant for variant, _ in those}, key=shapes.style_of)
    curves = []
    for variant in variants:
        mine = {version: those[variant, version] for version in order if (variant, version) in those}
        points = ((order.index(v), statistics.median(them), min(them), max(them)) for v, them in mine.items())
        curves.append(Curve(variant, shapes.style_of(variant), tuple(points)))
    rows = tuple(
        (version, variant, str(len(values)), *(f"{number(f(values))} s" for f in (statistics.median, min, max)))
        for (variant, version), values in those.items()
    )
    text = "Seconds of a start, the median over the nights; bars are the fastest and the slowest night. "
    text += "; ".join(f"{row[0]}, {row[1]}: {row[3]}" for row in rows) + "."
    headings = ("runtime", "variant", "nights", "median", "fastest", "slowest")
    data = Table(f"Data of the plot: {title}", headings, rows, 2)
    return Chart.of(name, title, text, drawing.over_names(curves, order, "s"), data)
