"""ci/setup: what is missing ends nothing but what needs it, who asks changes nothing, and .venv is not pulled away."""

from __future__ import annotations

import os
import shutil
import subprocess

import environments
import pytest
from conftest import REPOSITORY, write_program

#: What the scripts themselves need, of any system.
BASICS = "awk bash cat cut dirname env find flock head id ln mkdir mktemp mount mv python3 readlink rm sed sh sha256sum"
BASICS += " sort stat tail touch tr uname unshare"


@pytest.fixture
def checkout(tmp_path):
    """Make a copy of the scripts, whose environment is as pyproject.toml wants it."""
    repo = tmp_path / "repo"
    shutil.copytree(REPOSITORY / "ci", repo / "ci", ignore=shutil.ignore_patterns("tests", "__pycache__"))
    shutil.copytree(REPOSITORY / "checks", repo / "checks", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(REPOSITORY / "config", repo / "config", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", repo)
    return repo


def run(repo, script, *words, **environment):
    environment = {**os.environ, **environment}
    command = [str(repo / "ci" / script), *words]
    return subprocess.run(command, cwd=repo, env=environment, capture_output=True, text=True, timeout=120)


def elsewhere(repo, tmp_path, *tools):
    """Run ci/setup on a system that is not Debian, with these tools on its PATH and no others."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in BASICS.split():
        (programs / name).symlink_to(shutil.which(name))
    for name in tools:
        write_program(programs / name, "exit 1")
    (tmp_path / "os-release").write_text("ID=fedora\nID_LIKE=rhel\n")
    stamp = repo / ".venv" / "dependencies.sha256"
    stamp.parent.mkdir()
    wanted = "repo=$PWD; . ci/environment.sh; wanted_environment"
    stamp.write_text(subprocess.run(["bash", "-c", wanted], cwd=repo, capture_output=True, text=True).stdout)
    script = f'mount --bind {tmp_path}/os-release "$(readlink -f /etc/os-release)" && exec {repo}/ci/setup'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script]
    return subprocess.run(command, env={"PATH": str(programs)}, capture_output=True, text=True, timeout=120)


need_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can let this machine look like another system")


@need_root
@pytest.mark.parametrize(
    ("tools", "said"),
    [
        # Nothing at all.
        ((), "gcc g++ mpicc mpirun a container runtime (apptainer singularity sarus shifter docker podman ch-run)"),
        # Sarus, Shifter and Docker need no Apptainer, and none of what that builds images with.
        (("gcc", "g++", "mpicc", "mpirun", "sarus"), ""),
        (("gcc", "g++", "mpicc", "docker"), "mpirun"),
        (("gcc", "g++", "mpicc", "mpirun", "apptainer"), "mksquashfs squashfuse newuidmap"),
    ],
)
def test_elsewhere_what_is_missing_is_said_in_one_line_and_ends_nothing(checkout, tmp_path, tools, said):
    result = elsewhere(checkout, tmp_path, *tools)
    rest = "Checks that need them are skipped, unless modules of the site's bring them"
    assert result.stdout == (f"setup: not on the PATH: {said}. {rest}\n" if said else ""), result.stderr
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("script", ["run", "nightly", "acceptance"])
def test_help_changes_nothing(checkout, script):
    (checkout / "ci" / "setup").write_text("#!/bin/sh\ntouch set-up\n")
    result = run(checkout, script, "--help")
    assert result.returncode == 0, result.stderr
    assert f"ci/{script}" in result.stdout
    # And with an environment the script's own is printed.
    environments.of_copy(checkout)
    result = run(checkout, script, "--help")
    assert result.returncode == 0 and result.stdout.startswith(f"usage: .venv/bin/containercheck {script} ")
    assert not (checkout / "set-up").exists()


def test_an_estimate_changes_nothing(checkout):
    (checkout / "ci" / "setup").write_text("#!/bin/sh\ntouch set-up\n")
    result = run(checkout, "run", "--estimate")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "run: error: nothing is set up here yet, and who asks changes nothing: run ci/setup first\n"
    environments.of_copy(checkout)
    result = run(checkout, "run", "--here", "--estimate", "-n", "StartUp%variant=bare", RFM_CONFIG_FILES="")
    assert result.returncode == 0 and "StartUp" in result.stdout, result.stderr
    assert not (checkout / "set-up").exists()
    # Any other command does set up.
    run(checkout, "run", "--list")
    assert (checkout / "set-up").exists()


#: The environment's own part, with one that takes no time to fill.
MAKE = """
set -euo pipefail
. ci/lib.sh
. ci/environment.sh
# pip is what takes long.
python3() { command python3 "$@" --without-pip; }
machine() { echo python3; }
fill_environment() { echo "filled ${1##*/}"; }
eval "${before:-}"
make_environment
"""


def make(repo, before=""):
    environment = {**os.environ, "before": before}
    result = subprocess.run(["bash", "-c", MAKE], cwd=repo, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return [line for line in result.stdout.splitlines() if line.startswith("filled ")]


def ask_for_another(repo, text):
    (repo / "pyproject.toml").write_text(f"[dependency-groups]\nrun = [{text!r}]\n")


def test_another_environment_is_made_beside_the_one_that_sessions_use(checkout):
    (first,) = make(checkout)
    old = (checkout / ".venv").resolve()
    assert (checkout / ".venv").is_symlink() and first == f"filled {old.name}"
    assert make(checkout) == []
    # A session that began there, and is not done.
    began = ". ci/lib.sh; hold_environment; . $environment/bin/activate; echo; read; "
    began += "python -c 'import sys; print(sys.prefix)'"
    session = subprocess.Popen(
        ["bash", "-c", began], cwd=checkout, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    session.stdout.readline()
    ask_for_another(checkout, "another")
    assert len(make(checkout)) == 1
    new = (checkout / ".venv").resolve()
    assert new != old and old.is_dir()
    # Replaced long ago, it is kept while somebody holds it.
    long_ago(old)
    ask_for_another(checkout, "a third")
    make(checkout)
    assert old.is_dir()
    printed, _ = session.communicate("\n", timeout=60)
    assert printed.strip() == str(old)
    ask_for_another(checkout, "a fourth")
    make(checkout)
    assert not old.exists()
    # Replaced just now: somebody may have activated it.
    assert new.is_dir()


def long_ago(environment):
    os.utime(environment / "replaced", (0, 0))


def test_an_environment_that_is_wanted_again_is_not_made_again(checkout):
    before = (checkout / "pyproject.toml").read_text()
    make(checkout)
    first = (checkout / ".venv").resolve()
    ask_for_another(checkout, "another")
    make(checkout)
    (checkout / "pyproject.toml").write_text(before)
    assert make(checkout) == []
    assert (checkout / ".venv").resolve() == first
    assert not (first / "replaced").exists()
    # Nor where something else changed than what it depends on.
    path = checkout / "pyproject.toml"
    path.write_text(path.read_text().replace("line-length = 120", "line-length = 100"))
    assert make(checkout) == []
    # Another lock is another one.
    with (checkout / "ci" / "requirements-night.txt").open("a") as lock:
        lock.write("# a newer one\n")
    assert len(make(checkout)) == 1
    # One with the tools of the tests serves a session too.
    assert len(make(checkout, before="with_tests=yes")) == 1
    tests = (checkout / ".venv").resolve()
    assert make(checkout) == [] and (checkout / ".venv").resolve() == tests


def test_one_that_was_interrupted_is_made_again_and_the_old_one_stays_until_then(checkout):
    make(checkout)
    old = (checkout / ".venv").resolve()
    ask_for_another(checkout, "another")
    with pytest.raises(AssertionError):
        make(checkout, before="fill_environment() { return 1; }")
    assert (checkout / ".venv").resolve() == old
    assert len(make(checkout)) == 1
    assert (checkout / ".venv").resolve() != old
