"""Check the declarations of an application file when it loads: a check that would compare nothing stops the session."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

#: Similarity from which on an attribute's name counts as a misspelt name of a fact.
ALIKE = 0.85
#: Package of the library, whose own classes are not checked.
_LIBRARY = __name__.partition(".")[0]


def require(check: Any) -> None:
    """Stop the session, with one line, if a check misspells a fact, or has no figures without ``only_runs``.

    ReFrame would make a warning of any other exception, leave out the check, and pass.

    :param check: a check after its initialisation.
    :raises SystemExit: the message says what is wrong, and in which file.
    """
    of: Any = type(check)
    problem = _misspelt(of)
    if not problem and not check.figures and not check.only_runs and not _uses(type(check), "figures"):
        problem = f"has no figures: {NOTHING}"
    if problem:
        path = inspect.getfile(type(check))
        relative = os.path.relpath(path)
        shown = path if relative.startswith(os.pardir) else relative
        sys.exit(f"containercheck: {shown}: {type(check).__name__} {problem}")


#: Consequence of a check without figures, and what to do.
NOTHING = "it would pass with nothing measured. State figures = [Figure(...)], or only_runs = True where it is to"


@functools.cache
def _misspelt(of: Any) -> str:
    """Return which fact a class misspells, so that nothing reads it; empty for none.

    ReFrame's variables and parameters of the class, and attributes that its own methods use, are not misspelt.
    """
    known = set().union(
        *(vars(base) for base in of.__mro__ if not _is_own(base)), of.var_space.keys(), of.param_space.params
    )
    facts = [name for name in known if not name.startswith("_")]
    for base in filter(_is_own, of.__mro__):
        for name, value in vars(base).items():
            if name.startswith("_") or name in known or callable(value) or hasattr(value, "__get__"):
                continue
            near = difflib.get_close_matches(name, facts, 1, ALIKE)
            if near and not _uses(of, name):
                return f"sets {name!r}, which nothing reads: did you mean {near[0]!r}?"
    return ""


def _is_own(base: type) -> bool:
    """Tell whether a class is an application's, and not the library's, ReFrame's or Python's."""
    return base.__module__.partition(".")[0] not in (_LIBRARY, "reframe", "builtins")


def _uses(of: type, name: str) -> bool:
    """Tell whether a method of the application uses an attribute of that name."""
    return any(name in function.__code__.co_names for function in _methods(of))


def _methods(of: type) -> Iterator[FunctionType]:
    for value in (value for base in filter(_is_own, of.__mro__) for value in vars(base).values()):
        function = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
        if isinstance(function, FunctionType):
            # ReFrame wraps hooks.
            yield inspect.unwrap(function)
