"""Prints the Debian packages that checks state for their bare programs.

    python3 checks/containercheck/node debian-packages [DIRECTORY...]

reads the check files of these directories, by default of ``checks/``, without running them: this Python may not have
ReFrame yet. A check states packages as ``debian = ["name", ...]``, and those of C++ headers in ``headers``.

Standard library only, Python 3.6 or newer.
"""

import argparse
import ast
import sys
from pathlib import Path
from typing import Dict, Iterator, List

#: Attributes that state packages: a list of packages, and a dictionary of packages by header.
LIST, DICTIONARY = "debian", "headers"
#: Directory of this project's checks.
CHECKS = Path(__file__).resolve().parents[3]


class StatementError(Exception):
    """A check states packages in a form that cannot be read; the message says where."""


def packages_of(path: Path) -> List[str]:
    """Return the packages that the checks of a file state, in the order of the file.

    :raises StatementError: they are not written as a literal list of names, or the file cannot be parsed.
    """
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    except (SyntaxError, ValueError) as error:
        raise StatementError(f"{path}: it is no Python that {sys.version.split()[0]} reads: {error}") from None
    stated: List[str] = []
    for name, node in _statements(tree):
        try:
            value = ast.literal_eval(node)
        except ValueError:
            value = None
        names = list(value.values()) if name == DICTIONARY and isinstance(value, dict) else value
        if not isinstance(names, list) or not all(isinstance(package, str) for package in names):
            kind = "a dictionary" if name == DICTIONARY else 'a list of names, as in ["gromacs"]'
            raise StatementError(
                f"{path}:{node.lineno}: {name} is read without running the file: write {kind} as it stands"
            )
        stated += names
    return stated


def _statements(tree: ast.AST) -> Iterator:
    """Yield name and value of each attribute of a class that states packages."""
    for node in ast.walk(tree):
        for statement in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(statement, ast.Assign):
                names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
                for name in names:
                    if name in (LIST, DICTIONARY):
                        yield name, statement.value


def packages(directories: List[Path]) -> Dict[str, None]:
    """Return the packages of all checks in the given directories, each once, in the order of the files.

    :raises StatementError: see :func:`packages_of`.
    """
    files = [path for directory in directories for path in sorted(directory.glob("*.py"))]
    return {package: None for path in files for package in packages_of(path)}


def main() -> None:
    """Print the packages, one per line; or print one error and exit with status 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", nargs="*", type=Path, metavar="DIRECTORY", help="default: the project's checks")
    try:
        names = packages(parser.parse_args().directories or [CHECKS])
    except StatementError as error:
        sys.exit(f"error: {error}")
    sys.stdout.write("".join(f"{name}\n" for name in names))
