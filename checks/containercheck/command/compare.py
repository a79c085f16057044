"""Compare two sessions, hosts, sites, months, partitions or sides: metric by metric, and in what they differ."""

from __future__ import annotations

import math
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from containercheck.command.parsers import BROKEN, FINE, NOT_JUDGED, parsed
from containercheck.command.report import last_report
from containercheck.history.nights import Night, nights
from containercheck.job import contract
from containercheck.report import table
from containercheck.results import exported, sides_seen
from containercheck.results.cases import Case, ReportError, collect, load
from containercheck.results.database import DatabaseError, Stored, read
from containercheck.results.formatting import columns, names, number, speak_as
from containercheck.results.row import Row, is_finite
from containercheck.results.sides_seen import SEES, USES
from containercheck.session.reframe_process import ReframeFailed, Workplace, configuration
from containercheck.session.usage import UsageError

#: A month, a day, or the beginning of another name of a night.
PERIOD = re.compile(r"\d{4}-\d\d(-\d\d.*)?")
#: Directions of a change of the overhead.
WORSE, BETTER, SAME, UNKNOWN = "worse", "better", "~", "?"
#: Parts of a provenance about what a side ran; others are about what it saw and used.
_RAN = ("machine", "runtimes", "image_sha256", "image_release", "mpi", "builds", "bound", "started")
#: Those of them that have an entry for each side, by the side's name.
_OF_SIDES = ("runtimes", "images", "mpi", "builds", "bound", "started")


@dataclass(frozen=True)
class Half:
    """One of the two that are compared, in a case.

    :ivar rows: its metrics, by name, and label of the subject where a case has several.
    :ivar facts: what it saw, used and ran.
    """

    case: Case
    rows: Mapping[tuple[str, str], Row]
    facts: Mapping[str, Any]


#: The first and the second of those that are compared, in a case.
Pair = tuple[Half, Half]


@dataclass(frozen=True)
class Metric:
    """A metric in both of those that are compared.

    :ivar case: name of the case.
    :ivar first, second: the overhead of each in percent or in the metric's unit, with its interval; empty for none.
    :ivar change: by how much the overhead of the second is larger; None where one is missing.
    :ivar direction: whether that is ``worse`` or ``better``; ``~`` within the intervals of both, ``?`` without them.
    :ivar baseline: by how many percent the baseline of the second is worse; None where that is not known.
    """

    case: str
    metric: str
    first: str
    second: str
    change: float | None
    direction: str
    baseline: float | None


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the table and the differences, and return the exit status."""
    speak_as("compare")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    options, _, _ = parsed("compare", argv)
    try:
        pairs = _pairs(options.both, options.database, place)
    except (ReportError, DatabaseError, ReframeFailed, UsageError, OSError, ValueError) as error:
        print(f"compare: error: {error}", file=sys.stderr)
        return NOT_JUDGED
    metrics = [metric for pair in pairs for metric in _metrics(pair)]
    print("\n".join([*_table(metrics, *options.both), *_lines(pairs)]), flush=True)
    return BROKEN if any(metric.direction == WORSE for metric in metrics) else FINE


def _metrics(pair: Pair) -> list[Metric]:
    """Return the metrics that both have."""
    first, second = pair
    common = [(name, row, second.rows[name]) for name, row in first.rows.items() if name in second.rows]
    return [_metric(names([second.case]), name[0], before, after) for name, before, after in common]


def _metric(case: str, metric: str, before: Row, after: Row) -> Metric:
    change, direction = None, ""
    if before.overhead is not None and after.overhead is not None:
        change, direction = after.overhead - before.overhead, UNKNOWN
        if is_finite(before.interval) and is_finite(after.interval):
            noise = math.hypot(before.interval, after.interval)
            direction = SAME if abs(change) <= noise else WORSE if change > 0 else BETTER
    baseline = None
    if before.baseline and after.baseline:
        baseline = 100 * (after.baseline / before.baseline - 1) * (1 if before.better == "lower" else -1)
    return Metric(case, metric, table.overhead(before), table.overhead(after), change, direction, baseline)


def _table(metrics: Sequence[Metric], first: str, second: str) -> list[str]:
    """Return the table, with what is worse first, then what is better."""
    if not metrics:
        return []
    ranks = {WORSE: 0, BETTER: 1}
    rows = [("", "case", "metric", f"overhead: {first}", second, "change", "baseline")]
    for metric in sorted(metrics, key=lambda metric: ranks.get(metric.direction, 2)):
        change = "" if metric.change is None else number(metric.change, 2, "+")
        baseline = "" if metric.baseline is None else f"{number(metric.baseline, 2, '+')} %"
        rows.append((metric.direction, metric.case, metric.metric, metric.first, metric.second, change, baseline))
    counts = {word: sum(metric.direction == word for metric in metrics) for word in (WORSE, BETTER)}
    told = f"{len(metrics)} metric(s): {counts[WORSE]} worse, {counts[BETTER]} better; positive is worse in {second}"
    return [*columns(rows), told, ""]


def differences(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Return a line for each recorded fact that differs, by the names of the cases that share all of them."""
    by_lines: dict[tuple[str, ...], list[Case]] = {}
    for first, second in pairs:
        by_lines.setdefault(tuple(sides_seen.differences(first.facts, second.facts)), []).append(second.case)
    return {names(cases): list(lines) for lines, cases in by_lines.items()}


