"""Format numbers, columns and names of cases, and print messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from containercheck.job.texts import number as number
from containercheck.job.texts import size as size
from containercheck.results.cases import Case

#: Name of the command that the user typed, and the words before it; ``ci/`` for a script of the checkout.
_speaker, _before = "run", "containercheck "


def count(amount: int, noun: str) -> str:
    """Return a number with its noun: ``1 node``, ``2 nodes``."""
    return f"{amount} {noun}{'' if amount == 1 else 's'}"


def first_line(text: str) -> str:
    """Return the first line of a text; empty for an empty text."""
    return text.partition("\n")[0]


def columns(rows: Sequence[Sequence[str]], left: int | None = None) -> list[str]:
    """Return rows as aligned lines; the first ``left`` columns are flush left, by default all columns."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:left], widths)]
        cells += [cell.rjust(width) for cell, width in zip(row[len(cells) :], widths[len(cells) :])]
        lines.append("  ".join(cells).rstrip())
    return lines


def names(cases: Iterable[Case], most: int | None = None) -> str:
    """Return the names of cases in one line.

    :param most: number of cases to name; the others are counted. By default all are named.
    """
    cases = list(cases)
    if most is not None and len(cases) > most:
        return f"{names(cases[:most])}; and {len(cases) - most} more"
    return "; ".join(f"{case.label} {case.variant}, {case.nodes} node(s)" for case in cases)


def first(texts: Sequence[str], most: int) -> str:
    """Return a list of the first texts, and the number of the others."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def short_name(case: Case) -> str:
    """Return the name of a case for a line about this case only. One node is not shown."""
    return f"{case.label} {case.variant}" + (f", {case.nodes} nodes" if case.nodes > 1 else "")


def speak_as(command: str) -> None:
    """Set the command at the beginning of all messages: the command that the user typed."""
    global _speaker
    _speaker = command


def type_with(before: str) -> None:
    """Set the words before containercheck's commands in messages, as the user typed them: ``ci/``, for example."""
    global _before
    _before = before


def speaker() -> str:
    """Return the name of the command that the user typed."""
    return _speaker


def typed(command: str) -> str:
    """Return a command of containercheck as the user has to type it."""
    return f"{_before}{command}"


def say(text: str) -> None:
    """Print a message after the name of the typed command, in order with ReFrame's output."""
    print(f"{_speaker}: {text}", flush=True)
