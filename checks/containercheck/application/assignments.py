"""Refuse what ``-S`` sets if no such variable or check exists: ReFrame would only print a warning early in its log.

ReFrame gives a check the values, but not the names that it could not assign: these are read from its command line.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reframe.core.exceptions import ReframeError
from reframe.core.pipeline import RegressionTest

from containercheck.application.command_line import CommandLine
from containercheck.site import extras
from containercheck.site.extras import Software
from containercheck.site.sites import Site


class UnknownVariable(ReframeError):
    """``-S`` sets something that does not exist. The commands in ``ci/`` look for this name, and then run nothing."""


def require_known(of: type, argv: Sequence[str] | None = None) -> None:
    """Check all that the command line sets for a check.

    :param argv: words of the command line; ReFrame's own by default.
    :raises UnknownVariable: a variable or a check does not exist; the message has the nearest name.
    """
    words = CommandLine.parse(argv).assignments
    loaded = {check.__name__: check for check in _subclasses(RegressionTest)} if words else {}
    for word in words:
        problem = _problem(of, word, loaded)
        if problem:
            raise UnknownVariable(f"-S {word}: {problem}")


def _problem(of: Any, word: str, loaded: Mapping[str, Any]) -> str:
    """Return what is wrong with a setting of this check; empty if nothing is, or it is for another check."""
    name, equals, _ = word.partition("=")
    if not equals:
        return "it needs a name and a value, as in -S rounds=10"
    if "." not in name:
        # Other checks of the session may have it, ours or not.
        exists = any(name in check.var_space for check in loaded.values())
        return "" if exists else _unknown(of, name, "no check has a variable")
    # A variable of a fixture is named check.fixture.variable.
    check, _, variable = name.partition(".")
    if check == of.__name__:
        exists = "." in variable or variable in of.var_space
        return "" if exists else _unknown(of, variable, f"{check} has no variable")
    tests = _tests(loaded.values())
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
    known = [name for name, _ in of.var_space.items() if not name.startswith("_")]
    near = difflib.get_close_matches(variable, known, 1)
    for place, kind in ((f"software: {of.__name__}: ", Software), ("", Site)):
        if variable in extras.declared(kind):
            return f"{problem} {variable}; in the site file it is extras: {extras.NAMESPACE}: {place}{variable}"
    hint = f"did you mean {near[0]}?" if near else f"reframe --describe -n {of.__name__} lists them"
    return f"{problem} {variable}: {hint}"


def _subclasses(of: type) -> set[type]:
    """Return all loaded classes that are derived from a class."""
    direct: set[type] = set(of.__subclasses__())
    return direct.union(*map(_subclasses, direct))


def _tests(classes: Iterable[type]) -> list[str]:
    """Return the names of the classes that ReFrame registered as tests, without base classes."""
    registries = {check: getattr(sys.modules.get(check.__module__), "_rfm_test_registry", ()) for check in classes}
    return [check.__name__ for check, registry in registries.items() if check in registry]
