"""Runs the checks and ends with the table; called by ci/run, whose arguments go on to ReFrame.

Cases that were only slow are run again, in another session of ReFrame that selects nothing else: ReFrame's own
--max-retries would repeat wrong answers and hangs too. With --minutes or --open, cases that are open go on in the same
way, with the rounds that they have (report/verdicts.py). All ends up in one report. Exit status 0 when all is fine, 1
otherwise (report/policy.py), 2 for a wrong command line.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import claims
import processes
from passes import Session
from processes import Workplace
from report import estimate, policy, table
from report.cases import Case, ReportError, collect
from report.text import say
from settings import Settings
from usage import UsageError

#: Exit status for a wrong command line.
WRONG_USAGE = 2
#: What is made of a session: its cases, and what is wrong besides; the exit status.
Conclusion = Callable[[Sequence[Case], Sequence[str]], int]


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
    try:
        place = replace(place, report_file=processes.named_report(settings.arguments, place))
        stage = processes.named_stage(settings.arguments, place)
    except UsageError as error:
        say(f"error: {error}")
        return WRONG_USAGE
    with contextlib.ExitStack() as held, processes.Relay() as relay:
        try:
            if settings.estimate:
                # It may be asked beside a session, whose log it leaves alone.
                aside = held.enter_context(tempfile.TemporaryDirectory())
                place = replace(place, report_file=Path(aside, "report.json"))
            else:
                held.enter_context(claims.held([place.reports, stage], argv))
        except (claims.Taken, OSError) as error:
            say(f"error: {error}")
            return WRONG_USAGE
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
