"""Numbers, columns and names of cases as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from containercheck.results.cases import Case

#: Name of the command that was typed, and what stood before it: this, or ``ci/`` where a script of the checkout was.
_speaker, _before = "run", "containercheck "


def number(value: float | None, digits: int = 4, sign: str = "") -> str:
    """Return a number with so many significant digits and no exponent; a question mark for what is none."""
    if value is None or math.isnan(value):
        return "?"
    if math.isinf(value):
        return "-∞" if value < 0 else f"{sign}∞"
    # What is left of a difference of equal numbers is nothing; and adding 0 takes the sign off -0.
    value = 0.0 if abs(value) < 1e-12 else value + 0.0
    places = 0 if value == 0 else digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, places):{sign}.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def columns(rows: Sequence[Sequence[str]], left: int | None = None) -> list[str]:
    """Return rows as aligned lines, the first so many columns flush left, or all of them."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:left], widths)]
        cells += [cell.rjust(width) for cell, width in zip(row[len(cells) :], widths[len(cells) :])]
        lines.append("  ".join(cells).rstrip())
    return lines


def names(cases: Iterable[Case], most: int | None = None) -> str:
    """Return the cases as a list to read.

    :param most: how many are named, and the others counted; by default all.
    """
    cases = list(cases)
    if most is not None and len(cases) > most:
        return f"{names(cases[:most])}; and {len(cases) - most} more"
    return "; ".join(f"{case.label} {case.variant}, {case.nodes} node(s)" for case in cases)


def speak_as(command: str) -> None:
    """Have all that is said begin with the name of this command, the one that was typed."""
    global _speaker
    _speaker = command


def type_with(before: str) -> None:
    """Have commands of ours named with this before them, as the person typed it: ``ci/``, say."""
    global _before
    _before = before


def speaker() -> str:
    """Return the name of the command that was typed."""
    return _speaker


def typed(command: str) -> str:
    """Return one of our commands as the person types it: like the one that was typed."""
    return f"{_before}{command}"


def say(text: str) -> None:
    """Print a line of our own, in order with ReFrame's; it begins with the command that was typed."""
    print(f"{_speaker}: {text}", flush=True)
