"""The house: who imports whom, and how long files are."""

from __future__ import annotations

import ast
import statistics

import pytest
from conftest import REPOSITORY
from containercheck import architectures

CHECKS = REPOSITORY / "checks"
PACKAGE = CHECKS / "containercheck"
FILES = {
    ".".join(("containercheck", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
APPLICATIONS = sorted(CHECKS.glob("*.py"))


def imports(path):
    """Return the library's modules that a file imports, at its top or in a function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            # What is imported from a package is a module of it, or something that its __init__ has.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in FILES else node.module for name in names]
        found |= {name for name in names if name in FILES}
    return found


def circle(graph):
    """Return modules that import each other in a circle, or an empty list."""
    finished = set()

    def search(name, way):
        if name in way:
            return [*way[way.index(name) :], name]
        if name in finished:
            return []
        for other in sorted(graph.get(name, ())):
            found = search(other, [*way, name])
            if found:
                return found
        finished.add(name)
        return []

    return next(filter(None, (search(name, []) for name in sorted(graph))), [])


def test_a_circle_is_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert circle({"a": {"b", "c"}, "b": set(), "c": {"d"}, "d": {"c"}}) == ["c", "d", "c"]
    assert circle({"a": {"a"}}) == ["a", "a"]


def test_no_files_import_each_other_in_a_circle():
    graph = {name: imports(path) for name, path in FILES.items()}
    assert "containercheck.check" in graph["containercheck"]
    assert "containercheck.verdict.reading" in graph["containercheck.facts"]
    assert circle(graph) == []


def test_who_is_known_by_none_is_known_by_none():
    knowing = {name for name, path in FILES.items() if "containercheck.check" in imports(path)}
    assert knowing == {"containercheck"}


@pytest.mark.parametrize("room", ["job", "build"])
def test_what_runs_elsewhere_imports_little(room):
    allowed = {
        f"containercheck.{name}"
        for name in ("architectures", "contract", "lockdirs", "lockfiles", "locks", "mpi", "pins", "texts", "variables")
    }
    allowed |= {f"containercheck.verdict.{name}" for name in ("reading", "reasons", "evaluation", "sequential")}
    for name, path in FILES.items():
        if name.startswith(f"containercheck.{room}."):
            others = {one for one in imports(path) if not f"{one}.".startswith(f"containercheck.{room}.")}
            assert others <= allowed, name


def test_what_runs_elsewhere_reaches_nothing_of_reframes_side():
    """Through what it imports, too: of the verdict only what the job asks for, and nothing that knows a check."""
    todo = [name for name in FILES if name.startswith(("containercheck.job.", "containercheck.build."))]
    for name in todo:
        todo += imports(FILES[name]) - set(todo)
    rooms = {name.split(".")[1] for name in todo}
    assert rooms == {
        "architectures",
        "contract",
        "lockdirs",
        "lockfiles",
        "locks",
        "mpi",
        "pins",
        "texts",
        "variables",
        "verdict",
        "job",
        "build",
    }
    ours = {f"containercheck.verdict.{name}" for name in ("record", "outcome", "comparison")}
    assert not ours & set(todo)


#: What depends on the architecture, and stands in architectures.py alone.
SPECIAL = {
    word
    for one in architectures.KNOWN.values()
    for word in (one.name, one.debian, one.triplet, *one.kernels)
    # As short as other words are.
    if word not in ("SSE2",)
}


def architectures_named(path):
    """Return what a file says of an architecture, but in its comments: of Python its docstrings are comments too."""
    text = path.read_text()
    if path.suffix != ".py":
        said = [line for line in text.splitlines() if not line.lstrip().startswith(("#", "/*", "*", "//"))]
    else:
        tree = ast.parse(text)
        told = {
            node.body[0].value
            for node in ast.walk(tree)
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None
        }
        constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in told)
        said = [node.value if isinstance(node.value, str) else repr(node.value) for node in constants]
    return sorted(word for word in SPECIAL if any(word in one for one in said))


def test_what_a_file_says_of_an_architecture_is_found(tmp_path):
    path = tmp_path / "check.py"
    path.write_text('"""Of x86_64."""\n\nSETS = ["AVX_256"]  # aarch64\nLIBRARIES = "/usr/lib/aarch64-linux-gnu"\n')
    assert architectures_named(path) == ["AVX_256", "aarch64", "aarch64-linux-gnu"]
    path = tmp_path / "image.def"
    path.write_text("# On x86_64:\n%post\n    [ $(uname -m) = ppc64le ] || exit 1\n")
    assert architectures_named(path) == ["ppc64le"]


@pytest.mark.parametrize(
    "path",
    [
        *APPLICATIONS,
        *(path for name, path in FILES.items() if name != "containercheck.architectures"),
        *sorted((REPOSITORY / "images").glob("*.def")),
        # For which wheels are pinned is said in the requirements: it is the project's own business.
        *sorted(path for path in (CHECKS / "src").glob("*/*") if path.suffix != ".txt" or path.name == "hpccinf.txt"),
    ],
    ids=lambda path: path.name,
)
def test_only_one_file_names_an_architecture(path):
    assert architectures_named(path) == []


@pytest.mark.parametrize("path", FILES.values(), ids=FILES.keys())
def test_no_file_is_too_long_to_be_read_at_once(path):
    assert len(path.read_text().splitlines()) <= 300


@pytest.mark.parametrize("path", APPLICATIONS, ids=lambda path: path.stem)
def test_an_application_file_is_short(path):
    assert len(path.read_text().splitlines()) <= 110


def test_application_files_are_short_on_average():
    assert statistics.mean(len(path.read_text().splitlines()) for path in APPLICATIONS) < 75
