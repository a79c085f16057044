"""Run the checks, and print their results.

With --minutes or --resume, further runs of ReFrame continue the rounds of open cases (results/selections.py). All
results are in one report.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from containercheck import reframe_internals
from containercheck.command.parsers import BROKEN, COMMANDS, FINE, NOT_JUDGED, STATUSES, Parser, parsed
from containercheck.job.container_runtimes import REGISTRY_SCHEME
from containercheck.report import push, table, view
from containercheck.report.view import CaseView
from containercheck.results import selections
from containercheck.results.cases import Case, ReportError
from containercheck.results.formatting import say
from containercheck.session import estimate, preconditions, progress, reframe_process
from containercheck.session.reframe_process import Relay, Workplace
from containercheck.session.session import ASKING, Session, Settings
from containercheck.session.usage import UsageError

#: Function that prints a session's cases and further problems, and returns the exit status.
Conclusion = Callable[[Sequence[Case], Sequence[str]], int]


def conclude_with_metrics(cases: Sequence[Case], problems: Sequence[str]) -> int:
    """Print the table of all metrics, and return the exit status.

    :param problems: problems other than the results of the cases.
    """
    print("\n".join(["", *view.lines(cases)]), flush=True)
    return _status(cases, problems)


def _conclude_shortly(cases: Sequence[Case], problems: Sequence[str]) -> int:
    """Print counts, failures and open verdicts of the cases, and return the exit status."""
    print("\n".join(["", *view.ending(cases, are_shown=True)]), flush=True)
    return _status(cases, problems)


def _status(cases: Sequence[Case], problems: Sequence[str]) -> int:
    """Print the problems, and return the exit status."""
    status = ended([*problems, *selections.problems(cases)], BROKEN if cases else NOT_JUDGED)
    return status or (NOT_JUDGED if selections.is_questionable(cases) else FINE)


def session(
    argv: Sequence[str],
    place: Workplace,
    conclude: Conclusion | None = None,
    compared: Mapping[str, str] | None = None,
    command: str = "run",
) -> int:
    """Run the checks, go on with open cases, print the results, and return the exit status.

    :param conclude: function that prints the results; by default the one for the settings.
    :param compared: name and identity of compared things other than bare and containers. Verdicts of a session that
        compared other things do not count.
    :param command: command of the options.
    :raises SystemExit: the command line is wrong, or asks for help.
    :raises UsageError: no session can run here, or a variable is set that does not exist.
    """
    settings = asked(argv, command)
    if any(argument.split("=")[0] == "--report-file" for argument in settings.arguments):
        raise UsageError("the site's file or RFM_REPORT_FILE names the report: leave out --report-file")
    place = preconditions.require(settings.arguments, place, anywhere=settings.only_open)
    if settings.estimate:
        return _estimate(settings, place)
    with preconditions.held([place.reports, place.stage]), Relay() as relay:
        shown = None if settings.verbose else CaseView(progress.Screen().is_terminal)
        current = Session(settings, place, relay, compared=compared, view=shown)
        try:
            problems = _measure(current, settings)
        except ReportError as error:
            # Without a session to continue, ReFrame did not run.
            why = "" if settings.only_open else reframe_process.last_error(place.log)
            return ended([*_stopped(relay), why or str(error)], NOT_JUDGED)
        problems += _stopped(relay)
    # Cases of an image's report or of a sweep over nodes are not announced.
    is_announced = conclude is None or bool(compared)
    if conclude is None:
        # An acceptance prints other tables.
        conclude = conclude_with_metrics if settings.verbose or settings.table else _conclude_shortly
    lost = table.lost_lines(current.lost)
    if compared:
        # An unknown case is not accepted.
        problems, lost = [*lost, *problems], []
    for line in lost:
        say(line)
    status = conclude(current.cases, problems) or (NOT_JUDGED if lost else 0)
    if conclude is _conclude_shortly:
        print(view.files_line(os.path.relpath(place.report), os.path.relpath(place.log)), flush=True)
    if why := reframe_process.not_stored(place.log):
        # The verdicts are in the report, even if the database does not have them.
        where = reframe_process.configuration(settings.arguments, place).database
        say(f"these results are not in the database {where} ({why}): they are in {place.report}")
    if is_announced:
        meaning = {**STATUSES, **COMMANDS[command].statuses}[status]
        outcome = push.Outcome(command, status, meaning, current.cases, place.report, problems=[*lost, *problems])
        push.announce(settings.arguments, place, outcome)
    return status


def _estimate(settings: Settings, place: Workplace) -> int:
    """Print the expected cost of a session, and return the exit status.

    It may run at the same time as a session, so it must not write to the session's log.

    :raises UsageError: a variable is set that does not exist.
    """
    with tempfile.TemporaryDirectory() as directory, Relay() as relay:
        place = replace(place, report_file=Path(directory, "report.json"))
        say(ASKING)
        try:
            cases = Session(settings, place, relay).foresee()
        except ReportError as error:
            return ended([*_stopped(relay), reframe_process.last_error(place.log) or str(error)], NOT_JUDGED)
    all_cases, cases = cases, [case for case in cases if case.result != "abort"]
    run = selections.ran(cases)
    failures = [line for case in run for line in view.failure(case)]
    print("\n".join([*view.not_run(cases), *failures, *(estimate.lines(run) if run else [])]), flush=True)
    if len(cases) < len(all_cases):
        return ended([f"stopped after {len(cases)} of {len(all_cases)} cases: the totals are partial"], NOT_JUDGED)
    return ended(selections.problems(cases))


def _measure(current: Session, settings: Settings) -> list[str]:
    """Run a session to its end, and return its problems.

    :raises UsageError: a variable is set that does not exist.
    :raises ReportError: nothing was run.
    """
    problems = current.resume() if settings.only_open else current.begin()
    if current.is_resumed and current.is_done:
        say("nothing is open in the last session, with these results")
    else:
        current.go_on()
    if settings.node_hours:
        say(f"{estimate.spent(current.cases):.3g} of {settings.node_hours:g} node-hours were spent")
    return problems


def _stopped(relay: Relay) -> list[str]:
    return [f"stopped by {relay.stopped_by}"] if relay.stopped_by else []


def ended(problems: Sequence[str], status: int = BROKEN) -> int:
    """Print the problems, and return the exit status.

    :param status: exit status if there are problems.
    """
    for problem in problems:
        say(f"error: {problem}")
    return status if problems else FINE


def asked(argv: Sequence[str], command: str = "run") -> Settings:
    """Return the settings of a command line.

    :param command: command of the options.
    :raises SystemExit: the command line is wrong, or asks for help.
    """
    options, rest, parser = parsed(command, argv, words=False)
    # An acceptance has no --table and no --image.
    with_table, image = getattr(options, "table", False), getattr(options, "image", None)
    if options.only_open and (options.estimate or options.node_hours):
        parser.error("--resume goes on with cases that ran: there is nothing to estimate")
    if image:
        rest = [*_of_image(image, rest, parser), *rest]
    return Settings(
        minutes=options.minutes,
        only_open=options.only_open,
        arguments=tuple(rest),
        node_hours=options.node_hours,
        estimate=options.estimate,
        verbose=options.verbose,
        table=with_table,
    )


def _of_image(image: str, arguments: Sequence[str], parser: Parser) -> list[str]:
    """Return the arguments with which checks run this image instead of their own.

    :param arguments: other arguments for ReFrame.
    :raises SystemExit: there is no such image, or no check is named for it.
    """
    if not reframe_internals.options_of(arguments).name:
        parser.error("an image is of one application: say which check runs it, -n NAME")
    if "://" in image:
        return ["-S", f"ready_image={image}"]
    if not os.path.exists(image):
        address = f"{REGISTRY_SCHEME}://NAME@sha256:DIGEST"
        parser.error(f"there is no image {image}: give the path of a file or directory, or {address}")
    return ["-S", f"ready_image={os.path.abspath(image)}"]


def main(argv: Sequence[str], place: Workplace) -> int:
    """Run one session, and return the exit status."""
    return session(argv, place)
