"""Run the checks of a night, find changes since earlier nights, and confirm them.

A change is only proposed at first (history/change_points.py): its cases run again at once, paired, with more rounds,
and only a confirmed change is an alarm. The results are in ``nightly/`` beside the report of other sessions: ReFrame's
report of all runs, ``nightly.json``, ``junit.xml``, ``report.html``.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from containercheck.command.parsers import COMMANDS, OWN_FAULT, WRONG_USAGE, parsed
from containercheck.history import causes, change_points
from containercheck.history.change_points import Change
from containercheck.history.nights import CONFIRMATION, PASS, Night, expected, nights
from containercheck.history.series import Series, series
from containercheck.report import junit, page, scaling, skipped, table
from containercheck.report.view import CaseView
from containercheck.results import database, selections
from containercheck.results.cases import Case, ReportError, save
from containercheck.results.formatting import names, say, speak_as
from containercheck.session import claims, estimate, preconditions, progress, reframe_process
from containercheck.session.passes import Session
from containercheck.session.reframe_process import Workplace
from containercheck.session.settings import NightSettings
from containercheck.session.usage import UsageError

#: Exit statuses, and their meanings.
FINE, REGRESSION, TROUBLE = 0, 1, 2
MEANING = {**COMMANDS["nightly"].statuses, OWN_FAULT: "a fault of containercheck itself"}
#: Days of history that are read.
DAYS = 100
#: Fewest and most rounds of a confirmation, and their ratio to the rounds of the run that it confirms.
ROUNDS, MOST_ROUNDS, MORE = 10, 40, 2


@dataclass
class Result:
    """The result of a night.

    :ivar nights: all known nights, the earliest first and this one last.
    :ivar series: series of these nights.
    :ivar changes: changes that stand, confirmed or not.
    :ivar problems: problems besides the results of cases.
    :ivar lost: cases that were measured in earlier nights, and not in this one, with their reasons.
    :ivar fault: the first exception that the night ends with, after its results were stored; None without one.
    """

    name: str
    cases: Sequence[Case] = ()
    nights: Sequence[Night] = ()
    series: Sequence[Series] = ()
    changes: Sequence[Change] = ()
    problems: list[str] = field(default_factory=list)
    lost: Sequence[Case] = ()
    fault: Exception | None = None

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Keep an exception for the end: what was measured is stored first."""
        try:
            yield
        except UsageError:
            raise
        except Exception as error:
            self.fault = self.fault or error
            self.problems.append(" ".join(f"{type(error).__name__}: {error}".split()))

    def stored(self, nights: Sequence[Night]) -> None:
        """Set the nights from the database, and find the changes in them."""
        self.nights, self.series = nights, series(nights)
        self.changes = change_points.standing(self.series)

    def unstored(self, known: Sequence[Night]) -> None:
        """Add this night, which is not in the database, to the known ones."""
        last = Night(self.name, time.time(), "", tuple(self.cases), frozenset(), len(known))
        self.nights = [*known, last]
        self.series = series(self.nights)

    @property
    def alarms(self) -> list[Change]:
        """Confirmed changes for the worse."""
        return [change for change in self.changes if change.confirmed and change.worse]

    @property
    def status(self) -> int:
        """The exit status."""
        if self.fault:
            return TROUBLE if isinstance(self.fault, (OSError, ReportError)) else OWN_FAULT
        failed = [run for run in map(selections.failure, self.cases) if run]
        if self.alarms or any(map(selections.is_regression, failed)):
            return REGRESSION
        return TROUBLE if failed or self.lost or self.problems or not selections.ran(self.cases) else FINE


class History:
    """The site's results database.

    :ivar path: path of the database.
    """

    def __init__(self, arguments: Sequence[str], place: Workplace) -> None:
        """Ask ReFrame for the path of the database.

        :raises ReframeFailed: ReFrame cannot tell.
        """
        self.path = reframe_process.configuration(arguments, place).database

    def read(self, problems: list[str], whole: str = "") -> list[Night]:
        """Return all nights, and add their problems to ``problems``. A damaged database is set aside.

        :param whole: name of the night that is read in full, like the last one.
        """
        if not self.path.exists():
            return []
        try:
            make = functools.partial(nights, whole=whole)
            stored: database.Stored[list[Night]] = database.read(self.path, time.time() - 86400 * DAYS, make)
        except database.Damaged as error:
            problems.append(self._set_aside(str(error)))
            return []
        except database.DatabaseError as error:
            problems.append(str(error))
            return []
        for problem in stored.problems:
            say(problem)
        return stored.made

    def _set_aside(self, damage: str) -> str:
        """Rename a database that cannot be written any more, and return the problem for the report."""
        try:
            aside = database.set_aside(self.path)
        except OSError as error:
            return f"{damage}; it stays where it is ({error})"
        return f"{damage}; it is kept as {aside}, and a new one is begun"


