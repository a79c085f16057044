"""Print what can explain cases of the last session or night that failed, or what differs between two of a kind."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from containercheck.command.parsers import NOT_JUDGED, parsed
from containercheck.command.report import last_report
from containercheck.history.nights import Night, nights
from containercheck.job import contract
from containercheck.job.explain import explanation
from containercheck.job.explain.causes import Change
from containercheck.report.view import CaseView
from containercheck.results import selections, sides_seen
from containercheck.results.cases import Case, ReportError, collect, load
from containercheck.results.database import DatabaseError, Stored, read
from containercheck.results.formatting import names, say, speak_as, typed
from containercheck.results.sides_seen import SEES, USES
from containercheck.session import preconditions, progress, reframe_process
from containercheck.session.reframe_process import ReframeFailed, Workplace, configuration
from containercheck.session.session import Session, Settings
from containercheck.session.usage import UsageError

_INDENT = "  "
#: Most remedies of a further run: each is a side more.
MOST_TRIED = 9
#: Parts of a provenance about what a side ran; others are about what it saw and used.
_RAN = ("machine", "runtimes", "image_sha256", "image_release", "mpi", "builds", "bound", "started")
#: Those of them that have an entry for each side, by the side's name.
_OF_SIDES = ("runtimes", "images", "mpi", "builds", "bound", "started")
#: A case, with what is known of the first and of the second of those that are compared.
Matched = tuple[Case, Mapping[str, Any], Mapping[str, Any]]


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the explanations, and return the exit status: 2 where there is nothing to explain or to compare."""
    speak_as("explain")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    options, _, parser = parsed("explain", argv)
    try:
        if options.between:
            lines = compared(_matched(options.between, place))
        else:
            if not options.case:
                parser.error("name a case, or a part of its name; or two reports with --between")
            is_night = options.night or options.database
            if is_night and options.tries:
                parser.error("--try runs a case of the last session, and not of a night: leave --night out")
            cases = _last_night(options, place) if is_night else collect([load(last_report(place))])
            if options.tries:
                cases = _with_more_tried(cases, options.case, place)
            lines = explained(cases, options.case, "night" if is_night else "session")
    except (ReportError, UsageError, preconditions.Taken, OSError) as error:
        print(f"explain: error: {error}", file=sys.stderr)
        return NOT_JUDGED
    print("\n".join(lines), flush=True)
    return 0


def _with_more_tried(cases: Sequence[Case], wanted: str, place: Workplace) -> list[Case]:
    """Run the failed cases with a name once more, with more remedies; return all cases as they are then.

    :raises ReportError: no case has that name, or nothing is left to try.
    :raises UsageError: no session can run here.
    :raises Taken: another session is running here.
    :raises OSError: a file cannot be written.
    """
    failed = [case for case in _chosen(cases, wanted) if selections.failure(case)]
    if not failed:
        raise ReportError(f"no case failed that has {wanted!r} in its name: there is nothing to try")
    place, stage = preconditions.require((), place, anywhere=True)
    preconditions.require_writable([place.reports, stage])
    with reframe_process.Relay() as relay, preconditions.held([place.reports, stage]):
        view = CaseView(progress.Screen().is_terminal)
        session = Session(Settings(None, True, ()), place, relay, view=view)
        session.resume()
        say(f"{len(failed)} case(s) are run once more, with up to {MOST_TRIED} remedies: {names(failed)}")
        missed = session.run(failed, "-S", f"remedies={MOST_TRIED}")
        if missed:
            say(f"not run: {names(missed)}")
        for problem in session.problems:
            say(problem)
        return session.cases


def _chosen(cases: Sequence[Case], wanted: str, what: str = "session") -> list[Case]:
    """Return the cases with a name.

    :raises ReportError: no case has it.
    """
    chosen = [case for case in cases if wanted.lower() in f"{names([case])} {case.name}".lower()]
    if not chosen:
        raise ReportError(f"no case of the last {what} has {wanted!r} in its name: {names(list(cases))}")
    return chosen


def explained(cases: Sequence[Case], wanted: str, what: str = "session") -> list[str]:
    """Return all that is known of the causes of the cases with a name.

    :param wanted: a part of the name of a case, whatever its letters' case is.
    :param what: ``session`` or ``night``, for messages.
    :raises ReportError: no case has it, or nothing is known.
    """
    lines = []
    for case in _chosen(cases, wanted, what):
        run = selections.failure(case) or case
        lines += [f"{names([case])}: {run.fail_reason.splitlines()[0]}"]
        if run.where_time_went:
            lines.append(_INDENT + run.where_time_went)
        causes = [line for cause in run.causes for line in _cause(cause)]
        lines += [_INDENT + line for line in causes] or [f"{_INDENT}nothing that is known to cost time differs"]
    return lines


def _cause(cause: Mapping[str, Any]) -> list[str]:
    kinds = ", ".join(cause.get("kinds") or ())
    lines = [cause["sentence"], f"{_INDENT}can slow: {kinds}", f"{_INDENT}do: {cause['remedy']} ({cause['source']})"]
    if not cause.get("experiment"):
        return [*lines, f"{_INDENT}no experiment can take it away here"]
    label = Change(**cause["experiment"]).label
    result = cause.get("result")
    if not result:
        return [*lines, f"{_INDENT}not tried: {label}"]
    if result["failed"]:
        return [*lines, f"{_INDENT}tried in vain, {label}: {result['failed']}"]
    return [*lines, f"{_INDENT}tried: {label}: {explanation.outcome(cause)}"]


