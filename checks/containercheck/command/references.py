"""Propose references from ReFrame's results database.

For each check, partition, node count and metric, a reference is the median of the nights' bare values and the range of
another night. A container is compared with bare in its own job. The command prints a diff against the file in force for
review: the site's file if there is one. It changes only lines that it wrote: PyYAML gives the positions of keys and
values, and the text is changed line by line.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import os
import re
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from containercheck.command.parsers import FINE, parsed
from containercheck.history.nights import stored
from containercheck.history.series import BARE, Series, series
from containercheck.job import texts
from containercheck.results.formatting import CommandError, write_file
from containercheck.session import reframe_process
from containercheck.session.reframe_process import Workplace

#: Keys that every file of references has in its index.
INDEX = ("$partition", "variant", "num_nodes")
#: Days of history that are read.
DAYS = 90
#: Fewest nights for a reference.
NIGHTS = 10
#: The quantile of a normal distribution that one value in 1000 exceeds.
QUANTILE = 3.09
#: The narrowest range, as a part of the median: nights that were equal in all digits will not always be.
NARROWEST = 0.02
#: Comment at the end of lines that this library wrote, and of no others.
OURS = re.compile(r"# median of \d+ nights to ")
#: Beginning of a new file, and the line with the keys of a file.
HEAD = "# [median, lower, upper, unit] of the nights here; lower and upper are fractions of the median.\n"
KEYED = re.compile(r"^ +\$index: \[(.*)\]$", re.MULTILINE)


class NoReference(Exception):
    """No reference can be made of the nights, or it has no place in the file; the message is the reason."""


@dataclass(frozen=True)
class Reference:
    """The expected range of a metric, in ReFrame's terms.

    :ivar value: the median of the nights, in the metric's unit.
    :ivar lower, upper: ends of the range, as parts of the value; None for no end.
    :ivar spread: standard deviation of a night, in percent of the value.
    """

    value: float
    lower: float | None
    upper: float | None
    spread: float

    @classmethod
    def of(cls, nights: Sequence[float], better: str | None = None) -> Reference:
        """Return the range that another night of the same machine leaves on the worse side in one of 1000 cases.

        Its middle is the median. The standard deviation is 1.4826 times the median absolute deviation (for normal
        values), so that a night with a bad node does not widen the range. It has the correction n / (n - 0.8) for few
        values. Source: P. J. Rousseeuw and C. Croux, "Alternatives to the median absolute deviation", JASA 88 (1993).
        Both are uncertain, so the range is a prediction interval (G. J. Hahn and W. Q. Meeker,
        "Statistical Intervals", 1991): 3.09 standard deviations, times 1 + 7.4 / (n - 3.8). The factor was fitted to
        400000 simulated sets of 10 to 60 nights; test_proposals.py repeats the fit. Nights with heavy tails (Student's
        t with three degrees of freedom) leave the range in 6 to 16 of 1000 cases.

        :param nights: the value of each night.
        :param better: ``higher`` or ``lower``: the range has no end on that side. None for both ends.
        :raises NoReference: there are too few of them, they are not above 0, or they spread too much.
        """
        if len(nights) < NIGHTS:
            raise NoReference(f"{len(nights)} night(s), {NIGHTS} are needed")
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
    def of(cls, metric: Series, directory: Path | None, ours: Path) -> File:
        """Read the file of a check, or begin one with all axes of the check in its index.

        :param directory: directory of the site or of the command line; None for neither.
        :param ours: directory of the library's own references.
        """
        check = metric.application
        places = [path / f"{check}.yaml" for path in (directory, ours) if path]
        in_force = next((path for path in places if path.exists()), None)
        index = ", ".join([*INDEX, *sorted(metric.axes)])
        text = texts.utf8(in_force) if in_force else f"{HEAD}{check}:\n  $index: [{index}]\n"
        return cls(places[0], in_force, text, text)

    def keys(self, metric: Series) -> tuple[Any, ...]:
        """Return the keys of a metric in the file.

        :raises NoReference: the file has no index, or is keyed by an axis that the case does not have.
        """
        index = KEYED.search(self.after)
        if not index:
            raise NoReference(f"{self.in_force} has no line with $index")
        names = [name.lstrip("$") for name in index[1].replace(" ", "").split(",")]
        facts = {"partition": _place(metric), "variant": BARE, "num_nodes": metric.nodes}
        facts.update({name: int(value) if value.isdigit() else value for name, value in metric.axes.items()})
        if missing := [name for name in names if name not in facts]:
            raise NoReference(f"its nights do not have {', '.join(missing)}, by which the file is keyed")
        return (metric.application, *(facts[name] for name in names), metric.metric)

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


def directories(site: dict[str, Any], named: str | None) -> dict[str, Path | None]:
    """Return the directory of references of each partition.

    :param site: ReFrame's configuration of the system.
    :param named: directory of the command line; empty for the site's, which is required then; None for the site's if it
        has one.
    :raises CommandError: the site has no directory, though it is required.
    """
    by_partition: dict[str, Path | None] = {}
    for partition in site["partitions"]:
        directory = named or ((partition.get("extras") or {}).get("containercheck") or {}).get("references")
        name = f"{site['name']}:{partition['name']}"
        if named == "" and not directory:
            raise CommandError(
                f"the site file names no directory for references of {name} (extras, references): --write DIRECTORY"
            )
        by_partition[name] = Path(os.path.expandvars(directory)).expanduser().absolute() if directory else None
    return by_partition


def measured(path: Path, names: Sequence[str]) -> Iterator[Series]:
    """Yield the bare values of the checks with these names in the nights of a database.

    :raises DatabaseError: the database cannot be read.
    :raises CommandError: a name is not a pattern.
    """
    try:
        wanted = re.compile("|".join(names))
    except re.error as error:
        raise CommandError(f"-n {'|'.join(names)}: {error}") from None
    for metric in series(stored(path, time.time() - 86400 * DAYS)):
        if metric.kind == BARE and wanted.match(metric.application):
            yield metric


def propose(arguments: Sequence[str], options: argparse.Namespace, place: Workplace) -> tuple[list[File], int]:
    """Return the files with the references that follow from the database, and the number of these.

    :raises ReframeFailed: ReFrame does not print the path of the database.
    :raises DatabaseError: the database cannot be read.
    :raises CommandError: nothing in it matches, or the command line is not valid.
    """
    configured = reframe_process.configuration(arguments, place)
    directory_of = directories(dict(configured.system), options.write)
    path = options.database or configured.database
    ours = Path(place.directory, place.checks, "references")
    files: dict[tuple[str, Path | None], File] = {}
    groups: dict[tuple[Any, ...], list[Series]] = {}
    reasons: dict[str, None] = {}
    for metric in measured(path, options.names):
        if _place(metric) in directory_of:
            directory = directory_of[_place(metric)]
            file = files.setdefault((metric.application, directory), File.of(metric, directory, ours))
            try:
                groups.setdefault((directory, *file.keys(metric)), []).append(metric)
            except NoReference as error:
                reasons[f"{metric.application}: {error}"] = None
    count = 0
    for (directory, *keys), group in groups.items():
        file = files[group[0].application, directory]
        try:
            file.after = put(file.after, keys, *_entry(group))
            count += 1
        except NoReference as error:
            # A reason that all metrics of a case share is printed once.
            reasons[f"{group[0].label}, {_place(group[0])}, {group[0].nodes} node(s): {error}"] = None
    for reason in reasons:
        say(reason)
    if not files:
        raise CommandError(f"no night of the last {DAYS} days has a matching bare value, in {path}")
    return list(files.values()), count


def _place(metric: Series) -> str:
    return f"{metric.system}:{metric.partition}"


def _entry(group: Sequence[Series]) -> tuple[tuple[Any, ...], str]:
    """Return the values and the comment of an entry, from the case that ran in most nights.

    :param group: a metric of cases with the same keys in the file. All but one belong to the full axes.
    :raises NoReference: several cases ran in as many nights, or the nights give no reference.
    """
    metric, *others = sorted(group, key=lambda each: -len(each.points))
    if others and len(others[0].points) == len(metric.points):
        raise NoReference(f"the file's $index does not distinguish {len(group)} cases")
    nights = [point.value for point in metric.points]
    reference = Reference.of(nights, metric.better)
    last = metric.points[-1].night.name
    comment = f"# median of {len(nights)} nights to {last}, spread {reference.spread:.2g} %"
    return (reference.value, reference.lower, reference.upper, metric.unit), comment


def put(text: str, keys: Sequence[Any], values: Sequence[Any], comment: str) -> str:
    """Return a text with an entry ``key: [values]  # comment`` after the other keys, or in place of our older one.

    :param keys: the check, those of the file's index, and the metric.
    :raises NoReference: a person wrote the entry, another key matches it too, or the file is not a mapping of mappings.
    """
    entry = yaml.safe_dump(list(values), default_flow_style=True, width=1000).strip()
    lines = text.splitlines()
    try:
        node = yaml.compose(text)
    except yaml.YAMLError as error:
        raise NoReference(f"no YAML: {str(error).splitlines()[0]}") from None
    for depth, key in enumerate(keys):
        if not isinstance(node, yaml.MappingNode) or node.flow_style or not node.value:
            line = node.start_mark.line + 1 if node else 1
            raise NoReference(f"line {line} has no keys on lines of their own below it")
        column = node.value[0][0].start_mark.column
        existing = next((pair for pair in node.value if pair[0].value == str(key)), None)
        if existing is None:
            for other, _ in node.value:
                if 0 < depth < len(keys) - 1 and isinstance(key, str) and _matches(other.value, key):
                    raise NoReference(f"line {other.start_mark.line + 1}, {other.value!r}, speaks for it too")
            rest = [*keys[depth:-1], None]
            new = [f"{' ' * (column + 2 * more)}{_key(missing)}:" for more, missing in enumerate(rest[:-1])]
            new.append(f"{' ' * (column + 2 * len(new))}{_key(keys[-1])}: {entry}  {comment}")
            at = _last_line(node) + 1
            return "\n".join([*lines[:at], *new, *lines[at:]]) + "\n"
        name, node = existing
    line = name.start_mark.line
    if not OURS.search(lines[line]) or _last_line(node) != line:
        raise NoReference(f"line {line + 1} was written by hand, and is kept")
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


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the proposed references, write them on request, and return the exit status."""
    options, arguments, _ = parsed("references", argv)
    files, count = propose(arguments, options, place)
    changed = [(file, diff) for file in files if (diff := file.diff())]
    for file, diff in changed:
        print(diff, end="", flush=True)
        if options.write is not None:
            file.write()
            say(f"written: {file.path}")
    if not count:
        raise CommandError("there is nothing to propose")
    if not changed:
        say(f"{count} reference(s) are in force already")
    return FINE


def say(text: str) -> None:
    """Print a line to standard error: standard output has only the diff."""
    print(f"references: {text}", file=sys.stderr, flush=True)
