"""Proposes references from ReFrame's results database.

For each check, partition, variant, node count and figure: the median of the nights that passed, and the range that
another night should not leave (history/proposed_references.py has the rule). Printed is a diff against the file in
force, which is the site's where it has one, so that a person reviews it. Only lines that this wrote are changed
(history/yaml_text.py).
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from containercheck.command.parsers import parsed
from containercheck.history.proposed_references import (
    NIGHTS,
    NoReference,
    Reference,
    Run,
    Series,
    alike,
    passed,
    series,
)
from containercheck.history.yaml_text import NotPut, put
from containercheck.results import atomic_files, database
from containercheck.results.database import DatabaseError
from containercheck.results.formatting import speak_as
from containercheck.session import reframe_process
from containercheck.session.reframe_process import ReframeFailed, Workplace
from containercheck.session.usage import UsageError

#: How a file of references begins: by what all of them are keyed, and this one too.
INDEX = ("$partition", "variant", "num_nodes")
#: Seconds that a session takes at most: it is found by its begin, and a run by its end.
LONGEST = 7 * 86400.0
HEAD = "# [median, lower, upper, unit] of the nights here; lower and upper are fractions of the median.\n"
KEYED = re.compile(r"^ +\$index: \[(.*)\]$", re.MULTILINE)


class NothingProposed(Exception):
    """There is nothing to propose; the message says why."""


@dataclass
class File:
    """A check's file of references.

    :ivar path: where it is written to.
    :ivar in_force: where it is read from; None where there is none yet.
    :ivar before: what it says, or how it begins.
    :ivar after: with what is proposed.
    """

    path: Path
    in_force: Path | None
    before: str
    after: str

    @classmethod
    def of(cls, runs: Sequence[Run], directory: Path | None, ours: Path) -> File:
        """Find the file of a check, or begin one, which is keyed by all axes that the check has.

        :param directory: the site's own, or the one that the person names; None for neither.
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
        """By what it is keyed.

        :raises NoReference: it does not say.
        """
        found = KEYED.search(self.after)
        if not found:
            raise NoReference(f"{self.in_force} has no line with $index")
        return found[1].replace(" ", "").split(",")

    def diff(self) -> str:
        """Return what would change."""
        if self.after == self.before:
            return ""
        before, after = (text.splitlines(keepends=True) for text in (self.before if self.in_force else "", self.after))
        return "".join(difflib.unified_diff(before, after, str(self.in_force or "/dev/null"), str(self.path)))

    def write(self) -> None:
        """Write it in one step."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        atomic_files.write(self.path, self.after)


@dataclass
class Proposal:
    """What is proposed, and why not more.

    :ivar least: fewest nights of a reference.
    :ivar files: of the checks that ran, changed or not.
    :ivar reasons: lines, each once.
    :ivar count: references that are proposed, or in force as they are.
    """

    least: int
    files: list[File] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, runs: Sequence[Run], directory: Path | None, ours: Path) -> None:
        """Add the figures of a check, on partitions that share a file."""
        file = File.of(runs, directory, ours)
        self.files.append(file)
        cases: dict[tuple[Any, ...], list[Run]] = {}
        for run in runs:
            try:
                cases.setdefault(run.key(file.index), []).append(run)
            except NoReference as error:
                self._because(f"{run.check}: {error}")
        for key, those in cases.items():
            name = f"{those[-1].check} {' '.join(map(str, key))}"
            try:
                same, others = alike(those, file.index)
            except NoReference as error:
                self._because(f"{name}: {error}")
                continue
            if others:
                self._because(f"{name}: {others} night(s) with another input are left out")
            for one in series(same):
                self._put(file, name, (those[-1].check, *key), one)

    def _put(self, file: File, name: str, keys: Sequence[Any], one: Series) -> None:
        try:
            found = Reference.of(one.nights, one.better, self.least)
        except NoReference as error:
            # Too few nights are those of all its figures.
            self._because(f"{name}: {error}" if len(one.nights) < self.least else f"{name} {one.figure}: {error}")
            return
        last: date = max(one.values)
        comment = f"# median of {len(one.nights)} nights to {last}, spread {found.spread:.2g} %"
        try:
            values = (found.value, found.lower, found.upper, one.unit)
            file.after = put(file.after, (*keys, one.figure), values, comment)
            self.count += 1
        except NotPut as error:
            self._because(f"{name} {one.figure}: kept as it is, {file.in_force or file.path}: {error}")

    def _because(self, reason: str) -> None:
        if reason not in self.reasons:
            self.reasons.append(reason)


def asked(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return what a command line asks for, and what is left of it, for ReFrame.

    :raises SystemExit: it is wrong, or asks for help.
    """
    known, rest, parser = parsed("references", argv)
    known.nights = NIGHTS if known.nights is None else known.nights
    if known.nights < 5:
        parser.error("--nights: of less than 5 nothing follows")
    return known, rest


