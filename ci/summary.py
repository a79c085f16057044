"""Prints the table that a session ends with, from ReFrame's report: ``summary.py reports/run-report.json``.

Exit status 1 when there is no report or nothing was run, or when a check failed for another reason than its performance
and passed when ReFrame ran it again (--max-retries): wrong answers and hangs are not excused.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

HEADER = ("application", "partition", "variant", "nodes", "figure", "bare", "container", "overhead", "verdict")
#: Parameters that every check has, which have columns of their own.
COMMON = ("variant", "num_nodes")


def application(case: dict[str, Any]) -> str:
    """Return the class of a test case, which is the application's name."""
    return case["name"].split()[0]


def axes(case: dict[str, Any]) -> dict[str, str]:
    """Return the values of a case's own parameters, by name."""
    pairs = (text.partition("=") for text in case["name"].split(" %")[1:])
    return {name: value for name, _, value in pairs if name not in COMMON}


def labels(cases: list[dict[str, Any]]) -> list[str]:
    """Return what to call each case: the application, and those of its axes that differ among these cases."""
    values: dict[str, dict[str, set[str]]] = {}
    for case in cases:
        for name, value in axes(case).items():
            values.setdefault(application(case), {}).setdefault(name, set()).add(value)
    return [
        " ".join(
            [application(case)]
            + [f"{name}={value}" for name, value in axes(case).items() if len(values[application(case)][name]) > 1]
        )
        for case in cases
    ]


def rows_of(case: dict[str, Any], label: str) -> list[tuple[str, ...]]:
    """Return a case's rows of the table, as text."""
    head = (label, case["partition"], str(case["variant"]), str(case["num_nodes"]))
    rows = []
    for row in case["results"]:
        bare = f"{row['bare']:.4g} {row['unit']}"
        if "container" not in row:
            rows.append((*head, row["figure"], bare, "", "", ""))
            continue
        overhead = f"{row['overhead']:+.2g} ± {row['interval']:.2g} {row['overhead_unit']}"
        expected = " (expected overhead)" if row["expected"] else ""
        container = f"{row['container']:.4g} {row['unit']}"
        rows.append((*head, row["figure"], bare, container, overhead, row["verdict"] + expected))
    return rows


def is_check(case: dict[str, Any]) -> bool:
    """Tell a check from what it depends on."""
    return "variant" in case and "results" in case


def skips_of(cases: list[dict[str, Any]]) -> list[str]:
    """Return a line for each application and reason for which cases were skipped, with what they are."""
    reasons: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for case in cases:
        if case["result"] == "skip":
            reason = case["skip_reason"] or "ReFrame skipped it"
            reasons.setdefault((application(case), reason), []).append(case)
    lines = []
    for (name, reason), skipped in reasons.items():
        what = ", ".join(f"{case['variant']} {case['num_nodes']} node(s)" for case in skipped[:3])
        more = f" and {len(skipped) - 3} more" if len(skipped) > 3 else ""
        lines.append(f"skipped: {name} ({what}{more}): {reason}")
    return lines


def repeated(runs: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return each case as it came out last, and the failures of cases that passed when they were run again."""
    last: dict[tuple[str, str, str], dict[str, Any]] = {}
    failed: dict[tuple[str, str, str], dict[str, Any]] = {}
    for case in (case for run in runs for case in run["testcases"] if is_check(case)):
        key = (case["unique_name"], case["partition"], case["environ"])
        if key in last and last[key]["result"] == "fail":
            failed[key] = last[key]
        last[key] = case
    return list(last.values()), [case for key, case in failed.items() if last[key]["result"] == "pass"]


def failure(case: dict[str, Any], label: str) -> str:
    """Return what failed, and why."""
    reason = (case["fail_reason"] or case["result"]).strip()
    return f"{label} {case['variant']}, {case['num_nodes']} node(s): {reason}"


def summarise(report: dict[str, Any]) -> tuple[list[str], int, int]:
    """Return the lines to print, how many checks were run (skipped ones are not), and how many failed only at first.

    Of the latter a performance that was not confirmed does not count: runs differ by chance. Everything else does.
    """
    cases, earlier = repeated(report["runs"])
    ran = [case for case in cases if case["result"] != "skip"]
    names = labels(ran)
    table = [HEADER] + [row for case, name in zip(ran, names) for row in rows_of(case, name)]
    if len({case["partition"] for case in ran}) < 2:
        table = [(row[0], *row[2:]) for row in table]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table]
    if len(table) == 1:
        lines = []
    lines += skips_of(cases)
    for case, label in zip(ran, names):
        if case["result"] != "pass":
            lines.append(f"FAILED: {failure(case, label)}")
    unstable = 0
    for case in earlier:
        slow = case["fail_phase"] == "performance"
        unstable += not slow
        what = "not confirmed when it was run again" if slow else "FAILED, and passed when it was run again"
        lines.append(f"{what}: {failure(case, application(case))}")
    return lines, sum(case["result"] != "fail_deps" for case in ran), unstable


def main() -> None:
    """Print the table of the report that is named on the command line."""
    # Who reads no further (head) is no error.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        report = json.loads(Path(sys.argv[1]).read_text())
    except FileNotFoundError:
        sys.exit("summary: error: no check was run: nothing matches the selection, or no check file loads (see above)")
    except (OSError, ValueError) as error:
        sys.exit(f"summary: error: cannot read ReFrame's report {sys.argv[1]}: {error}")
    lines, ran, unstable = summarise(report)
    print("\n".join(["", *lines]))
    if ran == 0:
        sys.exit("summary: error: no check was run: everything was skipped")
    if unstable:
        sys.exit(f"summary: error: {unstable} check(s) failed, and passed when run again: see above")


if __name__ == "__main__":
    main()
