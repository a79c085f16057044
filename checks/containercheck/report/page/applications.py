"""The part of the page about each application: its plots, and a table of its figures."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from containercheck.history.nights import Night
from containercheck.report import table
from containercheck.report.page import charts, mpi_ranks, over_axis, over_versions, pair_maps, policies, shapes, wording
from containercheck.report.page.charts import Chart
from containercheck.report.page.plots import accepted, plots
from containercheck.report.page.states import state
from containercheck.report.page.wording import Table
from containercheck.results.cases import Case
from containercheck.results.row import PASS, Row

#: Most rows of the table; all are in the CSV. A page with 5000 results loads in a second.
MOST_ROWS = 60
FIGURES = ("case", "partition", "figure", "bare", "container", "spreads", "overhead", "accepted", "rounds", "verdict")


@dataclass(frozen=True)
class Application:
    """The part of the page about an application.

    :ivar anchor: identifies it on the page.
    :ivar tables: the functions of MPI of each case whose time in MPI was measured.
    :ivar remarks: a line on each plot that could not be drawn.
    :ivar figures: the figures of all its cases that ran.
    """

    name: str
    anchor: str
    charts: tuple[Chart, ...]
    tables: tuple[Table, ...]
    remarks: tuple[str, ...]
    figures: Table


def applications(nights: Sequence[Night], most: int) -> list[Application]:
    """Return the applications that ran in the last night.

    :param most: most plots that are drawn, shared evenly by the applications.
    """
    by_application: dict[str, list[Case]] = {}
    for case in sorted(nights[-1].cases, key=lambda case: (case.label, shapes.style_of(case.variant), case.nodes)):
        # Skipped cases have a part of the page of their own.
        if case.result != "skip":
            by_application.setdefault(case.application, []).append(case)
    by_application = {name: cases for name, cases in by_application.items() if _have_figures(cases)}
    share = min(charts.MOST_OF_APPLICATION, max(1, most // max(1, len(by_application))))
    return [
        _application(place, name, cases, nights, share)
        for place, (name, cases) in enumerate(sorted(by_application.items()), 1)
    ]


def _application(place: int, name: str, cases: Sequence[Case], nights: Sequence[Night], most: int) -> Application:
    maps, problems = pair_maps.maps(f"map-{place}", cases, charts.MOST_OF_MAPS)
    ranks, tables, more_problems = mpi_ranks.charts(f"ranks-{place}", cases, charts.MOST_OF_RANKS)
    drawn = (*_charts(place, cases, nights, most), *maps, *ranks)
    remarks = (*problems, *more_problems)
    return Application(name, f"application-{place}", drawn, tuple(tables), remarks, _figures(cases))


def _charts(number_of: int, cases: Sequence[Case], nights: Sequence[Night], most: int) -> tuple[Chart, ...]:
    """Return the plots of an application, shared evenly by its groups of comparable cases.

    :param number_of: number of the application on the page.
    :param most: most plots.
    """
    groups: dict[tuple[str, str, str, str], list[Case]] = {}
    for case in cases:
        key = (wording.partition(case), case.key[2], case.label, wording.axes(case.axes))
        groups.setdefault(key, []).append(case)
    groups = {key: group for key, group in groups.items() if _have_figures(group)}
    counts = collections.Counter(key[:-1] for key in groups)
    over_time = over_versions.charts(f"versions-{number_of}", cases[0].application, nights)
    first = list(itertools.islice(over_time, charts.MOST_OF_VERSIONS))
    drawn: list[Chart] = []
    for place, ((partition, environ, label, axes), group) in enumerate(groups.items()):
        left = most - len(drawn)
        if left < 1:
            break
        heading = f"{label}, {partition}" + ("" if environ == "builtin" else f" {environ}")
        # A check may have got another axis between two sessions of the night.
        heading += f" ({axes or 'no axes'})" if counts[partition, environ, label] > 1 else ""
        share = max(1, left // (len(groups) - place))
        drawn += plots(f"plot-{number_of}-{place + 1}", heading, group, share)
    over_policies = itertools.islice(policies.charts(f"policies-{number_of}", cases), charts.MOST_OF_POLICIES)
    return (*first, *drawn, *over_policies, *itertools.islice(_over_axes(number_of, cases), charts.MOST_OF_AXES))


def _over_axes(number_of: int, cases: Sequence[Case]) -> Iterator[Chart]:
    """Yield the plots over the axes of an application, of each partition."""
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((wording.partition(case), case.key[2]), []).append(case)
    for place, ((partition, _), group) in enumerate(groups.items(), 1):
        heading = f"{cases[0].application}, {partition}"
        yield from over_axis.charts(f"axis-{number_of}-{place}", heading, group)


def _have_figures(cases: Sequence[Case]) -> bool:
    return any(case.rows for case in cases)


def _figures(cases: Sequence[Case]) -> Table:
    """Return the table of figures; where they are many, those that did not pass and the first of the others."""
    measured = [(case, row) for case in cases for row in case.rows]
    chosen = sorted(range(len(measured)), key=lambda place: measured[place][1].verdict in ("", PASS))[:MOST_ROWS]
    rows = tuple(_figure(*measured[place]) for place in sorted(chosen))
    caption = f"{cases[0].application}: {wording.shown_count(len(rows), len(measured), 'figure')}"
    return Table(caption, FIGURES, rows, left=3)


def _figure(case: Case, row: Row) -> tuple[str, ...]:
    labelled = row.baseline_label != "bare"
    sides = (table.side(row, side, labelled) for side in ("baseline", "subject"))
    cells = (*sides, table.spreads(row), table.overhead(row), accepted(row), str(row.rounds or ""))
    head = (wording.name(case), wording.partition(case), row.figure)
    return (*head, *cells, table.verdict(row) or state(case).word)
