"""Compare each check's bare program with itself: how far its rounds spread, and its verdict; called by ci/benchmark.

    noise.py [--rounds N] [-S NAME=VALUE]... [CHECK ...]

For each check a session of ReFrame loads a file that is written for it: the application's class, with two sides that
both run bare, on one node, with the default input. All files of a session lie in a directory of its own below stage/,
on the file system of the checks, and are removed in the end.

*Spread* (1.4826 times the median absolute deviation of the overheads) is in percent, or in the metric's unit where it
is compared by difference. Rounded up, a metric states it as ``spread`` (application/declare.py): what is known of it
before the first round. The star marks the metric whose spread is the greatest part of what is accepted: it closes last.
A *verdict* other than ``pass`` is false or open: both sides are the same.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from containercheck.results.formatting import columns
from containercheck.results.row import EMULATED, Row, rows_of
from containercheck.session.reframe_process import Relay

REPOSITORY = Path(__file__).resolve().parents[2]
CHECKS = REPOSITORY / "checks"
#: Check file. The path is not set by PYTHONPATH, which the job would have too: a check may have the name of the package
#: of its program.
FILE = '''"""{name} against itself."""

import sys
from dataclasses import replace

sys.path[:0] = [{prefix!r}]

import {module}
import reframe as rfm
from reframe.core.builtins import parameter


@rfm.simple_test
class {name}({module}.{name}, custom_prefix={prefix!r}):
    """Both sides run bare."""

    variant = parameter(["bare"], loggable=True)
    num_nodes = parameter([1], loggable=True)

    @property
    def side_count(self):
        """Return the number of sides."""
        return 2

    def sides(self):
        """Return the bare side twice."""
        (bare,) = super().sides()
        return [bare, replace(bare, name="subject", label="bare again", compared_with=bare.name)]
'''


def applications() -> dict[str, str]:
    """Return the module of each check in checks/, by its name; without those that belong to the full axes as a whole.

    From the text: a check file cannot be imported outside a session of ReFrame.
    """
    modules = {}
    for path in sorted(CHECKS.glob("*.py")):
        for node in ast.parse(path.read_text()).body:
            facts = [ast.unparse(part) for part in (*getattr(node, "decorator_list", ()), *getattr(node, "body", ()))]
            if isinstance(node, ast.ClassDef) and "rfm.simple_test" in facts and "full_only = True" not in facts:
                modules[node.name] = path.stem
    return modules


def write_checks(directory: Path, names: Iterable[str]) -> None:
    """Write a check file for each name; it has another name than the application's module."""
    directory.mkdir()
    modules = applications()
    for name in names:
        text = FILE.format(name=name, module=modules[name], prefix=str(CHECKS))
        (directory / f"itself_{name}.py").write_text(text)


def session_command(path: Path, *arguments: str) -> list[str]:
    """Return the command of a session.

    :param path: of a check file, or of a directory of such files.
    """
    reframe = str(Path(sys.executable).parent / "reframe")
    return [reframe, f"--checkpath={path}", f"--prefix={path.parent}", "--exclude-tag=full", "--nocolor", *arguments]


def lines_of(raw: Mapping[str, Any]) -> list[str]:
    """Return the lines about one case of ReFrame's report: its metrics, or why it has none."""
    check, rows = f"{raw['display_name'].split()[0]} on {raw['partition']}", rows_of(raw)
    if raw["result"] == "skip":
        return [f"{check}: skipped: {raw.get('skip_reason') or 'no reason given'}"]
    # A case that fails without a metric that fails has another reason than the verdict.
    if raw["result"] != "pass" and not any(row.verdict == "fail" for row in rows):
        reason = " ".join((raw.get("fail_reason") or "no reason given").split())
        return [f"{check}: BROKEN: {raw.get('fail_phase') or raw['result']}: {reason}"]
    if any(row.verdict == EMULATED for row in rows):
        return [f"{check}: skipped: the processors are emulated, and nothing is judged there"]
    return [f"{check}: {rows[0].rounds} rounds", *table(rows)] if rows else [f"{check}: it has no metrics here"]


def table(rows: Sequence[Row]) -> list[str]:
    """Return the table of a check's metrics."""
    last = max(rows, key=lambda row: (row.spread or 0.0) / (abs(row.accepted[1]) or math.inf))
    shown = [
        (
            row.metric,
            f"{row.accepted[1]:g} {row.overhead_unit}",
            "-" if row.spread is None else f"{row.spread:.2g}",
            row.verdict + " *" * (row is last),
        )
        for row in rows
    ]
    return columns([("metric", "accepted", "spread", "verdict"), *shown])


def measure(place: Path, relay: Relay, check: str, options: Sequence[str]) -> list[str]:
    """Run the session of one check, and return the lines about it.

    :raises SystemExit: a signal asked to stop.
    """
    report, log = place / "report.json", place / "log"
    report.unlink(missing_ok=True)
    command = session_command(place / f"itself_{check}.py", "--run", f"--report-file={report}", *options)
    with log.open("wb") as output:
        # The terminal's Ctrl-C reaches this process only, and goes on to the session from here, once.
        streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        relay.wait(subprocess.Popen(command, cwd=place, start_new_session=True, **streams))
    if relay.stopped_by:
        sys.exit(f"noise: stopped by {relay.stopped_by}")
    cases = json.loads(report.read_text())["runs"][-1]["testcases"] if report.exists() else []
    if not cases:
        return [f"{check}: BROKEN: ReFrame ran nothing:", log.read_text(errors="replace")[-2000:]]
    return [line for case in cases for line in lines_of(case)]


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse the command line.

    :raises SystemExit: there is no check with one of the names.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12, help="default 12")
    parser.add_argument("-S", dest="options", action="append", default=[], metavar="NAME=VALUE", help="for ReFrame")
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="default all, which takes half an hour or so")
    arguments = parser.parse_args(words)
    known = applications()
    unknown = sorted({*arguments.checks} - {*known})
    if unknown:
        sys.exit(f"error: no check {', '.join(unknown)}: there are {', '.join(known)}")
    arguments.checks = arguments.checks or [*known]
    return arguments


def main() -> None:
    """Measure one check after the other, and print."""
    arguments = parse(sys.argv[1:])
    options = [f"--setvar={option}" for option in (f"rounds={arguments.rounds}", *arguments.options)]
    failed = False
    (REPOSITORY / "stage").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="itself-", dir=REPOSITORY / "stage") as directory, Relay() as relay:
        place = Path(directory, "checks")
        write_checks(place, arguments.checks)
        for check in arguments.checks:
            lines = measure(place, relay, check, options)
            failed = failed or any(": BROKEN: " in line for line in lines)
            print("\n".join([*lines, ""]), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
