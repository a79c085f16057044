"""What a session ends with, besides its table: who disturbed it, and how far its verdicts are from being closed."""

from __future__ import annotations

import collections
import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from containercheck.results import open_verdicts
from containercheck.results.cases import Case
from containercheck.results.formatting import number, typed

#: A note that counts rounds, or names who disturbed them.
NOTE = re.compile(
    r"(?:(?P<some>\d+) of (?P<of>\d+) rounds )?"
    r"(?P<head>disturbed by|the machine is busy:) (?P<who>.*?)(?P<tail>| and replaced|\. .*)",
    re.DOTALL,
)
#: Of so many cases with a note of one kind each has its line; more share one, which names some of them.
FEW, NAMED = 3, 2
#: So many disturbers are named.
WORST = 3


@dataclass
class _Told:
    """What all notes of one kind say, of one case or of several."""

    some: int = 0
    of: int = 0
    who: collections.Counter[str] = field(default_factory=collections.Counter)

    def add(self, other: _Told) -> None:
        self.some, self.of = self.some + other.some, self.of + other.of
        self.who.update(other.who)


def notes(cases: Sequence[Case]) -> list[str]:
    """Return a line for each kind of note of a case, and one for all cases where many have it."""
    found: dict[tuple[str, str], dict[str, _Told]] = {}
    for case in cases:
        name = f"{case.label} {case.variant}" + (f", {case.nodes} nodes" if case.nodes > 1 else "")
        # What is final was measured in all of its runs.
        for note in (note for run in (*case.earlier, case) for note in run.notes):
            kind, told = _read(note)
            found.setdefault(kind, {}).setdefault(name, _Told()).add(told)
    lines = []
    for kind, by_case in found.items():
        if len(by_case) > FEW:
            together = _Told()
            for one in by_case.values():
                together.add(one)
            title = f"{len(by_case)} cases ({', '.join(list(by_case)[:NAMED])} and {len(by_case) - NAMED} more)"
            by_case = {title: together}
        lines += [f"{name}: {_text(kind, one)}" for name, one in by_case.items()]
    return lines


def _read(note: str) -> tuple[tuple[str, str], _Told]:
    """Return what kind of note it is (its words before and after the names), and what it says."""
    match = NOTE.fullmatch(note)
    if not match:
        return (note, ""), _Told()
    who = collections.Counter(match["who"].split(", "))
    return (match["head"], match["tail"]), _Told(int(match["some"] or 0), int(match["of"] or 0), who)


def _text(kind: tuple[str, str], told: _Told) -> str:
    head, tail = kind
    rounds = f"{told.some} of {told.of} rounds " if told.of else ""
    worst = [who for who, _ in told.who.most_common(WORST)]
    more = f" (and {len(told.who) - WORST} more)" if len(told.who) > WORST else ""
    return f"{rounds}{head}{' ' if worst else ''}{', '.join(worst)}{more}{tail}"


def last_line(cases: Sequence[Case]) -> list[str]:
    """Return the line on the machine and on what is open; none where nothing was compared."""
    judged = sum(len(open_verdicts.judged(case)) for case in cases)
    return ["; ".join(filter(None, [_spread(cases), _open(cases, judged)]))] if judged else []


def _spread(cases: Sequence[Case]) -> str:
    """Say between what the rounds of the applications spread, by the median of each one's ratios."""
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
    """Say how many open verdicts are of which kind, the most urgent first."""
    found = collections.Counter(row.open_kind for case in cases for row in open_verdicts.open_rows(case))
    said = [f"{found[kind]} {words}" for kind, words in open_verdicts.KINDS.items() if found[kind]]
    return f" ({', '.join(said)})" if said else ""


def _open(cases: Sequence[Case], judged: int) -> str:
    still = len(open_verdicts.open_figures(cases))
    if not still:
        return "the only verdict is closed" if judged == 1 else f"all {judged} verdicts closed"
    text = (
        f"{still} of {judged} verdicts {'is' if still == 1 else 'are'} open"
        if judged > 1
        else "the only verdict is open"
    )
    text += _kinds(cases) if still > 1 else ""
    it = "it" if still == 1 else "them"
    forecast = open_verdicts.plan([one.case for one in open_verdicts.needs(cases) if one.figures])
    if forecast.cases:
        minutes = max(1, math.ceil(forecast.takes / 60))
        which = it if forecast.figures == still else f"{forecast.figures} of {it}"
        goes_on = f"{typed('run')} --minutes {minutes} --open"
        return f"{text}, {minutes} more minute{'s'[: minutes > 1]} would close {which}: {goes_on}"
    if open_verdicts.needs(cases):
        return f"{text} after too few rounds to tell what it takes: {typed('run')} --open"
    return f"{text}, and more rounds would not close {it}: it takes longer runs or a quieter machine"
