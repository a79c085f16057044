"""The cases of a night on the page: their states, the matrix, failures and skips, and the commands that repeat them.

Each state has a word and a sign, and never a color alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from containercheck.job.explain import explanation
from containercheck.job.stats import forecasts
from containercheck.report.page import wording
from containercheck.report.page.wording import variant_order
from containercheck.results import selections
from containercheck.results.cases import Asked, Case
from containercheck.results.formatting import count, typed
from containercheck.results.row import EMULATED as NOT_JUDGED
from containercheck.results.row import Row

#: Most letters of a reason in its line; all of it is below.
FIRST_LINE = 180
#: Most cases that are shown in full; of the others, only name and reason: a whole partition may be down.
MOST = 40
#: A comment in a job's script with the command of a side (containercheck.sides.commands).
RUNS = re.compile(r"# (?P<label>.+?) runs: (?P<text>.*)")
#: Anchors on the page, by the name of an application and by the key of a failed case.
Anchors = Mapping[Hashable, str]
#: Arguments with which the cases of the full axes run.
FULL = ("-S", "full=yes")


@dataclass(frozen=True)
class State:
    """A state of a case.

    :ivar color: name of a color of the page.
    :ivar meaning: text of the legend.
    """

    word: str
    sign: str
    color: str
    meaning: str


FAIL = State("fail", "✗", "bad", "slower than accepted, confirmed in the same job; or wrong answers, ranks, a hang")
UNMEASURED = State("not run", "!", "bad", "ended before anything was measured: aborted, not set up, not built")
SLOWER = State("too slow?", "▲", "doubt", "slower than accepted in most rounds, not certain yet")
FASTER = State("too fast?", "▼", "doubt", "better than its rounds explain: does it compute the same?")
CLOSE = State("close", "◇", "doubt", "close to the tolerance: more rounds may not decide")
NOISY = State("noisy", "…", "doubt", "its rounds spread too much; the largest possible overhead is shown")
OPEN = State("open", "?", "doubt", 'more rounds may not decide; see "What could not be measured"')
KNOWN = State("known", "≈", "good", "an overhead or a failure that a reference expects")
EMULATED = State("emulated", "∿", "muted", "overheads are reported, not judged: the processors are emulated")
PASS = State("pass", "✓", "good", "every metric is within its tolerance")
BARE = State("measured", "○", "muted", "bare only, without a reference to compare it with")
SKIP = State("skipped", "–", "muted", "not run; the number leads to the reason")
FAILED = (FAIL, UNMEASURED)
#: State of a case by the most urgent kind of its open metrics.
OF_KIND = {
    forecasts.SLOWER: SLOWER,
    forecasts.FASTER: FASTER,
    forecasts.CLOSE: CLOSE,
    forecasts.NOISY: NOISY,
}
#: All states, the worst first.
ALL = (FAIL, UNMEASURED, SLOWER, FASTER, CLOSE, NOISY, OPEN, KNOWN, PASS, EMULATED, BARE, SKIP)


def state(case: Case) -> State:
    """Return the state of a case."""
    run = selections.failure(case)
    if run:
        return FAIL if selections.is_regression(run) else UNMEASURED
    if case.result == "skip":
        return SKIP
    still_open = selections.open_rows(case)
    if still_open:
        return OF_KIND.get(still_open[0].open_kind, OPEN)
    if any(row.verdict == NOT_JUDGED for row in case.rows):
        return EMULATED
    if case.result in ("xfail", "xpass") or any(row.expected for row in case.rows):
        return KNOWN
    compared = any(row.is_comparison for row in case.rows)
    # ReFrame's database has each as value, reference, lower and upper bound, unit and result; 0 for no reference.
    referenced = any(tuple(values[1:4]) != (0, None, None) for values in case.performance.values())
    return PASS if compared or referenced or not case.rows else BARE


def counted(cases: Iterable[Case]) -> list[tuple[State, int]]:
    """Return the number of cases in each state, the worst first, without states that no case has."""
    case_states = [state(case) for case in cases]
    return [(kind, case_states.count(kind)) for kind in ALL if kind in case_states]


def command(cases: Sequence[Case], everything: Sequence[Case]) -> str:
    """Return the command that runs exactly these cases, all of one partition and environment; "" for none.

    ReFrame searches for the expression in the name as it shows it, without the spaces. Configuration files and
    variables are those of the session in which the first of the cases ran.

    :param everything: all cases of the night: the environment is named only where its partition has several.
    """
    if not cases:
        return ""
    system, partition, environ, _ = cases[0].key
    selection = "|".join(f"^{_escaped(case.name.replace(' ', ''))}$" for case in cases)
    words = [f"--system={system}:{partition}"] if system else []
    if any(case.key[:2] == (system, partition) and case.key[2] != environ for case in everything):
        words += ["-p", f"^{_escaped(environ)}$"]
    asked = _asked(cases[0])
    words += ["-n", selection, *asked.options]
    if any("full" in case.tags for case in cases) and FULL[1] not in asked.options:
        words += FULL
    # Only the value is quoted: a quoted variable name would be taken for a command.
    files = f"RFM_CONFIG_FILES={shlex.quote(':'.join(asked.files))} " if asked.files else ""
    return f"{files}{typed('run')} {shlex.join(words)}"


def _asked(case: Case) -> Asked:
    """Return the request of the last session that ran a case from its beginning, and not to confirm or continue."""
    runs = (case, *reversed(case.earlier))
    return next((run.asked for run in runs if not run.nightly_pass and not run.asked.goes_on), case.asked)


def _escaped(text: str) -> str:
    # ReFrame reads a name with an @ as a test and the number of its variant.
    return re.escape(text).replace("\\-", "-").replace("@", ".")


def scripts(case: Case) -> list[tuple[str, str]]:
    """Return the label of each of a case's sides and the commands that it runs; none without a job."""
    sides: dict[str, list[str]] = {}
    for match in filter(None, map(RUNS.fullmatch, case.commands)):
        sides.setdefault(match["label"], []).append(match["text"])
    return [(label, "\n".join(texts)) for label, texts in sides.items()]


