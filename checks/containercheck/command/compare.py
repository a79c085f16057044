"""Compare the metrics and recorded facts of two sessions, hosts, sites or months."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from containercheck.command.parsers import BROKEN, FINE, parsed
from containercheck.history import causes
from containercheck.history.nights import stored
from containercheck.job import contract
from containercheck.report import table
from containercheck.results import exported
from containercheck.results.cases import Case, ReportError, collect, load, names
from containercheck.results.formatting import columns, number
from containercheck.results.row import Row, is_finite
from containercheck.results.sides_seen import SEES, USES
from containercheck.session.reframe_process import Workplace, configuration

#: A month, a day, or the beginning of another name of a night.
PERIOD = re.compile(r"\d{4}-\d\d(-\d\d.*)?")
#: Directions of a change of the overhead.
WORSE, BETTER, SAME, UNKNOWN = "worse", "better", "~", "?"
#: Parts of a provenance about the software of a side; others are about observations and use.
_RAN = ("machine", "runtimes", "image_sha256", "image_release", "mpi", "builds", "bound", "started")


@dataclass(frozen=True)
class Half:
    """One half of a comparison in a case.

    :ivar rows: its metrics, by name and label of the subject.
    :ivar facts: its observations, use and software.
    """

    case: Case
    rows: Mapping[tuple[str, str], Row]
    facts: Mapping[str, Any]


#: Both halves of a comparison in a case.
Pair = tuple[Half, Half]


@dataclass(frozen=True)
class MetricChange:
    """A metric in both halves.

    :ivar case: name of the case.
    :ivar first, second: the rows of both halves.
    :ivar change: overhead of the second minus that of the first; None if one is missing.
    :ivar direction: ``worse`` or ``better``; ``~`` for a change within both intervals, ``?`` without intervals.
    :ivar baseline: percent by which the baseline of the second is worse; None if it is not known.
    """

    case: str
    metric: str
    first: Row
    second: Row
    change: float | None
    direction: str
    baseline: float | None

    @property
    def columns(self) -> tuple[str, ...]:
        """Result, case, metric, both overheads with their intervals, change of the overhead, and of the baseline."""
        change = "" if self.change is None else number(self.change, 2, "+")
        baseline = "" if self.baseline is None else f"{number(self.baseline, 2, '+')} %"
        overheads = (table.overhead(self.first), table.overhead(self.second))
        return self.direction, self.case, self.metric, *overheads, change, baseline


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the table and the differences, and return the exit status."""
    options, _, _ = parsed("compare", argv)
    first, second = (_cases(word, options.database, place) for word in options.both)
    pairs = of_reports(first, second)
    ranks = {WORSE: 0, BETTER: 1}
    metrics = [metric for pair in pairs for metric in _metrics(pair)]
    metrics.sort(key=lambda metric: ranks.get(metric.direction, 2))
    print("\n".join([*_table(metrics, *options.both), *_lines(pairs)]), flush=True)
    if options.html:
        _write_page(options.html, metrics, pairs, options.both)
    return BROKEN if any(metric.direction == WORSE for metric in metrics) else FINE


def _metrics(pair: Pair) -> list[MetricChange]:
    """Return the common metrics of both halves."""
    first, second = pair
    common = [(name, row, second.rows[name]) for name, row in first.rows.items() if name in second.rows]
    return [_metric(names([second.case]), name[0], before, after) for name, before, after in common]


def _metric(case: str, metric: str, before: Row, after: Row) -> MetricChange:
    change, direction = None, ""
    if before.overhead is not None and after.overhead is not None:
        change, direction = after.overhead - before.overhead, UNKNOWN
        if is_finite(before.interval) and is_finite(after.interval):
            noise = math.hypot(before.interval, after.interval)
            direction = SAME if abs(change) <= noise else WORSE if change > 0 else BETTER
    baseline = None
    if before.baseline and after.baseline:
        baseline = 100 * (after.baseline / before.baseline - 1) * (1 if before.better == "lower" else -1)
    return MetricChange(case, metric, before, after, change, direction, baseline)


