"""The text at the end of a session: metrics, scaling, disturbances, skipped and failed cases, and open verdicts."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from containercheck.report import answers, policies, ran, scaling, skipped, summary
from containercheck.results import open_verdicts, selections
from containercheck.results.cases import Case
from containercheck.results.formatting import columns, number
from containercheck.results.row import EMULATED, NOT_JUDGED, OPEN, Row

#: Half width in percent above which an interval is only printed as wider than this.
WIDEST = 100.0
#: Limit on the lopsidedness of an interval, relative to its half width; beyond it both ends are printed instead of ±.
LOPSIDED = 0.3
#: Relative difference between a bare run by itself and bare in the containers' rounds from which on it is reported: the
#: machine was under another load, or in another state.
OTHER_LOAD = 0.05
#: Name of the baseline in the rounds of a container (``containercheck.job.contract``).
BASELINE = "baseline"


def lines(cases: Sequence[Case]) -> list[str]:
    """Return all lines to print."""
    metrics = [*table(cases), *scaling.lines(cases), *policies.lines(cases), *answers.lines(cases)]
    end = [*skips(cases), *failures(cases), *ran.lines(cases), *summary.last_line(cases)]
    return [*metrics, *summary.notes(cases), *end]


def table(cases: Sequence[Case]) -> list[str]:
    """Return the table of metrics with its heading; nothing without metrics."""
    measured = [(case, row) for case in cases if case.result != "skip" for row in case.rows]
    if not measured:
        return []
    bare = all(row.baseline_label == "bare" for _, row in measured)
    usual = all(row.subject_label in ("", case.variant) for case, row in measured)
    headings = ("bare" if bare else "baseline", "container" if usual else "subject")
    spread = ("spreads",) if any(spreads(row) for _, row in measured) else ()
    text: list[tuple[str, ...]] = [
        ("application", "partition", "variant", "nodes", "metric", *headings, *spread, "overhead", "verdict")
    ]
    for case, row in measured:
        head = (case.label, case.partition, case.variant, str(case.nodes), row.metric)
        sides = (side(row, "baseline", not bare), side(row, "subject", not usual))
        spread = spread and (spreads(row),)
        last = verdict(row, rounds=True) or in_rounds(case, row, cases)
        text.append((*head, *sides, *spread, overhead(row), last))
    if len({case.partition for case in cases if case.result != "skip"}) < 2:
        text = [(row[0], *row[2:]) for row in text]
    return columns(text)


def skips(cases: Sequence[Case]) -> list[str]:
    """Return a line for each reason for which cases were skipped."""
    return [f"skipped: {reason.line}" for reason in skipped.by_reason(cases)]


def failures(cases: Sequence[Case]) -> list[str]:
    """Return a line for each case that failed."""
    failed = [(case, run) for case in cases if (run := selections.failure(case))]
    return [f"FAILED{'' if run is case else ', and passed later'}: {what_failed(case, run)}" for case, run in failed]


def what_failed(case: Case, run: Case) -> str:
    """Return the name of the case that failed, and the reason in this run."""
    return f"{case.label} {case.variant}, {case.nodes} node(s): {run.reason or run.result}"


def overhead(row: Row) -> str:
    """Return a row's overhead with its interval; empty where nothing was compared."""
    return f"{number(row.overhead, 2, '+')} {_interval(row)}" if row.is_comparison else ""


def _interval(row: Row) -> str:
    unit, half, low, high = row.overhead_unit, row.interval, row.low, row.high
    if _finite(half):
        # A fail takes more evidence than a pass, so one end may be much farther from the estimate than the other.
        if _finite(low) and _finite(high) and abs(high + low - 2 * row.overhead) > LOPSIDED * half:
            return f"({number(low, 2, '+')} to {number(high, 2, '+')}) {unit}"
        if unit == "%" and half > WIDEST:
            return f"±>{WIDEST:g} %"
        return f"± {number(half, 2)} {unit}"
    # With few rounds one end may be known, and the other not.
    if _finite(low) and not _finite(high):
        return f"(at least {number(low, 2, '+')}) {unit}"
    if _finite(high) and not _finite(low):
        return f"(at most {number(high, 2, '+')}) {unit}"
    return f"± ? {unit}"


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def side(row: Row, which: str, labelled: bool) -> str:
    """Return the value of a row's baseline or subject.

    :param which: ``baseline`` or ``subject``.
    :param labelled: whether to add the side's label.
    """
    value, label = getattr(row, which), getattr(row, f"{which}_label")
    if value is None:
        return ""
    return f"{number(value)} {row.unit}" + (f" ({label})" if labelled and label else "")


def spreads(row: Row) -> str:
    """Return the spread of the baseline's values and that of the subject's; empty where they are not known.

    In percent of the side's median, or in the metric's unit where that is what the overhead is told in.
    """
    known = [(row.baseline_spread, row.baseline), (row.subject_spread, row.subject)]
    known = [(spread, middle) for spread, middle in known if spread is not None]
    if row.overhead_unit == "%" and all(middle for _, middle in known):
        return _listed([100 * spread / abs(middle) for spread, middle in known], "%")
    return _listed([spread for spread, _ in known], row.unit)


def _listed(values: Sequence[float], unit: str) -> str:
    return f"{', '.join(number(value, 2) for value in values)} {unit}".strip() if values else ""


def verdict(row: Row, rounds: bool = False) -> str:
    """Return a row's verdict with remarks on it.

    :param rounds: whether to add after how many rounds a closed verdict fell.
    """
    word = row.verdict
    if word == EMULATED:
        word = NOT_JUDGED
    elif word == OPEN:
        word = open_verdicts.describe(row)
    elif word and rounds and row.rounds:
        word += f", {row.rounds} round{'s'[: row.rounds > 1]}"
    remarks = ["expected overhead"] if row.expected and row.verdict != EMULATED else []
    remarks += ["rounds spread more than is known of them"] if row.contradicted else []
    remarks += [row.difference] if row.difference else []
    remarks += [] if row.answers_compared else ["answers not compared"]
    return word + (f" ({'; '.join(remarks)})" if remarks else "")


def in_rounds(case: Case, row: Row, cases: Sequence[Case]) -> str:
    """Return the median of bare in its containers' rounds where it differs from the bare run by itself; else "".

    Cases belong together if they agree in the axes that the bare case has.
    """
    twins = [other for other in cases if other is not case and other.identity_as(case.variant) == case.identity]
    # In a duet each side has half of the node.
    twins = [twin for twin in twins if not any(row.duet for row in twin.rows)]
    rounds = [sides.get(BASELINE, {}) for twin in twins for sides in twin.measured]
    values = [metrics[row.metric] for metrics in rounds if row.metric in metrics]
    if not values or row.baseline is None:
        return ""
    middle, alone = statistics.median(values), row.baseline
    if abs(middle - alone) <= OTHER_LOAD * max(abs(middle), abs(alone)):
        return ""
    return f"one run by itself; {number(middle)} {row.unit} in the containers' rounds"
