"""Texts of names and numbers on the page, and tables as values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from containercheck.results.cases import Case
from containercheck.results.formatting import count
from containercheck.results.row import is_finite

#: Escape sequences of a terminal, such as colors.
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
#: Characters that neither HTML nor XML can hold.
UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
#: Most names in a list.
NAMED = 3
#: Variants in the order in which they are shown; other names follow.
VARIANTS = ("bare", "integrated", "generic")


@dataclass(frozen=True)
class Table:
    """A table of the page.

    :ivar caption: its contents; no two tables have the same caption.
    :ivar left: number of columns with text; the others have numbers.
    """

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: int = 1


def plain(text: str) -> str:
    """Return a text without escape sequences, and with unprintable characters replaced."""
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", ESCAPES.sub("", text).replace("\r\n", "\n"))


def variant_order(name: str) -> int:
    """Return the place of a variant, or of the label of a side, among the others."""
    return VARIANTS.index(name) if name in VARIANTS else len(VARIANTS)


def shown_count(shown: int, total: int, noun: str) -> str:
    """Return how many of all things are shown, and where the others are."""
    if shown == total:
        return f"all {count(shown, noun)}"
    return f"{shown} of {count(total, noun)}; all are in the CSV"


def place(case: Case) -> str:
    """Return a case's partition, with its environment where that is not ReFrame's own."""
    environ = case.key[2]
    return case.place + ("" if environ in ("", "builtin") else f" {environ}")


def name(case: Case, where: bool = False) -> str:
    """Return the name of a case, with its partition and environment where ``where`` is set."""
    return f"{case.label} {case.variant}, {count(case.nodes, 'node')}" + (f", {place(case)}" if where else "")


def share_of(cases: Sequence[Case], everything: Sequence[Case]) -> str:
    """Return a short description of some of all cases: all, their variants, or their names."""
    if len(cases) == len(everything):
        return f"all {len(everything)} cases" if len(everything) > 1 else name(everything[0])
    variants = list(dict.fromkeys(case.variant for case in cases))
    # The cases are a subset of those of their variants: with the same number, they are the same.
    if len(cases) == sum(case.variant in variants for case in everything):
        return f"all cases: {', '.join(variants)}"
    return listed(cases)


def listed(cases: Sequence[Case]) -> str:
    """Return the names of the first cases, and the number of the others."""
    more = f" and {len(cases) - NAMED} more" if len(cases) > NAMED else ""
    return ", ".join(name(case) for case in cases[:NAMED]) + more


def axes(values: Mapping[str, str]) -> str:
    """Return the values of a check's own parameters."""
    return " ".join(f"{key}={value}" for key, value in values.items())


def finite(value: float | None) -> float | None:
    """Return a number where it is finite, else None."""
    return value if is_finite(value) else None


def shortened(text: str, most: int) -> str:
    """Return the first line of a text, with at most ``most`` characters."""
    first, _, rest = text.partition("\n")
    if len(first) <= most:
        return first + (" …" if rest.strip() else "")
    return first[: most - 1].rstrip() + "…"
