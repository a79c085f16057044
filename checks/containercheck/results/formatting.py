"""Format numbers, columns and names of cases, and print messages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from containercheck.results.cases import Case

#: Name of the command that the person typed, and the words before it: these, or ``ci/`` for a script of the checkout.
_speaker, _before = "run", "containercheck "


def count(amount: int, noun: str) -> str:
    """Return a number with its noun: ``1 node``, ``2 nodes``."""
    return f"{amount} {noun}{'' if amount == 1 else 's'}"


def number(value: float | None, digits: int = 4, sign: str = "") -> str:
    """Return a number with a given count of significant digits and no exponent; a question mark for None and NaN."""
    if value is None or math.isnan(value):
        return "?"
    if math.isinf(value):
        return "-∞" if value < 0 else f"{sign}∞"
    # A rounding error of equal numbers' difference is 0; adding 0 removes the sign of -0.
    value = 0.0 if abs(value) < 1e-12 else value + 0.0
    places = 0 if value == 0 else digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, places):{sign}.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def columns(rows: Sequence[Sequence[str]], left: int | None = None) -> list[str]:
    """Return rows as aligned lines, with the first ``left`` columns flush left: all of them by default."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:left], widths)]
        cells += [cell.rjust(width) for cell, width in zip(row[len(cells) :], widths[len(cells) :])]
        lines.append("  ".join(cells).rstrip())
    return lines


def names(cases: Iterable[Case], most: int | None = None) -> str:
    """Return the names of cases in one line.

    :param most: number of cases that are named; the others are counted. By default all are named.
    """
    cases = list(cases)
    if most is not None and len(cases) > most:
        return f"{names(cases[:most])}; and {len(cases) - most} more"
    return "; ".join(f"{case.label} {case.variant}, {case.nodes} node(s)" for case in cases)


def short_name(case: Case) -> str:
    """Return the name of a case in a line of its own: without the number of nodes where that is one."""
    return f"{case.label} {case.variant}" + (f", {case.nodes} nodes" if case.nodes > 1 else "")


def speak_as(command: str) -> None:
    """Set the command that all messages begin with: the one that the person typed."""
    global _speaker
    _speaker = command


def type_with(before: str) -> None:
    """Set what stands before our commands in messages, as the person typed it: ``ci/``, for example."""
    global _before
    _before = before


def speaker() -> str:
    """Return the name of the command that the person typed."""
    return _speaker


def typed(command: str) -> str:
    """Return one of our commands as the person has to type it."""
    return f"{_before}{command}"


def say(text: str) -> None:
    """Print a message, which begins with the command that the person typed, in order with ReFrame's output."""
    print(f"{_speaker}: {text}", flush=True)


def size(count: float) -> str:
    """Return a number of bytes in words.

    >>> [size(count) for count in (8 << 20, 11 << 30, 512)]
    ['8 MiB', '11 GiB', '512 B']
    """
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{number(count / factor, 3)} {unit}"
    return f"{count:.0f} B"
