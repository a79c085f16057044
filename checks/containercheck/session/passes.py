"""The passes of a session, each a run of ReFrame: all checks first, then the cases that need another run."""

from __future__ import annotations

import contextlib
import copy
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from containercheck.results import open_verdicts, selections
from containercheck.results.cases import Case, Key, ReportError, collect, key, load, merged, only, save, selection
from containercheck.results.formatting import names, say
from containercheck.results.request import EXPERIMENTS, MOST_EXPERIMENTS
from containercheck.session import estimate, preparation, reframe_process
from containercheck.session.budget import Budget
from containercheck.session.progress import Awaited, Verbatim, View, awaited
from containercheck.session.reframe_process import Workplace
from containercheck.session.settings import Settings
from containercheck.session.spreads_file import KnownSpreads
from containercheck.session.usage import UsageError

#: Function that returns the cases to run, in their order, and prints those that it leaves out.
Choice = Callable[[Sequence[Case]], list[Case]]
#: Exception of the library where -S sets a variable that does not exist
#: (checks/containercheck/application/assignments.py).
UNKNOWN_VARIABLE = "UnknownVariable"
#: So many cases of a pass are named; what becomes of each is told when it ends.
NAMED = 6
#: Keys of the report's session_info for the arguments for ReFrame, for what was compared, and for what went wrong.
ARGUMENTS, COMPARED, PROBLEMS = "ci_run_arguments", "ci_run_compared", "ci_run_problems"


