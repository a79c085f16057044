"""Print the table of ReFrame's reports, or write the page of the results database."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from containercheck.command.parsers import BROKEN, FINE, NOT_JUDGED, parsed
from containercheck.history.change_points import standing
from containercheck.history.nights import stored
from containercheck.history.series import series
from containercheck.report import view
from containercheck.results import selections
from containercheck.results.cases import ReportError, collect, load
from containercheck.results.formatting import typed
from containercheck.session import reframe_process
from containercheck.session.reframe_process import Workplace


def main(argv: Sequence[str], place: Workplace) -> int:
    """Print the table or write the page, and return the exit status."""
    options, _, parser = parsed("report", argv)
    if options.html and not options.reports:
        return write_page(options.html, options.database, place)
    if options.html or options.database:
        parser.error("name either reports of ReFrame, or --html FILE with or without --database DB")
    return print_table(options.reports or [last_report(place)])


def last_report(place: Workplace, is_night: bool = False) -> Path:
    """Return the path of the last session's report, or of the last night's.

    :raises ReportError: there is none.
    :raises ReframeFailed, UsageError: ReFrame does not print its path.
    """
    path = reframe_process.configuration([], place).report or place.report
    path = path.parent / "nightly" / "run-report.json" if is_night else path
    if not path.exists():
        raise ReportError(f"no {'night' if is_night else 'session'} ended here yet, which writes {path}")
    return path


def print_table(reports: Sequence[Path]) -> int:
    """Print the table of these reports, and return the exit status."""
    cases = collect([load(name) for name in reports])
    print("\n".join(["", *view.lines(cases)]), flush=True)
    problems = selections.problems(cases)
    for problem in problems:
        print(f"report: error: {problem}", file=sys.stderr)
    return (BROKEN if cases else NOT_JUDGED) if problems else FINE


def write_page(path: Path, database: Path | None, place: Workplace) -> int:
    """Write the page of the last night in a database, print its path, and return the exit status.

    :param database: None for the site's.
    """
    # matplotlib takes half a second to load.
    from containercheck.report.page import contents

    database = database or reframe_process.configuration([], place).database
    nights = stored(database)
    if not nights:
        raise ReportError(f"no session in {database} has a case: run {typed('run')} first")
    all_series = series(nights)
    path.parent.mkdir(parents=True, exist_ok=True)
    contents.write(nights, all_series, standing(all_series), path)
    print(f"written: {path}", flush=True)
    return 0
