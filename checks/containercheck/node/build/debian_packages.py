"""Prints the Debian packages that checks state: what is installed for their bare programs, where that is asked for.

    python3 checks/containercheck/node debian-packages [DIRECTORY...]

Read are the check files of these directories, by default of ``checks/``, and none of them is run: this Python may have
no ReFrame yet. A check states packages as ``debian = ["name", ...]``, and those of C++ headers in ``headers``.

Standard library only, Python 3.6 or newer.
"""

import argparse
import ast
import sys
from pathlib import Path
from typing import Dict, Iterator, List

from containercheck.node.project import CHECKS

#: The facts that state packages; those of the second are the values of a dictionary.
LIST, DICTIONARY = "debian", "headers"


class StatementError(Exception):
    """Packages are stated in a way that cannot be read; the message says where."""


def packages_of(path: Path) -> List[str]:
    """Return the packages that the checks of a file state, in their order.

    :raises StatementError: they are not written down as a list of names; or the file is no Python.
    """
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    except (SyntaxError, ValueError) as error:
        raise StatementError(f"{path}: it is no Python that {sys.version.split()[0]} reads: {error}") from None
    found: List[str] = []
    for name, node in _facts(tree):
        try:
            value = ast.literal_eval(node)
        except ValueError:
            value = None
        given = list(value.values()) if name == DICTIONARY and isinstance(value, dict) else value
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            kind = "a dictionary" if name == DICTIONARY else 'a list of names, as in ["gromacs"]'
            raise StatementError(
                f"{path}:{node.lineno}: {name} is read without running the file: write {kind} as it stands"
            )
        found += given
    return found


def _facts(tree: ast.AST) -> Iterator:
    """Yield name and value of the facts that state packages, of all classes."""
    for one in ast.walk(tree):
        for statement in one.body if isinstance(one, ast.ClassDef) else ():
            if isinstance(statement, ast.Assign):
                names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
                for name in names:
                    if name in (LIST, DICTIONARY):
                        yield name, statement.value


def packages(directories: List[Path]) -> Dict[str, None]:
    """Return the packages of all checks in some directories, each once, by file.

    :raises StatementError: see :func:`packages_of`.
    """
    files = [path for directory in directories for path in sorted(directory.glob("*.py"))]
    return {package: None for path in files for package in packages_of(path)}


def main() -> None:
    """Print them, a line each; or one error, and exit status 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", nargs="*", type=Path, metavar="DIRECTORY", help="default: the project's checks")
    try:
        found = packages(parser.parse_args().directories or [CHECKS])
    except StatementError as error:
        sys.exit(f"error: {error}")
    sys.stdout.write("".join(f"{package}\n" for package in found))
