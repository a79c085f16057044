"""Prints the table that a session ends with, from ReFrame's report: ``summary.py reports/run-report.json``.

Exit status 1 when there is no report or nothing was run.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HEADER = ("application", "variant", "nodes", "figure", "bare", "container", "overhead", "verdict")


def application(case: dict[str, Any]) -> str:
    """Return the class of a test case, which is the application's name."""
    return case["name"].split()[0]


def rows_of(case: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a case's rows of the table, as text."""
    head = (application(case), str(case["variant"]), str(case["num_nodes"]))
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


def summarise(report: dict[str, Any]) -> tuple[list[str], int]:
    """Return the lines to print, and how many checks were run (skipped ones are not)."""
    cases = [case for case in report["runs"][-1]["testcases"] if is_check(case)] if report["runs"] else []
    table = [HEADER] + [row for case in cases for row in rows_of(case)]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEADER))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table]
    if len(table) == 1:
        lines = []
    lines += skips_of(cases)
    for case in cases:
        if case["result"] not in ("pass", "skip"):
            name = f"{application(case)} {case['variant']}, {case['num_nodes']} node(s)"
            reason = (case["fail_reason"] or case["result"]).strip()
            lines.append(f"FAILED: {name}: {reason}")
    return lines, sum(case["result"] not in ("skip", "fail_deps") for case in cases)


def main() -> None:
    """Print the table of the report that is named on the command line."""
    try:
        report = json.loads(Path(sys.argv[1]).read_text())
    except FileNotFoundError:
        sys.exit("summary: error: no check was run: nothing matches the selection, or no check file loads (see above)")
    except (OSError, ValueError) as error:
        sys.exit(f"summary: error: cannot read ReFrame's report {sys.argv[1]}: {error}")
    lines, ran = summarise(report)
    print("\n".join(["", *lines]))
    if ran == 0:
        sys.exit("summary: error: no check was run: everything was skipped")


if __name__ == "__main__":
    main()
