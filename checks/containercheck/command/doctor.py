"""Tells what this system has, which checks will run on it, and what the others lack. Changes nothing.

What nodes have is asked in a job each; which checks will run is what ReFrame says in a dry run.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import reframe

from containercheck.command import main as command_line
from containercheck.command.parsers import COMMANDS, parsed
from containercheck.report import machine, skipped
from containercheck.results import selections
from containercheck.results.cases import Case, ReportError, collect
from containercheck.results.formatting import columns, count, say, speak_as, typed
from containercheck.session import inventories, preconditions, reframe_process
from containercheck.session.inventories import Answer
from containercheck.session.passes import Session
from containercheck.session.reframe_process import ReframeFailed, Workplace
from containercheck.session.settings import Settings
from containercheck.session.usage import UsageError

#: Indent of what belongs to the line above it.
_INDENT = "  "


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print it, and return the exit status."""
    speak_as("doctor")
    known, arguments, _ = parsed("doctor", argv)
    with tempfile.TemporaryDirectory() as aside, reframe_process.Relay() as relay:
        place = replace(place, report_file=Path(aside, "report.json"))
        try:
            place, _ = preconditions.require(arguments, place, anywhere=True)
            answers = inventories.of_partitions(arguments, place, relay)
            cases = collect([Session(Settings(None, False, tuple(arguments)), place, relay).foresee()])
        except UsageError as error:
            say(f"error: {error}")
            return COMMANDS["doctor"].wrong_usage
        except (ReframeFailed, ReportError) as error:
            reason = reframe_process.last_error(place.log)
            say(f"error: {error}{f': {reason}' if reason else ''}")
            return 1
        if relay.stopped_by:
            say(f"stopped by {relay.stopped_by}")
            return 1
    cases = with_runtimes(answers, cases)
    print(json.dumps(as_json(answers, cases), indent=2) if known.json else "\n".join(lines(answers, cases)))
    return 0 if can_compare(known_of(answers, cases)[0]) else 1


def known_of(answers: Sequence[Answer], cases: Sequence[Case]) -> tuple[list[Case], list[Case]]:
    """Return the cases of which it is known whether they will run, and those of nodes that could not be asked."""
    unasked = {answer.partition.rpartition(":")[2] for answer in answers if answer.problem}

    def is_known(case: Case) -> bool:
        return case.partition not in unasked or case.result == "skip" or bool(selections.failure(case))

    return [case for case in cases if is_known(case)], [case for case in cases if not is_known(case)]


def with_runtimes(answers: Sequence[Answer], cases: Sequence[Case]) -> list[Case]:
    """Return the cases as they will end: a dry run does not see that nodes lack all runtimes of the site's file."""
    missing = {}
    for answer in answers:
        problems = [] if answer.problem else machine.missing_platforms(answer.facts, answer.platforms)
        if answer.platforms and len(problems) == len(answer.platforms):
            # All nodes of a partition are alike, and what several partitions lack is one reason.
            lacks = problems[0].replace(answer.facts["host"]["name"], answer.partition)
            missing[answer.partition.rpartition(":")[2]] = lacks

    def ending(case: Case) -> Case:
        lacks = missing.get(case.partition) if case.variant != "bare" else None
        return replace(case, result="skip", reason=lacks) if lacks else case

    return [ending(case) for case in cases]


def can_compare(cases: Sequence[Case]) -> bool:
    """Tell whether any container will be compared with bare: that is the library's main job."""
    return any(case.variant != "bare" and not selections.failure(case) for case in selections.ran(cases))


def lines(answers: Sequence[Answer], cases: Sequence[Case]) -> list[str]:
    """Return what is printed."""
    printed = [f"containercheck {command_line.version()}, ReFrame {reframe.VERSION}"]
    shown: dict[str, str] = {}
    for answer in answers:
        printed += ["", f"{answer.partition}: {'this machine' if answer.is_here else 'one of its nodes'}"]
        if answer.problem:
            printed.append(f"{_INDENT}not known: {answer.problem}")
            continue
        text = json.dumps([answer.facts, answer.platforms], sort_keys=True)
        if text in shown:
            printed.append(f"{_INDENT}as {shown[text]}")
            continue
        shown[text] = answer.partition
        printed += [f"{_INDENT}{line}" for line in columns(machine.topics(answer.facts))]
        problems = [*machine.problems(answer.facts), *machine.missing_platforms(answer.facts, answer.platforms)]
        printed += [f"{_INDENT}! {problem}" for problem in problems]
    return [*printed, "", *_of_cases(answers, cases)]


def _of_cases(answers: Sequence[Answer], all_cases: Sequence[Case]) -> list[str]:
    """Return which cases will run, and why the others will not."""
    cases, unknown = known_of(answers, all_cases)
    run = [case for case in selections.ran(cases) if not selections.failure(case)]
    failed = [case for case in selections.ran(cases) if selections.failure(case)]
    reasons = skipped.by_reason(cases)
    names = ", ".join(sorted({case.application for case in run}))
    printed = [f"{len(run) or 'none'} of {len(all_cases)} cases will run{': ' if run else ''}{names}"]
    if unknown:
        unasked = count(len({case.partition for case in unknown}), "partition")
        printed.append(f"{len(unknown)} not known: the nodes of {unasked} could not be asked, see above")
    if reasons:
        printed += ["will not run, and what it lacks:", *(f"{_INDENT}{reason.line}" for reason in reasons)]
    if failed:
        printed.append("will fail as they are:")
        printed += [f"{_INDENT}{case.label} {case.variant}: {case.reason.splitlines()[0]}" for case in failed]
    if not can_compare(cases):
        known = "not known whether a container" if unknown else "no container"
        printed.append(f"{known} can be compared with bare metal here")
    else:
        is_login = preconditions.submitter() and {answer.partition for answer in answers} == {"generic:default"}
        printed.append(f"next: {typed('site' if is_login else 'run')}")
    return printed


def as_json(answers: Sequence[Answer], cases: Sequence[Case]) -> dict[str, Any]:
    """Return the same for programs, and for reports of bugs."""
    known, unknown = known_of(answers, cases)

    def identity(case: Case) -> list[Any]:
        return [case.application, case.partition, case.variant, case.nodes]

    return {
        "containercheck": command_line.version(),
        "reframe": reframe.VERSION,
        "partitions": [asdict(answer) for answer in answers],
        "will_run": [identity(case) for case in selections.ran(known)],
        "not_known": [identity(case) for case in unknown],
        "will_not_run": [
            {"applications": reason.applications, "cases": len(reason.cases), "reason": reason.text}
            for reason in skipped.by_reason(cases)
        ],
    }
