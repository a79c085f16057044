"""Run a session: one run of ReFrame within a budget, then further runs of open cases while there is time."""

from __future__ import annotations

import contextlib
import json
import math
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from containercheck import reframe_internals
from containercheck.history import spreads
from containercheck.results import database, selections
from containercheck.results.cases import Case, Key, ReportError, collect, load, merged, names, save
from containercheck.results.formatting import say
from containercheck.session import estimate, reframe_process
from containercheck.session.estimate import Choice
from containercheck.session.progress import View
from containercheck.session.reframe_process import Relay, Workplace
from containercheck.session.usage import UsageError

#: Days of the database that are read, as machines change.
DAYS = 90
#: Message before a dry run.
ASKING = "asking ReFrame which checks can run here, in a dry run that may take minutes"
#: Exceptions of the library that are one mistake of all cases: -S sets a variable that does not exist
#: (application/interface.py), or the site file is wrong (site/extras.py).
MISTAKES = ("UnknownVariable", "SiteError")
#: Most cases of a run that its message names.
NAMED = 6
#: Keys of the report's session_info for ReFrame's arguments, for the compared things, and for problems.
ARGUMENTS, COMPARED, PROBLEMS = "ci_run_arguments", "ci_run_compared", "ci_run_problems"


@dataclass(frozen=True)
class Settings:
    """Settings of a session.

    :ivar minutes: time for the session; None if none is set.
    :ivar node_hours: budget of all its jobs; None for no limit.
    :ivar estimate: whether to print the expected cost only, without a run.
    :ivar only_open: whether to continue the last session.
    :ivar arguments: all other arguments, for ReFrame.
    :ivar verbose: whether ReFrame's output is shown.
    :ivar table: whether the session ends with the table of all metrics.
    """

    minutes: float | None
    only_open: bool
    arguments: tuple[str, ...]
    node_hours: float | None = None
    estimate: bool = False
    verbose: bool = False
    table: bool = False

    @property
    def _variables(self) -> list[tuple[str, str, str]]:
        """Return check, variable and value of each -S; the check is empty for all checks."""
        pairs = (text.partition("=") for text in reframe_internals.options_of(self.arguments).setvar)
        return [(*name.rpartition(".")[::2], value) for name, _, value in pairs]

    @property
    def limits(self) -> dict[str, float]:
        """Return the seconds of checks on the command line, by class; the empty name is for all other classes."""
        limits = {}
        for check, variable, value in self._variables:
            if variable == "seconds":
                with contextlib.suppress(ValueError):  # ReFrame reports it
                    limits[check] = float(value)
        return limits

    @property
    def fixed(self) -> bool:
        """Whether the command line, and not the verdict, determines the number of rounds."""
        return any(variable == "rounds" and value != "0" for _, variable, value in self._variables)


