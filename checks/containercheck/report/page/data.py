"""The data of the page as CSV: a row for each figure of the night's cases, and one for each point of each series."""

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
    "subject_label",
    "subject",
    "subject_error",
    "overhead",
    "low",
    "high",
    "overhead_unit",
)
JUDGED = ("expected", "verdict", "open_kind", "bound", "rounds", "above", "rounds_needed")
SCALING = ("scaling", "baseline_speed_up", "baseline_efficiency", "subject_speed_up", "subject_efficiency")
SERIES = ("kind", "system", "partition", "environ", "application", "axes", "variant", "nodes", "figure", "unit")
POINT = ("night", "value", "standard_error", "confirmation", "before_a_break", "break")


#: What a cell of a spreadsheet begins with that is computed.
FORMULA = ("=", "+", "-", "@")


def figures(night: Night) -> str:
    """Return a row for each figure of each case, and one for a case without any; the first row names the columns.

    Values are in the figure's unit, low and high (the ends of the overhead's interval) in the overhead's; an efficiency
    of 1 is the ideal.
    """
    headings = ("night", *WHAT, *RESULT, *FIGURE, "accepted_low", "accepted_high", *JUDGED, *SCALING)
    scaled = scaling.by_row(night.cases)
    rows = (_figure(night, case, row, scaled) for case in night.cases for row in (case.rows or (None,)))
    return _csv(headings, rows)


def _figure(night: Night, case: Case, row: Row | None, scaled: scaling.ByRow) -> list[Any]:
    system, partition, environ, _ = case.key
    what = (system, partition, environ, case.application, axes(case.axes), case.variant, case.nodes)
    result = (case.result, state(case).word, _time(case.when), "" if row else case.reason)
    told = scaled.get((case.key, row.figure, row.subject_label), {}) if row else {}
    # What was not compared has no rounds, and no unit of an overhead.
    known = row.to_json() if row else {}
    low, high = known.get("accepted") or (None, None)
    figure, judged = ((known.get(name) for name in names) for names in (FIGURE, JUDGED))
    return [night.name, *what, *result, *figure, low, high, *judged, *(told.get(name) for name in SCALING)]


def series(all_series: Iterable[Series]) -> str:
    """Return a row for each point of each series, the earliest first."""
    return _csv((*SERIES, *POINT), (row for one in all_series for row in _points(one)))


def _points(one: Series) -> Iterable[list[Any]]:
    where = (one.system, one.partition, one.environ, one.application, axes(dict(one.axes)), one.variant, one.nodes)
    for points, earlier in ((one.earlier, True), (one.points, False)):
        for point in points:
            told = (point.night.name, point.value, point.error, point.confirmation, earlier, point.night.changed)
            yield [one.kind, *where, one.figure, one.unit, *told]


def _time(when: float) -> str:
    """Return a time of day as ISO 8601 has it, in UTC; empty where there is none."""
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
    # What a program printed is no formula: a spreadsheet would compute it, or call what it names.
    return f"'{text}" if text.lstrip()[:1] in FORMULA or text[:1] in ("\t", "\r") else text
