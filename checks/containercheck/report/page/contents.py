"""The contents of the page as values, without HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from containercheck.history.causes import causes
from containercheck.history.change_points import Change
from containercheck.history.nights import Night
from containercheck.history.series import Series
from containercheck.report import answers
from containercheck.report.page import as_published, charts, failures, matrix, states, trends
from containercheck.report.page import changed as changed_
from containercheck.report.page.applications import Application, applications
from containercheck.report.page.changed import ToldCause
from containercheck.report.page.failures import Failures, Open
from containercheck.report.page.matrix import Matrix, Skip
from containercheck.report.page.provenance import Provenance, provenance
from containercheck.report.page.states import State
from containercheck.report.page.trends import Trend, Unchanged
from containercheck.report.page.wording import Table
from containercheck.results.cases import Case


@dataclass(frozen=True)
class Page:
    """The contents of the page on a night.

    :ivar night: name of the night.
    :ivar nights: number of nights, with this one.
    :ivar series: number of series.
    :ivar systems: names of the systems that it ran on.
    :ivar cases: number of cases, with those that were skipped.
    :ivar counted: number of cases in each state.
    :ivar problems: problems besides the results.
    :ivar questions: lines on cases that may be too slow or too fast, which is not certain.
    :ivar failed, unmeasured: cases that failed in what they measured, and before they measured anything.
    :ivar published: the documents' figures, with what the nights say of each.
    :ivar remarks: remarks on the night beside its figures.
    """

    night: str
    nights: int
    series: int
    systems: tuple[str, ...]
    cases: int
    counted: tuple[tuple[State, int], ...]
    problems: tuple[str, ...]
    causes: tuple[ToldCause, ...]
    questions: tuple[str, ...]
    failed: Failures
    unmeasured: Failures
    open: tuple[Open, ...]
    skips: tuple[Skip, ...]
    remarks: tuple[str, ...]
    matrices: tuple[Matrix, ...]
    applications: tuple[Application, ...]
    published: Table
    changed: tuple[Trend, ...]
    unchanged: tuple[Unchanged, ...]
    provenance: Provenance

    @property
    def alarms(self) -> bool:
        """Whether there is a regression: a confirmed change for the worse, or a case that failed."""
        return bool(self.failed.told) or any(cause.alarms for cause in self.causes)

    @property
    def anchors(self) -> dict[str, str]:
        """Where each application's part is on the page, by its name."""
        return _anchors(self.applications)


def page(nights: Sequence[Night], series: Sequence[Series], changes: Sequence[Change], problems: Sequence[str]) -> Page:
    """Return the contents of the page.

    :param nights: the last one is shown; at least one.
    :param series: the series of all these nights.
    """
    night = nights[-1]
    published = as_published.table(nights)
    # Only nights are in a trend, and as its last point the session that is shown.
    nights = [*(earlier for earlier in nights[:-1] if earlier.is_nightly), night]
    cases = night.cases
    all_trends = trends.trends(series, changes, nights, charts.MOST // 2)
    left = charts.MOST - sum(trend.chart is not None for trend in all_trends)
    application_parts = applications(nights, left)
    failed = failures.failures(cases)
    reasons = matrix.skips(cases)
    targets: dict[Any, str] = _anchors(application_parts)
    kinds = {kind: Failures.of([failure for _, failure in failed if failure.state is kind]) for kind in states.FAILED}
    detailed = {failure.anchor for kind in kinds.values() for failure in kind.told}
    targets.update({case.key: failure.anchor for case, failure in failed if failure.anchor in detailed})
    anchors = {trends.group(member): trend.anchor for trend in all_trends if trend.chart for member in trend.series}
    return Page(
        night=night.name,
        nights=len(nights),
        series=len(series),
        systems=tuple(sorted({case.key[0] for case in cases} - {""})),
        cases=len(cases),
        counted=tuple(states.counted(cases)),
        problems=tuple(problems),
        causes=tuple(changed_.cause_lines(causes(changes), cases, anchors)),
        questions=tuple(answers.questions(cases)),
        failed=kinds[states.FAIL],
        unmeasured=kinds[states.UNMEASURED],
        open=tuple(failures.still_open(cases)),
        skips=tuple(reasons.values()),
        remarks=tuple(failures.remarks(cases)),
        matrices=tuple(matrix.matrices(cases, reasons, targets)),
        applications=tuple(application_parts),
        published=published,
        changed=tuple(trend for trend in all_trends if trend.changes),
        unchanged=tuple(trends.unchanged(all_trends, nights)),
        provenance=provenance(_ran(cases)),
    )


def _anchors(parts: Sequence[Application]) -> dict[str, str]:
    return {application.name: application.anchor for application in parts}


def _ran(cases: Sequence[Case]) -> list[Case]:
    return [case for case in cases if case.result != "skip"]
