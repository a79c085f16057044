"""The data of the page as CSV: a row for each figure of the night's cases, and a row for each point of each series."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

from containercheck.history.nights import Night
from containercheck.history.series import Series
from containercheck.report import scaling
from containercheck.report.page.states import state
from containercheck.report.page.wording import axes, plain
from containercheck.results.cases import Case
from containercheck.results.row import Row

WHAT = ("system", "partition", "environ", "application", "axes", "variant", "nodes")
RESULT = ("result", "state", "completed", "reason")
FIGURE = (
    "figure",
    "unit",
    "better",
    "baseline_label",
    "baseline",
    "baseline_error",
    "baseline_spread",
    "subject_label",
    "subject",
    "subject_error",
    "subject_spread",
    "overhead",
    "low",
    "high",
    "overhead_unit",
)
JUDGED = ("expected", "verdict", "open_kind", "bound", "rounds", "above", "rounds_needed")
SCALING = ("scaling", "baseline_speed_up", "baseline_efficiency", "subject_speed_up", "subject_efficiency")
OVER_CORES = tuple(f"{name}_over_cores" for name in SCALING)
SERIES = ("kind", "system", "partition", "environ", "application", "axes", "variant", "nodes", "figure", "unit")
POINT = ("night", "value", "standard_error", "confirmation", "before_a_break", "break")


#: Characters with which formulas begin in a spreadsheet.
FORMULA = ("=", "+", "-", "@")


def figures(night: Night) -> str:
    """Return the CSV of figures: a row for each figure of each case, and one for a case without figures.

    Values are in the figure's unit, low and high (the ends of the overhead's interval) in the overhead's; an efficiency
    of 1 is the ideal.
    """
    headings = ("night", *WHAT, *RESULT, *FIGURE, "accepted_low", "accepted_high", *JUDGED, *SCALING, *OVER_CORES)
    scaled = scaling.by_row(night.cases)
    rows = (_figure(night, case, row, scaled) for case in night.cases for row in (case.rows or (None,)))
    return _csv(headings, rows)


def _figure(night: Night, case: Case, row: Row | None, scaled: scaling.ByRow) -> list[Any]:
    system, partition, environ, _ = case.key
    what = (system, partition, environ, case.application, axes(case.axes), case.variant, case.nodes)
    result = (case.result, state(case).word, _time(case.when), "" if row else case.reason)
    scaling_facts = scaled.get((case.key, row.figure, row.subject_label), {}) if row else {}
    # A row without a comparison has no rounds, and no unit of an overhead.
    facts = row.to_json() if row else {}
    low, high = facts.get("accepted") or (None, None)
    figure, judged = ((facts.get(name) for name in names) for names in (FIGURE, JUDGED))
    return [
        night.name,
        *what,
        *result,
        *figure,
        low,
        high,
        *judged,
        *(scaling_facts.get(name) for name in (*SCALING, *OVER_CORES)),
    ]


def series(all_series: Iterable[Series]) -> str:
    """Return the CSV of series: a row for each point of each series, the earliest first."""
    return _csv((*SERIES, *POINT), (row for member in all_series for row in _points(member)))


def _points(series: Series) -> Iterable[list[Any]]:
    place = (series.system, series.partition, series.environ)
    case = (series.application, axes(dict(series.axes)), series.variant, series.nodes)
    for points, earlier in ((series.earlier, True), (series.points, False)):
        for point in points:
            cells = (point.night.name, point.value, point.error, point.confirmation, earlier, point.night.changed)
            yield [series.kind, *place, *case, series.figure, series.unit, *cells]


def _time(when: float) -> str:
    """Return a time in the format of ISO 8601, in UTC; empty where there is none."""
    return datetime.fromtimestamp(when, timezone.utc).isoformat(timespec="seconds") if when else ""


def _csv(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(headings)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str):
        return value
    text = plain(value)
    # A text that looks like a formula is quoted: a spreadsheet would compute it, or run the command in it.
    return f"'{text}" if text.lstrip()[:1] in FORMULA or text[:1] in ("\t", "\r") else text