def run(wanted: NightSettings, place: Workplace, relay: reframe_process.Relay) -> Result:
    """Run the session of a night, and repeat the cases of proposed changes."""
    result = Result(datetime.datetime.now().isoformat(timespec="seconds"))
    try:
        history = History(wanted.arguments, place)
    except reframe_process.ReframeFailed as error:
        result.problems.append(str(error))
        result.unstored([])
        return result
    before: list[Night] = []
    with result.kept():
        before = history.read(result.problems)
    choice = estimate.tonight(before, wanted.minutes)
    view = None if wanted.verbose else CaseView(progress.Screen().is_terminal)
    session = Session(wanted.settings(result.name), place, relay, choice, view=view)
    with result.kept():
        try:
            result.problems += session.begin()
        except ReportError as error:
            result.problems += [reframe_process.last_error(place.log) or str(error)]
            result.unstored(before)
        else:
            session.go_on()
            judge(result, session, history)
            proposals = [change for change in result.changes if not change.confirmed]
            if proposals and not relay.stopped_by and confirm(session, proposals):
                judge(result, session, history)
    result.cases = session.cases
    result.lost = lost(before, wanted, session)
    result.problems += [*session.problems, *stopped(wanted, relay)]
    return result


def lost(before: Sequence[Night], wanted: NightSettings, session: Session) -> list[Case]:
    """Return the cases that earlier nights measured, and this one did not, though it had time for them."""
    if not session.foreseen:
        # Without a dry run nothing is known; ReFrame says why.
        return []
    cases = expected(before, wanted.identity, wanted.changed)
    return [*selections.lost(cases, [*session.foreseen, *session.cases]), *session.lost]


def judge(result: Result, session: Session, history: History) -> None:
    """Find the changes, with the results that the session has stored so far."""
    result.cases = session.cases
    known = history.read(result.problems, result.name)
    last = next((place for place, night in enumerate(known) if night.name == result.name), None)
    if last is None:
        result.unstored(known)
        problem = f"the results of this night are not in the database {history.path} (see above)"
        result.problems += [problem] if problem not in result.problems else []
        return
    # Other sessions that were stored meanwhile come after this night, and are left out.
    result.stored(known[: last + 1])


def confirm(session: Session, proposals: Sequence[Change]) -> list[Case]:
    """Repeat the cases of proposed changes, paired and with more rounds, and return those that were run."""
    keys = {key for change in proposals for key in change.series.cases}
    cases = [case for case in selections.ran(session.cases) if case.key in keys]
    if not cases:
        return []
    rounds: dict[str, int] = {}
    for case in cases:
        before = max((row.rounds for row in case.rows), default=0)
        case_rounds = min(MOST_ROUNDS, max(ROUNDS, MORE * before))
        rounds[case.application] = max(rounds.get(case.application, 0), case_rounds)
    say(f"{len(proposals)} metric(s) moved since earlier nights; run again with more rounds: {names(cases)}")
    options = [word for name, count in rounds.items() for word in ("-S", f"{name}.rounds={count}")]
    missed = session.run_within_budget(cases, f"--session-extras={PASS}={CONFIRMATION}", *options)
    if missed:
        say(f"not run again, and so no alarm tonight: {names(missed)}")
    return [case for case in cases if case not in missed]


def stopped(wanted: NightSettings, relay: reframe_process.Relay) -> list[str]:
    """Return a line on what stopped the night; none if it was not stopped."""
    if relay.stopped_by == signal.SIGALRM.name:
        return [f"stopped after {wanted.timeout:g} minutes (--timeout)"]
    return [f"stopped by {relay.stopped_by}"] if relay.stopped_by else []


