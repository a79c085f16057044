"""Print what a session would take, in all and by check, without running it."""

from __future__ import annotations

from collections.abc import Sequence

from containercheck.command import run
from containercheck.results.formatting import speak_as
from containercheck.session.reframe_process import Workplace


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the estimate, and return the exit status."""
    speak_as("estimate")
    return run.session(argv, place, command="estimate")