def _lines(pairs: Sequence[Pair]) -> list[str]:
    printed = []
    for cases, lines in differences(pairs).items():
        printed += [f"{cases}:", *(f"  {line}" for line in lines or ("nothing that is recorded differs",))]
    return printed


def _pairs(words: Sequence[str], database: Path | None, place: Workplace) -> list[Pair]:
    """Return what two words name: two of reports, exported lines, databases, nights or months; else two of a session.

    :param database: results database with the nights and months; None for the site's.
    :raises ReportError: there is no such report or night, or they are of two kinds.
    :raises DatabaseError, ReframeFailed, UsageError: the database cannot be read.
    """
    known = [Path(word).is_file() or bool(PERIOD.fullmatch(word)) for word in words]
    if all(known):
        first, second = (_cases(word, database, place) for word in words)
        return of_reports(first, second)
    missing = words[known.index(False)]
    if any(known) or missing.endswith((".json", ".jsonl", ".db")):
        raise ReportError(f"no report {missing}: name two reports or months, or two partitions or sides of a session")
    return in_session(collect([load(last_report(place))]), *words)


def _cases(word: str, database: Path | None, place: Workplace) -> list[Case]:
    """Return the cases of a report, of exported lines (.jsonl), or of nights, where the last run of each counts."""
    path, period = Path(word), word
    if path.is_file():
        if path.suffix == ".jsonl":
            return exported.read(path)
        if path.suffix != ".db":
            return collect([load(path)])
        database, period = path, ""
    database = database or configuration([], place).database
    stored: Stored[list[Night]] = read(database, make=nights)
    chosen = [night for night in stored.made if night.name.startswith(period)]
    if not chosen:
        raise ReportError(f"{database} has no night or session of {word}")
    return [*{case.identity: case for night in chosen for case in night.cases}.values()]


def of_reports(old: Sequence[Case], new: Sequence[Case]) -> list[Pair]:
    """Return the cases that both have in common.

    Where none has the same system and partition in both, those of the same check and axes: of two hosts, say.

    :raises ReportError: they have none in common.
    """
    matched = _with_same(old, new, lambda case: case.identity) or _with_same(old, new, _shape)
    if not matched:
        raise ReportError("the two have no case in common that was run: no check with the same axes")
    return matched


def in_session(cases: Sequence[Case], first: str, second: str) -> list[Pair]:
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


def _with_same(old: Sequence[Case], new: Sequence[Case], key: Callable[[Case], Any]) -> list[Pair]:
    before = {key(case): case for case in old if _has_run(case)}
    return [(_whole(before[key(case)]), _whole(case)) for case in new if _has_run(case) and key(case) in before]


def _has_run(case: Case) -> bool:
    return bool(case.provenance or case.rows)


def _whole(case: Case) -> Half:
    rows = {(row.metric, row.subject_label): row for row in case.rows}
    return Half(case, rows, {key: case.provenance.get(key) or {} for key in (*_RAN, SEES, USES)})


def _shape(case: Case) -> tuple[Any, ...]:
    """Return the check with its axes, wherever it was run."""
    return case.application, case.variant, case.nodes, tuple(sorted(case.axes.items()))


def _subjects(case: Case) -> list[str]:
    """Return the labels of the sides that an acceptance compares: they are their names."""
    sides = case.provenance.get("runtimes") or {}
    return [name for name in sides if name not in (contract.BASELINE, contract.SUBJECT)]


def _of_sides(cases: Sequence[Case], first: str, second: str) -> list[Pair]:
    """Return a pair for each check and axes; each variant is a case of its own, and so may be both sides."""
    by_case: dict[tuple[Any, ...], dict[str, Half]] = {}
    for case in cases:
        for label in (first, second):
            if label in (case.provenance.get(SEES) or {}) or label in _subjects(case):
                by_case.setdefault(case.identity_as(""), {}).setdefault(label, _side(case, label))
    return [(sides[first], sides[second]) for sides in by_case.values() if {first, second} <= {*sides}]


def _side(case: Case, label: str) -> Half:
    """Return what is known of a side: the label of bare and of the container is not their name in the record."""
    sides = {"bare": contract.BASELINE, case.variant: contract.SUBJECT}
    name = label if label in _subjects(case) else sides.get(label, label)
    facts: dict[str, Any] = {key: (case.provenance.get(key) or {}).get(label) or {} for key in (SEES, USES)}
    facts.update({key: (case.provenance.get(key) or {}).get(name) or {} for key in _OF_SIDES})
    if name == contract.SUBJECT:
        facts["images"] = {"image_sha256": case.provenance.get("image_sha256")}
    rows = {(row.metric, ""): row for row in case.rows if row.subject_label == label}
    return Half(case, rows, {key: value for key, value in facts.items() if value})
