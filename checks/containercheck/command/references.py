"""Propose references from ReFrame's results database.

For each check, partition, variant, node count and metric: the median of the nights that passed, and the range that
another night should not leave (history/proposed_references.py has the rule). A diff against the file in force, which is
the site's where it has one, is printed for review. Only lines that this command wrote are changed.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from containercheck.command.parsers import NOT_JUDGED, WRONG_USAGE, parsed
from containercheck.history.proposed_references import (
    NIGHTS,
    MetricNights,
    NoReference,
    NotPut,
    Reference,
    Run,
    alike,
    passed,
    put,
    series,
)
from containercheck.results import database
from containercheck.results.cases import write_file
from containercheck.results.database import DatabaseError
from containercheck.results.formatting import speak_as
from containercheck.session import reframe_process
from containercheck.session.reframe_process import ReframeFailed, Workplace
from containercheck.session.usage import UsageError

#: Keys that every file of references has in its index.
INDEX = ("$partition", "variant", "num_nodes")
#: Most seconds of a session: sessions are found by their begin, and runs by their end.
LONGEST = 7 * 86400.0
HEAD = "# [median, lower, upper, unit] of the nights here; lower and upper are fractions of the median.\n"
KEYED = re.compile(r"^ +\$index: \[(.*)\]$", re.MULTILINE)


class NothingProposed(Exception):
    """Nothing can be proposed; the message says why."""


@dataclass
class File:
    """A check's file of references.

    :ivar path: path to which it is written.
    :ivar in_force: path from which it was read; None for a new file.
    :ivar before: its text, or the head of a new file.
    :ivar after: its text with the proposed references.
    """

    path: Path
    in_force: Path | None
    before: str
    after: str

    @classmethod
    def of(cls, runs: Sequence[Run], directory: Path | None, ours: Path) -> File:
        """Read the file of a check, or begin one with all axes of the check in its index.

        :param directory: directory of the site or of the command line; None for neither.
        :param ours: directory of the library's own references.
        """
        check = runs[-1].check
        places = [path / f"{check}.yaml" for path in (directory, ours) if path]
        in_force = next((path for path in places if path.exists()), None)
        if in_force:
            text = in_force.read_text(encoding="utf-8")
            return cls(places[0], in_force, text, text)
        index = ", ".join([*INDEX, *sorted(runs[-1].axes.keys() - {*INDEX})])
        text = f"{HEAD}{check}:\n  $index: [{index}]\n"
        return cls(places[0], None, text, text)

    @property
    def index(self) -> list[str]:
        """Keys of the file's index.

        :raises NoReference: the file has no index.
        """
        match = KEYED.search(self.after)
        if not match:
            raise NoReference(f"{self.in_force} has no line with $index")
        return match[1].replace(" ", "").split(",")

    def diff(self) -> str:
        """Return the changes as a diff; empty for none."""
        if self.after == self.before:
            return ""
        before, after = (text.splitlines(keepends=True) for text in (self.before if self.in_force else "", self.after))
        return "".join(difflib.unified_diff(before, after, str(self.in_force or "/dev/null"), str(self.path)))

    def write(self) -> None:
        """Write the file in one step."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_file(self.path, self.after)


@dataclass
class Proposal:
    """The proposed references, and the reasons why others are missing.

    :ivar least: fewest nights of a reference.
    :ivar files: files of the checks that ran, changed or not.
    :ivar reasons: lines with reasons, each once.
    :ivar count: number of references that are proposed, or in force unchanged.
    """

    least: int
    files: list[File] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, runs: Sequence[Run], directory: Path | None, ours: Path) -> None:
        """Add the metrics of a check, on partitions that share a file."""
        file = File.of(runs, directory, ours)
        self.files.append(file)
        cases: dict[tuple[Any, ...], list[Run]] = {}
        for run in runs:
            try:
                cases.setdefault(run.key(file.index), []).append(run)
            except NoReference as error:
                self._because(f"{run.check}: {error}")
        for key, case_runs in cases.items():
            name = f"{case_runs[-1].check} {' '.join(map(str, key))}"
            try:
                same, others = alike(case_runs, file.index)
            except NoReference as error:
                self._because(f"{name}: {error}")
                continue
            if others:
                self._because(f"{name}: {others} night(s) with another input are left out")
            for metric in series(same):
                self._put(file, name, (case_runs[-1].check, *key), metric)

    def _put(self, file: File, name: str, keys: Sequence[Any], metric: MetricNights) -> None:
        try:
            reference = Reference.of(metric.nights, metric.better, self.least)
        except NoReference as error:
            # With too few nights, the reason is the same for all metrics, and their names are left out.
            whole_case = len(metric.nights) < self.least
            self._because(f"{name}: {error}" if whole_case else f"{name} {metric.metric}: {error}")
            return
        last: date = max(metric.values)
        comment = f"# median of {len(metric.nights)} nights to {last}, spread {reference.spread:.2g} %"
        try:
            values = (reference.value, reference.lower, reference.upper, metric.unit)
            file.after = put(file.after, (*keys, metric.metric), values, comment)
            self.count += 1
        except NotPut as error:
            self._because(f"{name} {metric.metric}: kept as it is, {file.in_force or file.path}: {error}")

    def _because(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)


