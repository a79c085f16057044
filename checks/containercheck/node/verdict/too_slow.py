"""Messages about a check that failed: which figures failed, and which might have, after more rounds."""

from typing import Dict, Iterable, List, Sequence, Tuple

from containercheck.node.verdict.comparison import Comparison


def lines(comparisons: Iterable[Comparison]) -> List[str]:
    """Return a line that names all figures that failed, and lines for those that may fail; none where none failed.

    Figures that are compared with another side, or better than their reference, have lines of their own.
    """
    comparisons = list(comparisons)
    groups: Dict[Tuple[str, str, object], List[Comparison]] = {}
    for comparison in comparisons:
        if comparison.failed:
            # Each reference that a figure is better than needs a new value of its own.
            figure = comparison.figure.name if comparison.vanished else None
            key = (comparison.baseline_label, comparison.subject_label, figure)
            groups.setdefault(key, []).append(comparison)
    messages = [_failed(group) for group in groups.values()]
    return messages + _may_fail([comparison for comparison in comparisons if comparison.may_fail]) if messages else []


def _failed(group: Sequence[Comparison]) -> str:
    if len(group) == 1:
        return group[0].failure
    details = {comparison.details for comparison in group}
    names = ", ".join(
        _with_size(comparison) if len(details) == 1 else f"{_with_size(comparison)} ({comparison.details})"
        for comparison in group
    )
    common = f" ({details.pop()})" if len(details) == 1 else ""
    return f"{len(group)} figures are worse than {group[0].baseline_label} in this session: {names}{common}"


def _with_size(comparison: Comparison) -> str:
    return f"{comparison.figure.name} by {comparison.size}{comparison.uncertainty}"


def _may_fail(comparisons: Iterable[Comparison]) -> List[str]:
    """Return a line for each answer on open figures: it names the figures that share it."""
    by_answer: Dict[str, List[Comparison]] = {}
    for comparison in comparisons:
        by_answer.setdefault(comparison.answer, []).append(comparison)
    messages = []
    for answer, group in by_answer.items():
        *before, last = (f"{comparison.figure.name} ({comparison.size} {comparison.direction})" for comparison in group)
        if before:
            last = f"{', '.join(before)} and {last}"
            messages.append(f"{last} are {answer.replace('its reference', 'their references')}")
        else:
            messages.append(f"{last} is {answer}")
    return messages
