"""Print the facts of a system, the checks that will run on it, and the lacks of the others; change nothing.

A job on a node of each partition collects the facts. A dry run of ReFrame finds the checks that will run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import reframe

from containercheck import reframe_internals
from containercheck.command import main as command_line
from containercheck.command.parsers import FINE, NOT_JUDGED, parsed
from containercheck.report import machine, table
from containercheck.results import selections
from containercheck.results.cases import Case, ReportError
from containercheck.results.formatting import columns, count, first_line, say, typed
from containercheck.session import preconditions, reframe_process, usage
from containercheck.session.reframe_process import ReframeFailed, Relay, Workplace
from containercheck.session.session import ASKING, Session, Settings
from containercheck.site import hosts
from containercheck.site.hosts import PartitionNodes

#: Indent of lines that belong to the line above them.
_INDENT = "  "


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the facts and the checks, and return the exit status."""
    _, arguments, _ = parsed("doctor", argv)
    with tempfile.TemporaryDirectory() as aside, reframe_process.Relay() as relay:
        place = replace(place, report_file=Path(aside, "report.json"))
        try:
            place = preconditions.require(arguments, place, anywhere=True)
            answers = ask_partitions(arguments, place, relay)
            print("\n".join(lines(answers)), flush=True)
            say(ASKING)
            cases = Session(Settings(None, False, tuple(arguments)), place, relay).foresee()
        except (ReframeFailed, ReportError) as error:
            reason = reframe_process.last_error(place.log)
            raise ReportError(f"{error}: {reason}" if reason else str(error)) from None
        if relay.stopped_by:
            say(f"stopped by {relay.stopped_by}")
            return NOT_JUDGED
    outlook = Outlook.of(answers, cases)
    print("\n".join(of_cases(answers, outlook)))
    return FINE if outlook.compares else NOT_JUDGED


def ask_partitions(arguments: Sequence[str], place: Workplace, relay: Relay) -> list[PartitionNodes]:
    """Return the answers of the partitions of the system, in the order of the site's file.

    :param arguments: arguments for ReFrame, which name the site's file and the system.
    :raises ReframeFailed: no partition was asked; the log of the place has more.
    """
    given = reframe_internals.options_of(arguments)
    words = [word for path in given.config_file for word in ("-C", path)]
    words += [f"--system={name}" for name in given.system[-1:]]
    place.reports.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, place.log.open("ab") as log:
        file = Path(directory, "answers.json")
        options = json.dumps([_job_option(option) for option in given.job_option])
        process = subprocess.Popen(
            [sys.executable, "-m", hosts.__name__, file, options, "--nocolor", *words, f"{usage.ASKED}=systems/0"],
            cwd=place.directory,
            env=reframe_process.environment(place),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        if relay.wait(process) or not file.exists():
            raise ReframeFailed("the partitions cannot be asked")
        return [PartitionNodes(**answer) for answer in json.loads(file.read_text())]


def _job_option(option: str) -> str:
    """Return an option of a job script, from a value of ReFrame's ``-J``: the same, ``name=value``, or ``n=value``."""
    name, _, value = option.partition("=")
    return option if option.startswith(("-", "#")) else f"-{name} {value}" if len(name) == 1 else f"--{name}={value}"


@dataclass(frozen=True)
class Outlook:
    """The cases by their outlook.

    :ivar run: cases that will run.
    :ivar failing: cases that will fail as they are.
    :ivar skipped: cases that will be skipped.
    :ivar unknown: cases of partitions with nodes that did not answer.
    """

    run: Sequence[Case]
    failing: Sequence[Case]
    skipped: Sequence[Case]
    unknown: Sequence[Case]

    @classmethod
    def of(cls, answers: Sequence[PartitionNodes], cases: Iterable[Case]) -> Outlook:
        """Return the outlook of a dry run's cases, which does not see that nodes lack all runtimes of the site's file.

        :param answers: answers of the nodes.
        """
        lacking = {_partition(answer): _lacks(answer) for answer in answers}
        unasked = {_partition(answer) for answer in answers if answer.problem}

        def seen(case: Case) -> Case:
            lacks = lacking.get(case.partition) if case.variant != "bare" else ""
            return replace(case, result="skip", reason=lacks) if lacks else case

        by_fate: dict[str, list[Case]] = {"run": [], "failing": [], "skipped": [], "unknown": []}
        for case in map(seen, cases):
            fate = "failing" if selections.failure(case) else "unknown" if case.partition in unasked else "run"
            by_fate["skipped" if case.result == "skip" else fate].append(case)
        return cls(**by_fate)

    @property
    def compares(self) -> bool:
        """Return whether any container will be compared with bare metal."""
        return any(case.variant != "bare" for case in self.run)


def _partition(answer: PartitionNodes) -> str:
    """Return the name of a partition without the system's, as cases have it."""
    return answer.partition.rpartition(":")[2]


def _lacks(answer: PartitionNodes) -> str:
    """Return a message if the nodes lack all runtimes of the site file; empty if they have one, or did not answer."""
    if answer.problem:
        return ""
    problems = machine.missing_platforms(answer.facts, answer.platforms)
    # All nodes of a partition are alike, and a lack of several partitions is one reason.
    is_lacking = answer.platforms and len(problems) == len(answer.platforms)
    return problems[0].replace(answer.facts["host"]["name"], answer.partition) if is_lacking else ""


def lines(answers: Sequence[PartitionNodes]) -> list[str]:
    """Return the lines for a person with the facts of each partition."""
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
    return [*printed, ""]


def of_cases(answers: Sequence[PartitionNodes], outlook: Outlook) -> list[str]:
    """Return the lines about cases: the number that will run, and the reasons of the others."""
    run, unknown = outlook.run, outlook.unknown
    total = sum(map(len, (run, outlook.failing, outlook.skipped, unknown)))
    names = ", ".join(sorted({case.application for case in run}))
    printed = []
    if run or not unknown:
        printed.append(f"{len(run) or 'none'} of {total} cases will run{': ' if run else ''}{names}")
    if unknown:
        unasked = count(len({case.partition for case in unknown}), "partition")
        printed.append(f"{len(unknown)} not known: the nodes of {unasked} could not be asked, see above")
    if outlook.skipped:
        reasons = table.by_reason(outlook.skipped)
        printed += ["will not run, with the reason:", *(f"{_INDENT}{reason.line}" for reason in reasons)]
    if outlook.failing:
        printed.append("will fail as they are:")
        printed += [f"{_INDENT}{case.label} {case.variant}: {first_line(case.reason)}" for case in outlook.failing]
    if not outlook.compares:
        subject = "not known whether a container" if unknown else "no container"
        return [*printed, f"{subject} can be compared with bare metal here"]
    is_login = preconditions.submitter() and {answer.partition for answer in answers} == {"generic:default"}
    return [*printed, f"next: {typed('site' if is_login else 'run')}"]
