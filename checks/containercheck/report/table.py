"""Write the parts of a session's text: the table of metrics, questions, reasons of skips, notes, open verdicts."""

from __future__ import annotations

import collections
import math
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from containercheck.job.contract import BASELINE, SUBJECT
from containercheck.job.verdict.builds import SAME
from containercheck.job.verdict.comparison import says_something
from containercheck.results import selections, states
from containercheck.results.cases import SIDE, Case, names, short_name
from containercheck.results.formatting import by_key, columns, count, first, number, typed
from containercheck.results.row import EMULATED, NOT_JUDGED, OPEN, Row, is_finite
from containercheck.results.sides_seen import USES

#: Limit on the asymmetry of an interval, relative to its half width; above it, both ends are printed instead of ±.
LOPSIDED = 0.3
#: Placeholders for the application, and for system and partition, in a reason of several cases.
NAME, PARTITION = "NAME", "PARTITION"
#: Numbers and names of processes in a note on disturbed rounds.
DISTURBERS = re.compile(r"(the machine is busy): .*?(?=\. )|\d+ of \d+ (rounds disturbed) by .*(?= and replaced)")
#: Most cases that the line of a note names.
NAMED = 3


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
        sides = (side(row, BASELINE, not bare), side(row, SUBJECT, not usual))
        spread = spread and (spreads(row),)
        text.append((*head, *sides, *spread, overhead(row), verdict(row, counted=True)))
    if len({case.partition for case in cases if case.result != "skip"}) < 2:
        text = [(row[0], *row[2:]) for row in text]
    return columns(text)


def overhead(row: Row) -> str:
    """Return a row's overhead, with its interval if that is informative; empty without a comparison."""
    if not row.is_comparison:
        return ""
    unit, half, low, high, middle = row.overhead_unit, row.interval, row.low, row.high, row.overhead or 0.0
    estimate = number(row.overhead, 2, "+")
    if says_something(half, unit, row.accepted[1]):
        # A fail needs more evidence than a pass, so one end may be much farther from the estimate than the other.
        if is_finite(low) and is_finite(high) and abs(high + low - 2 * middle) > LOPSIDED * (half or 0.0):
            return f"{estimate} ({number(low, 2, '+')} to {number(high, 2, '+')}) {unit}"
        return f"{estimate} ± {number(half, 2)} {unit}"
    # After few rounds, only one end may be informative. The message about an open metric has that end.
    ends = {"at most": high, "at least": low} if row.verdict != OPEN else {}
    for word, end in ends.items():
        if is_finite(end) and says_something(end - middle, unit, row.accepted[1]):
            return f"{estimate} ({word} {number(end, 2, '+')}) {unit}"
    return f"{estimate} {unit}"


def rounds(row: Row) -> str:
    """Return the number of a row's rounds, in words."""
    return "one round" if row.rounds == 1 else f"{row.rounds} rounds"


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
    """Return the spreads of the baseline's and the subject's values; empty if they are not known.

    The unit is percent of the side's median, or the metric's unit if the overhead has this unit.
    """
    sides = [(row.baseline_spread, row.baseline), (row.subject_spread, row.subject)]
    known = [(spread, middle or 0.0) for spread, middle in sides if spread is not None]
    values, unit = [spread for spread, _ in known], row.unit
    if row.overhead_unit == "%" and all(middle for _, middle in known):
        values, unit = [100 * spread / abs(middle) for spread, middle in known], "%"
    return f"{', '.join(number(value, 2) for value in values)} {unit}".strip() if values else ""


def verdict(row: Row, counted: bool = False) -> str:
    """Return a row's verdict with remarks on it.

    :param counted: whether to add the number of rounds, as the text does.
    """
    word = row.verdict
    if word == EMULATED:
        word = NOT_JUDGED
    elif word == OPEN:
        word = f"{rounds(row)}; {states.describe(row)}" if counted and row.rounds else states.describe(row)
    elif word and counted and row.rounds:
        word += f", {rounds(row)}"
    remarks = ["expected overhead"] if row.expected and row.verdict != EMULATED else []
    remarks += ["rounds spread more than is known of them"] if row.contradicted else []
    # The text has one line for the same build of a case.
    remarks += [row.difference] if row.difference and not (counted and row.difference.startswith(SAME)) else []
    remarks += ["both sides at once, on halves of the node"] if row.duet and row.is_comparison else []
    remarks += [] if row.answers_compared else ["answers not compared"]
    return word + (f" ({'; '.join(remarks)})" if remarks else "")


def questions(cases: Iterable[Case]) -> list[str]:
    """Return a line for each case with open metrics that are too slow, then for each with metrics that are too fast."""
    cases = [case for case in cases if not selections.failure(case)]
    lines = []
    for kind, title in (
        (selections.SLOWER, "TOO SLOW, not yet certain"),
        (selections.FASTER, "QUESTION, does it compute the same"),
    ):
        for case in cases:
            rows = [f"{row.metric} {overhead(row)}" for row in selections.asking(case, [kind])]
            lines += [f"{title}: {names([case])}: {', '.join(rows)}"] if rows else []
    return lines


def same_builds(cases: Iterable[Case]) -> list[str]:
    """Return a line for each case with sides that are proven to be the same build."""
    proven = [(case, row) for case in cases for row in case.rows if row.difference.startswith(SAME)]
    return list(dict.fromkeys(f"{names([case])}: {row.difference}" for case, row in proven))


