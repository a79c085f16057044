"""Write the HTML report: the results of a night, and the changes since earlier nights, or a comparison.

It is one static file that needs no network and no script. The modules return its parts as values: changes and trends,
cases (states, failures, matrix), plots and tables of each application, comparison with published figures, and
provenance. ``plots`` draws all plots. The files in ``templates`` make the page, and jinja2 escapes every text from a
result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from containercheck.history.causes import causes
from containercheck.history.change_points import LevelChange
from containercheck.history.nights import Night
from containercheck.history.series import Series
from containercheck.report import table
from containercheck.report.page import cases as page_cases
from containercheck.report.page import published, trends
from containercheck.report.page.applications import applications
from containercheck.results import exported, states
from containercheck.results.cases import Case
from containercheck.results.formatting import count, first_line, write_file

#: Most plots of trends; most cases with all details, as a whole partition may be down (others have name
#: and reason); changes of a cause that are shown without a click.
MOST_TRENDS, MOST_CASES, AT_ONCE = 50, 40, 4
TEMPLATES = Path(__file__).resolve().parent / "templates"


def write(
    nights: Sequence[Night],
    series: Sequence[Series],
    changes: Sequence[LevelChange],
    path: Path,
    problems: Sequence[str] = (),
) -> None:
    """Write the page in one step.

    :param nights: result of ``history.nights.nights``, at least one night. The page shows the last one; earlier nights
        are in the trends.
    :param series: result of ``history.series.series`` for these nights.
    :param changes: result of ``history.change_points.standing`` for all these series.
    :param problems: problems other than results, one line each; shown first.
    :raises OSError: the file cannot be written; an earlier one is not changed.
    """
    write_file(path, html(nights, series, changes, problems))


def write_comparison(
    path: Path,
    both: Sequence[str],
    counted: str,
    tables: Sequence[page_cases.Table],
    differences: Mapping[str, Sequence[str]],
) -> None:
    """Write the page of a comparison, in one step.

    :param both: words for its halves.
    :param counted: numbers of its metrics, in a sentence.
    :param tables: its metrics in plain columns, and in all others.
    :param differences: lines on recorded differences, by the names of cases.
    :raises OSError: the file cannot be written; an earlier file is not changed.
    """
    template = _environment(()).get_template("compared.html")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, template.render(both=both, counted=counted, tables=tables, differences=differences))


def html(
    nights: Sequence[Night],
    series: Sequence[Series],
    changes: Sequence[LevelChange],
    problems: Sequence[str],
) -> str:
    """Return the page as HTML; the parameters are those of :func:`write`."""
    night = nights[-1]
    cases = night.cases
    # Trends have only nights, except for the last point: the shown session.
    followed = [*(earlier for earlier in nights[:-1] if earlier.is_nightly), night]
    all_trends = trends.trends(changes, series, followed, MOST_TRENDS)
    drawn = [trend for trend in all_trends if trend.chart]
    shown = applications(cases)
    failures, skips = page_cases.failures(cases), table.by_reason(cases)
    failed, unmeasured = (
        [pair for pair in failures if states.state_of(pair[0]) is state] for state in (states.FAIL, states.UNMEASURED)
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
            counted=states.counted(cases),
            problems=problems,
            causes=trends.alarms_first(causes(changes)),
            trend_of={each.of_metric: trend.anchor for trend in drawn for each in trend.series},
            questions=table.questions(cases),
            failed=failed,
            unmeasured=unmeasured,
            links=links,
            open=page_cases.still_open(cases),
            skips=skips,
            remarks=[*table.notes(cases), *table.last_line(cases)],
            matrices=page_cases.matrices(cases, links),
            applications=shown,
            published=published.table(cases),
            anchors={application.name: application.anchor for application in shown},
            changed=all_trends,
            breaks=[each for each in followed if each.changed],
            provenance=page_cases.provenance([case for case in cases if case.result != "skip"]),
        )
    )


def _environment(cases: Sequence[Case]) -> Environment:
    """Return the environment of the templates, with their functions for cases and changes."""
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

    def command_of(changes: Sequence[LevelChange]) -> str:
        keys = {key for change in changes for key in change.series.cases}
        return command(case for case in cases if case.key in keys)

    # Constants have names in capitals in the templates too.
    environment.globals.update(
        MOST=MOST_CASES,
        AT_ONCE=AT_ONCE,
        STYLE=Markup((TEMPLATES / "style.css").read_text(encoding="utf-8")),
        page_cases=page_cases,
        states=states,
        exported=exported,
        table=table,
        trend_texts=trends,
        command=command,
        command_of=command_of,
        count=count,
        name=partial(page_cases.name, where=True),
        first_line=first_line,
    )
    return environment


def _clean(value: Any) -> Any:
    """Return a text without the characters that a page cannot have; return markup and other values unchanged."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else page_cases.plain(value)
