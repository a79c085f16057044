"""Reading what a program once printed, through a check's own figures and answers, as after a session."""

from __future__ import annotations

from pathlib import Path

from containercheck import outcome

OUTPUTS = Path(__file__).resolve().parent / "outputs"


def read(check: type, directory: str, ranks: int) -> outcome.Outcome:
    """Return the outcome of a bare run that left its output in a directory below ``ci/tests/outputs``."""
    run = {"round": 1, "side": outcome.BASELINE, "status": 0, "timed_out": False, "output": directory, "seconds": 1.0}
    record = {"runs": [run], "limit": 1.0}
    # Of a class, ReFrame gives a variable whose value is None as an object of its own.
    rank_count = check.rank_count if hasattr(check.rank_count, "read") else None
    return outcome.evaluate(record, OUTPUTS, check.figures, check.answers, rank_count, ranks)


def figures(check: type, directory: str, ranks: int) -> dict[str, float]:
    """Return the figures of such a run, which must be without fault."""
    result = read(check, directory, ranks)
    assert result.problems == []
    return {name: sides[outcome.BASELINE][0] for name, sides in result.figures.items()}
