"""Propose references from the values of each metric in the nights, and put them into files of references.

A file keeps comments, order and quotes that people wrote. PyYAML gives the positions of keys and values; the text is
changed line by line.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

import yaml

from containercheck.results.row import rows_of

#: Fewest nights for a reference.
NIGHTS = 10
#: The quantile of a normal distribution that one value in 1000 exceeds.
QUANTILE = 3.09
#: The narrowest range, as a part of the median: nights that were equal in all digits will not always be.
NARROWEST = 0.02
#: Comment at the end of lines that this library wrote, and of no others.
OURS = re.compile(r"# median of \d+ nights to \d")


class NoReference(Exception):
    """No reference can be made of the nights; the message is the reason."""


@dataclass(frozen=True)
class Reference:
    """The expected range of a metric, in ReFrame's terms.

    :ivar value: the median of the nights, in the metric's unit.
    :ivar lower, upper: ends of the range, as parts of the value; None where it has no end.
    :ivar spread: standard deviation of a night, in percent of the value.
    """

    value: float
    lower: float | None
    upper: float | None
    spread: float

    @classmethod
    def of(cls, nights: Sequence[float], better: str | None = None, least: int = NIGHTS) -> Reference:
        """Return the range that another night of the same machine leaves on the worse side in one of 1000 cases.

        Its middle is the median. The standard deviation is 1.4826 times the median of the absolute deviations from it
        (for normal values; P. J. Rousseeuw and C. Croux, "Alternatives to the median absolute deviation", JASA 88
        (1993), with their correction n / (n - 0.8) for few values), because a night with a sick node must not widen it.
        Both are themselves uncertain, and so the range is a prediction interval (G. J. Hahn and W. Q. Meeker,
        "Statistical Intervals", 1991): 3.09 standard deviations, times 1 + 7.4 / (n - 3.8). That factor was fitted to
        400000 simulated sets of 10 to 60 nights; test_proposals.py repeats that. Nights with heavy tails (Student's t
        with three degrees of freedom) leave it in 6 to 16 of 1000 cases. Only nights that passed count: a reference
        in force has cut off the worse ones.

        :param nights: the value of each night.
        :param better: ``higher`` or ``lower``: the range has no end on that side. None for both ends.
        :param least: fewest nights.
        :raises NoReference: there are too few of them, they are not above 0, or they spread too much.
        """
        if len(nights) < least:
            raise NoReference(f"{len(nights)} night(s), {least} are needed")
        middle = statistics.median(nights)
        if min(nights) <= 0:
            raise NoReference("values that are not above 0 have no range in parts of them")
        deviation = 1.4826 * statistics.median(abs(value - middle) for value in nights)
        deviation *= len(nights) / (len(nights) - 0.8)
        width = QUANTILE * (1 + 7.4 / max(1, len(nights) - 3.8)) * deviation / middle
        # Outwards, to three digits.
        width = math.ceil(1000 * max(NARROWEST, width)) / 1000
        spread = 100 * deviation / middle
        if better != "lower" and width >= 1:
            raise NoReference(f"nights spread by {spread:.2g} %: any value would do")
        lower = None if better == "lower" else -width
        upper = None if better == "higher" else width
        return cls(float(f"{middle:.5g}"), lower, upper, spread)


@dataclass
class MetricNights:
    """The values of one metric of one case, by night.

    :ivar better: whether ``higher`` or ``lower`` values are better; None where the database does not say.
    """

    metric: str
    unit: str
    better: str | None
    values: dict[date, list[float]] = field(default_factory=dict)

    @property
    def nights(self) -> list[float]:
        """The value of each night: the median of its runs."""
        return [statistics.median(values) for _, values in sorted(self.values.items())]


@dataclass(frozen=True)
class Run:
    """A run in the database that passed.

    :ivar check: class of the check.
    :ivar partition: full name.
    :ivar facts: all that ReFrame stored about it.
    :ivar axes: values of the parameters, by name, as they are in the case's name.
    :ivar input: ranks and amount of work, as far as they are known.
    """

    check: str
    partition: str
    facts: Mapping[str, Any]
    axes: Mapping[str, str]
    input: tuple[Any, Any]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Run:
        """Return the run of a stored test case."""
        name, *parameters = (raw.get("display_name") or raw["name"]).split(" %")
        expected = raw.get("expected") or {}
        return cls(
            name.split()[0],
            f"{raw['system']}:{raw['partition']}",
            raw,
            dict(text.partition("=")[::2] for text in parameters),
            (expected.get("ranks"), expected.get("amount")),
        )

    @property
    def when(self) -> float:
        """Seconds of the epoch at which its job was complete."""
        return self.facts["job_completion_time_unix"]

    @property
    def night(self) -> date:
        """The date on which the night began in which the job ended: from noon to noon, local time."""
        return (datetime.fromtimestamp(self.when) - timedelta(hours=12)).date()

    def key(self, index: Iterable[str]) -> tuple[Any, ...]:
        """Return its keys in a file of references, by the file's index.

        :raises NoReference: the database does not have one of them.
        """
        try:
            return tuple(self.partition if name == "$partition" else self.facts[name.lstrip("$")] for name in index)
        except KeyError as error:
            raise NoReference(f"runs from before it had {error}, by which its file is keyed, are left out") from None


def passed(testcases: Iterable[Mapping[str, Any]], system: str) -> list[Run]:
    """Return the runs on a system that passed and measured something, the earliest first."""
    runs = [
        Run.of(raw)
        for raw in testcases
        if (raw["result"], raw["system"]) == ("pass", system)
        and not raw.get("fixture")
        and raw.get("perfvalues")
        and raw["job_completion_time_unix"]
    ]
    return sorted(runs, key=lambda run: run.when)


def alike(runs: Sequence[Run], index: Collection[str]) -> tuple[list[Run], int]:
    """Return the runs that measured the same as the last one, and the number of nights that have only other runs.

    All runs have the same key. Cases of the full axes do not count where the file is not keyed by their axis.

    :raises NoReference: no run is left, or several cases that the file cannot tell apart.
    """
    eligible = [run for run in runs if "full" not in run.facts.get("tags", ()) or run.axes.keys() <= set(index)]
    if not eligible:
        raise NoReference("only cases of the full axes ran, by which the file is not keyed")
    # Leave out runs from before the check had another set of axes.
    eligible = [run for run in eligible if run.axes.keys() == eligible[-1].axes.keys()]
    cases = {(run.facts["environ"], *(item for item in run.axes.items() if item[0] not in index)) for run in eligible}
    if len(cases) > 1:
        raise NoReference(f"the file's $index cannot tell {len(cases)} cases apart")
    same = [run for run in eligible if run.input == eligible[-1].input]
    return same, len({run.night for run in eligible} - {run.night for run in same})


def series(runs: Iterable[Run]) -> list[MetricNights]:
    """Return the metrics of runs, the latest last, without overheads, emulated processors, and duets (half a node).

    In the container variants a metric is the container's; the bare variant has the bare program's.
    """
    by_metric: dict[str, MetricNights] = {}
    for run in runs:
        rows = {row.metric: row for row in rows_of(run.facts) if not (row.emulated or row.duet)}
        for key, (value, *_, unit, _) in run.facts["perfvalues"].items():
            metric = key.rpartition(":")[2]
            if metric not in rows or value is None:
                continue
            history = by_metric.setdefault(metric, MetricNights(metric, unit, rows[metric].better or None))
            if history.unit != unit:
                # The check has measured something else since then.
                history = by_metric[metric] = MetricNights(metric, unit, rows[metric].better or None)
            history.better = rows[metric].better or None
            history.values.setdefault(run.night, []).append(value)
    return list(by_metric.values())


class NotPut(Exception):
    """An entry has no place in the file; the message says why."""


def put(text: str, keys: Sequence[Any], values: Sequence[Any], comment: str) -> str:
    """Return a text with an entry ``key: [values]  # comment`` after the other keys, or in place of our older one.

    :param keys: the check, those of the file's index, and the metric.
    :raises NotPut: a person wrote the entry, another key matches it too, or the file is not a mapping of mappings.
    """
    entry = yaml.safe_dump(list(values), default_flow_style=True, width=1000).strip()
    lines = text.splitlines()
    try:
        node = yaml.compose(text)
    except yaml.YAMLError as error:
        raise NotPut(f"no YAML: {str(error).splitlines()[0]}") from None
    for depth, key in enumerate(keys):
        if not isinstance(node, yaml.MappingNode) or node.flow_style or not node.value:
            line = node.start_mark.line + 1 if node else 1
            raise NotPut(f"line {line} has no keys on lines of their own below it")
        column = node.value[0][0].start_mark.column
        existing = next((pair for pair in node.value if pair[0].value == str(key)), None)
        if existing is None:
            for other, _ in node.value:
                if 0 < depth < len(keys) - 1 and isinstance(key, str) and _matches(other.value, key):
                    raise NotPut(f"line {other.start_mark.line + 1}, {other.value!r}, speaks for it too")
            rest = [*keys[depth:-1], None]
            new = [f"{' ' * (column + 2 * more)}{_key(missing)}:" for more, missing in enumerate(rest[:-1])]
            new.append(f"{' ' * (column + 2 * len(new))}{_key(keys[-1])}: {entry}  {comment}")
            at = _last_line(node) + 1
            return "\n".join([*lines[:at], *new, *lines[at:]]) + "\n"
        name, node = existing
    line = name.start_mark.line
    if not OURS.search(lines[line]) or _last_line(node) != line:
        raise NotPut(f"line {line + 1} was written by hand")
    lines[line] = f"{' ' * name.start_mark.column}{_key(keys[-1])}: {entry}  {comment}"
    return "\n".join(lines) + "\n"


def _matches(pattern: str, key: str) -> bool:
    """Return whether ReFrame takes one key's entry for another key: it reads keys as regular expressions."""
    try:
        return re.fullmatch(pattern, key) is not None
    except re.error:
        return False


def _last_line(node: yaml.Node) -> int:
    """Return the last line of a node; the end mark of a mapping is behind the comments that follow it."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return _last_line(node.value[-1][1])
    return node.end_mark.line


def _key(value: Any) -> str:
    """Return a key as a person would write it."""
    if isinstance(value, str) and (not re.fullmatch(r"\w[\w.-]*", value) or not isinstance(yaml.safe_load(value), str)):
        return json.dumps(value)
    return str(value)
