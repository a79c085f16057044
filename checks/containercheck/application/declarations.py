"""What an application file declares, looked at when it loads: a check that would compare nothing stops the session."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

#: How alike an attribute's name and that of a fact have to be, for the one to be meant by the other.
ALIKE = 0.85
#: The library, whose own classes are not looked at.
_LIBRARY = __name__.partition(".")[0]


def require(check: Any) -> None:
    """Stop the session, in one line, where a check misspells a fact, or has no figures and does not say so.

    To ReFrame any exception here would be a warning, and a session without this check that passes.

    :param check: a check after its initialisation.
    :raises SystemExit: it says what is wrong, and in which file.
    """
    of: Any = type(check)
    problem = _misspelt(of)
    if not problem and not check.figures and not check.only_runs and not _uses(type(check), "figures"):
        problem = f"has no figures: {NOTHING}"
    if problem:
        path = inspect.getfile(type(check))
        near = os.path.relpath(path)
        where = path if near.startswith(os.pardir) else near
        sys.exit(f"containercheck: {where}: {type(check).__name__} {problem}")


#: What a check without figures would come to, and what to do.
NOTHING = "it would pass with nothing measured. State figures = [Figure(...)], or only_runs = True where it is to"


@functools.cache
def _misspelt(of: Any) -> str:
    """Return which fact a class sets under a name that nothing reads; an empty text for none.

    What the class declares as ReFrame's variables and parameters, and what its own methods read, is its own business.
    """
    known = set().union(
        *(vars(one) for one in of.__mro__ if not _is_own(one)), of.var_space.keys(), of.param_space.params
    )
    facts = [name for name in known if not name.startswith("_")]
    for one in filter(_is_own, of.__mro__):
        for name, value in vars(one).items():
            if name.startswith("_") or name in known or callable(value) or hasattr(value, "__get__"):
                continue
            near = difflib.get_close_matches(name, facts, 1, ALIKE)
            if near and not _uses(of, name):
                return f"sets {name!r}, which nothing reads: did you mean {near[0]!r}?"
    return ""


def _is_own(one: type) -> bool:
    """Tell whether a class is an application's, and not the library's, ReFrame's or Python's."""
    return one.__module__.partition(".")[0] not in (_LIBRARY, "reframe", "builtins")


def _uses(of: type, name: str) -> bool:
    """Tell whether a method of an application reads or sets an attribute of that name."""
    return any(name in function.__code__.co_names for function in _methods(of))


def _methods(of: type) -> Iterator[FunctionType]:
    for value in (value for one in filter(_is_own, of.__mro__) for value in vars(one).values()):
        function = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
        if isinstance(function, FunctionType):
            # ReFrame wraps hooks.
            yield inspect.unwrap(function)
