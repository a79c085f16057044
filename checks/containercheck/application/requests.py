"""Answer the command line's requests of checks: variables that ``-S`` sets, and the cases of the full axes.

ReFrame prints only a warning about a variable that it could not set, early in its log, and reports a case that is
skipped in its initialisation only in its verbose log.
"""

from __future__ import annotations

import atexit
import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from reframe.core.exceptions import ReframeError
from reframe.core.logging import getlogger

from containercheck import reframe_internals
from containercheck.application.command_line import CommandLine, loaded_classes
from containercheck.site import extras
from containercheck.site.extras import Software
from containercheck.site.sites import Site

#: Options that generate the cases of the full axes, for messages.
REQUEST = "--full, or -S full=yes with reframe"

_left_out: list[Any] = []


class UnknownVariable(ReframeError):
    """``-S`` sets something that does not exist. The commands in ``ci/`` look for this name, and then run nothing."""


def require_known(of: type, argv: Sequence[str] | None = None) -> None:
    """Check all that the command line sets for a check.

    :param argv: words of the command line; ReFrame's own by default.
    :raises UnknownVariable: a variable or a check does not exist; the message has the nearest name.
    """
    words = CommandLine.parse(argv).assignments
    loaded = loaded_classes() if words else {}
    for word in words:
        problem = _problem(of, word, loaded)
        if problem:
            raise UnknownVariable(f"-S {word}: {problem}")


def _problem(of: Any, word: str, loaded: Mapping[str, Any]) -> str:
    """Return the problem of a setting for this check; empty for none, and for a setting of another check."""
    name, equals, _ = word.partition("=")
    if not equals:
        return "it needs a name and a value, as in -S rounds=10"
    # A variable of a fixture is named check.fixture.variable.
    check, dot, variable = name.partition(".")
    if not dot:
        # Other checks of the session may have it, of any library.
        exists = any(name in other.var_space for other in loaded.values())
        return "" if exists else _unknown(of, name, "no check has a variable")
    if check == of.__name__:
        exists = "." in variable or variable in of.var_space
        return "" if exists else _unknown(of, variable, f"{check} has no variable")
    tests = {other for other, class_ in loaded.items() if reframe_internals.is_test(class_)}
    if check in tests or check in (names := {*tests, *extras.checks()}):
        return ""
    if check in loaded:
        return f"{check} is a base class, of which nothing is set: for all checks leave it out (-S {variable}=...)"
    near = difflib.get_close_matches(check, sorted(names), 1)
    return f"there is no check {check}: {f'did you mean {near[0]}?' if near else ', '.join(sorted(names))}"


def _unknown(of: Any, variable: str, problem: str) -> str:
    """Return the message about an unknown variable, with what to set or select in its place."""
    if variable in of.param_space.params:
        return f"{problem} {variable}, which is a parameter: select by it, as in -n '{of.__name__}%{variable}=...'"
    # ReFrame's namespace iterates over items.
    public = [name for name, _ in of.var_space.items() if not name.startswith("_")]
    near = difflib.get_close_matches(variable, public, 1)
    for place, kind in ((f"software: {of.__name__}: ", Software), ("", Site)):
        if variable in extras.declared(kind):
            return f"{problem} {variable}; in the site file it is extras: {extras.NAMESPACE}: {place}{variable}"
    hint = f"did you mean {near[0]}?" if near else f"reframe --describe -n {of.__name__} lists them"
    return f"{problem} {variable}: {hint}"


def leave_out(check: Any) -> None:
    """Keep ReFrame from generating a case of the full axes, and count it for the line at the end.

    :raises SkipTestError: always; ReFrame then goes on with the next case.
    """
    # A case for no partition is not generated with the full axes either.
    if check.valid_systems:
        if not _left_out:
            # After a listing, or after a run's results.
            atexit.register(_print_line)
        _left_out.append(check)
    check.skip(f"belongs to the full axes: {REQUEST}")


def line(checks: Sequence[Any], command_line: CommandLine) -> str:
    """Return the line about cases that were left out; empty if the command line would select none of them.

    :param checks: the cases that were left out.
    """
    count = len(command_line.selected(checks))
    if not count or command_line.restores:
        return ""
    case, belongs, matches = ("case", "belongs", "matches") if count == 1 else ("cases", "belong", "match")
    matching = f" and {matches} the selection" if command_line.selects else ""
    return f"{count} more {case} {belongs} to the full axes{matching}: {REQUEST}"


def _print_line() -> None:
    if message := line(_left_out, CommandLine.parse()):
        getlogger().info(message)