def directories(site: dict[str, Any], named: str | None) -> dict[str, Path | None]:
    """Return the directory of references of each partition.

    :param site: ReFrame's configuration of the system.
    :param named: the person's own; empty for the site's, which then has to have one; None for the site's if it has one.
    :raises NothingProposed: it has none.
    """
    found: dict[str, Path | None] = {}
    for partition in site["partitions"]:
        own = named or ((partition.get("extras") or {}).get("containercheck") or {}).get("references")
        name = f"{site['name']}:{partition['name']}"
        if named == "" and not own:
            raise NothingProposed(
                f"the site file names no directory for references of {name} (extras, references): --write DIRECTORY"
            )
        found[name] = Path(os.path.expandvars(own)).expanduser().absolute() if own else None
    return found


def period(text: str) -> tuple[float, float]:
    """Return a period as ReFrame writes it, in seconds of the epoch.

    :raises NothingProposed: it is none.
    """
    # Not above: it takes ReFrame half a second, and only this needs it.
    from reframe.frontend.reporting.utility import parse_time_period

    try:
        return parse_time_period(text)
    except ValueError as error:
        raise NothingProposed(f"--period: {error}") from None


def selected(case: Mapping[str, Any], known: argparse.Namespace) -> bool:
    """Tell whether the person's -n and -E select a test case, as ReFrame selects what is stored.

    :raises NothingProposed: one of them is not what it should be.
    """
    names = "|".join(name.replace("%", " %") for name in known.names)
    try:
        # The person's own expression, from the command line.
        return bool(re.match(names, case["name"])) and bool(eval(known.filter_expr or "True", {}, dict(case)))
    except re.error as error:
        raise NothingProposed(f"-n {'|'.join(known.names)}: {error}") from None
    except Exception as error:
        raise NothingProposed(f"-E {known.filter_expr}: {type(error).__name__}: {error}") from None


def propose(arguments: Sequence[str], known: argparse.Namespace, place: Workplace) -> Proposal:
    """Read the database.

    :raises ReframeFailed: ReFrame cannot say where it is.
    :raises DatabaseError: it cannot be read.
    :raises NothingProposed: nothing in it matches, or the command line does not say what.
    """
    site = reframe_process.ask([*arguments, "--show-config=systems/0"], place)
    where = directories(site, known.write)
    path = known.database or reframe_process.named_database(arguments, place)
    since, until = period(known.period)
    # What began before may have ended since then.
    stored: database.Stored[tuple[database.StoredSession, ...]] = database.read(path, since - LONGEST)
    cases = [case for session in stored.sessions for case in session.testcases if selected(case, known)]
    found = [run for run in passed(cases, site["name"]) if since <= run.when < until]
    runs = [run for run in found if run.partition in where]
    if not runs:
        raise NothingProposed(f"nothing that passed on {site['name']} in {known.period} matches, in {path}")
    proposal = Proposal(known.nights, reasons=[*stored.damage])
    ours = Path(place.directory, place.checks, "references")
    groups: dict[tuple[str, Path | None], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.check, where[run.partition]), []).append(run)
    for (_, directory), those in sorted(groups.items(), key=str):
        proposal.add(those, directory, ours)
    return proposal


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print what is proposed, write it where that is asked, and return the exit status."""
    speak_as("references")
    known, arguments = asked(argv)
    try:
        proposal = propose(arguments, known, place)
    except (ReframeFailed, UsageError, DatabaseError, NothingProposed, OSError) as error:
        say(f"error: {error}")
        return 2 if isinstance(error, UsageError) else 1
    for reason in proposal.reasons:
        say(reason)
    changed = [(file, diff) for file in proposal.files if (diff := file.diff())]
    for file, diff in changed:
        print(diff, end="", flush=True)
        if known.write is not None:
            file.write()
            say(f"written: {file.path}")
    if not proposal.count:
        say("error: there is nothing to propose")
        return 1
    if not changed:
        say(f"{proposal.count} reference(s) are in force already")
    return 0


def say(text: str) -> None:
    """Print a line that is no part of the diff."""
    print(f"references: {text}", file=sys.stderr, flush=True)
