"""The cases of a night that failed, or could not be measured: with reason, command, and the scripts of the job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from containercheck.node.explain import explanation
from containercheck.report import summary
from containercheck.report.page import rerun, wording
from containercheck.report.page.states import ALL, UNMEASURED, State, state
from containercheck.results import open_verdicts, selections
from containercheck.results.cases import Case
from containercheck.results.formatting import count
from containercheck.results.row import Row

#: Most letters of a reason in its line; all of it is below.
FIRST_LINE = 180
#: Most cases that are shown in full; of the others, only name and reason: a whole partition may be down.
MOST = 40


@dataclass(frozen=True)
class Failure:
    """A case that failed, or was not measured.

    :ivar anchor: identifies it on the page.
    :ivar first: the first line of the reason.
    :ivar why: what explains it, in a line; empty where nothing is known.
    :ivar remark: further remarks.
    :ivar scripts: name and text of the scripts that its job ran.
    """

    anchor: str
    name: str
    state: State
    first: str
    why: str
    reason: str
    remark: str
    command: str
    stage: str
    scripts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Failures:
    """Cases that failed in the same way.

    :ivar told: the first of them, which are shown in full.
    :ivar others: a line for each of the others.
    """

    told: tuple[Failure, ...]
    others: tuple[str, ...]

    @classmethod
    def of(cls, failures: Sequence[Failure]) -> Failures:
        """Show only the first failures in full."""
        others = (f"{failure.name}: {wording.shortened(failure.first, FIRST_LINE)}" for failure in failures[MOST:])
        return cls(tuple(failures[:MOST]), tuple(others))


@dataclass(frozen=True)
class Open:
    """A case with open verdicts.

    :ivar tally: how many of its figures pass, and how many are open.
    :ivar figures: a text on each open figure.
    """

    name: str
    state: State
    tally: str
    figures: tuple[str, ...]
    command: str


def failures(cases: Sequence[Case]) -> list[tuple[Case, Failure]]:
    """Return the cases that count as failed: first those that were measured, then the others."""
    failed = [(case, run) for case in cases for run in [selections.failure(case)] if run]
    failed.sort(key=lambda pair: (state(pair[0]) is UNMEASURED, pair[0].label, pair[0].variant, pair[0].nodes))
    return [(case, _failure(place, case, run, cases)) for place, (case, run) in enumerate(failed, 1)]


def _failure(place: int, case: Case, run: Case, cases: Sequence[Case]) -> Failure:
    reason = run.reason or f"ReFrame says no more than: {run.result}"
    return Failure(
        f"failure-{place}",
        wording.name(case, where=True),
        state(case),
        wording.shortened(reason, FIRST_LINE),
        wording.shortened(next(iter(explanation.lines(run.causes)), ""), FIRST_LINE),
        reason,
        _remark(case, run),
        rerun.command([case], cases),
        run.stage,
        tuple(rerun.scripts(run)),
    )


def _remark(case: Case, run: Case) -> str:
    """Return further remarks on a failure: how many figures failed, and whether a later run passed."""
    tally = open_verdicts.tally(run)
    sentences = [f"Of its figures: {tally}."] if " of " in tally else []
    if run is not case:
        sentences.append("It passed when it was run again later; that does not excuse the failure.")
    return " ".join(sentences)


def still_open(cases: Sequence[Case]) -> list[Open]:
    """Return the cases with open verdicts, the most urgent first."""
    open_cases = []
    for case in cases:
        rows = open_verdicts.open_rows(case)
        if rows:
            figures = tuple(f"{row.figure}: {open_verdicts.describe(row)} ({_rounds(row)})" for row in rows)
            name, tally = wording.name(case, where=True), open_verdicts.tally(case)
            open_cases.append(Open(name, state(case), tally, figures, rerun.command([case], cases)))
    return sorted(open_cases, key=lambda entry: ALL.index(entry.state))


def _rounds(row: Row) -> str:
    needed, after = row.rounds_needed, f"after {count(row.rounds, 'round')}"
    return f"{after}, {needed} are expected to do" if needed else f"{after}, no number of rounds is known to do"


def remarks(cases: Sequence[Case]) -> list[str]:
    """Return remarks on the night beside its figures: which processes disturbed it, and which verdicts are open."""
    return [*summary.notes(cases), *summary.last_line(cases)]
