"""The full axes: the cases that a plain session does not generate, and the line that says how many they are.

ReFrame says of a case that its check skips in its initialisation nothing but in its verbose log. What was left out is
counted here, and told when the process ends: after a listing, or after a run's results.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Sequence
from types import SimpleNamespace

from reframe.core.logging import getlogger
from reframe.core.pipeline import RegressionTest
from reframe.frontend import filters

from containercheck.application.command_line import CommandLine

#: How the cases of the full axes are asked for.
REQUEST = "-S full=yes, or --mode=full with config/common.py"

_left_out: list[RegressionTest] = []


def leave_out(check: RegressionTest) -> None:
    """Keep ReFrame from generating a case, and count it.

    :raises SkipTestError: always; ReFrame then goes on with the next case.
    """
    # What no partition has is not generated with the full axes either.
    if check.valid_systems:
        if not _left_out:
            atexit.register(_tell)
        _left_out.append(check)
    check.skip(f"belongs to the full axes: {REQUEST}")


def line(checks: Sequence[RegressionTest], command_line: CommandLine) -> str:
    """Return the line about cases that were left out; empty where the command line would not select any of them.

    :param checks: the cases that were left out.
    """
    count = len(selected(checks, command_line))
    if not count or command_line.restores:
        return ""
    one = count == 1
    matching = " and matches the selection" if one else " and match the selection"
    asked = command_line.names or command_line.excluded_names or command_line.tags or command_line.excluded_tags
    return (
        f"{count} more case{'' if one else 's'} belong{'s' if one else ''} to the full axes"
        f"{matching if asked else ''}: {REQUEST}"
    )


def selected(checks: Iterable[RegressionTest], command_line: CommandLine) -> list[RegressionTest]:
    """Return the cases that ReFrame would select by name and tag."""
    wanted = [filters.have_not_name(name) for name in command_line.excluded_names]
    wanted += [filters.have_any_name(command_line.names)] if command_line.names else []
    wanted += [filters.have_not_tag(tag) for tag in command_line.excluded_tags]
    wanted += [filters.have_tag(tag) for tag in command_line.tags]
    return [check for check in checks if all(matches(SimpleNamespace(check=check)) for matches in wanted)]


def _tell() -> None:
    text = line(_left_out, CommandLine.parse())
    if text:
        getlogger().info(text)
