"""The architecture: which floor imports which, and how long application files are."""

from __future__ import annotations

import ast
import graphlib
import re
import statistics
import subprocess
import sys

import pytest
from application_files import constants_of, imported
from conftest import REPOSITORY
from containercheck.job import architectures

CHECKS = REPOSITORY / "checks"
PACKAGE = CHECKS / "containercheck"
FILES = {
    ".".join(("containercheck", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
APPLICATIONS = sorted(CHECKS.glob("*.py"))


def imports(path):
    """Return the library's modules that a file imports, at its top or in a function."""
    assert not re.search(r"^ *from \.", path.read_text(), re.MULTILINE), f"{path}: a relative import"
    # What is imported from a package is a module of it, or something that its __init__ has.
    names = {name if name in FILES else name.rpartition(".")[0] for name in imported(path)}
    return names & FILES.keys()


def circle(graph):
    """Return modules that import each other in a circle, or an empty list."""
    try:
        return graphlib.TopologicalSorter(graph).prepare() or []
    except graphlib.CycleError as error:
        return error.args[1]


def test_no_files_import_each_other_in_a_circle():
    graph = {name: imports(path) for name, path in FILES.items()}
    assert "containercheck.job.outputs.reading" in graph["containercheck.application.declare"]
    assert circle(graph) == []


#: The floors of the library from the ground up: each imports only what lies below it, and of its own.
FLOORS = (
    "job",
    "reframe_internals",
    "site",
    "application",
    "sides",
    "software",
    "results",
    "check",
    "history",
    "session",
    "report",
    "command",
)
#: What application files reach all others by, which imports what they ask for when they do; and ``python -m``.
ENTRANCE = ("containercheck", "containercheck.__main__")


def floor(name):
    """Return the floor that a module is on."""
    return name.split(".")[1]


def upward(graph):
    """Return the imports from a floor that lies above."""
    return [
        f"{name} imports {other}"
        for name, others in sorted(graph.items())
        for other in sorted(others)
        if FLOORS.index(floor(other)) > FLOORS.index(floor(name))
    ]


def test_every_floor_imports_only_what_lies_below_it():
    graph = {name: imports(path) for name, path in FILES.items() if name not in ENTRANCE}
    assert {floor(name) for name in graph} == {*FLOORS}
    assert upward(graph) == []


def test_importing_the_package_imports_nothing_else():
    loaded = "[name for name in sys.modules if 'reframe' in name or 'ncheck.' in name]"
    code = f"import sys; import containercheck; print({loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


#: What depends on the architecture, and stands in job/architectures.py alone.
SPECIAL = {
    word
    for architecture in architectures.KNOWN.values()
    for word in (architecture.name, architecture.debian, architecture.triplet, *architecture.kernels)
    # As short as other words are.
    if word not in ("SSE2",)
}


def architectures_named(path):
    """Return what a file says of an architecture, but in its comments: of Python its docstrings are comments too."""
    text = path.read_text()
    if path.suffix != ".py":
        said = [line for line in text.splitlines() if not line.lstrip().startswith(("#", "/*", "*", "//"))]
    else:
        said = [str(value) for value in constants_of(ast.parse(text))]
    return sorted(word for word in SPECIAL if any(word in sentence for sentence in said))


@pytest.mark.parametrize(
    "path",
    [
        *APPLICATIONS,
        *(path for name, path in FILES.items() if name != "containercheck.job.architectures"),
        *sorted((REPOSITORY / "images").glob("*.def")),
        # For which wheels are pinned is said in the requirements: it is the project's own business.
        *sorted(path for path in (CHECKS / "src").glob("*/*") if path.suffix != ".txt" or path.name == "hpccinf.txt"),
    ],
    ids=lambda path: path.name,
)
def test_only_one_file_names_an_architecture(path):
    assert architectures_named(path) == []


@pytest.mark.parametrize("path", APPLICATIONS, ids=lambda path: path.stem)
def test_an_application_file_is_short(path):
    assert len(path.read_text().splitlines()) <= 115


def test_application_files_are_short_on_average():
    assert statistics.mean(len(path.read_text().splitlines()) for path in APPLICATIONS) < 80
