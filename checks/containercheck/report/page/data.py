"""The data of the page as CSV: a row for each metric of the night's cases, and a row for each point of each series."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from containercheck.history.nights import Night
from containercheck.history.series import Series
from containercheck.report import scaling
from containercheck.report.page.cases import state
from containercheck.report.page.wording import axes, plain
from containercheck.results.cases import Case

WHAT = ("system", "partition", "environ", "application", "axes", "variant", "nodes")
RESULT = ("result", "state", "completed", "reason")
METRIC = (
    *("metric", "unit", "better", "baseline_label", "baseline", "baseline_error", "baseline_spread"),
    *("subject_label", "subject", "subject_error", "subject_spread", "overhead", "low", "high", "overhead_unit"),
)
JUDGED = ("expected", "verdict", "open_kind", "bound", "rounds", "above", "rounds_needed")
SCALING = ("scaling", "baseline_speed_up", "baseline_efficiency", "subject_speed_up", "subject_efficiency")
OVER_CORES = tuple(f"{name}_over_cores" for name in SCALING)
SERIES = ("kind", "system", "partition", "environ", "application", "axes", "variant", "nodes", "metric", "unit")
POINT = ("night", "value", "standard_error", "confirmation", "before_a_break", "break")
#: Characters with which formulas begin in a spreadsheet.
FORMULA = ("=", "+", "-", "@")


def metrics(night: Night) -> str:
    """Return the CSV of metrics: a row for each metric of each case, and one for a case without metrics.

    Values are in the metric's unit, low and high (the ends of the overhead's interval) in the overhead's; an efficiency
    of 1 is the ideal.
    """
    headings = ("night", *WHAT, *RESULT, *METRIC, "accepted_low", "accepted_high", *JUDGED, *SCALING, *OVER_CORES)
    scaled = scaling.by_row(night.cases)
    rows = []
    for case in night.cases:
        of_case = {"night": night.name, **_place(case, *case.key[:3]), **_result(case)}
        rows += [] if case.rows else [{**of_case, "reason": case.reason}]
        for row in case.rows:
            # A row without a comparison has no rounds, and no unit of an overhead.
            facts = {**row.to_json(), "scaling": "", **scaled.get((case.key, row.metric, row.subject_label), {})}
            low, high = facts.get("accepted", (None, None))
            rows.append({**facts, **of_case, "accepted_low": low, "accepted_high": high})
    return _csv(headings, rows)


def _place(member: Case | Series, system: str, partition: str, environ: str) -> dict[str, Any]:
    values = (system, partition, environ, member.application, axes(member.axes), member.variant, member.nodes)
    return dict(zip(WHAT, values))


def _result(case: Case) -> dict[str, Any]:
    """Return result, state and time (ISO 8601, UTC; empty without a job) of a case."""
    when = datetime.fromtimestamp(case.when, timezone.utc).isoformat(timespec="seconds") if case.when else ""
    return {"result": case.result, "state": state(case).word, "completed": when}


def series(all_series: Iterable[Series]) -> str:
    """Return the CSV of series: a row for each point of each series, the earliest first."""
    rows = []
    for member in all_series:
        place = _place(member, member.system, member.partition, member.environ)
        facts = {"kind": member.kind, **place, "metric": member.metric, "unit": member.unit}
        for points, is_earlier in ((member.earlier, True), (member.points, False)):
            for point in points:
                values = (point.night.name, point.value, point.error, point.confirmation, is_earlier)
                rows.append({**facts, **dict(zip(POINT, (*values, point.night.changed)))})
    return _csv((*SERIES, *POINT), rows)


def _csv(headings: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, headings, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str):
        return value
    text = plain(value)
    # A text that looks like a formula is quoted: a spreadsheet would compute it, or run the command in it.
    return f"'{text}" if text.lstrip()[:1] in FORMULA or text[:1] in ("\t", "\r") else text
