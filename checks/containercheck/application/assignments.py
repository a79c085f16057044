"""What ``-S`` sets: a variable, or a check, that does not exist is an error, and would be a line early in the log.

ReFrame hands a check the values, and nothing of the names that it could not place: they are read from its command line.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from reframe.core.exceptions import ReframeError
from reframe.core.pipeline import RegressionTest

from containercheck.application.command_line import CommandLine
from containercheck.site import extras
from containercheck.site.extras import Software
from containercheck.site.sites import Site


class UnknownVariable(ReframeError):
    """Something is set that does not exist. The commands in ``ci/`` know it by its name, and run nothing then."""


def require_known(of: type, argv: Sequence[str] | None = None) -> None:
    """Check all that the command line sets for a check.

    :param argv: the command line's words; ReFrame's own by default.
    :raises UnknownVariable: a variable does not exist, or no check of that name; the message has the nearest one.
    """
    words = CommandLine.parse(argv).assignments
    # Once for all of them.
    loaded = {one.__name__: one for one in _below(RegressionTest)} if words else {}
    for word in words:
        problem = _problem(of, word, loaded)
        if problem:
            raise UnknownVariable(f"-S {word}: {problem}")


def _problem(of: Any, word: str, loaded: Mapping[str, Any]) -> str:
    """Return what is wrong with one setting, as far as it is for this check; an empty text where nothing is."""
    name, equals, _ = word.partition("=")
    if not equals:
        return "it needs a name and a value, as in -S rounds=10"
    if "." not in name:
        # Other checks of the session may have it, ours or not.
        known = any(name in one.var_space for one in loaded.values())
        return "" if known else _unknown(of, name, "no check has a variable")
    # What is set in a fixture is named check.fixture.variable.
    check, _, variable = name.partition(".")
    if check == of.__name__:
        known = "." in variable or variable in of.var_space
        return "" if known else _unknown(of, variable, f"{check} has no variable")
    tests = _tests(loaded.values())
    if check in tests or check in (names := {*tests, *extras.checks()}):
        return ""
    if check in loaded:
        return f"{check} is a base class, of which nothing is set: for all checks leave it out (-S {variable}=...)"
    near = difflib.get_close_matches(check, sorted(names), 1)
    return f"there is no check {check}: {f'did you mean {near[0]}?' if near else ', '.join(sorted(names))}"


def _unknown(of: Any, variable: str, said: str) -> str:
    if variable in of.param_space.params:
        return f"{said} {variable}, which is a parameter: select by it, as in -n '{of.__name__}%{variable}=...'"
    # A namespace of ReFrame's, whose items it iterates over.
    known = [name for name, _ in of.var_space.items() if not name.startswith("_")]
    near = difflib.get_close_matches(variable, known, 1)
    for place, kind in ((f"software: {of.__name__}: ", Software), ("", Site)):
        if variable in (one.name for one in fields(kind) if "type" in one.metadata):
            return f"{said} {variable}; in the site file it is extras: {extras.NAMESPACE}: {place}{variable}"
    meant = f"did you mean {near[0]}?" if near else f"reframe --describe -n {of.__name__} lists them"
    return f"{said} {variable}: {meant}"


def _below(of: type) -> set[type]:
    """Return all classes that are derived from one, as far as they were loaded."""
    found: set[type] = set(of.__subclasses__())
    return found.union(*map(_below, found))


def _tests(classes: Iterable[type]) -> list[str]:
    """Return the names of those that are tests: what ReFrame found in a file, and no base class of others."""
    found = {one: getattr(sys.modules.get(one.__module__), "_rfm_test_registry", ()) for one in classes}
    return [one.__name__ for one, registry in found.items() if one in registry]
