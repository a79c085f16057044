"""Names and numbers as the page says them, and tables as values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from containercheck.results.cases import Case
from containercheck.results.formatting import number

#: What a program prints for a terminal: colors.
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
#: What neither HTML nor XML can hold.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
#: So many names are told of what concerns several.
NAMED = 3


@dataclass(frozen=True)
class Table:
    """A table to read.

    :ivar caption: what it shows; different from that of each other table.
    :ivar left: so many columns are text, the others numbers.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


def plain(text: str) -> str:
    """Return a text without what a page cannot hold."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", ESCAPES.sub("", text).replace("\r\n", "\n"))


def count(amount: int, what: str) -> str:
    """Return so many of something: ``1 node``, ``2 nodes``."""
    return f"{amount} {what}{'' if amount == 1 else 's'}"


def shown_count(shown: int, there_are: int, what: str) -> str:
    """Return how many are shown, and where all are."""
    if shown == there_are:
        return f"all {count(shown, what)}"
    return f"{shown} of {count(there_are, what)}; all are in the CSV"


def partition(case: Case) -> str:
    """Return the partition with its system."""
    system, name = case.key[:2]
    return f"{system}:{name}" if system else name


def name(case: Case, where: bool = False) -> str:
    """Return which case it is.

    :param where: with its partition.
    """
    return f"{case.label} {case.variant}, {count(case.nodes, 'node')}" + (f", {partition(case)}" if where else "")


def listed(names: Sequence[str]) -> str:
    """Return the first of the names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def share_of(cases: Iterable[Case], everything: Sequence[Case]) -> str:
    """Return which of all cases they are, as short as that can be said: all, whole variants or applications, names."""
    chosen = list(cases)
    if len(chosen) == len(everything):
        return f"all {len(everything)} cases" if len(everything) > 1 else name(everything[0])
    applications = sorted({case.application for case in chosen})
    variants = list(dict.fromkeys(case.variant for case in chosen))
    # They are among these; where there are no others, they are these.
    if len(chosen) == sum(case.variant in variants for case in everything):
        return f"all cases: {', '.join(variants)}"
    if len(chosen) == sum(case.application in applications for case in everything):
        return listed(applications)
    if len(chosen) == sum(case.application in applications and case.variant in variants for case in everything):
        return f"{listed(applications)}: {', '.join(variants)}"
    return listed([name(case) for case in chosen])


def axes(values: Mapping[str, str]) -> str:
    """Return the values of a check's own parameters."""
    return " ".join(f"{key}={value}" for key, value in values.items())


def measured(value: float | None, error: float | None, unit: str, digits: int = 4, sign: str = "") -> str:
    """Return a number with two of its standard errors, where it has one."""
    if value is None:
        return ""
    half = "" if error is None else f" ± {number(2 * error, 2)}"
    return f"{number(value, digits, sign)}{half} {unit}".rstrip()


def finite(value: float | None) -> float | None:
    """Return a number that can be drawn; None for what is none."""
    return value if value is not None and math.isfinite(value) else None


def shortened(text: str, most: int) -> str:
    """Return the first line of a text, and of that so many characters."""
    first, _, rest = text.partition("\n")
    if len(first) <= most:
        return first + (" …" if rest.strip() else "")
    return first[: most - 1].rstrip() + "…"