class Session:
    """The runs of ReFrame in a session: of all checks, or of open ones; then of the cases that need another run.

    :ivar report: report of all runs, as it is in the workplace's ``report``.
    :ivar cases: cases of that report.
    :ivar is_resumed: whether it continues the last session.
    :ivar problems: what could not be logged or shown.
    """

    def __init__(
        self,
        settings: Settings,
        place: Workplace,
        relay: reframe_process.Relay,
        choice: Choice | None = None,
        compared: Mapping[str, str] | None = None,
        view: View | None = None,
    ) -> None:
        """Start the clock of the session; nothing is run yet.

        :param choice: choice of the first pass; by default all cases, or with a budget the cheapest first.
        :param compared: name and identity of the things that the session compares beside bare and containers.
        :param view: what is shown meanwhile; by default what ReFrame prints.
        """
        self._view = view or Verbatim()
        self._compared = dict(compared or {})
        self._choice = choice or (estimate.cheapest_first if settings.node_hours else None)
        self._settings, self._place, self._relay = settings, place, relay
        self._deadline = time.monotonic() + 60 * (settings.minutes or float("inf"))
        self._arguments = settings.arguments
        # Whether passes over open cases follow.
        self._going_on = settings.only_open or (settings.minutes is not None and not settings.fixed)
        # Most seconds of the first pass without building, and seconds of building before it.
        self._first_takes = self._building = 0.0
        self._confirmed: set[Key] = set()
        self._budget = Budget(settings.node_hours)
        self._known = KnownSpreads(settings.arguments, place)
        self.report: dict[str, Any] = {}
        self.cases: list[Case] = []
        self.is_resumed = False
        self.problems: list[str] = []

    def begin(self) -> list[str]:
        """Run all checks, and return the problems besides their results.

        :raises UsageError: a variable is set that does not exist.
        :raises ReportError: ReFrame left no report.
        """
        place, settings = self._place, self._settings
        place.clear()
        say("asking ReFrame which checks can run here")
        with self._foreseen() as foreseen:
            self._view.head(collect([foreseen]))
            # Not before: after a wrong command line the last session's report is still there.
            place.report.unlink(missing_ok=True)
            if not self._choice:
                self._prepare(foreseen, foreseen)
            if not settings.limits and not settings.fixed and not self._relay.stopped_by:
                self._arguments = (*self._first_seconds(selections.ran(collect([foreseen]))), *self._arguments)
            known, chosen = self._first_chosen(foreseen) if self._choice else (foreseen, [])
            if self._choice:
                self._prepare(foreseen, known)
        if self._relay.stopped_by:
            raise ReportError("no check was run")
        began = time.monotonic()
        files = () if reframe_process.names_checks(self._arguments) else files_cheapest_first(foreseen)
        status = self._reframe(f"--report-file={place.report}", *chosen, known=known, files=files)
        problems = [] if self._relay.stopped_by else reframe_process.left_out(place.log)
        self.report = load(place.report)
        # A later --open reads them.
        self.report.setdefault("session_info", {}).update({ARGUMENTS: settings.arguments, COMPARED: self._compared})
        self._keep()
        if settings.minutes is None:
            # Only a time on the command line includes builds: the first session of a machine builds for many minutes.
            self._deadline += open_verdicts.built(self.cases, time.monotonic() - began, self._first_takes)
        if status != 0 and not self._relay.stopped_by and not any(map(selections.failure, self.cases)):
            problems.append(f"ReFrame ended with status {status}, though no check failed (see above)")
        stopped = self._relay.stopped_by
        before: list[str] = []
        if stopped:
            # What was not run then is not in the report, and so is not open: a later --open does not end with 0.
            before = [f"the session was stopped by {stopped} before all checks had run: run it anew"]
        self.report["session_info"][PROBLEMS] = [*problems, *before]
        self._keep()
        return problems

    def resume(self) -> list[str]:
        """Continue the last session, and return its problems besides the results of cases.

        It begins anew where that one compared something else, as its verdicts do not apply.

        :raises UsageError: a variable is set that does not exist.
        :raises ReportError: there was no session.
        """
        if not self._place.report.exists():
            raise ReportError(f"no session was run here yet: there is no {self._place.report}")
        self.report = load(self._place.report)
        before = self.report.get("session_info", {}).get(COMPARED) or {}
        if self._compared and self._compared != before:
            say(f"the last session compared {_list(before)}, and not {_list(self._compared)}: this one begins anew")
            self._settings = replace(self._settings, only_open=False)
            self._going_on = self._settings.minutes is not None and not self._settings.fixed
            return self.begin()
        self.is_resumed = True
        self.cases = collect([self.report])
        self._arguments = (*self.report.get("session_info", {}).get(ARGUMENTS, ()), *self._arguments)
        self._place.clear()
        if self._settings.arguments:
            # A variable that does not exist is an error before anything runs.
            with self._foreseen():
                pass
        return list(self.report.get("session_info", {}).get(PROBLEMS, ()))

    @property
    def is_done(self) -> bool:
        """Whether no verdict is open, and no slowness unconfirmed."""
        return not open_verdicts.open_figures(self.cases) and not selections.to_repeat(self.cases)

    def repeat_open(self) -> None:
        """Run the cases that waited for the budget, then repeat those that were only slow, then the open ones.

        It ends when open cases close no more verdicts, or time or budget are used up.
        """
        while not self._relay.stopped_by:
            if self._budget.waiting:
                self._run_waiting()
                continue
            slow = [case for case in selections.to_repeat(self.cases) if case.key not in self._confirmed]
            ended = [case for case in selections.to_prove(self.cases) if case.key not in self._confirmed]
            if slow:
                self._confirm(slow)
            elif ended and self._settings.experiments:
                self._prove(ended)
            elif not self._going_on or not self._close():
                return

    def foresee(self) -> dict[str, Any]:
        """Return the report of a dry run.

        :raises UsageError: a variable is set that does not exist.
        :raises ReportError: ReFrame left no report.
        """
        with tempfile.TemporaryDirectory() as directory:
            return self._dry_run(directory)

    def _dry_run(self, directory: str) -> dict[str, Any]:
        prefix = [f"--{option}={directory}/{option}" for option in ("stage", "output", "report-file")]
        self._reframe("--dry-run", *prefix, known=None)
        report = load(Path(directory, "report-file"))
        unknown_variables = sorted({case.reason for case in collect([report]) if case.error == UNKNOWN_VARIABLE})
        if unknown_variables:
            raise UsageError(unknown_variables[0])
        return report

    @contextlib.contextmanager
    def _foreseen(self) -> Iterator[dict[str, Any]]:
        """Give the report of a dry run while its stage directories exist; an empty one if it fails.

        ReFrame reports the error itself when it runs.
        """
        with tempfile.TemporaryDirectory() as directory:
            try:
                report = self._dry_run(directory)
            except ReportError:
                report = {"runs": []}
            yield report

    def _prepare(self, foreseen: dict[str, Any], wanted: dict[str, Any]) -> None:
        """Build what the cases of a report need, before anything is measured.

        :param foreseen: report of a dry run, whose stage directories still exist.
        :param wanted: report with the cases.
        """
        builds = preparation.builds(foreseen, [case.key for case in selections.ran(collect([wanted]))])
        if not builds:
            return
        took = preparation.Preparation(builds, self._place).run(self._relay)
        self._building += took
        if self._settings.minutes is None:
            # See begin().
            self._deadline += took

    def _first_chosen(self, foreseen: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return a report of the first cases of a choice, and the options with which ReFrame runs them.

        :raises ReportError: ReFrame left no report, or no case fits into the budget.
        """
        if self._settings.node_hours or not foreseen["runs"]:
            # Now with the seconds that checks got meanwhile; an empty report is repeated for ReFrame's error message.
            foreseen = self.foresee()
        choice = self._choice or estimate.cheapest_first
        chosen, options = self._budget.begin(foreseen, choice(selections.ran(collect([foreseen]))))
        save(self._place.selection, selection(foreseen, chosen))
        return only(foreseen, chosen), [*options, f"--restore-session={self._place.selection}", "--failed"]

    def _run_waiting(self) -> None:
        """Run the next cases that waited for the budget, or print that none of them fits any more."""
        chosen, options = self._budget.next(self.cases)
        if not chosen:
            return
        missed = self.repeat(chosen, *options, known=self._budget.foreseen)
        if missed:
            say(f"not run: {names(missed)}")

    def _first_seconds(self, cases: Sequence[Case]) -> list[str]:
        """Return options with the seconds of each check in the first pass; none where each check keeps its default.

        A session without a time on the command line has the usual one, unless its jobs wait in a queue or it has a
        budget.
        """
        minutes = self._settings.minutes
        if not cases or (minutes is None and self._settings.node_hours):
            return []
        if minutes is None:
            minutes = open_verdicts.usual_session(cases) / 60
            if not minutes or any(case.scheduler != "local" for case in cases):
                return []
            self._going_on = True
            self._deadline = time.monotonic() + 60 * minutes
        # A time on the command line includes building.
        left = max(0.0, 60 * minutes - (self._building if self._settings.minutes else 0.0))
        seconds = open_verdicts.first_seconds(cases, left)
        self._first_takes = open_verdicts.first_takes(cases, seconds)
        takes = self._first_takes / 60
        excess = "" if 60 * takes <= left else f", more than the {left / 60:.3g} that are left: select fewer checks"
        shares = sorted(set(seconds.values()))
        # Bare cases, which compare nothing, get no seconds.
        seconds_text = ""
        if shares:
            seconds_text = ", " + " to ".join(map(str, dict.fromkeys((shares[0], shares[-1])))) + " s each"
        seconds_text += ", by what they need" if len(shares) > 1 else ""
        say(f"the first pass has {len(cases)} case(s){seconds_text}: at most {takes:.0f} minutes{excess}")
        return [word for name, check_seconds in seconds.items() for word in ("-S", f"{name}.seconds={check_seconds}")]

    def _confirm(self, slow: Sequence[Case]) -> None:
        """Repeat the cases that were only slow, with new rounds."""
        chosen, options = self._budget.within(slow, self.cases)
        if not chosen:
            self._confirmed |= {case.key for case in slow}
            left = f"as only {self._budget.left(self.cases):.3g} node-hours are left"
            say(f"not run again, {left}, and so taken for confirmed: {names(slow)}")
            return
        say(f"{len(chosen)} check(s) only failed in their performance, and are run again: {names(chosen, NAMED)}")
        self._confirmed |= {case.key for case in chosen}
        if self._settings.experiments:
            options = [*options, "-S", f"{EXPERIMENTS}={self._place.selection}"]
        missed = self.repeat(chosen, *options)
        if missed:
            say(f"not run again, and so taken for confirmed: {names(missed)}")

    def _prove(self, ended: Sequence[Case]) -> None:
        """Run cases whose containers end or hang once more, beside the same with the likeliest cause taken away."""
        self._confirmed |= {case.key for case in ended}
        chosen, options = self._budget.within(ended, self.cases)
        if chosen:
            say(f"{len(chosen)} check(s) ended in the container only; what may be the cause is tried: {names(chosen)}")
            self.repeat(chosen, *options, "-S", f"{EXPERIMENTS}={self._place.selection}")

    def try_remedies(self, cases: Sequence[Case], most: int) -> list[Case]:
        """Run failed cases once more with further remedies, and return those in which nothing could be tried.

        What they showed is in the causes of the report; its verdicts stay.

        :param most: remedies in each.
        """
        report = copy.deepcopy(self.report)
        words = (f"{EXPERIMENTS}={self._place.selection}", f"{MOST_EXPERIMENTS}={most}")
        missed = self.repeat(cases, *(word for value in words for word in ("-S", value)))
        again = {case.key: case.causes for case in self.cases if case not in missed and case.causes}
        for raw in (raw for run in report["runs"] for raw in run["testcases"]):
            if key(raw) in again and raw.get("causes"):
                raw["causes"] = list(again[key(raw)])
        self.report = report
        self._keep()
        return [case for case in cases if case.key not in again]

    def _close(self) -> bool:
        """Run as many open cases as fit into the time left, and return whether another such pass makes sense."""
        chosen = open_verdicts.plan(self.cases, self._deadline - time.monotonic(), self._settings.limits)
        if not chosen.cases:
            if open_verdicts.needs(self.cases):
                say("what is open needs more time than is left")
            return False
        cases, options = self._budget.within(chosen.cases, self.cases)
        if not cases:
            say(f"what is open needs more node-hours than are left: {names(chosen.cases)}")
            return False
        say(f"{len(cases)} case(s) go on, at most {chosen.takes / 60:.1f} minutes: {names(cases, NAMED)}")
        options += ["-S", f"earlier={self._place.selection}"]
        if not self._settings.fixed:
            # They override seconds and rounds of the last session, whose arguments come first.
            values = [(f"{name}.seconds={seconds}", f"{name}.rounds=0") for name, seconds in chosen.seconds.items()]
            options += [word for pair in values for value in pair for word in ("-S", value)]
        before = open_verdicts.open_figures(self.cases)
        missed = self.repeat(cases, *options)
        if missed:
            say(f"not run: {names(missed)}")
        closed = before - open_verdicts.open_figures(self.cases)
        say(f"{len(closed)} of {len(before)} open verdict(s) closed")
        if self._settings.only_open and (self._settings.minutes is None or self._settings.fixed):
            self._going_on = False
        # Where there were too few rounds for a forecast, there is one now.
        return bool(closed) or not (chosen.figures or missed)

    def repeat(self, cases: Sequence[Case], *options: str, known: dict[str, Any] | None = None) -> list[Case]:
        """Repeat these cases, add the results to the report, and return the cases that were not run.

        :param known: a report with the cases, where this session's lacks them: they run for the first time.
        """
        place = self._place
        place.repetition.unlink(missing_ok=True)
        save(place.selection, selection(known or self.report, cases))
        # From a restored report ReFrame selects exactly these cases: check, partition and environment. A name or a hash
        # would select the check on other partitions too.
        restored = [f"--restore-session={place.selection}", "--failed"]
        if not known:
            # The files of the first run stay where they are.
            stage = Path(self.report["session_info"]["prefix_stage"], "repeat")
            restored += ["--max-retries=0", "--reruns=0", f"--stage={stage}"]
        # With the checks' directory ReFrame warns that it is not the restored one; without, it would use its default.
        self._reframe(*options, *restored, f"--report-file={place.repetition}", known=only(known or self.report, cases))
        try:
            later = load(place.repetition)
        except ReportError:
            later = {"runs": []}
        # With --repeat ReFrame runs all repetitions of a check; the report takes only these cases.
        self.report = merged(self.report, later, cases)
        self._keep()
        done = {case.key for case in selections.ran(collect([later]))}
        return [case for case in cases if case.key not in done]

    def repeat_within_budget(self, cases: Sequence[Case], *options: str) -> list[Case]:
        """Repeat as many of these cases as fit into the budget, and return those that were not run."""
        chosen, more = self._budget.within(cases, self.cases)
        missed = self.repeat(chosen, *options, *more) if chosen else []
        return [case for case in cases if case in missed or case not in chosen]

    def _keep(self) -> None:
        save(self._place.report, self.report)
        self.cases = collect([self.report])
        self._view.collected(self.cases)

    def _reframe(self, *options: str, known: dict[str, Any] | None, files: Sequence[str] = ()) -> int:
        """Run ReFrame, and return its exit status.

        :param known: a report with the cases that are run; None for a run that is not shown.
        :param files: check files, in their order; by default all, in ReFrame's order.
        """
        options = (*self._known.options(self.report), *options)
        expected = None if known is None else expectations(known)
        quiet = known is not None and all(case.scheduler == "local" for case in selections.ran(collect([known])))
        checks = [word for name in files or [self._place.checks] for word in ("-c", name)]
        words = [*checks, *self._arguments, *options]
        return reframe_process.reframe(words, self._place, self._relay, expected, quiet, self._view, self.problems)


def files_cheapest_first(report: dict[str, Any]) -> list[str]:
    """Return the check files of a dry run, those with the cheapest cases first.

    ReFrame runs cases in the order in which it loads them. Files with skipped cases only come last.
    """
    cost = {case.key: case.expected.get("expected", 0.0) for case in selections.ran(collect([report]))}
    files: dict[str, float] = {}
    for raw in (raw for run in report["runs"] for raw in run["testcases"]):
        name = raw.get("filename")
        if name:
            files[name] = min(files.get(name, math.inf), cost.get(key(raw), math.inf))
    return sorted(files, key=files.__getitem__)


def _list(compared: Mapping[str, str]) -> str:
    """Return the things that a session compared, for messages."""
    return ", ".join(f"{name} {identity}" for name, identity in compared.items()) or "bare and containers only"


def expectations(report: dict[str, Any]) -> Mapping[str, Awaited]:
    """Return the cases of a report with names and expected durations, by their names in ReFrame's output."""
    cases = {case.key: case for case in selections.ran(collect([report]))}
    testcases = [raw for run in report["runs"] for raw in run["testcases"] if key(raw) in cases]
    times = {case_key: case.expected.get("expected", open_verdicts.START) for case_key, case in cases.items()}
    return dict(awaited(raw, names([cases[key(raw)]]), times[key(raw)]) for raw in testcases)
