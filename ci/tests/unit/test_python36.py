"""What runs in the build step and on the nodes needs no newer Python than 3.6, and nothing beside its library."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY
from containercheck.job.__main__ import ENTRIES, PROGRAMS

PACKAGE = REPOSITORY / "checks" / "containercheck"
#: Job scripts.
GOLDEN = REPOSITORY / "ci" / "tests" / "golden"
#: Scripts below checks/src that run with the nodes' Python.
SCRIPTS = {
    "imagefiles/imagefiles.py",
    "imagetransfer/imagetransfer.py",
    "isolation/isolation.py",
    "newerprocessor/newerprocessor.py",
    "startup/startup.py",
    "text/make_text.py",
}
#: What vermin finds only where it knows the type of the object: methods and arguments of paths and texts.
NEWER = {"removeprefix", "removesuffix", "is_relative_to", "missing_ok", "with_stem", "hardlink_to", "isascii"}


def imported(path):
    """Return the names of the modules that a file imports; ``from a import b`` counts as a.b, which may be none."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def files_of(module):
    """Return the files of a module of the library, or of one that a name is imported from: its own, its package's."""
    place = PACKAGE.joinpath(*module.split(".")[1:])
    own = [path for path in (place.with_suffix(".py"), place.parent.with_suffix(".py")) if path.exists()][:1]
    return own + [path.parent / "__init__.py" for path in own if path.parent != PACKAGE]


def programs_files():
    """Return all files of the library that its programs import, and the names of all else that they do."""
    found, others = [PACKAGE / "job/__main__.py"], set()
    programs = [f"containercheck.job.{module.partition(':')[0]}" for module in PROGRAMS.values()]
    programs += [f"containercheck.job.build.{module.partition(':')[0]}" for module in ENTRIES.values()]
    for path in found:
        for module in [*imported(path), *(programs if len(found) == 1 else [])]:
            if module.startswith("containercheck."):
                found += [path for path in files_of(module) if path not in found]
            else:
                others.add(module.split(".")[0])
    return found, others


def vermin(*paths):
    """Return what vermin says against these files; an empty text for nothing."""
    command = [str(Path(sys.executable).parent / "vermin"), "--no-config-file", "-t=3.6-", "--no-tips", "--violations"]
    # Without the import from __future__ annotations are evaluated: list[str] is an error in 3.6.
    command += ["--eval-annotations", "--quiet", *map(str, paths)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    return f"exit status {result.returncode}: {result.stdout}" if result.returncode else ""


def newer(path):
    """Return what vermin does not see: methods of :data:`NEWER`, and ``X | None`` in annotations."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        name = node.attr if isinstance(node, ast.Attribute) else node.arg if isinstance(node, ast.keyword) else None
        notes = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        unions = [
            part
            for note in notes
            if isinstance(note, ast.AST)
            for part in ast.walk(note)
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr)
        ]
        if name in NEWER or unions:
            found.append(f"{path.name}:{getattr(node, 'lineno', '?')}: {name or 'X | Y in an annotation'}")
    return found


def test_python_3_6_can_run_what_runs_on_nodes():
    paths, _ = programs_files()
    # All of it, whether a program imports it or not.
    assert {*(PACKAGE / "job").rglob("*.py"), PACKAGE / "__init__.py"} >= {*paths}
    paths = sorted({*paths, *(PACKAGE / "job").rglob("*.py"), PACKAGE / "__init__.py"})
    assert vermin(*paths) == ""
    assert [line for path in paths for line in newer(path)] == []


#: Runs a file as if this Python were of another version.
AS_IF = """
import runpy, sys
sys.version_info = ({version}, 0, "final", 0)
sys.argv = [{path!r}, "rounds"]
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.mark.parametrize("version", ["2, 7", "3, 5"])
def test_too_old_a_python_is_one_line(version):
    path = str(PACKAGE / "job/__main__.py")
    words = [sys.executable, "-c", AS_IF.format(version=version, path=path)]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"error: {sys.executable} is Python {version.replace(', ', '.')}, and the checks need 3.6 or newer "
        "on the nodes: install one as python3, or name it: site's extras, python\n"
    )


def test_too_old_a_python_can_read_what_says_so():
    words = [str(Path(sys.executable).parent / "vermin"), "--no-config-file", "-t=2.7-", "-t=3.4-", "--violations"]
    path = str(PACKAGE / "job/__main__.py")
    result = subprocess.run([*words, "--no-tips", path], stdout=subprocess.PIPE, text=True, timeout=60)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "path", sorted({*GOLDEN.glob("*.sh")} - {*GOLDEN.glob("*-build.sh")}), ids=lambda path: path.stem
)
def test_nothing_of_a_job_runs_with_that_python_before_the_program_that_says_so(path):
    """The scripts below checks/src do not look at the version: they are in the files that the runner starts."""
    *before, last = path.read_text().partition("#= ")[0].splitlines()
    says_so = r"python3 \S+/checks/containercheck/job "
    assert re.fullmatch(rf"{says_so}rounds .*", last)
    others = [line for line in before if not re.match(rf"command -v python3 |#|{says_so}", line)]
    assert not [line for line in others if "python" in line]


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_so_can_it_run_the_scripts_that_checks_give_it(name):
    path = REPOSITORY / "checks" / "src" / name
    assert vermin(path) == ""
    assert newer(path) == []


def test_every_such_script_is_looked_at():
    texts = [path.read_text() for path in (REPOSITORY / "checks").glob("*.py")]
    assert {
        name for text in texts for name in re.findall(r"\{self\.python\} \{self\.own\('(.+?)'\)\}", text)
    } == SCRIPTS
    assert not [text for text in texts if "python3 " in text]


@pytest.mark.skipif(sys.version_info < (3, 10), reason="this Python cannot tell what is in the standard library")
def test_what_runs_on_nodes_imports_the_standard_library_only():
    scripts = {name.split(".")[0] for script in SCRIPTS for name in imported(REPOSITORY / "checks" / "src" / script)}
    modules = {name for path in (PACKAGE / "job").rglob("*.py") for name in imported(path)}
    others = {name.split(".")[0] for name in modules if not name.startswith("containercheck.job")}
    assert (programs_files()[1] | others | scripts) - sys.stdlib_module_names == set()


@pytest.mark.parametrize(
    "text",
    [
        "if (size := len([])):\n    pass\n",
        "import dataclasses\n",
        "import subprocess\nsubprocess.run([], text=True)\n",
        "def f(names: list[str]):\n    pass\n",
        "def f(path):\n    path.unlink(missing_ok=True)\n",
        "def f() -> str | None:\n    pass\n",
    ],
)
def test_what_3_6_does_not_have_is_found(tmp_path, text):
    path = tmp_path / "newer.py"
    path.write_text(text)
    assert vermin(path) or newer(path)
