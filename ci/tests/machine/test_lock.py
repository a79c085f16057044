"""What nights run with is locked: each package by version and hashes, for every Python, and nothing else gets in."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile

import pytest
from application_files import imported
from conftest import REPOSITORY

LOCK = REPOSITORY / "ci" / "requirements-night.txt"
#: A package in it: name, version and where it counts.
PACKAGE = re.compile(r"^([a-z0-9-]+)==(\S+)(?: ; (.+?))? \\$", re.MULTILINE)


def test_it_names_no_index_or_host_of_the_machine_that_made_it():
    assert not re.search(r"https?://|--(?:extra-)?index|--find-links|\bhost\b", LOCK.read_text())


#: Fills an environment as ci/setup does, with other packages.
FILL = """
set -euo pipefail
. ci/lib.sh
. ci/environment.sh
install_packages "$1"
"""


def wheel(directory, name, content):
    """Make a wheel with one module."""
    path = directory / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", content)
        archive.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(
            f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return path


@pytest.fixture
def fill(tmp_path):
    """Fill an environment from a lock of one package that lies in a directory."""
    repo = tmp_path / "repo"
    (repo / "ci").mkdir(parents=True)
    for name in ("lib.sh", "environment.sh"):
        shutil.copy(REPOSITORY / "ci" / name, repo / "ci")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "made"], check=True)

    def run(lock):
        (repo / "ci" / "requirements-night.txt").write_text(f"--no-index\n--find-links {tmp_path}\n{lock}")
        command = ["bash", "-c", FILL, "bash", tmp_path / "made"]
        return subprocess.run(command, cwd=repo, capture_output=True, text=True, timeout=120)

    return run


def test_another_file_of_the_same_version_does_not_get_in(fill, tmp_path):
    """As where somebody else uploads, or a mirror is not what it was."""
    file = wheel(tmp_path, "nightly_tool", "GOOD = True\n")
    digest = subprocess.run(["sha256sum", file], capture_output=True, text=True).stdout.split()[0]
    lock = f"nightly-tool==1.0 \\\n    --hash=sha256:{digest}\n"
    assert fill(lock).returncode == 0
    (installed,) = (tmp_path / "made").rglob("nightly_tool.py")
    assert installed.read_text() == "GOOD = True\n"
    subprocess.run(
        [tmp_path / "made" / "bin" / "python", "-m", "pip", "-q", "uninstall", "-y", "nightly-tool"], check=True
    )
    wheel(tmp_path, "nightly_tool", "GOOD = False\n")
    result = fill(lock)
    assert result.returncode != 0 and "DO NOT MATCH THE HASHES" in result.stderr
    # Nor does a package without a hash.
    result = fill("nightly-tool==1.0\n")
    assert result.returncode != 0 and "require" in result.stderr
    assert not installed.exists()


def test_it_has_all_that_sessions_and_nights_import():
    """The tests' environment has more than a night's, and so would hide what a new user's lacks."""
    sources = [*(REPOSITORY / "checks").glob("*.py"), *(REPOSITORY / "checks" / "containercheck").rglob("*.py")]
    sources += [path for path in (REPOSITORY / "ci").rglob("*.py") if not {"tests", "benchmarks"} & {*path.parts}]
    own = {path.stem for path in sources} | {path.parent.name for path in sources}
    named = {name.split(".")[0] for path in sources for name in imported(path)} - own - sys.stdlib_module_names
    packages = {name for name, _, _ in PACKAGE.findall(LOCK.read_text())}
    called = {"reframe": "reframe-hpc", "yaml": "pyyaml"}
    assert "scipy" in named
    assert {called.get(name, name) for name in named} <= packages
