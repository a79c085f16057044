"""The last lines of a session's text: which processes disturbed it, and which verdicts are still open."""

from __future__ import annotations

import collections
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from containercheck.results import open_verdicts
from containercheck.results.cases import Case
from containercheck.results.formatting import number, short_name, typed

#: A note that counts rounds, or names the processes that disturbed them.
NOTE = re.compile(
    r"(?:(?P<some>\d+) of (?P<of>\d+) rounds )?"
    r"(?P<head>disturbed by|the machine is busy:) (?P<who>.*?)(?P<tail>| and replaced|\. .*)",
    re.DOTALL,
)
#: Most cases that have a line each for a note of one kind, and how many are named where more share a line.
FEW, NAMED = 3, 2
#: Most disturbing processes that are named.
WORST = 3


@dataclass
class _Content:
    """Sum of all notes of one kind, for one case or for several."""

    some: int = 0
    of: int = 0
    who: collections.Counter[str] = field(default_factory=collections.Counter)

    def add(self, other: _Content) -> None:
        self.some, self.of = self.some + other.some, self.of + other.of
        self.who.update(other.who)


def notes(cases: Sequence[Case]) -> list[str]:
    """Return a line for each case and kind of note; where many cases have the same kind, one line for all."""
    by_kind: dict[tuple[str, str], dict[str, _Content]] = {}
    for case in cases:
        name = short_name(case)
        # The rounds of earlier runs count in the final result, and so do their notes.
        for note in (note for run in (*case.earlier, case) for note in run.notes):
            kind, content = _parse(note)
            by_kind.setdefault(kind, {}).setdefault(name, _Content()).add(content)
    lines = []
    for kind, by_case in by_kind.items():
        if len(by_case) > FEW:
            total = _Content()
            for content in by_case.values():
                total.add(content)
            title = f"{len(by_case)} cases ({', '.join(list(by_case)[:NAMED])} and {len(by_case) - NAMED} more)"
            by_case = {title: total}
        lines += [f"{name}: {_format(kind, content)}" for name, content in by_case.items()]
    return lines


def _parse(note: str) -> tuple[tuple[str, str], _Content]:
    """Return the kind of a note (its words before and after the names), and its numbers and names."""
    match = NOTE.fullmatch(note)
    if not match:
        return (note, ""), _Content()
    who = collections.Counter(match["who"].split(", "))
    return (match["head"], match["tail"]), _Content(int(match["some"] or 0), int(match["of"] or 0), who)


def _format(kind: tuple[str, str], content: _Content) -> str:
    head, tail = kind
    rounds = f"{content.some} of {content.of} rounds " if content.of else ""
    worst = [who for who, _ in content.who.most_common(WORST)]
    more = f" (and {len(content.who) - WORST} more)" if len(content.who) > WORST else ""
    return f"{rounds}{head}{' ' if worst else ''}{', '.join(worst)}{more}{tail}"


def last_line(cases: Sequence[Case]) -> list[str]:
    """Return the line on the spread of rounds and on open verdicts; nothing where nothing was compared."""
    judged = sum(len(open_verdicts.judged(case)) for case in cases)
    return ["; ".join(filter(None, [_spread(cases), _open(cases, judged)]))] if judged else []


def _spread(cases: Sequence[Case]) -> str:
    """Return the smallest and the largest spread of rounds, as medians over the metrics of an application."""
    spreads: dict[str, list[float]] = {}
    for case in cases:
        for row in case.rows:
            if row.overhead_unit == "%" and row.spread is not None:
                spreads.setdefault(case.application, []).append(row.spread)
    if not spreads:
        return ""
    medians = sorted((statistics.median(values), name) for name, values in spreads.items())
    ends = [f"{number(spread, 2)} % ({name})" for spread, name in (medians[0], medians[-1])]
    return "pairs here spread by " + " to ".join(dict.fromkeys(ends))


def _kinds(cases: Sequence[Case]) -> str:
    """Return the number of open verdicts of each kind, the most urgent first."""
    counts = collections.Counter(row.open_kind for case in cases for row in open_verdicts.open_rows(case))
    phrases = [f"{counts[kind]} {words}" for kind, words in open_verdicts.KINDS.items() if counts[kind]]
    return f" ({', '.join(phrases)})" if phrases else ""


def _open(cases: Sequence[Case], judged: int) -> str:
    open_count = len(open_verdicts.open_metrics(cases))
    if not open_count:
        return "the only verdict is closed" if judged == 1 else f"all {judged} verdicts closed"
    text = (
        f"{open_count} of {judged} verdicts {'is' if open_count == 1 else 'are'} open"
        if judged > 1
        else "the only verdict is open"
    )
    text += _kinds(cases) if open_count > 1 else ""
    pronoun = "it" if open_count == 1 else "them"
    forecast = open_verdicts.plan([need.case for need in open_verdicts.needs(cases) if need.metrics])
    if forecast.cases:
        minutes = max(1, math.ceil(forecast.takes / 60))
        closed = pronoun if forecast.metrics == open_count else f"{forecast.metrics} of {pronoun}"
        goes_on = f"{typed('run')} --minutes {minutes} --resume"
        return f"{text}, {minutes} more minute{'s'[: minutes > 1]} would close {closed}: {goes_on}"
    if open_verdicts.needs(cases):
        return f"{text} after too few rounds to tell what it takes: {typed('run')} --resume"
    return f"{text}, and more rounds would not close {pronoun}: it takes longer runs or a quieter machine"