class Session:
    """The runs of ReFrame in a session: one run of all checks or of a choice, then runs of open cases.

    :ivar report: report of all runs, as in the workplace's ``report``.
    :ivar cases: cases of that report.
    :ivar foreseen: cases of the dry run; none if the session continues the last one.
    :ivar is_resumed: whether it continues the last session.
    """

    def __init__(
        self,
        settings: Settings,
        place: Workplace,
        relay: Relay,
        choice: Choice | None = None,
        compared: Mapping[str, str] | None = None,
        view: View | None = None,
    ) -> None:
        """Start the clock of the session without a run.

        :param choice: choice of the first run; by default all cases, or with a budget the cheapest first.
        :param compared: name and identity of compared things other than bare and containers.
        :param view: form of the output; by default as ReFrame prints it.
        """
        self._view = view or View()
        self._compared = dict(compared or {})
        self._choice = choice or (estimate.cheapest_first if settings.node_hours else None)
        self._settings, self._place, self._relay = settings, place, relay
        self._deadline = time.monotonic() + 60 * (settings.minutes or math.inf)
        self._arguments = settings.arguments
        # Whether runs of open cases follow.
        self._going_on = settings.only_open or (settings.minutes is not None and not settings.fixed)
        # Spreads of the nights; they are read on first use.
        self._nights: spreads.Known | None = None
        # All cases that could run, and the cases that wait for node-hours.
        self._known: list[Case] = []
        self._waiting: list[Case] = []
        self.report: dict[str, Any] = {}
        self.cases: list[Case] = []
        self.foreseen: list[Case] = []
        # Cases of the last session; and cases of this one that should have run again and did not.
        self._before: list[Case] = []
        self._missed: dict[Key, Case] = {}
        self.is_resumed = False

    def begin(self) -> list[str]:
        """Run all checks, or the choice, and return the problems other than the results of cases.

        :raises UsageError: a variable is set that does not exist, or the site file is wrong.
        :raises ReportError: ReFrame left no report.
        """
        place, settings, status = self._place, self._settings, 0
        place.clear()
        say(ASKING)
        self.foreseen = self._foreseen()
        self._view.head(self.foreseen)
        self._before = self._last_session()
        # Not earlier: after a wrong command line, the report of the last session has to remain.
        place.report.unlink(missing_ok=True)
        self._known = selections.ran(self.foreseen)
        if not settings.limits and not settings.fixed and not self._relay.stopped_by:
            self._arguments = (*self._first_seconds(), *self._arguments)
        if self._relay.stopped_by:
            raise ReportError("no check was run")
        if self._choice:
            self._waiting = self._choice(self._known)
            if not self._run_waiting() and settings.node_hours and self._known:
                raise ReportError(f"no case is expected to fit into {settings.node_hours:g} node-hours")
        else:
            status = self._reframe(self._known, f"--report-file={place.report}")
        stopped = self._relay.stopped_by
        problems = [] if stopped else reframe_process.left_out(place.log)
        self.report = load(place.report)
        # For a later --resume.
        self.report.setdefault("session_info", {}).update({ARGUMENTS: settings.arguments, COMPARED: self._compared})
        self.cases = collect([self.report])
        if settings.minutes is None:
            # A default time does not include builds: the first session of a machine builds for many minutes.
            self._deadline += selections.built(self.cases)
        if status != 0 and not stopped and not any(map(selections.failure, self.cases)):
            problems.append(f"ReFrame ended with status {status}, though no check failed (see above)")
        # Cases that did not run are not in the report and so not open. With this line, a later --resume fails.
        left = f"the session was stopped by {stopped} before all checks had run: run it anew" if stopped else ""
        self.report["session_info"][PROBLEMS] = [*problems, *filter(None, [left])]
        save(place.report, self.report)
        if not self._choice:
            self._view.collected(self.cases)
        return problems

    def resume(self) -> list[str]:
        """Continue the last session, and return its problems other than the results of cases.

        It begins anew if the last session compared other things, because its verdicts do not apply.

        :raises UsageError: a variable is set that does not exist, or the site file is wrong.
        :raises ReportError: there was no session.
        """
        if not self._place.report.exists():
            raise ReportError(f"no session was run here yet: there is no {self._place.report}")
        self.report = load(self._place.report)
        info = self.report.get("session_info", {})
        before = info.get(COMPARED) or {}
        if self._compared and self._compared != before:
            say(f"the last session compared {_list(before)}, and not {_list(self._compared)}: this one begins anew")
            self._settings = replace(self._settings, only_open=False)
            self._going_on = self._settings.minutes is not None and not self._settings.fixed
            return self.begin()
        self.is_resumed = True
        self.cases = collect([self.report])
        self._known = selections.ran(self.cases)
        self._arguments = (*info.get(ARGUMENTS, ()), *self._arguments)
        self._place.clear()
        if self._settings.arguments:
            # A variable that does not exist has to be an error before the first run.
            self._foreseen()
        return list(info.get(PROBLEMS, ()))

    def _last_session(self) -> list[Case]:
        """Return the cases of the last session here; none if its arguments selected other cases."""
        try:
            report = load(self._place.report)
        except ReportError:
            return []
        before = report.get("session_info", {}).get(ARGUMENTS, ())
        return collect([report]) if _selecting(before) == _selecting(self._settings.arguments) else []

    @property
    def is_stopped(self) -> bool:
        """Whether a signal ended it."""
        return bool(self._relay.stopped_by)

    @property
    def log(self) -> Path:
        """The log of ReFrame's output."""
        return self._place.log

    @property
    def lost(self) -> list[Case]:
        """Cases that were measured before, in the last session or in this one, and not now; see ``selections.lost``."""
        return [*selections.lost(self._before, [*self.foreseen, *self.cases]), *self._missed.values()]

    @property
    def is_done(self) -> bool:
        """Whether no verdict is open."""
        return not selections.open_metrics(self.cases)

    def go_on(self) -> None:
        """Run the cases that waited for the budget; then run open cases while they close verdicts and there is time."""
        while not self._relay.stopped_by:
            if self._waiting:
                self._run_waiting()
            elif not self._going_on or not self._close():
                return

    def foresee(self) -> list[Case]:
        """Return the cases of a dry run.

        :raises UsageError: a variable is set that does not exist, or the site file is wrong.
        :raises ReportError: ReFrame left no report.
        """
        with tempfile.TemporaryDirectory() as directory:
            prefix = [f"--{option}={directory}/{option}" for option in ("stage", "output", "perflogdir", "report-file")]
            self._reframe(None, "--dry-run", *prefix)
            cases = collect([load(Path(directory, "report-file"))])
        mistakes = sorted({case.reason for case in cases if case.error in MISTAKES})
        if mistakes:
            # ReFrame puts the kind of the error before its message.
            raise UsageError(mistakes[0].removeprefix("site error: "))
        return cases

    def _foreseen(self) -> list[Case]:
        """Return the cases of a dry run; none if it fails, because ReFrame reports the error in the real run."""
        try:
            return self.foresee()
        except ReportError:
            return []

    def _first_seconds(self) -> list[str]:
        """Return options with the seconds of each check in the first run; none if each check keeps its default.

        A session without a time on the command line has the default time. It has none if its jobs wait in a queue or it
        has a budget.
        """
        minutes, cases = self._settings.minutes, self._known
        if not cases or (minutes is None and self._settings.node_hours):
            return []
        if minutes is None:
            minutes = selections.usual_session(cases) / 60
            if not minutes or any(case.scheduler != "local" for case in cases):
                return []
            self._going_on = True
            self._deadline = time.monotonic() + 60 * minutes
        seconds = selections.first_seconds(cases, 60 * minutes)
        takes = selections.takes(cases, seconds) / 60
        # Bare cases compare nothing and get no seconds.
        shares = " to ".join(map(str, sorted({min(seconds.values()), max(seconds.values())}))) if seconds else ""
        each = f", {shares} s each" if shares else ""
        excess = "" if takes <= minutes else f", more than the {minutes:.3g} that there are: select fewer checks"
        say(f"{len(cases)} case(s){each}: {takes:.0f} minutes if nothing fails or has to be built{excess}")
        return [word for name, check_seconds in seconds.items() for word in ("-S", f"{name}.seconds={check_seconds}")]

    @property
    def _node_hours_left(self) -> float:
        return (self._settings.node_hours or math.inf) - estimate.spent(self.cases)

    def _affordable(self, cases: Sequence[Case]) -> tuple[list[Case], list[str]]:
        """Return the cases that fit together into the budget, with ReFrame's options for that."""
        chosen, limit = estimate.fitting(cases, self._node_hours_left)
        return chosen, ["-S", f"node_hours={limit:.6g}"] if limit else []

    def _run_waiting(self) -> list[Case]:
        """Run the next cases that waited for the budget, and return them; print a line if none of them fits."""
        chosen, options = self._affordable(self._waiting)
        if self._waiting and not chosen:
            say(f"left out, as only {self._node_hours_left:.3g} node-hours are left: {names(self._waiting)}")
        self._waiting = [case for case in self._waiting if chosen and case not in chosen]
        self._run_and_name_missed(chosen, options)
        return chosen

    def _run_and_name_missed(self, cases: Sequence[Case], options: Sequence[str]) -> list[Case]:
        missed = self.run(cases, *options)
        if missed:
            say(f"not run: {names(missed)}")
        return missed

    def _close(self) -> bool:
        """Run as many open cases as fit into the time left, and return whether another such run is useful."""
        plan = selections.plan(self.cases, self._deadline - time.monotonic(), self._settings.limits)
        if not plan.cases:
            if selections.needs(self.cases):
                say("the open cases need more time than is left")
            return False
        cases, options = self._affordable(plan.cases)
        if not cases:
            say(f"the open cases need more node-hours than are left: {names(plan.cases)}")
            return False
        say(f"{len(cases)} case(s) go on, for about {plan.takes / 60:.1f} minutes: {names(cases, NAMED)}")
        options += ["-S", f"earlier={self._place.report}"]
        if not self._settings.fixed:
            # They come after the arguments of the last session and override its seconds and rounds.
            values = [(f"{name}.seconds={seconds}", f"{name}.rounds=0") for name, seconds in plan.seconds.items()]
            options += [word for pair in values for value in pair for word in ("-S", value)]
        before = selections.open_metrics(self.cases)
        missed = self._run_and_name_missed(cases, options)
        closed = before - selections.open_metrics(self.cases)
        say(f"{len(closed)} of {len(before)} open verdict(s) closed")
        if self._settings.only_open and (self._settings.minutes is None or self._settings.fixed):
            self._going_on = False
        # Cases with too few rounds for a forecast have one now.
        return bool(closed) or not (plan.metrics or missed)

    def run(self, cases: Sequence[Case], *options: str) -> list[Case]:
        """Run these cases, add the results to the report, and return the cases that were not run."""
        again: dict[Key, Case] = {}
        ran_before = {case.key for case in selections.ran(self.cases)}
        for members, selecting in selected(cases, self._known):
            self._place.latest.unlink(missing_ok=True)
            self._reframe(members, *options, *selecting, f"--report-file={self._place.latest}")
            try:
                report = load(self._place.latest)
            except ReportError:
                continue
            self.report = merged(self.report, report)
            save(self._place.report, self.report)
            self.cases = collect([self.report])
            later = collect([report])
            self._view.collected(later)
            again.update({case.key: case for case in later})
        missed = [case for case in cases if case.key not in again or not selections.ran([again[case.key]])]
        for case in cases:
            self._missed.pop(case.key, None)
        # A case in its first run was not measured before. A stop is reported in another line.
        for case in () if self._relay.stopped_by else missed:
            if case.key in ran_before:
                reason = again[case.key].reason if case.key in again else "ReFrame did not run it again"
                self._missed[case.key] = replace(case, result="skip", reason=reason)
        return missed

    def run_within_budget(self, cases: Sequence[Case], *options: str) -> list[Case]:
        """Run as many of these cases as fit into the budget, and return those that were not run."""
        chosen, more = self._affordable(cases)
        missed = self.run(chosen, *options, *more)
        return [case for case in cases if case in missed or case not in chosen]

    def _reframe(self, cases: Sequence[Case] | None, *options: str) -> int:
        """Run ReFrame, and return its exit status.

        :param cases: the cases of the run; None for a dry run.
        """
        arguments = self._arguments if "-n" not in options else reframe_process.without_names(self._arguments)
        words = [*_loading(self._place, cases or ()), *arguments, *self._known_spreads(), *options]
        return reframe_process.reframe(words, self._place, self._relay, cases, self._view)

    def _known_spreads(self) -> list[str]:
        """Write the known spreads into a file, and return ReFrame's options with its path; none without spreads."""
        if self._nights is None:
            self._nights = self._spreads_of_nights()
        cases = [case for run in self.report.get("runs", ()) for case in run["testcases"]]
        known = spreads.merged(spreads.kept(cases), self._nights)
        path = self._place.reports / "known-spreads.json"
        if known:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(known, indent=1))
        return ["-S", f"known_spreads={path}"] if known else []

    def _spreads_of_nights(self) -> spreads.Known:
        """Return the spreads of the nights; empty if there are none or they cannot be read. Other code reports that."""
        try:
            path = reframe_process.configuration(self._settings.arguments, self._place).database
            since = time.time() - 86400 * DAYS
            return spreads.from_nights(database.read(path, since)) if path.exists() else {}
        except (database.DatabaseError, reframe_process.ReframeFailed, UsageError):
            return {}


