"""Prints the table of ReFrame's reports: ``python ci/report reports/run-report.json [reports/repeat-report.json]``.

Of each case its last run counts. Exit status 1 when something failed, nothing was run, or there is no report.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

# Started as a directory, this one is on the path instead of the one that has it.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from report import policy, table  # noqa: E402
from report.cases import ReportError, collect, load  # noqa: E402


def main() -> None:
    """Print the table of the reports that are named on the command line."""
    # Who reads no further (head) is no error.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if len(sys.argv) < 2:
        sys.exit("usage: python ci/report REPORT [REPORT ...]")
    try:
        cases = collect([load(Path(name)) for name in sys.argv[1:]])
    except ReportError as error:
        sys.exit(f"report: error: {error}")
    print("\n".join(["", *table.lines(cases)]))
    problems = policy.problems(cases)
    if problems:
        sys.exit("\n".join(f"report: error: {problem}" for problem in problems))


if __name__ == "__main__":
    main()