def _table(metrics: Sequence[MetricChange], first: str, second: str) -> list[str]:
    """Return the table; worse metrics come first, then better ones."""
    if not metrics:
        return []
    head = ("", "case", "metric", f"overhead: {first}", second, "change", "baseline")
    return [*columns([head, *(metric.columns for metric in metrics)]), _counted(metrics, second), ""]


def _counted(metrics: Sequence[MetricChange], second: str) -> str:
    counts = {word: sum(metric.direction == word for metric in metrics) for word in (WORSE, BETTER)}
    return f"{len(metrics)} metric(s): {counts[WORSE]} worse, {counts[BETTER]} better; positive is worse in {second}"


def _write_page(path: Path, metrics: Sequence[MetricChange], pairs: Sequence[Pair], both: Sequence[str]) -> None:
    """Write the comparison as a page: plain columns, and folded away those for experts.

    :raises OSError: the file cannot be written.
    """
    # matplotlib takes half a second to load.
    from containercheck.report.page import contents
    from containercheck.report.page.cases import Table

    first, second = both
    head = ("result", "case", "metric", f"overhead: {first}", second, "change")
    plain = Table("Metrics", head, tuple(metric.columns[: len(head)] for metric in metrics), 3)
    each = ("baseline", "subject", "spreads", "rounds", "verdict")
    more = ("case", "metric", "baseline worse by", *(f"{name}: {word}" for word in both for name in each))
    experts = Table("All columns", more, tuple(map(_for_experts, metrics)), 2)
    contents.write_comparison(path, both, _counted(metrics, second), (plain, experts), differences(pairs))
    print(f"written: {path}", flush=True)


def _for_experts(metric: MetricChange) -> tuple[str, ...]:
    sides = [
        (
            table.side(row, contract.BASELINE, False),
            table.side(row, contract.SUBJECT, False),
            table.spreads(row),
            str(row.rounds or ""),
            table.verdict(row),
        )
        for row in (metric.first, metric.second)
    ]
    return metric.case, metric.metric, metric.columns[-1], *sides[0], *sides[1]


def differences(pairs: Sequence[Pair]) -> dict[str, list[str]]:
    """Return a line for each recorded fact that differs, by the names of the cases with the same lines."""
    by_lines: dict[tuple[str, ...], list[Case]] = {}
    for first, second in pairs:
        lines = causes.differences([first.facts], [second.facts], complete=True)
        by_lines.setdefault(tuple(lines), []).append(second.case)
    return {names(cases): list(lines) for lines, cases in by_lines.items()}


def _lines(pairs: Sequence[Pair]) -> list[str]:
    printed = []
    for cases, lines in differences(pairs).items():
        printed += [f"{cases}:", *(f"  {line}" for line in lines or ("nothing that is recorded differs",))]
    return printed


def _cases(word: str, database: Path | None, place: Workplace) -> list[Case]:
    """Return the cases of a report, of exported lines (.jsonl), of a database (.db), or of nights.

    The last run of each case counts.

    :param database: results database with the nights and months; None for the site's database.
    :raises ReportError: there is no such report or night.
    :raises DatabaseError, ReframeFailed, UsageError: the database cannot be read.
    """
    path, period = Path(word), word
    if not path.is_file() and not PERIOD.fullmatch(word):
        raise ReportError(f"no report {word}: name a report, exported lines, a results database, a month or a day")
    if path.is_file():
        if path.suffix == ".jsonl":
            return exported.read(path)
        if path.suffix != ".db":
            return collect([load(path)])
        database, period = path, ""
    database = database or configuration([], place).database
    chosen = [night for night in stored(database) if night.name.startswith(period)]
    if not chosen:
        raise ReportError(f"{database} has no night or session of {word}")
    return [*{case.identity: case for night in chosen for case in night.cases}.values()]


def of_reports(old: Sequence[Case], new: Sequence[Case]) -> list[Pair]:
    """Return the common cases of both.

    If no case has the same system and partition in both (two hosts, for example), check and axes identify a case.

    :raises ReportError: there is no common case.
    """
    matched = _with_same(old, new, lambda case: case.identity) or _with_same(old, new, _shape)
    if not matched:
        raise ReportError("the two have no case in common that was run: no check with the same axes")
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
    """Return the check with its axes, without system and partition."""
    return case.application, case.variant, case.nodes, tuple(sorted(case.axes.items()))