def _loading(place: Workplace, cases: Sequence[Case]) -> list[str]:
    """Return ReFrame's options that load the checks, the file with the shortest cases first.

    ReFrame runs cases in the order in which it finds them; in a directory, this is the order of the file system.
    """
    seconds: dict[str, float] = {}
    for case in cases:
        seconds[case.file] = seconds.get(case.file, 0.0) + case.expected.get("expected", 0.0)
    files = [str(path) for path in Path(place.directory, place.checks).resolve().glob("*.py")]
    if not seconds.keys() & set(files):
        return ["-c", place.checks]
    files.sort(key=lambda file: (seconds.get(file, math.inf), file))
    return [word for file in files for word in ("-c", file)]


def selected(cases: Sequence[Case], known: Sequence[Case]) -> list[tuple[list[Case], list[str]]]:
    """Return the runs of ReFrame that run exactly these cases: the cases of each, and the options that select them.

    A hash selects a case on all partitions. If not all of them are wanted, there is one run for each partition.

    :param known: all cases that could run.
    """
    hashes, keys = {case.hashcode for case in cases}, {case.key for case in cases}
    are_everywhere = all(case.key in keys for case in known if case.hashcode in hashes)
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in cases:
        system, partition, environ, _ = case.key
        place = (f"--system={system}:{partition}", "-p", f"^{re.escape(environ)}$")
        groups.setdefault(() if are_everywhere else place, []).append(case)
    runs = []
    for words, members in groups.items():
        codes = dict.fromkeys(case.hashcode for case in members)
        runs.append((members, [*words, *(word for code in codes for word in ("-n", f"/{code}"))]))
    return runs


def _selecting(arguments: Sequence[str]) -> list[str]:
    """Return arguments without the candidates of an acceptance."""
    return [word for word in arguments if not word.startswith(("runtimes=", "compared_images="))]


def _list(compared: Mapping[str, str]) -> str:
    """Return the compared things of a session, for messages."""
    return ", ".join(f"{name} {identity}" for name, identity in compared.items()) or "bare and containers only"
