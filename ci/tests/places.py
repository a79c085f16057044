"""Directories with made checks, where sessions of ci/run and nights of ci/nightly run, and what these leave."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import start_made
from containercheck.session.reframe_process import Workplace

SESSION = """
import sys
from containercheck.command import main
from containercheck.session import progress, reframe_process
from pathlib import Path
progress.HEARTBEAT, reframe_process.INTERVAL, reframe_process.GRACE = 0.5, 0.1, 2.0
place = reframe_process.Workplace(Path({directory!r}), config=Path({config!r}))
sys.exit(main.run("run", {shown}sys.argv[1:], place))
"""
#: What ReFrame prints, and all metrics: most tests read one of them.
ALL = SESSION.replace("{shown}", '["--verbose"] + ')
#: What a person sees who asks for nothing.
PLAIN = SESSION.replace("{shown}", "")
NIGHT = PLAIN.replace('"run"', '"nightly"')
CONFIG = """site_configuration = {{
    "general": [{{"report_file": "{0}/reports/run-report.json"}}],
    "storage": [{{"enable": True, "sqlite_db_file": "{0}/reports/results.db"}}],
}}
"""


def made(directory: Path, checks: str, config: str) -> Workplace:
    """Make a place with a file of checks and a configuration."""
    (directory / "checks").mkdir()
    shutil.copy(Path(__file__).parent / checks, directory / "checks" / "made.py")
    (directory / "config.py").write_text(config)
    return Workplace(directory, config=directory / "config.py")


@pytest.fixture
def place(tmp_path):
    """Make a place of sessions."""
    return made(tmp_path, "slow_checks.py", "site_configuration = {}\n")


@pytest.fixture
def night_place(tmp_path):
    """Make a place of nights."""
    return made(tmp_path, "night_checks.py", CONFIG.format(tmp_path))


def start(place: Workplace, *arguments: str, program: str = ALL, **environment: str) -> Any:
    """Start a session."""
    return start_made(program, place, *arguments, **environment)


def run(place: Workplace, *arguments: str, **more: str) -> tuple[int, str]:
    """Run a session; return its exit status and what it printed."""
    process = start(place, *arguments, **more)
    output, _ = process.communicate(timeout=300)
    return process.returncode, output


def night(place: Workplace, *arguments: str, **more: str) -> tuple[int, str]:
    """Run a night that shows what ReFrame prints: tests read which checks ran."""
    return run(place, "--verbose", *arguments, program=NIGHT, **more)


# Sessions


def table(output: str) -> list[str]:
    """Return what comes after ReFrame's own output."""
    return output.rpartition("\n\n")[2].splitlines()


# Nights


def lines(place: Workplace, name: str, runs: Iterable[tuple[float, float, str]]) -> None:
    """Say what the next runs of a check report: overhead, bare and runtime."""
    text = "".join(f"overhead {overhead} bare {bare} runtime {version}\n" for overhead, bare, version in runs)
    (place.directory / f"{name}.lines").write_text(text)
    (place.directory / f"{name}.runs").unlink(missing_ok=True)


def steady(number: int, seed: int = 0) -> list[tuple[float, float, str]]:
    """Return runs that differ as real ones do."""
    dice = random.Random(seed)
    return [(round(dice.gauss(1, 0.3), 3), round(dice.gauss(10, 0.03), 4), "1.3.4") for _ in range(number)]


def left(place: Workplace) -> Path:
    """Return the directory with the results of a night."""
    return place.directory / "reports" / "nightly"


def summary(place: Workplace) -> dict[str, Any]:
    """Return what a night left for programs."""
    return json.loads((left(place) / "nightly.json").read_text())
