"""The wheel has what sessions need; the same commands work from it, from an editable installation and in a clone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile

import environments
import pytest
from conftest import REPOSITORY

#: What a wheel has beside the package, and where.
PROJECT = "containercheck/project"
#: A session of seconds: it is one round, of which nobody asks how fast it was.
SHORT = ("-n", "StartUp%variant=generic", "-S", "rounds=1", "-S", "strict_check=no")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel, with what is installed here: nothing is fetched."""
    directory = tmp_path_factory.mktemp("wheel")
    offline = ["--no-index", "--no-deps", "--no-build-isolation"]
    words = [sys.executable, "-m", "pip", "-q", "wheel", *offline, "-w", str(directory), str(REPOSITORY)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = directory.glob("containercheck-*.whl")
    return path


def files(directory, pattern="**/*"):
    """Return the files below a directory of the checkout, without what Python keeps there."""
    found = (path for path in (REPOSITORY / directory).glob(pattern) if path.is_file())
    return {path.relative_to(REPOSITORY) for path in found if "__pycache__" not in path.parts}


def test_it_has_the_package_once_and_all_that_the_package_works_with(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        linked = archive.read(f"{PROJECT}/easyconfigs/pingpong.c")
    package = {str(path.relative_to("checks")) for path in files("checks/containercheck")}
    works_with = files("checks", "*.py")
    for directory in ("checks/src", "checks/references", "config", "images", "spack-envs", "easyconfigs"):
        works_with |= files(directory)
    assert {f"{PROJECT}/config/template.py", f"{PROJECT}/checks/startup.py"} <= names
    assert names == package | {f"{PROJECT}/{path}" for path in works_with}
    # A link in the checkout.
    assert linked == (REPOSITORY / "easyconfigs" / "pingpong.c").read_bytes()


def run(program, *words, cwd):
    own = {name: value for name, value in os.environ.items() if not name.startswith("RFM_")}
    done = subprocess.run(
        [program, *words], cwd=cwd, env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900
    )
    return done.returncode, done.stdout


def installed(wheel, directory):
    """Install the wheel into an empty environment, which borrows what it depends on from this one.

    That shows that the wheel is whole, and not that its dependencies are: test_lock.py compares what the library
    imports with what is locked.
    """
    environment = environments.beside_this(directory)
    words = ["install", "-q", "--no-index", "--no-deps", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "--python", environment / "bin" / "python", *words], check=True)
    return environment / "bin" / "containercheck", environment


def copied(directory):
    """Copy the checkout, with an environment in which it is installed in editable form."""
    leave = shutil.ignore_patterns("tests", "__pycache__")
    for name in ("checks", "ci", "config", "images", "easyconfigs", "spack-envs"):
        shutil.copytree(REPOSITORY / name, directory / name, ignore=leave, symlinks=True)
    shutil.copy(REPOSITORY / "pyproject.toml", directory)
    return environments.of_copy(directory) / "bin" / "containercheck"


def lasting(directory):
    """Return the files below a directory but those that Python keeps there itself."""
    return {path for path in directory.rglob("*") if "__pycache__" not in path.parts}


@pytest.mark.parametrize("way", ["wheel", "editable", "clone"])
def test_the_same_commands_work_from_a_wheel_an_editable_installation_and_a_clone(way, tmp_path, request):
    """Where they leave their files is the checkout, or where there is none the directory in which they are started."""
    here, other = tmp_path / "here", tmp_path / "other"
    here.mkdir()
    if way == "wheel":
        start, untouched = installed(request.getfixturevalue("wheel"), other)
        place = here
    else:
        start, untouched, place = copied(other), here, other
    session = [other / "ci" / "run"] if way == "clone" else [start, "run"]
    before = lasting(untouched)
    status, said = run(*session, "--estimate", *SHORT, cwd=here)
    assert status == 0, said
    assert "\n1 job(s): about " in said
    status, said = run(*session, *SHORT, "--table", cwd=here)
    assert status in (0, 2), said
    table = said[said.index("\napplication  variant") :].rstrip()
    assert "\nStartUp      generic" in table
    status, said = run(start, "report", cwd=here)
    assert status == 0, said
    # But for what the session adds to it.
    assert said.strip().splitlines() == [line for line in table.strip().splitlines() if not line.startswith("run: ")]
    status, said = run(start, "report", "--html", "night.html", cwd=here)
    assert (status, (here / "night.html").exists()) == (0, True), said
    case = json.loads((place / "reports" / "run-report.json").read_text())["runs"][0]["testcases"][0]
    assert (case["result"], case["variant"]) == ("pass", "generic")
    assert (place / "reports" / "results.db").exists() and (place / "stage").is_dir()
    left = {path.relative_to(untouched).parts[0] for path in lasting(untouched) - before}
    assert left <= ({"night.html"} if untouched == here else set())


def test_reframe_alone_runs_the_checks_of_a_wheel(wheel, tmp_path):
    _, environment = installed(wheel, tmp_path / "environment")
    (checks,) = environment.glob(f"lib/python3*/site-packages/{PROJECT}/checks")
    here = tmp_path / "here"
    here.mkdir()
    status, said = run(environment / "bin" / "reframe", "-c", str(checks), "-l", "-n", "StartUp", cwd=here)
    assert status == 0, said
    assert "- StartUp" in said
    assert sorted(path.name for path in here.iterdir()) in ([], ["reframe.log"], ["reframe.log", "reframe.out"])