def conclude(result: Result, directory: Path) -> int:
    """Write what programs read, print the table and the changes, write the page, and return the exit status.

    An exception in one of these keeps none of the others from being done, and is raised at the end.
    """
    directory.mkdir(parents=True, exist_ok=True)
    report = directory / "report.html"
    # None of these is to be taken for this night's.
    for name in ("nightly.json", "junit.xml", report.name):
        (directory / name).unlink(missing_ok=True)
    store(result, directory)
    lost_lines = skipped.lost_lines(result.lost)
    with result.kept():
        for line in lost_lines:
            say(line)
        print("\n".join(["", *table.lines(result.cases)]), flush=True)
        for line in alarm_lines([change for change in result.changes if change.confirmed]):
            say(line)
        for problem in result.problems:
            say(f"error: {problem}")
    with result.kept():
        page.write(result.nights, result.series, result.changes, report, [*lost_lines, *result.problems])
    if result.fault:
        # With its status.
        store(result, directory)
        say(f"{MEANING[result.status]} (status {result.status}): {directory}")
        raise result.fault
    say(f"{MEANING[result.status]} (status {result.status}): {report}")
    return result.status


def store(result: Result, directory: Path) -> None:
    """Write the results of a night for programs; without what the history says where that fails."""
    history: dict[str, Any] = {}
    problems = [*skipped.lost_lines(result.lost), *result.problems]
    with result.kept():
        history = moved(result)
    with result.kept():
        save(directory / "nightly.json", {**summary(result), **history})
    with result.kept():
        junit.write(directory / "junit.xml", result.cases, history.get("alarms", []), problems)


def alarm_lines(changes: Sequence[Change]) -> list[str]:
    """Return a line for each likely cause of these changes."""
    return [f"{cause.sentence}. {'; '.join(cause.differences)}" for cause in causes.causes(changes)]


def summary(result: Result) -> dict[str, Any]:
    """Return a summary of the night for programs, with the scaling of its metrics: fields of ``scaling.Scaling``."""
    failed = {names([case]): run.reason for case in result.cases if (run := selections.failure(case))}
    return {
        "lost": {f"{names([case])}, {case.partition}": case.skip_reason for case in result.lost},
        "night": result.name,
        "status": result.status,
        "meaning": MEANING[result.status],
        "ran": len(selections.ran(result.cases)),
        "failed": failed,
        "problems": result.problems,
        "scaling": [asdict(variant) for variant in scaling.of(result.cases)],
    }


def moved(result: Result) -> dict[str, Any]:
    """Return what moved, for programs: ``changed`` and ``alarms`` are sentences, ``changes`` the values behind them."""
    return {
        "changed": alarm_lines(result.changes),
        "alarms": alarm_lines(result.alarms),
        "changes": [_values(change) for change in result.changes],
    }


def _values(change: Change) -> dict[str, Any]:
    """Return what decided on a change: levels in the series' unit, and the p-value."""
    series = change.series
    names = ("kind", "system", "partition", "environ", "application", "variant", "nodes", "metric", "unit", "better")
    decided = ("before", "after", "size", "p", "worse", "confirmed")
    nights = {"first_night": change.first.night.name, "nights": len(series.points) - change.at}
    return {
        **{name: getattr(series, name) for name in names},
        "axes": dict(series.axes),
        **nights,
        **{name: getattr(change, name) for name in decided},
    }


def asked(argv: Sequence[str]) -> NightSettings:
    """Return the settings of a command line.

    :raises SystemExit: the command line is wrong, or asks for help.
    """
    options, rest, _ = parsed("nightly", argv)
    return NightSettings(
        options.minutes, options.node_hours, options.timeout, options.acknowledge, tuple(rest), options.verbose
    )


def main(argv: Sequence[str], place: Workplace) -> int:
    """Run one night, and return the exit status."""
    speak_as("nightly")
    wanted = asked(argv)
    try:
        place, stage = preconditions.require(wanted.arguments, place)
        place = replace(place, report_file=place.report.parent / "nightly" / "run-report.json")
        with claims.held([stage, place.reports]), reframe_process.Relay() as relay:
            signal.setitimer(signal.ITIMER_REAL, 60 * (wanted.timeout or 0))
            result = run(wanted, place, relay)
            signal.setitimer(signal.ITIMER_REAL, 0)
            return conclude(result, place.reports)
    except (UsageError, claims.Taken) as error:
        say(f"error: {error}")
        return WRONG_USAGE
    except (OSError, ReportError) as error:
        say(f"error: {error}")
        return TROUBLE
