"""The checks that the application files have, by name, read from their text; and the constants of any program."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from conftest import REPOSITORY

#: A check, with the lines of its class.
CHECK = re.compile(r"^@rfm\.simple_test\nclass (\w+)(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def checks_in(text: str) -> list[tuple[str, str]]:
    """Return the checks of a file, each with the lines of its class."""
    return CHECK.findall(text)


def _checks() -> Iterator[tuple[str, str]]:
    for path in sorted((REPOSITORY / "checks").glob("*.py")):
        yield from checks_in(path.read_text())


def all_checks() -> set[str]:
    """Return the names of all checks."""
    return {name for name, _ in _checks()}


def checks_of_plain_runs() -> set[str]:
    """Return the names of the checks of which a plain run has cases: all but those that have full axes only."""
    return {name for name, text in _checks() if "    full_only = True\n" not in text}


def check_of(name: str) -> Any:
    """Return the class of a check."""
    modules = (importlib.import_module(path.stem) for path in (REPOSITORY / "checks").glob("*.py"))
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def imported(path: Path) -> Iterator[str]:
    """Yield the names of the modules that a file imports; ``from a import b`` counts as a.b, which may be none."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def constants_of(tree: ast.Module) -> list[Any]:
    """Return the constants of a program without its docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    told = {node.body[0].value for node in ast.walk(tree) if isinstance(node, documented) and ast.get_docstring(node)}
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in told]
