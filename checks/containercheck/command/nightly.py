"""Run the checks of a night, find changes since earlier nights, and confirm them.

A change is first a proposal (history/change_points.py). Its cases run again at once, paired, with more rounds, and only
a confirmed change is an alarm. Slurm runs them on other nodes. If these do not confirm it, they run once more on the
first nodes, so that a slow node is an alarm too. The results are in ``nightly/``, next to the report of other
sessions: ReFrame's report of all runs, ``nightly.json``, ``junit.xml``, ``report.html``.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from containercheck.command.main import status_of
from containercheck.command.nodes import LISTING, NODE
from containercheck.command.parsers import BROKEN, COMMANDS, FINE, NOT_JUDGED, STATUSES, parsed
from containercheck.history import causes, change_points
from containercheck.history.change_points import LevelChange
from containercheck.history.nights import ARGUMENTS, CHANGED, CONFIRMATION, NIGHT, PASS, Night, expected, stored
from containercheck.history.series import Series, series
from containercheck.report import push, scaling, table, view
from containercheck.report.view import CaseView
from containercheck.results import database, exported, selections
from containercheck.results.cases import Case, ReportError, names, save
from containercheck.results.formatting import by_key, say
from containercheck.session import estimate, preconditions, progress, reframe_process
from containercheck.session.reframe_process import Configuration, Workplace
from containercheck.session.session import Session, Settings
from containercheck.site.jobs import OFF, ON, in_service

#: Meanings of the exit statuses.
MEANING = {**STATUSES, **COMMANDS["nightly"].statuses}
#: Files of a night.
SUMMARY, JUNIT, PAGE = "nightly.json", "junit.xml", "report.html"
#: Days of history that are read.
DAYS = 100
#: Fewest and most rounds of a confirmation, and their ratio to the rounds of the run before it.
ROUNDS, MOST_ROUNDS, MORE = 10, 40, 2


@dataclass(frozen=True)
class NightSettings:
    """Settings of a night.

    :ivar timeout: minutes after which the night is stopped; None for never.
    :ivar changed: description of a change on purpose; empty for none.
    :ivar arguments: arguments for ReFrame.
    :ivar verbose: whether ReFrame's output is shown.
    """

    minutes: float | None
    node_hours: float | None
    timeout: float | None
    changed: str
    arguments: tuple[str, ...]
    verbose: bool = False

    @property
    def identity(self) -> str:
        """The identity of the arguments."""
        return hashlib.sha256(json.dumps(self.arguments).encode()).hexdigest()[:12]

    def settings(self, night: str) -> Settings:
        """Return the settings of the night's session; the night's name is stored with its results."""
        # These characters cannot be quoted in ReFrame's session extras and queries.
        changed = self.changed.translate(str.maketrans(",{}\n", ";() "))
        extras = f"{NIGHT}={night},{ARGUMENTS}={self.identity}" + (f",{CHANGED}={changed}" if changed else "")
        return Settings(self.minutes, False, (*self.arguments, f"--session-extras={extras}"), self.node_hours)


@dataclass
class Result:
    """The result of a night; it is completed step by step.

    :ivar nights: all known nights, the earliest first and this one last.
    :ivar series: series of these nights.
    :ivar changes: changes that stand, confirmed or not.
    :ivar problems: problems other than results of cases.
    :ivar lost: cases that were measured in earlier nights and not in this one, with their reasons.
    :ivar fault: exception that ended the night; None without one.
    """

    name: str
    cases: Sequence[Case] = ()
    nights: Sequence[Night] = ()
    series: Sequence[Series] = ()
    changes: Sequence[LevelChange] = ()
    problems: list[str] = field(default_factory=list)
    lost: Sequence[Case] = ()
    fault: Exception | None = None

    def judge(self, nights: Sequence[Night]) -> None:
        """Set the nights from the database, and find the changes in them."""
        self.nights, self.series = nights, series(nights)
        self.changes = change_points.standing(self.series)

    def add_unstored(self, known: Sequence[Night]) -> None:
        """Add this night, which is not in the database, to the known nights, without a search for changes."""
        last = Night(self.name, time.time(), "", tuple(self.cases), len(known))
        self.nights = [*known, last]
        self.series = series(self.nights)

    @property
    def alarms(self) -> list[LevelChange]:
        """Confirmed changes for the worse."""
        return [change for change in self.changes if change.confirmed and change.worse]

    @property
    def status(self) -> int:
        """The exit status."""
        if self.fault:
            return status_of(self.fault)
        failed = [run for run in map(selections.failure, self.cases) if run]
        if self.alarms or any(map(selections.is_regression, failed)):
            return BROKEN
        return NOT_JUDGED if failed or self.lost or self.problems or not selections.ran(self.cases) else FINE


def read_nights(path: Path, problems: list[str], whole: str = "") -> list[Night]:
    """Return the nights of a database, and add its problems to ``problems``.

    A damaged database is renamed, so that ReFrame begins a new one.

    :param whole: name of a night to read in full, like the last one.
    """
    if not path.exists():
        return []
    try:
        return stored(path, time.time() - 86400 * DAYS, whole)
    except database.Damaged as error:
        problems.append(f"{error}; it is kept as {database.set_aside(path)}, and a new one is begun")
        return []
    except database.DatabaseError as error:
        problems.append(str(error))
        return []


def run(result: Result, wanted: NightSettings, place: Workplace, relay: reframe_process.Relay) -> None:
    """Run the session of a night, and repeat the cases of proposed changes; fill in the result."""
    configured = reframe_process.configuration(wanted.arguments, place)
    before = read_nights(configured.database, result.problems)
    choice = estimate.tonight(before, wanted.minutes)
    shown = None if wanted.verbose else CaseView(progress.Screen().is_terminal)
    session = Session(wanted.settings(result.name), place, relay, choice, view=shown)
    try:
        _measure(result, session, before, configured)
    finally:
        result.cases = session.cases
    result.lost = lost(before, wanted, session)
    result.problems += stopped(wanted, relay)


def _measure(result: Result, session: Session, before: Sequence[Night], configured: Configuration) -> None:
    """Run a session, find the changes since earlier nights, and confirm them."""
    path, system = configured.database, configured.system
    try:
        result.problems += session.begin()
    except ReportError as error:
        result.problems += [reframe_process.last_error(session.log) or str(error)]
        result.add_unstored(before)
        return
    session.go_on()
    judge(result, session, path)
    if session.is_stopped:
        return
    proposals = [change for change in result.changes if not change.confirmed]
    moved, failed = moved_cases(session.cases, proposals), failed_on_one_node(session.cases, before, system)
    if moved:
        say(f"{len(proposals)} metric(s) moved since earlier nights; run again with more rounds: {names(moved)}")
    if failed:
        say(f"failed on one node only; run again on another: {names(failed)}")
    if confirm(session, list({case.key: case for case in (*moved, *failed)}.values()), OFF):
        judge(result, session, path)
    alone = not_elsewhere(session.cases, proposals, result.changes)
    if alone:
        say(f"not confirmed on another node; run again on the first one: {names(alone)}")
    again = confirm(session, alone, ON)
    if again:
        judge(result, session, path)
    if left := [case for case in alone if case not in again]:
        result.problems.append(f"not confirmed on another node, and not run again on the first one: {names(left)}")


def lost(before: Sequence[Night], wanted: NightSettings, session: Session) -> list[Case]:
    """Return the cases that earlier nights measured and this one did not, although it had time for them."""
    if not session.foreseen:
        # The dry run failed; ReFrame prints the reason.
        return []
    cases = expected(before, wanted.identity, wanted.changed)
    return [*selections.lost(cases, [*session.foreseen, *session.cases]), *session.lost]


def judge(result: Result, session: Session, path: Path) -> None:
    """Find the changes, with the results that the session has stored so far.

    :param path: path of the database.
    """
    result.cases = session.cases
    known = read_nights(path, result.problems, result.name)
    last = next((place for place, night in enumerate(known) if night.name == result.name), None)
    if last is None:
        result.add_unstored(known)
        problem = f"the results of this night are not in the database {path} (see above)"
        result.problems += [problem] if problem not in result.problems else []
        return
    # Sessions that were stored meanwhile come after this night and are left out.
    result.judge(known[: last + 1])


def moved_cases(cases: Sequence[Case], proposals: Sequence[LevelChange]) -> list[Case]:
    """Return the cases of proposed changes."""
    keys = {key for change in proposals for key in change.series.cases}
    return [case for case in selections.ran(cases) if case.key in keys]


def failed_on_one_node(cases: Sequence[Case], before: Sequence[Night], system: Mapping[str, Any]) -> list[Case]:
    """Return the cases that failed, and passed the last time, if all of their partition failed on the same node.

    Failures on several nodes are not of a node. Other nodes of the partition must be in service.

    :param system: as the site file has it.
    """
    earlier = [case for night in before for case in night.cases]
    passed = {case.identity: selections.failure(case) is None for case in earlier if case.result != "skip"}
    access = {partition["name"]: partition.get("access", ()) for partition in system["partitions"]}
    new = [case for case in cases if selections.failure(case) and passed.get(case.identity)]
    found = []
    for name, group in by_key((case for case in new if case.scheduler in LISTING), lambda case: case.partition).items():
        if set.intersection(*({*case.ran_on} for case in group)):
            nodes = in_service(access[name])
            found += [case for case in group if len(nodes - {*case.ran_on}) >= case.nodes]
    return found


def not_elsewhere(
    cases: Sequence[Case], proposals: Sequence[LevelChange], changes: Sequence[LevelChange]
) -> list[Case]:
    """Return the first runs of cases with proposed changes that reruns on other nodes did not confirm."""
    confirmed = {change.identity for change in changes if change.confirmed}
    done = {key for change in proposals if change.identity in confirmed for key in change.series.cases}
    left = [case for case in moved_cases(cases, proposals) if case.key not in done and case.earlier]
    firsts = [replace(case.earlier[-1], label=case.label) for case in left if case.ran_on]
    again = {case.key: {*case.ran_on} for case in left}
    return [case for case in firsts if case.ran_on and not {*case.ran_on} & again[case.key]]


def confirm(session: Session, cases: Sequence[Case], option: str) -> list[Case]:
    """Repeat cases, paired and with more rounds, and return the cases that ran.

    :param option: option of Slurm, :data:`OFF` or :data:`ON`, with the nodes on which these runs were.
    """
    if not cases or session.is_stopped:
        return []
    rounds: dict[str, int] = {}
    nodes: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = {}
    for case in cases:
        before = max((row.rounds for row in case.rows), default=0)
        case_rounds = min(MOST_ROUNDS, max(ROUNDS, MORE * before))
        rounds[case.application] = max(rounds.get(case.application, 0), case_rounds)
        # ReFrame's --distribute has chosen the node, and adds a hidden axis.
        if case.ran_on and case.scheduler in LISTING and NODE not in case.axes:
            nodes.setdefault(case.place, {})[case.name] = option, case.ran_on
    options = [word for name, count in rounds.items() for word in ("-S", f"{name}.rounds={count}")]
    if nodes:
        path = session.log.with_name("rerun-nodes.json")
        path.write_text(json.dumps(nodes))
        options += ["-S", f"rerun_nodes={path}"]
    missed = session.run_within_budget(cases, f"--session-extras={PASS}={CONFIRMATION}", *options)
    if missed:
        say(f"not run again, and so no alarm tonight: {names(missed)}")
    return [case for case in cases if case not in missed]


def stopped(wanted: NightSettings, relay: reframe_process.Relay) -> list[str]:
    """Return a line on the signal or timeout that stopped the night; none if it was not stopped."""
    if relay.stopped_by == signal.SIGALRM.name:
        return [f"stopped after {wanted.timeout:g} minutes (--timeout)"]
    return [f"stopped by {relay.stopped_by}"] if relay.stopped_by else []


def conclude(result: Result, directory: Path) -> int:
    """Write the files for programs, print the table and the changes, write the page, and return the exit status."""
    store(result, directory)
    lost_lines = table.lost_lines(result.lost)
    for line in lost_lines:
        say(line)
    print("\n".join(["", *view.lines(result.cases)]), flush=True)
    for line in alarm_lines([change for change in result.changes if change.confirmed]):
        say(line)
    for problem in result.problems:
        say(f"error: {problem}")
    # matplotlib takes half a second to load.
    from containercheck.report.page import contents

    report = directory / PAGE
    contents.write(result.nights, result.series, result.changes, report, [*lost_lines, *result.problems])
    say(f"{MEANING[result.status]} (status {result.status}): {report}")
    return result.status


def store(result: Result, directory: Path) -> None:
    """Write the results of a night for programs; after a fault, without the changes since earlier nights."""
    history = moved(result) if not result.fault else {}
    problems = [*table.lost_lines(result.lost), *result.problems]
    save(directory / SUMMARY, {**summary(result), **history})
    exported.write_junit(directory / JUNIT, result.cases, history.get("alarms", []), problems)


def announce(result: Result, wanted: NightSettings, place: Workplace) -> None:
    """Send the results of a night to the sinks of the site."""
    outcome = push.Outcome(
        "nightly",
        result.status,
        MEANING[result.status],
        result.cases,
        place.reports / PAGE,
        alarm_lines([change for change in result.changes if change.confirmed]),
        [*table.lost_lines(result.lost), *result.problems],
    )
    push.announce(wanted.arguments, place, outcome)


def alarm_lines(changes: Sequence[LevelChange]) -> list[str]:
    """Return a line for each likely cause of these changes."""
    return [f"{cause.sentence}. {'; '.join(cause.differences)}" for cause in causes.causes(changes)]


def summary(result: Result) -> dict[str, Any]:
    """Return a summary of the night for programs, with a line for each metric that scales."""
    failed = {names([case]): run.reason for case in result.cases if (run := selections.failure(case))}
    return {
        "lost": {f"{names([case])}, {case.partition}": case.skip_reason for case in result.lost},
        "night": result.name,
        "status": result.status,
        "meaning": MEANING[result.status],
        "ran": len(selections.ran(result.cases)),
        "failed": failed,
        "problems": result.problems,
        "scaling": scaling.lines(result.cases),
    }


def moved(result: Result) -> dict[str, Any]:
    """Return the changes for programs: ``changed`` and ``alarms`` are sentences, ``changes`` their values."""
    return {
        "changed": alarm_lines(result.changes),
        "alarms": alarm_lines(result.alarms),
        "changes": [_values(change) for change in result.changes],
    }


def _values(change: LevelChange) -> dict[str, Any]:
    """Return the values of a change: series, nights, levels in the series' unit, and p-value."""
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
    wanted = asked(argv)
    place = preconditions.require(wanted.arguments, place)
    place = replace(place, report_file=place.report.parent / "nightly" / "run-report.json")
    with preconditions.held([place.stage, place.reports]), reframe_process.Relay() as relay:
        # Remove old files, so that they are not confused with the results of this night.
        for name in (SUMMARY, JUNIT, PAGE):
            (place.reports / name).unlink(missing_ok=True)
        result = Result(datetime.datetime.now().isoformat(timespec="seconds"))
        try:
            signal.setitimer(signal.ITIMER_REAL, 60 * (wanted.timeout or 0))
            run(result, wanted, place, relay)
            signal.setitimer(signal.ITIMER_REAL, 0)
            status = conclude(result, place.reports)
            announce(result, wanted, place)
            return status
        except Exception as error:
            # The results are kept after a fault.
            result.fault = error
            result.problems.append(" ".join(f"{type(error).__name__}: {error}".split()))
            store(result, place.reports)
            announce(result, wanted, place)
            raise
