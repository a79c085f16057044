"""The page as HTML, from the values of its parts; jinja2 escapes every text that comes from a result."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from containercheck.history.causes import causes
from containercheck.history.change_points import Change
from containercheck.history.nights import Night
from containercheck.history.series import Series
from containercheck.report import table
from containercheck.report.page import as_published, drawing, trends, wording
from containercheck.report.page import cases as page_cases
from containercheck.report.page.applications import applications
from containercheck.report.page.provenance import provenance
from containercheck.results.formatting import count

#: Most plots of trends and over nodes.
MOST = 100
TEMPLATES = Path(__file__).resolve().parent / "templates"


def html(
    nights: Sequence[Night],
    series: Sequence[Series],
    changes: Sequence[Change],
    problems: Sequence[str],
    files: Sequence[str],
) -> str:
    """Return the page as HTML.

    :param nights: the last one is shown; at least one.
    :param series: the series of all these nights.
    :param files: names of the CSV files beside it.
    """
    night = nights[-1]
    cases = night.cases
    # Only nights are in a trend, and as its last point the session that is shown.
    followed = [*(earlier for earlier in nights[:-1] if earlier.is_nightly), night]
    all_trends = trends.trends(series, changes, followed, MOST // 2)
    parts = applications(followed, MOST - sum(trend.chart is not None for trend in all_trends))
    anchors = {part.name: part.anchor for part in parts}
    failures = page_cases.failures(cases)
    kinds = [[(case, failure) for case, failure in failures if failure.state is kind] for kind in page_cases.FAILED]
    targets: dict[Hashable, str] = {part.name: part.anchor for part in parts}
    for kind in kinds:
        targets.update({case.key: failure.anchor for case, failure in kind[: page_cases.MOST]})
    failed, unmeasured = ([failure for _, failure in kind] for kind in kinds)
    skips = page_cases.skips(cases)
    return _template().render(
        night=night.name,
        nights=len(followed),
        series=len(series),
        systems=sorted({case.key[0] for case in cases} - {""}),
        cases=len(cases),
        counted=page_cases.counted(cases),
        problems=problems,
        causes=trends.changed(causes(changes), cases, all_trends),
        questions=table.questions(cases),
        failed=failed,
        unmeasured=unmeasured,
        open=page_cases.still_open(cases),
        skips=list(skips.values()),
        remarks=[*table.notes(cases), *table.last_line(cases)],
        matrices=page_cases.matrices(cases, skips, targets),
        applications=parts,
        published=as_published.table(nights),
        anchors=anchors,
        changed=[trend for trend in all_trends if trend.changes],
        unchanged=trends.unchanged(all_trends, followed),
        provenance=provenance([case for case in cases if case.result != "skip"]),
        files=[(name, quote(name)) for name in files],
    )


def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The templates name these in capitals, as the modules do.
    constants = {"STATES": page_cases.ALL, "OPEN": page_cases.OPEN, "SKIP": page_cases.SKIP, "MOST": page_cases.MOST}
    style = Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))
    environment.globals.update(constants, COLORS=drawing.COLORS, STYLE=style, count=count)
    return environment.get_template("page.html")


def _clean(value: Any) -> Any:
    """Return a text without the characters that a page cannot hold; markup and other values stay as they are."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else wording.plain(value)