def asked(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the options of a command line, and the arguments for ReFrame.

    :raises SystemExit: the command line is wrong, or asks for help.
    """
    options, rest, parser = parsed("references", argv)
    options.nights = NIGHTS if options.nights is None else options.nights
    if options.nights < 5:
        parser.error("--nights: of less than 5 nothing follows")
    return options, rest


def directories(site: dict[str, Any], named: str | None) -> dict[str, Path | None]:
    """Return the directory of references of each partition.

    :param site: ReFrame's configuration of the system.
    :param named: directory of the command line; empty for the site's, which is required then; None for the site's if it
        has one.
    :raises NothingProposed: the site has no directory, though it is required.
    """
    by_partition: dict[str, Path | None] = {}
    for partition in site["partitions"]:
        directory = named or ((partition.get("extras") or {}).get("containercheck") or {}).get("references")
        name = f"{site['name']}:{partition['name']}"
        if named == "" and not directory:
            raise NothingProposed(
                f"the site file names no directory for references of {name} (extras, references): --write DIRECTORY"
            )
        by_partition[name] = Path(os.path.expandvars(directory)).expanduser().absolute() if directory else None
    return by_partition


def period(text: str) -> tuple[float, float]:
    """Return the ends of a period in ReFrame's syntax, in seconds since the epoch.

    :raises NothingProposed: the text is not a period.
    """
    # Not above: ReFrame takes half a second to load, and only this function needs it.
    from reframe.frontend.reporting.utility import parse_time_period

    try:
        return parse_time_period(text)
    except ValueError as error:
        raise NothingProposed(f"--period: {error}") from None


def propose(arguments: Sequence[str], options: argparse.Namespace, place: Workplace) -> Proposal:
    """Return the references that follow from the database.

    :raises ReframeFailed: ReFrame cannot tell the path of the database.
    :raises DatabaseError: the database cannot be read.
    :raises NothingProposed: nothing in it matches, or the command line is not valid.
    """
    configured = reframe_process.configuration(arguments, place)
    site = dict(configured.system)
    directory_of = directories(site, options.write)
    path = options.database or configured.database
    since, until = period(options.period)
    # Sessions that began before the period may have ended within it.
    stored: database.Stored[tuple[database.StoredSession, ...]] = database.read(path, since - LONGEST)
    try:
        wanted = re.compile("|".join(name.replace("%", " %") for name in options.names))
    except re.error as error:
        raise NothingProposed(f"-n {'|'.join(options.names)}: {error}") from None
    cases = [case for session in stored.made for case in session.testcases if wanted.match(case["name"])]
    passed_runs = [run for run in passed(cases, site["name"]) if since <= run.when < until]
    runs = [run for run in passed_runs if run.partition in directory_of]
    if not runs:
        raise NothingProposed(f"nothing that passed on {site['name']} in {options.period} matches, in {path}")
    proposal = Proposal(options.nights, reasons=[*stored.problems])
    ours = Path(place.directory, place.checks, "references")
    groups: dict[tuple[str, Path | None], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.check, directory_of[run.partition]), []).append(run)
    for (_, directory), group in sorted(groups.items(), key=str):
        proposal.add(group, directory, ours)
    return proposal


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the proposed references, write them on request, and return the exit status."""
    speak_as("references")
    options, arguments = asked(argv)
    try:
        proposal = propose(arguments, options, place)
    except (ReframeFailed, UsageError, DatabaseError, NothingProposed, OSError) as error:
        say(f"error: {error}")
        return WRONG_USAGE if isinstance(error, UsageError) else NOT_JUDGED
    for reason in proposal.reasons:
        say(reason)
    changed = [(file, diff) for file in proposal.files if (diff := file.diff())]
    for file, diff in changed:
        print(diff, end="", flush=True)
        if options.write is not None:
            file.write()
            say(f"written: {file.path}")
    if not proposal.count:
        say("error: there is nothing to propose")
        return NOT_JUDGED
    if not changed:
        say(f"{proposal.count} reference(s) are in force already")
    return 0


def say(text: str) -> None:
    """Print a line to standard error: standard output has only the diff."""
    print(f"references: {text}", file=sys.stderr, flush=True)
