"""A place with made checks, where nights of ci/nightly run: what the checks report, and what a night leaves."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from conftest import start_made
from containercheck.session import reframe_process

RUN = """
import sys
from containercheck.command import main
from containercheck.session.reframe_process import Workplace
from pathlib import Path
place = Workplace(Path({directory!r}), config=Path({config!r}))
sys.exit(main.run("nightly", sys.argv[1:], place))
"""
CONFIG = """site_configuration = {{
    "general": [{{"report_file": "{0}/reports/run-report.json"}}],
    "storage": [{{"enable": True, "sqlite_db_file": "{0}/reports/results.db"}}],
}}
"""


def made(directory: Path) -> reframe_process.Workplace:
    """Make a place with checks and a configuration."""
    (directory / "checks").mkdir()
    shutil.copy(Path(__file__).parent / "night_checks.py", directory / "checks" / "made.py")
    (directory / "config.py").write_text(CONFIG.format(directory))
    return reframe_process.Workplace(directory, config=directory / "config.py")


def lines(place: reframe_process.Workplace, name: str, runs: Iterable[tuple[float, float, str]]) -> None:
    """Say what the next runs of a check report: overhead, bare and runtime."""
    text = "".join(f"overhead {overhead} bare {bare} runtime {version}\n" for overhead, bare, version in runs)
    (place.directory / f"{name}.lines").write_text(text)
    (place.directory / f"{name}.runs").unlink(missing_ok=True)


def steady(number: int, seed: int = 0) -> list[tuple[float, float, str]]:
    """Return runs that differ as real ones do."""
    dice = random.Random(seed)
    return [(round(dice.gauss(1, 0.3), 3), round(dice.gauss(10, 0.03), 4), "1.3.4") for _ in range(number)]


def start(place: reframe_process.Workplace, *arguments: str, **environment: str) -> Any:
    """Start a night that shows what ReFrame prints: tests read which checks ran."""
    return start_made(RUN, place, "--verbose", *arguments, **environment)


def night(place: reframe_process.Workplace, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run a night; return its exit status and what it printed."""
    process = start(place, *arguments, **environment)
    output, _ = process.communicate(timeout=300)
    return process.returncode, output


def left(place: reframe_process.Workplace) -> Path:
    """Return the directory of what a night leaves."""
    return place.directory / "reports" / "nightly"


def summary(place: reframe_process.Workplace) -> dict[str, Any]:
    """Return what a night left for programs."""
    return json.loads((left(place) / "nightly.json").read_text())
