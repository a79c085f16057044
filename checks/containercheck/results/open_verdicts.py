"""Which verdicts are open, what it would take to close them, and which of them fit into the time that is left.

The checks say in their rows how many rounds an open figure needs in all, and what a round takes. Everything here is
arithmetic on that: nothing is run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from containercheck.node.stats.boundaries import HORIZON
from containercheck.node.stats.openness import CLOSE, FASTER, NOISY, SLOWER
from containercheck.node.stats.prospects import PATIENCE
from containercheck.results.cases import Case, Key
from containercheck.results.row import FAIL, OPEN, PASS, Row

#: Kinds of an open verdict, the most urgent first, with what is said of how many there are.
KINDS = {SLOWER: "too slow", FASTER: "too fast", CLOSE: "close to the tolerance", NOISY: "too noisy to tell"}
#: Those that are told first: something may be wrong.
QUESTIONS = (SLOWER, FASTER)
#: With fewer rounds than this a job goes on in any case, and a forecast that there is no end says nothing yet.
TELLING = PATIENCE
#: By ranks no figure passes after fewer. That is the forecast where one round is all that is known of the spread.
FEWEST = 6
#: Seconds that a case takes besides its rounds: ReFrame, its build step, what the job asks the runtime (4 to 9 s here).
START = 10.0
#: The forecast is about the median of what it takes, and rounds are replaced now and then. A job that needs less time
#: than it has ends sooner.
MARGIN = 1.3
#: Part of a session's time for its first pass. What that measures is not lost, as the rounds count later; but only
#: after it is known where time does most. A shorter one would give a worse forecast, and pay for more starts.
FIRST_PART = 2 / 3
#: Rounds that give a figure a bound which is not expected to close; and sides that run in each.
FOR_BOUND, SIDES = 3, 2
#: Fewest and most seconds that a check gets in a first pass: some rounds of most, and what most have without a limit.
FIRST_LEAST, FIRST_MOST = 10, 60
#: Most seconds of a session that nobody gave a time. All plain checks on two cores close two verdicts of three in that.
USUAL = 1800.0


@dataclass(frozen=True)
class Need:
    """What a case needs so that its open figures are expected to close.

    :ivar seconds: for the rounds that are missing, without a margin.
    :ivar most: the same with one.
    :ivar figures: how many would close; 0 where there are too few rounds for a forecast.
    """

    case: Case
    seconds: float
    most: float
    figures: int


@dataclass(frozen=True)
class Plan:
    """One pass.

    :ivar cases: which are run; none where nothing is open, within reach, and short enough.
    :ivar seconds: what each check, by its class, gets for the rounds of a case.
    :ivar takes: seconds in all, at most.
    :ivar figures: how many verdicts it is expected to close.
    """

    cases: tuple[Case, ...]
    seconds: dict[str, int]
    takes: float
    figures: int


def judged(case: Case) -> list[Row]:
    """Return the figures that have a verdict or should: a check that failed has its own, and its others are not open.

    The rounds end soon after the first figure that failed. Where processors are emulated none has a verdict.
    """
    found = [row for row in case.rows if row.is_judged]
    if case.result != "pass" or any(row.verdict == FAIL for row in found):
        return [row for row in found if row.verdict != OPEN]
    return found


def open_rows(case: Case) -> list[Row]:
    """Return the figures of a case that are open, the most urgent kinds first."""
    ranks = {kind: place for place, kind in enumerate(KINDS)}
    found = [row for row in judged(case) if row.verdict == OPEN]
    return sorted(found, key=lambda row: ranks.get(row.open_kind, len(ranks)))


def asking(case: Case, kinds: Sequence[str] = QUESTIONS) -> list[Row]:
    """Return the open figures of a case that are of these kinds."""
    return [row for row in open_rows(case) if row.open_kind in kinds]


def describe(row: Row) -> str:
    """Return what is known of an open figure; of one that an earlier version judged, only that it is open."""
    return row.answer or "open"


def tally(case: Case) -> str:
    """Return what the figures of a case came to: ``13 of 14 pass, 1 open``; empty where none was judged."""
    words = [row.verdict for row in case.rows if row.is_judged]
    counts = [(words.count(word), name) for word, name in ((FAIL, "fail"), (PASS, "pass"), (OPEN, "open"))]
    said = [(count, name) for count, name in counts if count]
    if len(said) < 2:
        return "".join(f"all {count} {name}" if count > 1 else name for count, name in said)
    (first, name), *others = said
    return ", ".join([f"{first} of {len(words)} {name}", *(f"{count} {name}" for count, name in others)])


def open_figures(cases: Iterable[Case]) -> set[tuple[Key, str, str]]:
    """Return the figures that are open: case, figure, and label of the subject."""
    return {(case.key, row.figure, row.subject_label) for case in cases for row in judged(case) if row.verdict == OPEN}


def need(case: Case) -> Need | None:
    """Return what a case needs; None where nothing is open, or what is open is beyond reach.

    Beyond reach is a figure for which the forecast has no end, and a case whose last job began no round at all, as it
    expected nothing of one.
    """
    steps = _steps(case)
    return steps[-1] if steps else None


def _steps(case: Case) -> list[Need]:
    """Return what the case needs for the first of its figures to close, for two of them, and so on."""
    still = [] if case.seconds == 0 else [_foreseen(row) for row in judged(case) if row.verdict == OPEN]
    known = sorted((row for row in still if row.rounds_needed is not None), key=_missing)
    if known:
        most = itertools.accumulate(map(_with_margin, known), max)
        return [Need(case, _missing(row), longest, n) for n, (row, longest) in enumerate(zip(known, most), 1)]
    early = [(TELLING - row.rounds) * row.round_seconds for row in still if row.rounds < TELLING]
    return [Need(case, max(early), MARGIN * max(early), 0)] if early else []


def _rate(one: Need) -> float:
    """Return how many figures close in a second."""
    return one.figures / (START + one.most)


def _can_wait(one: Need) -> bool:
    """Tell whether nothing of the case looks too slow: who asks wants to be certain of that first."""
    return not asking(one.case, [SLOWER])


def _foreseen(row: Row) -> Row:
    """Return the row of an open figure, with a forecast where it has but one round."""
    return replace(row, rounds_needed=FEWEST) if row.rounds == 1 and row.rounds_needed is None else row


def _missing(row: Row) -> float:
    """Return how many seconds of rounds a figure with a forecast needs."""
    return max(1, row.rounds_needed - row.rounds) * row.round_seconds


def _with_margin(row: Row) -> float:
    """Return the same with a margin. What is forecast are the rounds in all: it is as wrong when few are missing."""
    rounds = min(MARGIN * row.rounds_needed, HORIZON) - row.rounds
    return max(rounds * row.round_seconds, MARGIN * _missing(row))


def needs(cases: Iterable[Case]) -> list[Need]:
    """Return what all open cases within reach need: those with a forecast first, and of each kind the cheapest."""
    found = [one for one in map(need, cases) if one]
    return sorted(found, key=lambda one: (one.figures == 0, one.most))


def plan(cases: Iterable[Case], left: float = math.inf, limits: Mapping[str, float] | None = None) -> Plan:
    """Return the pass that closes most in the seconds that are left.

    Everything, if there is time for that. Else of each case as many figures as close fastest, those first that look
    too slow, then the fastest cases, and as many as fit; another pass may close the others. Where none fits with its
    margin, the cheapest has what is left, if that is enough without.

    :param limits: the most seconds that checks may have: by class, and for all others under the empty name.
    """
    limits = limits or {}
    wanted = needs(cases)
    everything = _plan(wanted, limits)
    if everything.takes <= left:
        return everything
    steps = [_steps(one.case) for one in wanted]
    chosen: list[Need] = []
    for one in sorted(
        (max(each, key=_rate) for each in steps), key=lambda one: (_can_wait(one), -_rate(one), one.most)
    ):
        if _plan([*chosen, one], limits).takes <= left:
            chosen.append(one)
    if not chosen:
        for one in sorted((each[0] for each in steps), key=lambda one: (one.figures == 0, one.seconds)):
            name = one.case.application
            if START + one.seconds <= left:
                return _plan([one], {name: min(left - START, _limit(limits, name))})
    return _plan(chosen, limits)


def built(cases: Iterable[Case], took: float, foreseen: float) -> float:
    """Return the seconds of a first pass that went into building.

    Cases build side by side, and wait for each other's images and for other sessions: no more than the pass took beyond
    what was foreseen for it, however long each of them waited.

    :param took: seconds of the pass.
    :param foreseen: what it takes at most where nothing is to be built.
    """
    return max(0.0, min(sum(max(0.0, case.building - START) for case in cases), took - foreseen))


def _limit(limits: Mapping[str, float], name: str) -> float:
    return limits.get(name, limits.get("", math.inf))


def _plan(chosen: Sequence[Need], limits: Mapping[str, float]) -> Plan:
    # ReFrame sets a variable for all cases of a class.
    seconds: dict[str, int] = {}
    for one in chosen:
        name = one.case.application
        # Rounded down where it is limited, so that what is left is not exceeded.
        own = math.floor(min(math.ceil(one.most), _limit(limits, name)))
        seconds[name] = max(seconds.get(name, 1), own)
    takes = sum(START + seconds[one.case.application] for one in chosen)
    return Plan(tuple(one.case for one in chosen), seconds, takes, sum(one.figures for one in chosen))


def usual_session(cases: Iterable[Case]) -> float:
    """Return the seconds of a session that nobody gave a time: what all its jobs are expected to take, or less.

    0 where that would not do for a first pass: then each check has its own time.
    """
    cases = list(cases)
    expected = sum(case.expected.get("expected", 0.0) for case in cases)
    wanted = first_takes(cases, first_seconds(cases, math.inf)) if expected else 0.0
    # What is expected may end sooner than the time that it is given.
    seconds = min(USUAL, max(expected, wanted))
    return seconds if first_takes(cases, first_seconds(cases, seconds)) <= seconds else 0.0


def first_seconds(cases: Iterable[Case], session: float) -> dict[str, int]:
    """Return what each check gets in the first pass of a session of so many seconds, which runs all these cases.

    By class, as ReFrame sets a variable for all cases of one: the seconds in which its figures are expected to have
    their verdicts, as far as their spreads are known and they can; and where nobody knows, an equal share. Where that
    is more than there is, the cheapest have what they need, and the others share what is left.
    """
    cases = list(cases)
    classes: dict[str, list[Case]] = {}
    for case in cases:
        if case.variant != "bare":
            classes.setdefault(case.application, []).append(case)
    left = FIRST_PART * session - START * len(cases)
    fair = min(max(left / max(1, sum(map(len, classes.values()))), FIRST_LEAST), FIRST_MOST)
    wanted = {name: max(_first_wanted(case) or fair for case in those) for name, those in classes.items()}
    left -= FIRST_LEAST * sum(map(len, classes.values()))
    granted = {}
    for name in sorted(wanted, key=wanted.__getitem__):
        behind = sum(len(classes[other]) for other in wanted if other not in granted)
        more = (wanted[name] - FIRST_LEAST) * len(classes[name])
        if more > left:
            more = max(0.0, left) * len(classes[name]) / behind
        granted[name] = round(FIRST_LEAST + more / len(classes[name]))
        left -= more
    return granted


def _first_wanted(case: Case) -> float | None:
    """Return the seconds in which a case's figures close that can, with a margin; None where nobody knows that.

    Where none is expected to close, those that give it a bound.
    """
    closing, seconds = case.expected.get("closing"), case.expected.get("seconds")
    if not closing or not seconds:
        return None
    rounds = max((one for one in closing if one < HORIZON), default=FOR_BOUND)
    # A round is not begun that would not end in time.
    wanted = (MARGIN * rounds + 1) * SIDES * seconds
    return min(max(wanted, FIRST_LEAST), max(FIRST_LEAST, case.expected.get("rounds") or FIRST_MOST))


def first_takes(cases: Iterable[Case], seconds: Mapping[str, float]) -> float:
    """Return how many seconds a first pass takes, at most.

    :param seconds: of each check, by its class.
    """
    return sum(START + (seconds.get(case.application, 0) if case.variant != "bare" else 0) for case in cases)


def shortest_takes(cases: Iterable[Case]) -> float:
    """Return the same where each check has the fewest seconds."""
    cases = list(cases)
    return first_takes(cases, dict.fromkeys((case.application for case in cases), FIRST_LEAST))
