"""What the tests share: a runtime of ReFrame's, and real sessions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parents[2]
PLANTED = Path(__file__).resolve().parent / "planted"

# A busy machine is no failure: how long an example takes is not for a unit test to say.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_configure(config):
    """Initialise ReFrame as its command does, for tests that import checks: a check asks it for the system."""
    from reframe.core import config as configuration
    from reframe.core import runtime

    site = configuration.load_config("<builtin>")
    site.select_subconfig("generic:default")
    runtime.init_runtime(site)


def eventually(condition: Callable[[], Any]) -> bool:
    """Wait until the condition holds, on a busy machine too; return whether it came to that."""
    end = time.monotonic() + 120
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@pytest.fixture
def site(tmp_path):
    """Write a site file with one partition for this machine, and return its path."""

    def write(**facts: Any) -> str:
        partition = {"name": "only", "scheduler": "local", "launcher": "mpirun", "environs": ["builtin"], **facts}
        system = {"name": "here", "hostnames": [".*"], "partitions": [partition]}
        path = tmp_path / "site.py"
        path.write_text(f"site_configuration = {{'systems': [{system!r}]}}\n")
        return str(path)

    return write


@dataclass
class Session:
    """A finished session of ReFrame."""

    status: int
    output: str
    cases: list[dict[str, Any]] = field(default_factory=list)
    stage: Path = Path()

    def case(self, variant: str, name: str = "") -> dict[str, Any]:
        """Return the one case of this variant."""
        (found,) = [case for case in self.cases if case["variant"] == variant and name in case["name"]]
        return found


@pytest.fixture
def session(tmp_path):
    """Run ReFrame for real, in a directory of the test's own."""

    def run(*arguments: str, checks: Path = PLANTED, **environment: str) -> Session:
        report = tmp_path / "report.json"
        report.unlink(missing_ok=True)
        command = [
            str(Path(sys.executable).parent / "reframe"),
            "-c",
            str(checks),
            *(["-r"] if "--dry-run" not in arguments else []),
            "--keep-stage-files",
            "--nocolor",
        ]
        result = subprocess.run(
            [*command, f"--report-file={report}", f"--prefix={tmp_path}", *arguments],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY / "checks"), **environment},
            cwd=tmp_path,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=900,
        )
        cases = json.loads(report.read_text())["runs"][-1]["testcases"] if report.exists() else []
        return Session(result.returncode, result.stdout, cases, tmp_path / "stage")

    return run
