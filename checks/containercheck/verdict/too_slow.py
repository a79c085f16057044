"""The lines of a check that failed: which figures did, and which look as if they would, had there been more rounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from containercheck.verdict.comparison import Comparison


def lines(comparisons: Iterable[Comparison]) -> list[str]:
    """Return a line that names all figures that failed, and one for those that may have; nothing where none failed.

    Figures that are compared with another side, or better than their reference, have lines of their own.
    """
    comparisons = list(comparisons)
    groups: dict[tuple[str, str, object], list[Comparison]] = {}
    for one in comparisons:
        if one.failed:
            # Each reference needs a value of its own.
            key = (one.baseline_label, one.subject_label, one.figure.name if one.vanished else None)
            groups.setdefault(key, []).append(one)
    found = [_failed(group) for group in groups.values()]
    return found + _uncertain([one for one in comparisons if one.may_fail]) if found else []


def _failed(group: Sequence[Comparison]) -> str:
    if len(group) == 1:
        return group[0].failure
    details = {one.details for one in group}
    named = ", ".join(_named(one) if len(details) == 1 else f"{_named(one)} ({one.details})" for one in group)
    common = f" ({details.pop()})" if len(details) == 1 else ""
    return f"{len(group)} figures are worse than {group[0].baseline_label} in this session: {named}{common}"


def _named(one: Comparison) -> str:
    return f"{one.figure.name} by {one.size}{one.uncertainty}"


def _uncertain(open_ones: Iterable[Comparison]) -> list[str]:
    """Return a line for each thing that is said of open figures, which names them."""
    alike: dict[str, list[Comparison]] = {}
    for one in open_ones:
        alike.setdefault(one.answer, []).append(one)
    found = []
    for answer, group in alike.items():
        *before, last = (f"{one.figure.name} ({one.size} {one.direction})" for one in group)
        if before:
            last = f"{', '.join(before)} and {last}"
            found.append(f"{last} are {answer.replace('its reference', 'their references')}")
        else:
            found.append(f"{last} is {answer}")
    return found
