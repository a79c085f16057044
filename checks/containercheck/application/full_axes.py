"""Leave out the cases of the full axes in a plain session, and print how many they are.

ReFrame reports a case that is skipped in its initialisation only in its verbose log. So these cases are counted here,
and their number is printed when the process ends: after a listing, or after a run's results.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Sequence
from types import SimpleNamespace

from reframe.core.logging import getlogger
from reframe.core.pipeline import RegressionTest
from reframe.frontend import filters

from containercheck.application.command_line import CommandLine

#: Options that generate the cases of the full axes, for messages.
REQUEST = "-S full=yes, or --mode=full with config/common.py"

_left_out: list[RegressionTest] = []


def leave_out(check: RegressionTest) -> None:
    """Keep ReFrame from generating a case, and count it.

    :raises SkipTestError: always; ReFrame then goes on with the next case.
    """
    # A case for no partition is not generated with the full axes either.
    if check.valid_systems:
        if not _left_out:
            atexit.register(_print_line)
        _left_out.append(check)
    check.skip(f"belongs to the full axes: {REQUEST}")


def line(checks: Sequence[RegressionTest], command_line: CommandLine) -> str:
    """Return the line about cases that were left out; empty if the command line would select none of them.

    :param checks: the cases that were left out.
    """
    count = len(selected(checks, command_line))
    if not count or command_line.restores:
        return ""
    is_one = count == 1
    matching = " and matches the selection" if is_one else " and match the selection"
    selects = command_line.names or command_line.excluded_names or command_line.tags or command_line.excluded_tags
    return (
        f"{count} more case{'' if is_one else 's'} belong{'s' if is_one else ''} to the full axes"
        f"{matching if selects else ''}: {REQUEST}"
    )


def selected(checks: Iterable[RegressionTest], command_line: CommandLine) -> list[RegressionTest]:
    """Return the cases that ReFrame would select by name and tag."""
    wanted = [filters.have_not_name(name) for name in command_line.excluded_names]
    wanted += [filters.have_any_name(command_line.names)] if command_line.names else []
    wanted += [filters.have_not_tag(tag) for tag in command_line.excluded_tags]
    wanted += [filters.have_tag(tag) for tag in command_line.tags]
    return [check for check in checks if all(matches(SimpleNamespace(check=check)) for matches in wanted)]


def _print_line() -> None:
    message = line(_left_out, CommandLine.parse())
    if message:
        getlogger().info(message)
