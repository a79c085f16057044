"""Runs the checks and ends with the table; called by ci/run, whose arguments go on to ReFrame.

Cases that were only slow are run again, in another session of ReFrame that selects nothing else: ReFrame's own
--max-retries would repeat wrong answers and hangs too. With --minutes or --open, cases that are open go on in the same
way, with the rounds that they have (report/verdicts.py). All ends up in one report. Exit status 0 when all is fine, 1
otherwise (report/policy.py), 2 for a wrong command line.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import processes
from budget import Budget
from processes import Workplace
from report import estimate, policy, table, verdicts
from report.cases import Case, Key, ReportError, collect, load, merged, save, selection
from report.text import names, say
from settings import Settings

#: What is made of a session: its cases, and what is wrong besides; the exit status.
Conclusion = Callable[[Sequence[Case], Sequence[str]], int]
#: Where the report keeps the arguments for ReFrame, among what that says of the session.
ARGUMENTS = "ci_run_arguments"


class Session:
    """All runs of ReFrame until the table: of all checks, or of those that are open; then of what needs another run.

    :ivar report: of all runs, as it stands in the workplace's ``report``.
    :ivar cases: of that report.
    """

    def __init__(self, settings: Settings, place: Workplace, relay: processes.Relay) -> None:
        """Nothing is run yet; the time begins."""
        self._settings, self._place, self._relay = settings, place, relay
        self._deadline = time.monotonic() + 60 * (settings.minutes or float("inf"))
        self._arguments = settings.arguments
        # Whether passes over what is open follow.
        self._going_on = settings.only_open or (settings.minutes is not None and not settings.fixed)
        self._confirmed: set[Key] = set()
        self._budget = Budget(settings.node_hours)
        self.report: dict[str, Any] = {}
        self.cases: list[Case] = []

    def begin(self) -> list[str]:
        """Run all checks, and return what is wrong with that besides their results.

        :raises ReportError: there is no report of it.
        """
        place, settings = self._place, self._settings
        place.clear(place.report)
        if not settings.limits and not settings.fixed:
            self._arguments = (*self._first_seconds(), *self._arguments)
        chosen = self._first_within_budget() if settings.node_hours else []
        status = self._reframe(f"--report-file={place.report}", *chosen)
        problems = [] if self._relay.stopped_by else processes.left_out(place.log)
        self.report = load(place.report)
        # For a later --open.
        self.report.setdefault("session_info", {})[ARGUMENTS] = settings.arguments
        self._keep()
        if settings.minutes is None:
            # The person did not limit it, and the first session of a machine builds for many minutes.
            self._deadline += sum(max(0.0, case.building - verdicts.START) for case in self.cases)
        if status != 0 and not self._relay.stopped_by and not any(map(policy.failure, self.cases)):
            problems.append(f"ReFrame ended with status {status}, though no check failed (see above)")
        return problems

    def resume(self) -> list[str]:
        """Go on with the last session.

        :raises ReportError: there was none.
        """
        if not self._place.report.exists():
            raise ReportError(f"no session was run here yet: there is no {self._place.report}")
        self.report = load(self._place.report)
        self.cases = collect([self.report])
        self._arguments = (*self.report.get("session_info", {}).get(ARGUMENTS, ()), *self._arguments)
        self._place.clear()
        return []

    @property
    def is_done(self) -> bool:
        """Whether nothing is open, nor slow and not yet confirmed."""
        return not verdicts.open_figures(self.cases) and not policy.to_repeat(self.cases)

    def go_on(self) -> None:
        """Run what a budget made wait, again what was only slow, then what is open.

        Until that closes nothing more, or time or budget are used up.
        """
        while not self._relay.stopped_by:
            if self._budget.waiting:
                self._run_waiting()
                continue
            slow = [case for case in policy.to_repeat(self.cases) if case.key not in self._confirmed]
            if slow:
                self._confirm(slow)
            elif not self._going_on or not self._close():
                return

    def foresee(self) -> dict[str, Any]:
        """Return the report of a dry run.

        :raises ReportError: there is none.
        """
        with tempfile.TemporaryDirectory() as directory:
            prefix = [f"--{what}={directory}/{what}" for what in ("stage", "output", "report-file")]
            self._reframe("--dry-run", *prefix, shown=False)
            return load(Path(directory, "report-file"))

    def _first_within_budget(self) -> list[str]:
        """Return the options with which ReFrame runs the first cases of a budget.

        :raises ReportError: it is not enough for any.
        """
        chosen, options = self._budget.begin(self.foresee())
        save(self._place.selection, selection(self._budget.foreseen, chosen))
        return [*options, f"--restore-session={self._place.selection}", "--failed"]

    def _run_waiting(self) -> None:
        """Run the next of what a budget made wait, or say that nothing of it is run any more."""
        chosen, options = self._budget.next(self.cases)
        if not chosen:
            return
        missed = self._again(chosen, *options, known=self._budget.foreseen)
        if missed:
            say(f"not run: {names(missed)}")

    def _first_seconds(self) -> list[str]:
        """Return the setting of the seconds that each check gets in the first pass; none where each has its own.

        A session that nobody gave a time has the usual one, unless its jobs wait in a queue or have a budget.
        """
        minutes = self._settings.minutes
        if minutes is None and self._settings.node_hours:
            return []
        try:
            cases = policy.ran(collect([self.foresee()]))
        except ReportError:
            return []
        if minutes is None:
            minutes = verdicts.usual_session(cases) / 60
            if not minutes or any(case.scheduler != "local" for case in cases):
                return []
            self._going_on = True
            self._deadline = time.monotonic() + 60 * minutes
        seconds = verdicts.first_seconds(cases, 60 * minutes)
        takes = verdicts.first_takes(cases, seconds) / 60
        more = "" if takes <= minutes else f", more than the {minutes:g} that it should: select fewer checks"
        say(f"the first pass has {len(cases)} case(s), {seconds} s each: at most {takes:.0f} minutes{more}")
        return ["-S", f"seconds={seconds}"]

    def _confirm(self, slow: Sequence[Case]) -> None:
        """Run the cases that were only slow once more, with rounds of their own."""
        chosen, options = self._budget.within(slow, self.cases)
        if not chosen:
            self._confirmed |= {case.key for case in slow}
            left = f"as only {self._budget.left(self.cases):.3g} node-hours are left"
            say(f"not run again, {left}, and so taken for confirmed: {names(slow)}")
            return
        say(f"{len(chosen)} check(s) only failed in their performance, and are run again: {names(chosen)}")
        self._confirmed |= {case.key for case in chosen}
        missed = self._again(chosen, *options)
        if missed:
            say(f"not run again, and so taken for confirmed: {names(missed)}")

    def _close(self) -> bool:
        """Run open cases, as many as fit into the time that is left; tell whether another such pass makes sense."""
        chosen = verdicts.plan(self.cases, self._deadline - time.monotonic(), self._settings.limits)
        if not chosen.cases:
            if verdicts.needs(self.cases):
                say("what is open needs more time than is left")
            return False
        cases, options = self._budget.within(chosen.cases, self.cases)
        if not cases:
            say(f"what is open needs more node-hours than are left: {names(chosen.cases)}")
            return False
        say(f"{len(cases)} case(s) go on, at most {chosen.takes / 60:.1f} minutes: {names(cases)}")
        options += ["-S", f"earlier={self._place.selection}"]
        if not self._settings.fixed:
            # Those of the last session, with their number of rounds, are not this one's.
            values = [(f"{name}.seconds={own}", f"{name}.rounds=0") for name, own in chosen.seconds.items()]
            options += [word for pair in values for value in pair for word in ("-S", value)]
        before = verdicts.open_figures(self.cases)
        missed = self._again(cases, *options)
        if missed:
            say(f"not run: {names(missed)}")
        closed = before - verdicts.open_figures(self.cases)
        say(f"{len(closed)} of {len(before)} open verdict(s) closed")
        if self._settings.only_open and (self._settings.minutes is None or self._settings.fixed):
            self._going_on = False
        # Where too few rounds were there for a forecast, there is one now.
        return bool(closed) or not (chosen.figures or missed)

    def _again(self, cases: Sequence[Case], *options: str, known: dict[str, Any] | None = None) -> list[Case]:
        """Run these cases once more, add that to the report, and return those that were not run.

        :param known: a report that has them, where this session's has not: they run for the first time.
        """
        place = self._place
        place.repetition.unlink(missing_ok=True)
        save(place.selection, selection(known or self.report, cases))
        # Of a restored report ReFrame selects exactly these cases: check, partition and environment. A name or a hash
        # would select the check wherever else it runs.
        restored = [f"--restore-session={place.selection}", "--failed"]
        if not known:
            # The files of the first run are kept where they are.
            stage = Path(self.report["session_info"]["prefix_stage"], "repeat")
            restored += ["--max-retries=0", "--reruns=0", f"--stage={stage}"]
        # ReFrame warns that the checks' directory is not the restored one; without it another would take its place.
        self._reframe(*options, *restored, f"--report-file={place.repetition}")
        try:
            later = load(place.repetition)
        except ReportError:
            later = {"runs": []}
        # With --repeat it runs all of a check's repetitions, of which the others are not asked about.
        self.report = merged(self.report, later, cases)
        self._keep()
        done = {case.key for case in policy.ran(collect([later]))}
        return [case for case in cases if case.key not in done]

    def _keep(self) -> None:
        save(self._place.report, self.report)
        self.cases = collect([self.report])

    def _reframe(self, *options: str, shown: bool = True) -> int:
        return processes.reframe(
            ["-c", self._place.checks, *self._arguments, *options], self._place, self._relay, shown
        )


def conclude(cases: Sequence[Case], problems: Sequence[str]) -> int:
    """Print the table, and return the exit status.

    :param problems: what is wrong besides the results of the cases.
    """
    print("\n".join(["", *table.lines(cases)]), flush=True)
    return ended([*problems, *policy.problems(cases)])


def session(argv: Sequence[str], place: Workplace, conclude: Conclusion = conclude) -> int:
    """Run the checks, go on with those that need it, print what came of it, and return the exit status."""
    settings = Settings.parse(argv)
    if any(argument.split("=")[0] == "--report-file" for argument in settings.arguments):
        return ended(["the site's file or RFM_REPORT_FILE names the report: leave out --report-file"])
    place = replace(place, report_file=processes.named_report(settings.arguments, place))
    with processes.Relay() as relay:
        current = Session(settings, place, relay)
        try:
            if settings.estimate:
                return estimated(collect([current.foresee()]))
            problems = current.resume() if settings.only_open else current.begin()
        except ReportError as error:
            stopped = [f"stopped by {relay.stopped_by}"] if relay.stopped_by else []
            return ended([*stopped, f"{error}{'' if settings.only_open else ' (see above)'}"])
        if settings.only_open and current.is_done:
            say("nothing is open in the last session")
            return 0
        current.go_on()
        if settings.node_hours:
            say(f"{estimate.spent(current.cases):.3g} of {settings.node_hours:g} node-hours were spent")
        problems += [f"stopped by {relay.stopped_by}"] if relay.stopped_by else []
    return conclude(current.cases, problems)


def estimated(cases: Sequence[Case]) -> int:
    """Print what a session is expected to take, and return the exit status."""
    run = policy.ran(cases)
    failed = [case for case in run if policy.failure(case)]
    print("\n".join([*table.skips(cases), *table.failures(failed), *(estimate.lines(run) if run else [])]), flush=True)
    return ended(policy.problems(cases))


def ended(problems: Sequence[str]) -> int:
    """Say what is wrong, and return the exit status."""
    for problem in problems:
        say(f"error: {problem}")
    return 1 if problems else 0


def main() -> None:
    """Run one session with the arguments of the command line."""
    try:
        sys.exit(session(sys.argv[1:], Workplace()))
    except BrokenPipeError:
        # Who reads no further (head) has stopped the session; what is left in the buffer has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
