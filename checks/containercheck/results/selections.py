"""Select cases that failed, were lost, or are open, and compute the time that closes open verdicts.

The verdict of a case is final. The rows of the checks have the number of rounds that an open metric needs, and the
duration of a round. The plan of a session is computed from these.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from containercheck.job.stats.boundaries import HORIZON
from containercheck.job.stats.forecasts import CLOSE, FASTER, NOISY, PATIENCE, SLOWER, is_believable
from containercheck.results.cases import NO_CHECK_RAN, Case, Key, on_nodes
from containercheck.results.formatting import by_key
from containercheck.results.row import FAIL, OPEN, Row

#: Results that are failures.
FAILED = ("fail", "fail_deps", "abort")
#: ReFrame's exceptions for a check with a result. Any other exception is a defect of the check or the machine.
MEASURED = ("", "SanityError", "PerformanceError")
#: Reason of a case that ReFrame no longer generates.
GONE = "ReFrame does not generate it any more: its check file, its partition or its environment is missing"
#: Kinds of an open verdict, the most urgent first, with the words after their count in messages.
KINDS = {SLOWER: "too slow", FASTER: "too fast", CLOSE: "close to the tolerance", NOISY: "too noisy"}
#: Kinds that are reported first, because they may show a defect.
QUESTIONS = (SLOWER, FASTER)
#: First round in which a metric can be given up. With fewer rounds, a forecast without an end has no meaning yet.
TELLING = PATIENCE
#: Fewest rounds for a pass by the rank test: the forecast after a single round.
FEWEST = 6
#: Seconds of a case outside its rounds: ReFrame, its build step, the job's queries of the runtime (measured: 4 to 9 s).
START = 10.0
#: Factor on a forecast: the forecast is a median and ignores replaced rounds. A job that needs less time ends sooner.
MARGIN = 1.3
#: Part of a session's time for its first run. The rest is for the confirmation and explanation of failures, and for
#: open cases, when the forecasts show the best use of the time.
FIRST_PART = 2 / 3
#: Rounds that give a bound for a metric that is not expected to close, and number of sides in a round.
FOR_BOUND, SIDES = 3, 2
#: Fewest and most seconds of a check in a first run: a few rounds of most checks, and their usual time without a limit.
FIRST_LEAST, FIRST_MOST = 10, 60
#: Rounds for which each case has time in a first run: one round gives no spread, and so no bound. The margin is for the
#: start of containers, which is not in the estimate of a run.
FIRST_ROUNDS, FIRST_MARGIN = 2, 1.5
#: Most seconds of a session by default: on two cores, all plain checks close two verdicts of three.
USUAL = 1800.0


def failure(case: Case) -> Case | None:
    """Return the last failed run of a case, even if a later run passed; None without a failure."""
    return next((run for run in (case, *reversed(case.earlier)) if run.result in FAILED), None)


def nodes_of_failure(case: Case) -> str:
    """Return the nodes on which a case failed, and those on which it passed; see ``results.cases.on_nodes``."""
    runs = (*case.earlier, case)
    return on_nodes([run for run in runs if run.result in FAILED], [run for run in runs if run.result == "pass"])


def is_regression(run: Case) -> bool:
    """Return whether a failed run has a measured result that is not accepted; else it could not be measured."""
    return run.result == "fail" and run.phase in ("sanity", "performance") and run.error in MEASURED


def ran(cases: Sequence[Case]) -> list[Case]:
    """Return the cases that were run and not skipped."""
    return [case for case in cases if case.result not in ("skip", "fail_deps")]


def problems(cases: Sequence[Case]) -> list[str]:
    """Return messages about the problems of the cases."""
    if not cases:
        return [NO_CHECK_RAN]
    failed = sum(failure(case) is not None for case in cases)
    if failed:
        return [f"{failed} of {len(cases)} checks failed: see above"]
    return [] if ran(cases) else ["no check was run: everything was skipped"]


def is_questionable(cases: Iterable[Case]) -> bool:
    """Return whether an open metric looks too slow or too fast, in a case that did not fail."""
    return any(not failure(case) and asking(case) for case in cases)


def lost(before: Iterable[Case], now: Iterable[Case]) -> list[Case]:
    """Return the cases that were measured before and are skipped or missing now, each as a skip with its reason.

    :param now: the cases of a dry run, then the cases that were run. A case without budget is only in the dry run.
    """
    present = {case.identity: case for case in now}
    missing = []
    for identity, case in {case.identity: case for case in before if is_measured(case)}.items():
        again = present.get(identity, replace(case, result="skip", reason=GONE))
        if again.result == "skip":
            missing.append(again)
    return missing


def is_measured(case: Case) -> bool:
    """Return whether a run of the case was measured; its result may be a failure."""
    return any(run.result not in ("skip", *FAILED) or is_regression(run) for run in (*case.earlier, case))


@dataclass(frozen=True)
class Need:
    """The seconds of rounds that a case needs.

    :ivar least: fewest seconds for a useful run, in which its first open metric is expected to close.
    :ivar most: seconds in which all its metrics that can close do so, with a margin.
    :ivar metrics: number of metrics that are expected to close; 0 if there are too few rounds for a forecast.
    """

    case: Case
    least: int
    most: int
    metrics: int


@dataclass(frozen=True)
class Plan:
    """The plan of one run of open cases.

    :ivar cases: cases to run; empty if no open case can close in the time left.
    :ivar seconds: seconds for the rounds of a case, by the class of its check.
    :ivar takes: most seconds of the whole run.
    :ivar metrics: number of verdicts that the run is expected to close.
    """

    cases: tuple[Case, ...]
    seconds: dict[str, int]
    takes: float
    metrics: int


def judged(case: Case) -> list[Row]:
    """Return the metrics that have a verdict or should have one.

    Open metrics of a failed check do not count, as its rounds end soon after the first failed metric. On emulated
    processors, metrics have no verdict.
    """
    rows = [row for row in case.rows if row.is_judged]
    if case.result != "pass" or any(row.verdict == FAIL for row in rows):
        return [row for row in rows if row.verdict != OPEN]
    return rows


def open_rows(case: Case) -> list[Row]:
    """Return the metrics of a case that are open, the most urgent kinds first."""
    ranks = {kind: place for place, kind in enumerate(KINDS)}
    rows = [row for row in judged(case) if row.verdict == OPEN]
    return sorted(rows, key=lambda row: ranks.get(row.open_kind, len(ranks)))


def asking(case: Case, kinds: Sequence[str] = QUESTIONS) -> list[Row]:
    """Return the open metrics of a case that are of these kinds."""
    return [row for row in open_rows(case) if row.open_kind in kinds]


def open_metrics(cases: Iterable[Case]) -> set[tuple[Key, str, str]]:
    """Return the open metrics, each as case, metric and label of the subject."""
    return {(case.key, row.metric, row.subject_label) for case in cases for row in judged(case) if row.verdict == OPEN}


def need_of(case: Case) -> Need | None:
    """Return the time that a case needs; None without an open metric within reach.

    A metric is out of reach if no number of rounds is expected to close it, or if the last job began no round.
    """
    unclosed = [] if case.seconds == 0 else [_foreseen(row) for row in judged(case) if row.verdict == OPEN]
    forecast = [row for row in unclosed if row.rounds_needed is not None]
    if forecast:
        least, most = min(map(_missing, forecast)), max(map(_with_margin, forecast))
        return Need(case, math.ceil(least), math.ceil(most), len(forecast))
    early = [(TELLING - row.rounds) * row.round_seconds for row in unclosed if row.rounds < TELLING]
    return Need(case, math.ceil(max(early)), math.ceil(MARGIN * max(early)), 0) if early else None


def is_foreseeable(case: Case) -> bool:
    """Return whether the forecasts of a case can be believed."""
    return all(is_believable(row.rounds, row.spread_source) for row in open_rows(case))


def _foreseen(row: Row) -> Row:
    """Return the row of an open metric, with a forecast even after a single round."""
    return replace(row, rounds_needed=FEWEST) if row.rounds == 1 and row.rounds_needed is None else row


def _missing(row: Row) -> float:
    """Return the seconds of rounds that a metric with a forecast needs."""
    return max(1, (row.rounds_needed or 0) - row.rounds) * row.round_seconds


def _with_margin(row: Row) -> float:
    """Return these seconds with a margin. It applies to all rounds, because the forecast is the total number."""
    rounds = min(MARGIN * (row.rounds_needed or 0), HORIZON) - row.rounds
    return max(rounds * row.round_seconds, MARGIN * _missing(row))


def needs(cases: Iterable[Case]) -> list[Need]:
    """Return the time that each open case within reach needs, in the order in which they run.

    Cases with a metric that looks too slow come first, cases without a forecast last; else the shortest is first.
    """
    wanted = [need for need in map(need_of, cases) if need]
    return sorted(wanted, key=lambda need: (not asking(need.case, [SLOWER]), need.metrics == 0, need.most))


def plan(cases: Iterable[Case], left: float = math.inf, limits: Mapping[str, float] | None = None) -> Plan:
    """Plan a run of the open cases that fit into the seconds that are left, in the order of :func:`needs`.

    :param limits: most seconds for a case of a check, by class; the empty name is for all other classes.
    """
    chosen: list[Need] = []
    for need in needs(cases):
        if _least_takes([*chosen, need]) <= left:
            chosen.append(need)
    limits = limits or {}
    seconds = {
        name: max(1, math.floor(min(granted, limits.get(name, limits.get("", math.inf)))))
        for name, granted in shared(chosen, left).items()
    }
    members = tuple(need.case for need in chosen)
    return Plan(members, seconds, takes(members, seconds), sum(need.metrics for need in chosen))


def shared(wanted: Sequence[Need], left: float) -> dict[str, int]:
    """Divide seconds among cases that run one after the other; return the seconds of each check, by class.

    Each case gets its fewest seconds. The rest is divided equally, but a check does not get more than its cases need.
    ReFrame sets a variable for all cases of a class, so the longest time of these cases counts.
    """
    classes = by_key(wanted, lambda need: need.case.application)
    least = {name: max(need.least for need in members) for name, members in classes.items()}
    more = {name: max(need.most for need in members) - least[name] for name, members in classes.items()}
    left, waiting = left - _least_takes(wanted), len(wanted)
    seconds = {}
    for name in sorted(classes, key=more.__getitem__):
        share = max(0.0, min(more[name], left / waiting))
        seconds[name] = math.floor(least[name] + share)
        left -= share * len(classes[name])
        waiting -= len(classes[name])
    return seconds


def takes(cases: Iterable[Case], seconds: Mapping[str, float]) -> float:
    """Return the most seconds that a run of cases takes.

    :param seconds: seconds of each check, by class. Bare cases compare nothing and get none.
    """
    return sum(START + (seconds[case.application] if case.variant != "bare" else 0) for case in cases)


def _least_takes(wanted: Sequence[Need]) -> float:
    """Return the seconds of a run in which each check gets the fewest seconds that its cases need."""
    least: dict[str, int] = {}
    for need in wanted:
        least[need.case.application] = max(least.get(need.case.application, 0), need.least)
    return takes([need.case for need in wanted], least)


def built(cases: Iterable[Case]) -> float:
    """Return the sum of the build times of cases in seconds."""
    return sum(max(0.0, case.building - START) for case in cases)


def usual_session(cases: Sequence[Case]) -> float:
    """Return the default seconds of a session: the expected time of its jobs, at most :data:`USUAL`.

    The result is 0 if that is too short for a first run: then each check keeps its own time.
    """
    expected = sum(case.expected.get("expected", 0.0) for case in cases)
    wanted = takes(cases, first_seconds(cases, math.inf)) if expected else 0.0
    # A first run may give jobs more time than expected.
    seconds = min(USUAL, max(expected, wanted))
    return seconds if takes(cases, first_seconds(cases, seconds)) <= seconds else 0.0


def first_seconds(cases: Sequence[Case], session: float) -> dict[str, int]:
    """Return the seconds of each check, by class, in the first run of a session. That runs all cases.

    :param session: seconds of the session.
    """
    compared = [case for case in cases if case.variant != "bare"]
    left = FIRST_PART * session - START * (len(cases) - len(compared))
    return shared([_first_need(case) for case in compared], left)


def _first_need(case: Case) -> Need:
    """Return the time that a case needs in a first run: at least two rounds, at most until its metrics close.

    If no metric is expected to close, it is the time for a bound. If spreads are not known, it is the maximum.
    """
    closing, seconds = case.expected.get("closing") or (), case.expected.get("seconds") or 0.0
    least = min(max(FIRST_MARGIN * FIRST_ROUNDS * SIDES * seconds, FIRST_LEAST), FIRST_MOST)
    most: float = FIRST_MOST
    if closing and seconds:
        rounds = max((count for count in closing if count < HORIZON), default=FOR_BOUND)
        # One round more, because a job does not begin a round that would end too late.
        most = min((MARGIN * rounds + 1) * SIDES * seconds, case.expected.get("rounds") or FIRST_MOST)
    return Need(case, math.ceil(least), math.ceil(max(least, most)), 0)
