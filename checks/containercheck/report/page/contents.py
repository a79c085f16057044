"""All that the page shows, as values; nothing here knows HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from containercheck.history.causes import causes
from containercheck.history.change_points import Change
from containercheck.history.nights import Night
from containercheck.history.series import Series
from containercheck.report import answers
from containercheck.report.page import changed as changed_
from containercheck.report.page import charts, failures, matrix, states, trends
from containercheck.report.page.applications import Application, applications
from containercheck.report.page.changed import ToldCause
from containercheck.report.page.failures import Failures, Open
from containercheck.report.page.matrix import Matrix, Skip
from containercheck.report.page.provenance import Provenance, provenance
from containercheck.report.page.states import State
from containercheck.report.page.trends import Trend, Unchanged
from containercheck.results.cases import Case


@dataclass(frozen=True)
class Page:
    """A night, and the nights before it.

    :ivar night: its name.
    :ivar nights: how many there are, with it.
    :ivar series: how many there are.
    :ivar systems: which it ran on.
    :ivar cases: how many it had, those that were skipped too.
    :ivar counted: how many of them came to what.
    :ivar problems: what is wrong besides the results.
    :ivar questions: what may be wrong and is not certain: cases that are too slow, or too fast.
    :ivar failed, unmeasured: cases that failed in what they measured, and before they measured anything.
    :ivar slow_once: cases that were slow, which a second run did not confirm.
    :ivar remarks: what has to be said of the night beside its figures.
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
    slow_once: tuple[str, ...]
    open: tuple[Open, ...]
    skips: tuple[Skip, ...]
    remarks: tuple[str, ...]
    matrices: tuple[Matrix, ...]
    applications: tuple[Application, ...]
    changed: tuple[Trend, ...]
    unchanged: tuple[Unchanged, ...]
    provenance: Provenance

    @property
    def alarms(self) -> bool:
        """Whether there is a regression: a confirmed change for the worse, or a case that failed."""
        return bool(self.failed.told) or any(cause.alarms for cause in self.causes)


def page(nights: Sequence[Night], series: Sequence[Series], changes: Sequence[Change], problems: Sequence[str]) -> Page:
    """Return what there is to show.

    :param nights: the last one is shown; one at least.
    :param series: of all these nights.
    """
    night = nights[-1]
    # Other sessions than nights are no part of a trend, whose last place is the session that is shown.
    nights = [*(one for one in nights[:-1] if one.is_nightly), night]
    cases = night.cases
    found = trends.trends(series, changes, nights, charts.MOST // 2)
    left = charts.MOST - sum(trend.chart is not None for trend in found)
    of_applications = applications(nights, left)
    failed = failures.failures(cases)
    reasons = matrix.skips(cases)
    targets: dict[Any, str] = {one.name: one.anchor for one in of_applications}
    kinds = {kind: Failures.of([one for _, one in failed if one.state is kind]) for kind in states.FAILED}
    told = {one.anchor for kind in kinds.values() for one in kind.told}
    targets.update({case.key: one.anchor for case, one in failed if one.anchor in told})
    anchors = {trends.group(one): trend.anchor for trend in found if trend.chart for one in trend.series}
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
        slow_once=tuple(failures.slow_once(cases)),
        open=tuple(failures.still_open(cases)),
        skips=tuple(reasons.values()),
        remarks=tuple(failures.remarks(cases)),
        matrices=tuple(matrix.matrices(cases, reasons, targets)),
        applications=tuple(of_applications),
        changed=tuple(trend for trend in found if trend.changes),
        unchanged=tuple(trends.unchanged(found, nights)),
        provenance=provenance(_ran(cases)),
    )


def _ran(cases: Sequence[Case]) -> list[Case]:
    return [case for case in cases if case.result != "skip"]
