"""Measures what the library itself costs; called by ci/benchmark.

harness.py list [ARGUMENTS]   milliseconds to list one test
harness.py run [ARGUMENTS]    share of a session's wall-clock time that was not the applications' own run time
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

REFRAME = [str(Path(sys.executable).parent / "reframe"), "-c", "checks/"]
REPORT = Path("reports", "benchmark.json")


def timed(arguments: list[str]) -> tuple[float, str]:
    """Return the seconds that ReFrame takes, and what it prints."""
    started = time.monotonic()
    result = subprocess.run([*REFRAME, *arguments], capture_output=True, text=True)
    seconds = time.monotonic() - started
    if result.returncode != 0:
        sys.exit(f"harness: error: ReFrame failed:\n{result.stdout[-2000:]}")
    return seconds, result.stdout


def listing(arguments: list[str]) -> None:
    """Print milliseconds per test, for a listing of all tests, and how long ReFrame takes to list none."""
    empty = min(timed(["-l", "-n", "^$"])[0] for _ in range(3))
    seconds, output = min(timed(["-l", *arguments]) for _ in range(3))
    tests = int(re.search(r"Found (\d+) check", output)[1])
    print(f"list: {tests} tests in {seconds:.2f} s; {seconds / tests * 1e3:.1f} ms a test, with ReFrame's own start")
    print(f"list: selecting none of them takes {empty:.2f} s")


def running(arguments: list[str]) -> None:
    """Print the share of the session that was not the applications' own run time."""
    REPORT.parent.mkdir(exist_ok=True)
    seconds, _ = timed(["-r", f"--report-file={REPORT}", *arguments])
    cases = json.loads(REPORT.read_text())["runs"][-1]["testcases"]
    own = sum(case.get("application_seconds") or 0 for case in cases)
    print(f"run: {len(cases)} tests in {seconds:.1f} s, {own:.1f} s of them the applications' own")
    print(f"run: share of the harness {100 * (seconds - own) / seconds:.1f} % (goal: under 10 %)")


def main() -> None:
    """Run one of the two."""
    commands = {"list": listing, "run": running}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit("usage: harness.py list|run [arguments for ReFrame]")
    commands[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    main()
