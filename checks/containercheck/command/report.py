"""Prints the table of ReFrame's reports, or writes the page of the results database.

    ci/report reports/run-report.json [reports/repeat-report.json]
    ci/report --html report.html [--database reports/results.db]

Of each case its last run counts. Exit status of the table: 1 when something failed, nothing was run, or there is no
report. Of the page: 1 when the database cannot be read or the file not written, whatever the results are.
"""

from __future__ import annotations

import argparse
import importlib.util
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from containercheck.node.project import ROOT
from containercheck.report import table
from containercheck.results import selections
from containercheck.results.cases import ReportError, collect, load

#: Where config/common.py puts it.
DATABASE = ROOT / "reports" / "results.db"
#: Packages that the page needs, and the table does not.
NEEDED = ("numpy", "scipy", "matplotlib", "jinja2")


def main() -> None:
    """Do what the command line asks for."""
    # Who reads no further (head) is no error.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    parser = argparse.ArgumentParser(
        prog="ci/report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("reports", nargs="*", metavar="REPORT", type=Path, help="a JSON report of ReFrame")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write the page of the last night, with its trends")
    parser.add_argument("--database", metavar="DB", type=Path, help=f"results database for it (default: {DATABASE})")
    known = parser.parse_args()
    if known.html and not known.reports:
        write_page(known.html, known.database or DATABASE)
    elif known.reports and not known.html and not known.database:
        print_table(known.reports)
    else:
        parser.error("name either reports of ReFrame, or --html FILE with or without --database DB")


def print_table(reports: Sequence[Path]) -> None:
    """Print the table of these reports."""
    try:
        cases = collect([load(name) for name in reports])
    except ReportError as error:
        sys.exit(f"report: error: {error}")
    print("\n".join(["", *table.lines(cases)]))
    problems = selections.problems(cases)
    if problems:
        sys.exit("\n".join(f"report: error: {problem}" for problem in problems))


def write_page(path: Path, database: Path) -> None:
    """Write the page of the last night in a database, and say where it is."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(
            f"report: error: {sys.executable} has no {', '.join(missing)}, which the page needs: run "
            "`.venv/bin/ci/report` (ci/setup makes .venv), or install them for it with pip"
        )
    # Who prints a table needs none of this.
    from containercheck.history.change_points import standing
    from containercheck.history.nights import nights
    from containercheck.history.series import series
    from containercheck.report import page
    from containercheck.results.database import DatabaseError, read

    try:
        stored = read(database, make=nights)
        if not stored.made:
            raise DatabaseError(f"no session in {database} has a case: run ci/run first")
        found = series(stored.made)
        path.parent.mkdir(parents=True, exist_ok=True)
        files = page.write(stored.made, found, standing(found), path, stored.problems)
    except DatabaseError as error:
        sys.exit(f"report: error: {error}")
    except OSError as error:
        sys.exit(f"report: error: cannot write {path}: {error.strerror or error}; name another file")
    for problem in stored.problems:
        print(f"report: {problem}", file=sys.stderr)
    print(f"written: {', '.join(map(str, files))}")


if __name__ == "__main__":
    main()
