"""Answer the command line's requests of checks: variables that ``-S`` sets, and the cases of the full axes.

ReFrame prints only a warning about a variable that it could not set, early in its log, and reports a case that is
skipped in its initialisation only in its verbose log.
"""

from __future__ import annotations

import argparse
import atexit
import difflib
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from reframe.core.exceptions import ReframeError
from reframe.core.logging import getlogger
from reframe.core.pipeline import RegressionTest
from reframe.core.runtime import runtime
from reframe.utility import osext

from containercheck import reframe_internals
from containercheck.site import extras
from containercheck.site.extras import Software
from containercheck.site.sites import Site

#: Options that generate the cases of the full axes, for messages.
REQUEST = "--full, or -S full=yes with reframe"

#: Letters of ReFrame's options without a value, which may be combined with another one in a word.
_LETTERS = "RVhlqrv"

_left_out: list[Any] = []


class UnknownVariable(ReframeError):
    """``-S`` sets something that does not exist. The commands in ``ci/`` look for this name, and then run nothing."""


def require_known(of: type, argv: Sequence[str] | None = None) -> None:
    """Check all that the command line sets for a check.

    :param argv: words of the command line; ReFrame's own by default.
    :raises UnknownVariable: a variable or a check does not exist; the message has the nearest name.
    """
    words = assignments(argv)
    loaded = loaded_classes() if words else {}
    for word in words:
        problem = _problem(of, word, loaded)
        if problem:
            raise UnknownVariable(f"-S {word}: {problem}")


def assignments(argv: Sequence[str] | None = None) -> list[str]:
    """Return the values of ``-S`` on a command line of ReFrame, and in the options of the mode that it names.

    :param argv: words of the command line; ReFrame's own by default.
    """
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-S", "--setvar", action="append", default=[])
    parser.add_argument("--mode")
    for letter in _LETTERS:
        parser.add_argument(f"-{letter}", action="store_true")
    words = list(sys.argv[1:] if argv is None else argv)
    given = parser.parse_known_args(words)[0]
    if given.mode:
        # ReFrame reads the mode's options first, and splits them like a shell.
        options = runtime().get_option(f"modes/@{given.mode}/options") or []
        words[:0] = [word for option in options for word in shlex.split(osext.expandvars(option))]
    return parser.parse_known_args(words)[0].setvar


def loaded_classes(of: Any = RegressionTest) -> dict[str, Any]:
    """Return all loaded classes of checks by name, base classes included."""
    classes: dict[str, Any] = {}
    for check in of.__subclasses__():
        classes.update({check.__name__: check, **loaded_classes(check)})
    return classes


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


def _print_line() -> None:
    getlogger().info(f"{len(_left_out)} more case(s) of all checks belong to the full axes: {REQUEST}")
