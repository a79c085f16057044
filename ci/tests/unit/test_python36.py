"""What runs in the build step and on the nodes needs no newer Python than 3.6, and nothing beside its library."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from application_files import imported
from conftest import REPOSITORY

PACKAGE = REPOSITORY / "checks" / "containercheck"
#: All of it that nodes may import: that is on a floor of its own (test_architecture.py).
JOB = [*sorted((PACKAGE / "job").rglob("*.py")), PACKAGE / "__init__.py"]
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
    assert vermin(*JOB) == ""
    assert [line for path in JOB for line in newer(path)] == []


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
    # A local job has the session's own Python.
    says_so = r"(?:python3|\$PYTHON) \S+/checks/containercheck/job "
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


def test_what_runs_on_nodes_imports_the_standard_library_only():
    files = [*(PACKAGE / "job").rglob("*.py"), *(REPOSITORY / "checks" / "src" / script for script in SCRIPTS)]
    names = {name for path in files for name in imported(path) if not name.startswith("containercheck.job")}
    assert {name.split(".")[0] for name in names} - sys.stdlib_module_names == set()
