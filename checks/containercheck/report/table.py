"""The text that a session ends with: the figures, how they scale, what disturbed it, was skipped, failed, is open."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from containercheck.report import answers, ran, scaling, summary
from containercheck.results import open_verdicts, selections
from containercheck.results.cases import Case
from containercheck.results.formatting import columns, number
from containercheck.results.row import EMULATED, NOT_JUDGED, OPEN, Row

#: An interval wider than this many percent is no more than that.
WIDEST = 100.0
#: By so much of its half width an interval's middle may be off the estimate, and still be given as ±.
LOPSIDED = 0.3
#: Part by which a bare run differs from bare in the rounds of the containers before that is said: the machine was under
#: another load, or in another state.
OTHER_LOAD = 0.05
#: What the side is called in the rounds that every container is compared with (``containercheck.node.contract``).
BASELINE = "baseline"


def lines(cases: Sequence[Case]) -> list[str]:
    """Return all lines to print."""
    figures = [*table(cases), *scaling.lines(cases), *answers.lines(cases)]
    end = [*skips(cases), *failures(cases), *ran.lines(cases), *summary.last_line(cases)]
    return [*figures, *summary.notes(cases), *end]


def table(cases: Sequence[Case]) -> list[str]:
    """Return the figures, with a heading; nothing where there are none."""
    found = [(case, row) for case in cases if case.result != "skip" for row in case.rows]
    if not found:
        return []
    bare = all(row.baseline_label == "bare" for _, row in found)
    usual = all(row.subject_label in ("", case.variant) for case, row in found)
    headings = ("bare" if bare else "baseline", "container" if usual else "subject")
    text: list[tuple[str, ...]] = [
        ("application", "partition", "variant", "nodes", "figure", *headings, "overhead", "verdict")
    ]
    for case, row in found:
        head = (case.label, case.partition, case.variant, str(case.nodes), row.figure)
        sides = (side(row, "baseline", not bare), side(row, "subject", not usual))
        text.append((*head, *sides, overhead(row), verdict(row, rounds=True) or in_rounds(case, row, cases)))
    if len({case.partition for case in cases if case.result != "skip"}) < 2:
        text = [(row[0], *row[2:]) for row in text]
    return columns(text)


def skips(cases: Sequence[Case]) -> list[str]:
    """Return a line for each application and reason for which cases were skipped, with what they are."""
    reasons: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        if case.result == "skip":
            reasons.setdefault((case.application, case.reason or "ReFrame skipped it"), []).append(case)
    found = []
    for (application, reason), skipped in reasons.items():
        what = ", ".join(f"{case.variant} {case.nodes} node(s)" for case in skipped[:3])
        more = f" and {len(skipped) - 3} more" if len(skipped) > 3 else ""
        found.append(f"skipped: {application} ({what}{more}): {reason}")
    return found


def failures(cases: Sequence[Case]) -> list[str]:
    """Return a line for each case that failed, then one for each whose slowness was not confirmed."""
    failed, passed = [], []
    for case in cases:
        run = selections.failure(case)
        if run:
            again = "" if run is case else ", and passed when it was run again"
            failed.append(f"FAILED{again}: {what_failed(case, run)}")
        else:
            run = selections.unconfirmed(case)
            if run:
                passed.append(f"not confirmed when it was run again: {what_failed(case, run)}")
    return failed + passed


def what_failed(case: Case, run: Case) -> str:
    """Return which case failed, and why in this run."""
    return f"{case.label} {case.variant}, {case.nodes} node(s): {run.reason or run.result}"


def overhead(row: Row) -> str:
    """Return a row's overhead with its interval; nothing where nothing was compared."""
    return f"{number(row.overhead, 2, '+')} {_interval(row)}" if row.is_comparison else ""


def _interval(row: Row) -> str:
    unit, half, low, high = row.overhead_unit, row.interval, row.low, row.high
    if _finite(half):
        # To fail takes more than to pass, so that one end may be much farther off than the other.
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
    """Return the value of a row's baseline or subject, with its label where that is asked for."""
    value, label = getattr(row, which), getattr(row, f"{which}_label")
    if value is None:
        return ""
    return f"{number(value)} {row.unit}" + (f" ({label})" if labelled and label else "")


def verdict(row: Row, rounds: bool = False) -> str:
    """Return a row's verdict, with what has to be said of it.

    :param rounds: whether that is after how many rounds a closed one fell, too.
    """
    word = row.verdict
    if word == EMULATED:
        word = NOT_JUDGED
    elif word == OPEN:
        word = open_verdicts.describe(row)
    elif word and rounds and row.rounds:
        word += f", {row.rounds} round{'s'[: row.rounds > 1]}"
    said = ["expected overhead"] if row.expected and row.verdict != EMULATED else []
    said += ["rounds spread more than is known of them"] if row.contradicted else []
    said += [row.difference] if row.difference else []
    said += [] if row.answers_compared else ["answers not compared"]
    return word + (f" ({'; '.join(said)})" if said else "")


def in_rounds(case: Case, row: Row, cases: Sequence[Case]) -> str:
    """Return what bare was in the rounds of its containers, where a bare run by itself saw another machine; else "".

    Of a check's cases only the axes that bare has too count.
    """
    twins = [one for one in cases if one is not case and one.identity_as(case.variant) == case.identity]
    # In a duet a side has half of the node.
    twins = [one for one in twins if not any(row.duet for row in one.rows)]
    values = [
        sides[BASELINE][row.figure] for one in twins for sides in one.measured if row.figure in sides.get(BASELINE, ())
    ]
    if not values or row.baseline is None:
        return ""
    middle, alone = statistics.median(values), row.baseline
    if abs(middle - alone) <= OTHER_LOAD * max(abs(middle), abs(alone)):
        return ""
    return f"one run by itself; {number(middle)} {row.unit} in the containers' rounds"