def compared(matched: Sequence[Matched]) -> list[str]:
    """Return what differs in each case between the two that are compared; cases with the same differences together."""
    by_lines: dict[tuple[str, ...], list[Case]] = {}
    for case, first, second in matched:
        by_lines.setdefault(tuple(sides_seen.differences(first, second)), []).append(case)
    printed = []
    for lines, cases in by_lines.items():
        printed.append(f"{names(cases)}:")
        printed += [_INDENT + line for line in lines or ("nothing that is recorded differs",)]
    return printed


def _matched(words: Sequence[str], place: Workplace) -> list[Matched]:
    """Return what two words name: two reports, or two partitions or sides of the last session.

    :raises ReportError: there is no such report, or they are of two kinds.
    """
    reports = [word for word in words if Path(word).is_file()]
    if len(reports) == len(words):
        return of_reports(*(collect([load(Path(word))]) for word in words))
    missing = next((word for word in words if word not in reports), "")
    if reports or missing.endswith(".json"):
        raise ReportError(f"no report {missing}: name two reports, or two partitions, runtimes or images of a session")
    return in_session(collect([load(last_report(place))]), *words)


def of_reports(old: Sequence[Case], new: Sequence[Case]) -> list[Matched]:
    """Return the cases that two reports have in common.

    Where none has the same system and partition in both, those of the same check and axes: of two hosts, say.

    :raises ReportError: they have none in common.
    """
    matched = _with_same(old, new, lambda case: case.identity) or _with_same(old, new, _shape)
    if not matched:
        raise ReportError("the two reports have no case in common that was run: no check with the same axes")
    return matched


def in_session(cases: Sequence[Case], first: str, second: str) -> list[Matched]:
    """Return the cases of a session for two of its partitions, or two sides: runtimes, images, variants, bare.

    :param first, second: ``system:partition`` or partition; or the label of a side.
    :raises ReportError: it has no such partitions or sides, or no case has both.
    """
    ran = [case for case in cases if case.provenance]
    places = {name for case in ran for name in (case.place, case.partition)}
    labels = {label for case in ran for label in (*(case.provenance.get(SEES) or {}), *_subjects(case))}
    if {first, second} <= places:
        old, new = ([case for case in ran if word in (case.place, case.partition)] for word in (first, second))
        matched = _with_same(old, new, _shape)
    elif {first, second} <= labels:
        matched = _of_sides(ran, first, second)
    else:
        unknown = [word for word in (first, second) if word not in places | labels]
        known = ", ".join([*sorted({case.place for case in ran}), *sorted(labels)])
        if unknown:
            raise ReportError(
                f"{unknown[0]} is not a report, and not a partition or side of the last session: it has {known}"
            )
        raise ReportError(f"{first} and {second} are a partition and a side: name two of one kind, of {known}")
    if not matched:
        raise ReportError(f"no check was run with the same axes for both {first} and {second}")
    return matched


def _with_same(old: Sequence[Case], new: Sequence[Case], key: Callable[[Case], Any]) -> list[Matched]:
    before = {key(case): case for case in old if case.provenance}
    pairs = [(before[key(case)], case) for case in new if case.provenance and key(case) in before]
    return [(second, _facts(first), _facts(second)) for first, second in pairs]


def _facts(case: Case) -> dict[str, Any]:
    return {key: case.provenance.get(key) or {} for key in (*_RAN, SEES, USES)}


def _shape(case: Case) -> tuple[Any, ...]:
    """Return the check with its axes, wherever it was run."""
    return case.application, case.variant, case.nodes, tuple(sorted(case.axes.items()))


def _subjects(case: Case) -> list[str]:
    """Return the labels of the sides that an acceptance compares: they are their names."""
    sides = case.provenance.get("runtimes") or {}
    return [name for name in sides if name not in (contract.BASELINE, contract.SUBJECT)]


def _of_sides(cases: Sequence[Case], first: str, second: str) -> list[Matched]:
    """Return a pair for each check and axes; each variant is a case of its own, and so may be both sides."""
    by_case: dict[tuple[Any, ...], dict[str, tuple[Case, Mapping[str, Any]]]] = {}
    for case in cases:
        key = (*case.identity_as(""),)
        for label in (first, second):
            if label in (case.provenance.get(SEES) or {}) or label in _subjects(case):
                by_case.setdefault(key, {}).setdefault(label, (case, _of_side(case, label)))
    return [
        (sides[second][0], sides[first][1], sides[second][1])
        for sides in by_case.values()
        if {first, second} <= {*sides}
    ]


def _of_side(case: Case, label: str) -> dict[str, Any]:
    """Return what is known of a side: the label of bare and of the container is not their name in the record."""
    names = {"bare": contract.BASELINE, case.variant: contract.SUBJECT}
    name = label if label in _subjects(case) else names.get(label, label)
    facts: dict[str, Any] = {key: (case.provenance.get(key) or {}).get(label) or {} for key in (SEES, USES)}
    facts.update({key: (case.provenance.get(key) or {}).get(name) or {} for key in _OF_SIDES})
    if name == contract.SUBJECT:
        facts["images"] = {"image_sha256": case.provenance.get("image_sha256")}
    return {key: value for key, value in facts.items() if value}


def _last_night(options: argparse.Namespace, place: Workplace) -> tuple[Case, ...]:
    """Return the cases of the last night in the results database.

    :raises ReportError: it cannot be read, or has no night.
    """
    try:
        stored: Stored[list[Night]] = read(options.database or configuration([], place).database, make=nights)
    except (DatabaseError, ReframeFailed, UsageError) as error:
        raise ReportError(str(error)) from error
    found = [night for night in stored.made if night.is_nightly]
    if not found:
        raise ReportError(f"the results database has no night: run {typed('nightly')} first, or leave --night out")
    return found[-1].cases