@dataclass(frozen=True)
class Failure:
    """A case that failed, or was not measured.

    :ivar anchor: identifies it on the page.
    :ivar first: the first line of the reason.
    :ivar why: the likely cause, in a line; empty where none is known.
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
class Open:
    """A case with open verdicts.

    :ivar tally: how many of its metrics pass, and how many are open.
    :ivar metrics: a text on each open metric.
    """

    name: str
    state: State
    tally: str
    metrics: tuple[str, ...]
    command: str


def failures(cases: Sequence[Case]) -> list[tuple[Case, Failure]]:
    """Return the cases that count as failed: first those that were measured, then the others."""
    failed = [(case, run) for case in cases for run in [selections.failure(case)] if run]
    failed.sort(key=lambda pair: (state(pair[0]) is UNMEASURED, pair[0].label, pair[0].variant, pair[0].nodes))
    return [(case, _failure(place, case, run, cases)) for place, (case, run) in enumerate(failed, 1)]


def _failure(place: int, case: Case, run: Case, cases: Sequence[Case]) -> Failure:
    reason = run.reason or f"ReFrame reports only: {run.result}"
    return Failure(
        f"failure-{place}",
        wording.name(case, where=True),
        state(case),
        wording.shortened(reason, FIRST_LINE),
        wording.shortened(next(iter(explanation.lines(run.causes)), ""), FIRST_LINE),
        reason,
        _remark(case, run),
        command([case], cases),
        run.stage,
        tuple(scripts(run)),
    )


def _remark(case: Case, run: Case) -> str:
    """Return further remarks on a failure: how many metrics failed, and whether a later run passed."""
    tally = selections.tally(run)
    sentences = [f"Of its metrics: {tally}."] if " of " in tally else []
    if run is not case:
        sentences.append("A later run passed; the failure remains.")
    return " ".join(sentences)


def still_open(cases: Sequence[Case]) -> list[Open]:
    """Return the cases with open verdicts, the most urgent first."""
    open_cases = []
    for case in cases:
        rows = selections.open_rows(case)
        if rows:
            metrics = tuple(f"{row.metric}: {selections.describe(row)} ({_rounds(row)})" for row in rows)
            name, tally = wording.name(case, where=True), selections.tally(case)
            open_cases.append(Open(name, state(case), tally, metrics, command([case], cases)))
    return sorted(open_cases, key=lambda entry: ALL.index(entry.state))


def _rounds(row: Row) -> str:
    needed, after = row.rounds_needed, f"after {count(row.rounds, 'round')}"
    return f"{after}, {needed} are expected to be enough" if needed else f"{after}, and no number is known to be enough"


@dataclass(frozen=True)
class Entry:
    """Cases of a cell in the same state.

    :ivar target: anchor of the text about them; empty without one.
    :ivar mark: text of the link to it.
    """

    state: State
    count: int
    target: str
    mark: str


@dataclass(frozen=True)
class MatrixRow:
    """A row: an application with the axes that differ; a cell is empty where there is no case."""

    name: str
    target: str
    cells: tuple[tuple[Entry, ...], ...]


@dataclass(frozen=True)
class Matrix:
    """The matrix of a partition.

    :ivar groups: the variants, with the numbers of nodes of each.
    """

    partition: str
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    rows: tuple[MatrixRow, ...]


@dataclass(frozen=True)
class Skip:
    """A reason for which cases were skipped, with their number and names."""

    anchor: str
    mark: str
    reason: str
    count: int
    who: str


def skips(cases: Sequence[Case]) -> dict[str, Skip]:
    """Return the skips by their reasons, the rarest reason first, as it is the most informative."""
    by_reason: dict[str, list[Case]] = {}
    for case in cases:
        if case.result == "skip":
            by_reason.setdefault(case.skip_reason, []).append(case)
    ordered = sorted(by_reason.items(), key=lambda item: len(item[1]))
    return {
        reason: Skip(f"skip-{place}", str(place), reason, len(skipped), _who(skipped))
        for place, (reason, skipped) in enumerate(ordered, 1)
    }


def _who(cases: Sequence[Case]) -> str:
    names = [wording.name(case) for case in cases]
    applications = sorted({case.application for case in cases})
    return ", ".join(names) if len(names) <= wording.NAMED else ", ".join(applications)


def matrices(cases: Sequence[Case], reasons: Mapping[str, Skip], targets: Anchors) -> list[Matrix]:
    """Return a matrix for each partition.

    :param reasons: result of :func:`skips`.
    """
    partitions: dict[str, list[Case]] = {}
    for case in cases:
        partitions.setdefault(wording.place(case), []).append(case)
    return [_matrix(name, of_partition, reasons, targets) for name, of_partition in sorted(partitions.items())]


def _matrix(partition: str, cases: Sequence[Case], reasons: Mapping[str, Skip], targets: Anchors) -> Matrix:
    ran: dict[str, set[str]] = {}
    for case in cases:
        if case.result != "skip":
            ran.setdefault(case.application, set()).add(case.label)
    rows: dict[tuple[str, str], dict[tuple[str, int], list[Case]]] = {}
    for case in cases:
        label = _label(case, ran.get(case.application, set()))
        if label:
            rows.setdefault((case.application, label), {}).setdefault((case.variant, case.nodes), []).append(case)
    places = {place for cells in rows.values() for place in cells}
    ordered = sorted(places, key=lambda place: (variant_order(place[0]), place))
    groups = {variant: tuple(n for name, n in ordered if name == variant) for variant, _ in ordered}
    return Matrix(
        partition,
        tuple(groups.items()),
        tuple(
            MatrixRow(
                label, targets.get(name, ""), tuple(_cell(cells.get(place, ()), reasons, targets) for place in ordered)
            )
            for (name, label), cells in sorted(rows.items())
        ),
    )


def _label(case: Case, ran: Collection[str]) -> str:
    """Return the name of a case's row; empty for a skipped case whose label did not run while others did.

    :param ran: labels of the cases of its application that ran.
    """
    if case.label in ran:
        return case.label
    return "" if ran else case.application


def _cell(cases: Sequence[Case], reasons: Mapping[str, Skip], targets: Anchors) -> tuple[Entry, ...]:
    by_state: dict[State, list[Case]] = {}
    for case in cases:
        by_state.setdefault(state(case), []).append(case)
    if len(by_state) > 1:
        # Skips do not show beside cases that ran.
        by_state.pop(SKIP, None)
    return tuple(_entry(kind, by_state[kind], reasons, targets) for kind in ALL if kind in by_state)


def _entry(kind: State, cases: Sequence[Case], reasons: Mapping[str, Skip], targets: Anchors) -> Entry:
    if kind is SKIP:
        reason = reasons[cases[0].skip_reason]
        return Entry(kind, len(cases), reason.anchor, f"why: {reason.mark}")
    target = next((targets[case.key] for case in cases if case.key in targets), "")
    return Entry(kind, len(cases), target, "why" if target else "")
