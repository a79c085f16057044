"""Measure what the library itself costs; called by ci/benchmark.

harness.py list [ARGUMENTS]   milliseconds to list one test, and how many of them are not ReFrame's own
harness.py run [ARGUMENTS]    share of a session's wall-clock time that was not the applications' own run time
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REFRAME = str(Path(sys.executable).parent / "reframe")
CHECKS = "checks/"
REPORT = Path("reports", "benchmark.json")
#: Number of listings of each kind. The fastest counts: other load on the machine only makes them slower.
LISTINGS = 3
#: The goal: milliseconds for listing a test, above what plain ReFrame takes.
GOAL = 1.0
#: Check file with a number of tests that are as small as can be.
PLAIN = '''"""Tests with nothing in them."""

import reframe as rfm


@rfm.simple_test
class Plain(rfm.RunOnlyRegressionTest):
    """The smallest test there is."""

    number = parameter(range({tests}))
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "true"
'''


def timed(checks: str, arguments: list[str]) -> tuple[float, str]:
    """Return the seconds that ReFrame takes with these checks, and what it prints."""
    started = time.monotonic()
    result = subprocess.run([REFRAME, "-c", checks, *arguments], capture_output=True, text=True)
    seconds = time.monotonic() - started
    if result.returncode != 0:
        sys.exit(f"harness: error: ReFrame failed:\n{result.stdout[-2000:]}")
    return seconds, result.stdout


def count(output: str) -> int:
    """Return the number of tests in the output of a listing."""
    return int(re.search(r"Found (\d+) check", output)[1])


def listing(arguments: list[str]) -> None:
    """Print milliseconds per test, for a listing of all tests and for one of as many plain ones."""
    # The first listing does not count: it fills the caches.
    tests = count(timed(CHECKS, ["-l", *arguments])[1])
    ours, plain = [], []
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, "plain.py")
        file.write_text(PLAIN.format(tests=tests))
        for _ in range(LISTINGS):
            ours.append(timed(CHECKS, ["-l", *arguments])[0])
            seconds, output = timed(str(file), ["-l"])
            plain.append(seconds)
    if count(output) != tests:
        sys.exit(f"harness: error: ReFrame lists {count(output)} plain tests instead of {tests}")
    for name, seconds in (("ours", min(ours)), ("plain ReFrame", min(plain))):
        print(f"list: {name}: {tests} tests in {seconds:.2f} s; {seconds / tests * 1e3:.1f} ms a test, with the start")
    more = (min(ours) - min(plain)) / tests * 1e3
    print(f"list: difference {more:+.2f} ms a test (goal: at most {GOAL:g} more)")


def running(arguments: list[str]) -> None:
    """Print the share of the session that was not the applications' own run time."""
    REPORT.parent.mkdir(exist_ok=True)
    seconds, _ = timed(CHECKS, ["-r", f"--report-file={REPORT}", *arguments])
    cases = json.loads(REPORT.read_text())["runs"][-1]["testcases"]
    application = sum(case.get("application_seconds") or 0 for case in cases)
    print(f"run: {len(cases)} tests in {seconds:.1f} s, {application:.1f} s of them the applications' own")
    print(f"run: share of the harness {100 * (seconds - application) / seconds:.1f} % (goal: under 10 %)")


def main() -> None:
    """Run the benchmark that the first argument names."""
    commands = {"list": listing, "run": running}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit("usage: harness.py list|run [arguments for ReFrame]")
    commands[sys.argv[1]](sys.argv[2:])


if __name__ == "__main__":
    main()