def networks(cases: Iterable[Case]) -> list[str]:
    """Return a line for each network that generic containers on several nodes used, with bare's if it is another."""
    generic = [case for case in cases if case.variant == "generic" and case.nodes > 1 and _network(case, case.variant)]

    def line(case: Case) -> str:
        own, bare = _network(case, case.variant), _network(case, "bare")
        return f"over {own}" + (f", and bare over {bare}" if bare not in ("", own) else "")

    return [f"{names(group)}: {used}" for used, group in by_key(generic, line).items()]


def _network(case: Case, label: str) -> str:
    """Return the adapters of a fabric that the ranks of a side had open, else TCP with its interfaces."""
    uses = (case.provenance.get(USES) or {}).get(label) or {}
    adapters = ", ".join(dict.fromkeys(device.partition(" ")[0] for device in uses.get("devices", ())))
    interfaces = ", ".join(name for name in uses.get("interfaces", ()) if name != "lo")
    return adapters or (f"TCP ({interfaces})" if interfaces else "")


def repetition(run: Case) -> list[str]:
    """Return the line with the command that repeats one run of the judged side; none if nothing was run."""
    # A bare case has one side only.
    side = BASELINE if run.variant == "bare" else _judged_side(run)
    again = f"to repeat {run.label} {run.variant}: bash {shlex.quote(run.reproducer)} {side}"
    return [again] if run.reproducer else []


def _judged_side(case: Case) -> str:
    """Return the name of the judged side; of several sides, the last one."""
    sides = [name.removeprefix(SIDE) for name in case.compared if name.startswith(SIDE)]
    return next((name for name in reversed(sides) if name != BASELINE), SUBJECT)


@dataclass(frozen=True)
class Reason:
    """The reason for which some cases were not run.

    :ivar text: the reason, with :data:`NAME` and :data:`PARTITION` as placeholders for names that differ.
    :ivar cases: the cases.
    """

    text: str
    cases: tuple[Case, ...]

    @property
    def applications(self) -> list[str]:
        """Return the applications, in order."""
        return list(dict.fromkeys(case.application for case in self.cases))

    @property
    def line(self) -> str:
        """Return the reason and its cases as one line."""
        partitions = len({case.partition for case in self.cases})
        where = f" on {partitions} partitions" if partitions > 1 else ""
        return f"{', '.join(self.applications)} ({len(self.cases)} case(s){where}): {self.text}"


def lost_lines(cases: Iterable[Case]) -> list[str]:
    """Return a line for each reason for which cases that were measured before are not measured now.

    :param cases: result of ``selections.lost``.
    """
    return [f"measured before, and not this time: {reason.line}" for reason in by_reason(cases)]


def by_reason(cases: Iterable[Case]) -> list[Reason]:
    """Return the reasons of skipped cases, the reason with the most cases first."""

    def text_of(case: Case) -> str:
        return case.skip_reason.replace(case.application, NAME).replace(case.place, PARTITION)

    groups = by_key((case for case in cases if case.result == "skip"), text_of)
    reasons = []
    for text, skipped in groups.items():
        names, places = {case.application for case in skipped}, {case.place for case in skipped}
        text = text.replace(NAME, names.pop()) if len(names) == 1 else text
        text = text.replace(PARTITION, places.pop()) if len(places) == 1 else text
        reasons.append(Reason(text, tuple(skipped)))
    return sorted(reasons, key=lambda reason: -len(reason.cases))


def notes(cases: Sequence[Case]) -> list[str]:
    """Return a line for each note with its cases; notes that differ in names of processes share a line without them."""
    # The rounds of earlier runs count in the final result, so their notes are shown too.
    noted = [(short_name(case), note) for case in cases for run in (*case.earlier, case) for note in run.notes]
    lines = []
    for kind, group in by_key(noted, lambda each: DISTURBERS.sub(r"\1\2", each[1])).items():
        names, notes = (list(dict.fromkeys(texts)) for texts in zip(*group))
        lines.append(f"{first(names, NAMED)}: {notes[0] if len(notes) == 1 else kind}")
    return lines


def last_line(cases: Sequence[Case]) -> list[str]:
    """Return the line on open verdicts and the way to close them; none without a comparison."""
    judged, open_count = sum(len(selections.judged(case)) for case in cases), len(selections.open_metrics(cases))
    if not judged:
        return []
    if not open_count:
        return [f"{count(judged, 'verdict')} closed, none open"]
    text = f"{open_count} of {count(judged, 'verdict')} open{_kinds(cases)}"
    closing = [need.case for need in selections.needs(cases) if need.metrics]
    forecast = selections.plan(closing)
    if forecast.cases and all(map(selections.is_foreseeable, closing)):
        minutes = max(1, math.ceil(forecast.takes / 60))
        goes_on = f"{typed('run')} --minutes {minutes} --resume"
        return [f"{text}; {count(minutes, 'more minute')} would close {forecast.metrics}: {goes_on}"]
    if selections.needs(cases):
        return [f"{text}, after too few rounds for a forecast: {typed('run')} --resume"]
    return [f"{text}; more rounds would close none: it takes longer runs or a quieter machine"]


def _kinds(cases: Sequence[Case]) -> str:
    """Return the number of open verdicts of each kind, the most urgent first."""
    counts = collections.Counter(row.open_kind for case in cases for row in selections.open_rows(case))
    phrases = [f"{counts[kind]} {words}" for kind, words in selections.KINDS.items() if counts[kind]]
    return f" ({', '.join(phrases)})" if phrases else ""
