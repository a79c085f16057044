"""The HTML report: the results of a night, and the changes since earlier nights, as one static file.

It needs no network and no script. Its parts are values: changes and trends, the cases (states, failures, matrix), the
plots and tables of each application (over_axis, and kept_files for the files that a run keeps), the figures of the
documents with ours (as_published), and provenance. ``drawing`` draws all plots, and the files in ``templates`` make the
page, where jinja2 escapes every text that comes from a result. Its data lie in CSV files next to it (data).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from containercheck.history.causes import causes
from containercheck.history.change_points import Change
from containercheck.history.nights import Night
from containercheck.history.series import Series
from containercheck.report import table
from containercheck.report.page import as_published, data, drawing, trends, wording
from containercheck.report.page import cases as page_cases
from containercheck.report.page.applications import applications
from containercheck.results import selections
from containercheck.results.cases import Case, write_file
from containercheck.results.formatting import count

#: Most plots of trends and over nodes, most cases that are shown in full (of the others, only name and reason: a whole
#: partition may be down), most letters of a reason in its line, and changes of a cause that are shown at once.
MOST_PLOTS, MOST_CASES, FIRST_LINE, AT_ONCE = 100, 40, 180, 4
TEMPLATES = Path(__file__).resolve().parent / "templates"


def write(
    nights: Sequence[Night],
    series: Sequence[Series],
    changes: Sequence[Change],
    path: Path,
    problems: Sequence[str] = (),
) -> list[Path]:
    """Write the page, and next to it its data: ``NAME-metrics.csv`` and ``NAME-series.csv``; each in one step.

    :param nights: as ``history.nights.nights`` returns them: the last one is shown, with those before it as trends; at
        least one.
    :param series: as ``history.series.series`` returns them, of these nights.
    :param changes: as ``history.change_points.standing`` returns them, of all these series.
    :param problems: problems besides the results, a line each; shown first.
    :returns: the files, the page first.
    :raises OSError: a file cannot be written; an earlier file stays.
    """
    metrics, points = (path.with_name(f"{path.stem}-{kind}.csv") for kind in ("metrics", "series"))
    shown = html(nights, series, changes, problems, (metrics.name, points.name))
    write_file(metrics, data.metrics(nights[-1]))
    write_file(points, data.series(series))
    # Last, because it links to the others.
    write_file(path, shown)
    return [path, metrics, points]


def html(
    nights: Sequence[Night],
    series: Sequence[Series],
    changes: Sequence[Change],
    problems: Sequence[str],
    files: Sequence[str],
) -> str:
    """Return the page as HTML; parameters as of :func:`write`.

    :param files: names of the CSV files.
    """
    night = nights[-1]
    cases = night.cases
    # Only nights are in a trend, and as its last point the session that is shown.
    followed = [*(earlier for earlier in nights[:-1] if earlier.is_nightly), night]
    all_trends = trends.trends(series, changes, followed, MOST_PLOTS // 2)
    drawn = [trend for trend in all_trends if trend.chart]
    shown = applications(followed, MOST_PLOTS - len(drawn))
    failures, skips = page_cases.failures(cases), table.by_reason(cases)
    failed, unmeasured = (
        [pair for pair in failures if page_cases.state(pair[0]) is state]
        for state in (page_cases.FAIL, page_cases.UNMEASURED)
    )
    in_full = [case for case, _ in (*failed[:MOST_CASES], *unmeasured[:MOST_CASES])]
    links = page_cases.links(in_full, skips)
    return (
        _environment(cases)
        .get_template("page.html")
        .render(
            night=night.name,
            nights=len(followed),
            series=len(series),
            systems=sorted({case.key[0] for case in cases} - {""}),
            cases=len(cases),
            counted=page_cases.counted(cases),
            problems=problems,
            causes=trends.alarms_first(causes(changes)),
            trend_of={trends.group(each): trend.anchor for trend in drawn for each in trend.series},
            questions=table.questions(cases),
            failed=failed,
            unmeasured=unmeasured,
            links=links,
            open=page_cases.still_open(cases),
            skips=skips,
            remarks=[*table.notes(cases), *table.last_line(cases)],
            matrices=page_cases.matrices(cases, links),
            applications=shown,
            published=as_published.table(nights),
            anchors={application.name: application.anchor for application in shown},
            changed=[trend for trend in all_trends if trend.changes],
            unchanged=trends.unchanged(all_trends, followed),
            provenance=page_cases.provenance([case for case in cases if case.result != "skip"]),
            files=[(name, quote(name)) for name in files],
        )
    )


def _environment(cases: Sequence[Case]) -> Environment:
    """Return the templates' environment, with the functions that they call on cases and changes."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def command(chosen: Iterable[Case]) -> str:
        return page_cases.command(list(chosen), cases)

    def command_of(changes: Sequence[Change]) -> str:
        keys = {key for change in changes for key in change.series.cases}
        return command(case for case in cases if case.key in keys)

    # The templates name these in capitals, as the modules do.
    environment.globals.update(
        STATES=page_cases.ALL,
        OPEN=page_cases.OPEN,
        SKIP=page_cases.SKIP,
        MOST=MOST_CASES,
        AT_ONCE=AT_ONCE,
        COLORS=drawing.COLORS,
        STYLE=Markup((TEMPLATES / "style.css").read_text(encoding="utf-8")),
        page_cases=page_cases,
        trend_texts=trends,
        command=command,
        command_of=command_of,
        count=count,
        name=partial(wording.name, where=True),
        listed=wording.listed,
        first_line=partial(wording.shortened, most=FIRST_LINE),
        tally=selections.tally,
    )
    return environment


def _clean(value: Any) -> Any:
    """Return a text without the characters that a page cannot hold; markup and other values stay as they are."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else wording.plain(value)
