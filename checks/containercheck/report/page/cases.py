"""The cases of a night on the page: states, matrix, failures, skips, the commands that repeat them, and provenance.

Each state has a word and a sign, and never a color alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from containercheck.job.explain import explanation
from containercheck.job.stats import forecasts
from containercheck.report.page import wording
from containercheck.report.page.wording import Table, share_of, variant_order
from containercheck.report.table import Reason
from containercheck.results import selections
from containercheck.results.cases import Asked, Case, Key
from containercheck.results.formatting import count, size, typed
from containercheck.results.row import EMULATED as NOT_JUDGED
from containercheck.results.row import Row
from containercheck.results.sides_seen import OTHERS
from containercheck.session.usage import FULL

#: A comment in a job's script with the command of a side (containercheck.sides.commands).
RUNS = re.compile(r"# (?P<label>.+?) runs: (?P<text>.*)")
#: Parts of a provenance that have a table of their own, or differ in nearly every case.
OWN = ("runtimes", "image", "image_sha256", "image_bytes", "image_content_bytes", "image_release")
#: Beginnings of the names that come first among the others.
FIRST = ("machine", "host", "mpi")


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
#: State of a case by the most urgent kind of its open metrics.
OF_KIND = {forecasts.SLOWER: SLOWER, forecasts.FASTER: FASTER, forecasts.CLOSE: CLOSE, forecasts.NOISY: NOISY}
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


def failures(cases: Sequence[Case]) -> list[tuple[Case, Case]]:
    """Return the cases that count as failed, each with the run that failed."""
    failed = [(case, run) for case in cases if (run := selections.failure(case))]
    return sorted(failed, key=lambda pair: (pair[0].label, pair[0].variant, pair[0].nodes))


def reason(run: Case) -> str:
    """Return why a run failed."""
    return run.reason or f"ReFrame reports only: {run.result}"


def why(run: Case) -> str:
    """Return the likely cause of a failure, in a line; empty where none is known."""
    return next(iter(explanation.lines(run.causes)), "")


def remark(case: Case, run: Case) -> str:
    """Return further remarks on a failure: how many metrics failed, and whether a later run passed."""
    tally = selections.tally(run)
    sentences = [f"Of its metrics: {tally}."] if " of " in tally else []
    if run is not case:
        sentences.append("A later run passed; the failure remains.")
    return " ".join(sentences)


def still_open(cases: Iterable[Case]) -> list[Case]:
    """Return the cases with open verdicts, the most urgent first."""
    return sorted((case for case in cases if selections.open_rows(case)), key=lambda case: ALL.index(state(case)))


def open_metrics(case: Case) -> list[str]:
    """Return a text on each open metric of a case."""
    return [f"{row.metric}: {selections.describe(row)} ({_rounds(row)})" for row in selections.open_rows(case)]


def _rounds(row: Row) -> str:
    needed, after = row.rounds_needed, f"after {count(row.rounds, 'round')}"
    return f"{after}, {needed} are expected to be enough" if needed else f"{after}, and no number is known to be enough"


@dataclass(frozen=True)
class Link:
    """A link within the page.

    :ivar anchor: identifies its target.
    :ivar text: text to click on.
    """

    anchor: str
    text: str


@dataclass(frozen=True)
class CellState:
    """Cases of a cell in the same state, with the link of the first that has one."""

    state: State
    count: int
    link: Link | None


@dataclass(frozen=True)
class MatrixRow:
    """A row: an application with the axes that differ; a cell is empty where there is no case."""

    application: str
    name: str
    cells: tuple[tuple[CellState, ...], ...]


@dataclass(frozen=True)
class Matrix:
    """The matrix of a partition.

    :ivar groups: the variants, with the numbers of nodes of each.
    """

    partition: str
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    rows: tuple[MatrixRow, ...]


def links(failed: Iterable[Case], skips: Iterable[Reason]) -> dict[Key, Link]:
    """Return the links of cases to the text about them: why they failed, or were skipped."""
    found = {case.key: Link(f"failure-{place}", "why") for place, case in enumerate(failed, 1)}
    for place, skip in enumerate(skips, 1):
        for case in skip.cases:
            # An earlier run may have failed, which is more.
            found.setdefault(case.key, Link(f"skip-{place}", f"why: {place}"))
    return found


def matrices(cases: Iterable[Case], links: Mapping[Key, Link]) -> list[Matrix]:
    """Return a matrix for each partition."""
    partitions: dict[str, list[Case]] = {}
    for case in cases:
        partitions.setdefault(wording.place(case), []).append(case)
    return [_matrix(name, of_partition, links) for name, of_partition in sorted(partitions.items())]


def _matrix(partition: str, cases: Sequence[Case], links: Mapping[Key, Link]) -> Matrix:
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
    shown = (
        MatrixRow(application, label, tuple(_cell(cells.get(place, ()), links) for place in ordered))
        for (application, label), cells in sorted(rows.items())
    )
    return Matrix(partition, tuple(groups.items()), tuple(shown))


def _label(case: Case, ran: Collection[str]) -> str:
    """Return the name of a case's row; empty for a skipped case whose label did not run while others did.

    :param ran: labels of the cases of its application that ran.
    """
    if case.label in ran:
        return case.label
    return "" if ran else case.application


def _cell(cases: Sequence[Case], links: Mapping[Key, Link]) -> tuple[CellState, ...]:
    by_state: dict[State, list[Case]] = {}
    for case in cases:
        by_state.setdefault(state(case), []).append(case)
    if len(by_state) > 1:
        # Skips do not show beside cases that ran.
        by_state.pop(SKIP, None)
    return tuple(
        CellState(
            kind, len(by_state[kind]), next((links[case.key] for case in by_state[kind] if case.key in links), None)
        )
        for kind in ALL
        if kind in by_state
    )


def provenance(cases: Sequence[Case]) -> tuple[Table, ...]:
    """Return tables of the runtimes and images of cases, and of facts that they share or not."""
    ran = [case for case in cases if case.provenance]
    same, different = _others(ran)
    return (
        _used("Container runtimes", ("version", "command", "used by"), ran, _runtimes),
        _used("Images", ("image", "release", "size", "its files", "SHA-256", "used by"), ran, _images),
        Table("The same in all cases", ("what", "value"), same, 2),
        Table("What differs between cases", ("what", "value", "cases"), different, 3),
    )


def flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield all facts of a provenance as name and value; empty ones are left out."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat(inner, f"{name} {key}".strip())
    elif isinstance(value, (list, tuple)):
        if value:
            yield name, ", ".join(map(str, value))
    elif isinstance(value, bool):
        yield name, "yes" if value else "no"
    elif value not in (None, ""):
        yield name, str(value)


def _used(
    caption: str,
    headings: tuple[str, ...],
    cases: Sequence[Case],
    rows_of: Callable[[Mapping[str, Any]], Iterator[tuple[str, ...]]],
) -> Table:
    """Return a table of things that cases use, each with the cases that use it.

    :param rows_of: returns the rows of a case's provenance.
    """
    users: dict[tuple[str, ...], dict[tuple[str, ...], Case]] = {}
    for case in cases:
        for row in rows_of(case.provenance):
            users.setdefault(row, {})[case.key] = case
    rows = ((*row, share_of(list(using.values()), cases)) for row, using in sorted(users.items()))
    return Table(caption, headings, tuple(rows), len(headings))


def _runtimes(facts: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for runtime in (facts.get("runtimes") or {}).values():
        yield str(runtime.get("version") or "?"), str(runtime.get("command") or "?")


def _images(facts: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    if facts.get("image"):
        name = str(facts["image"]).rpartition("/")[2]
        sizes = (size(facts[key]) if facts.get(key) else "" for key in ("image_bytes", "image_content_bytes"))
        yield name, str(facts.get("image_release") or ""), *sizes, str(facts.get("image_sha256") or "not recorded")


def _others(cases: Sequence[Case]) -> tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]:
    """Return the rows of facts that all cases share, and of those in which they differ."""
    by_name: dict[str, dict[str, list[Case]]] = {}
    for case in cases:
        rest = {key: value for key, value in case.provenance.items() if key not in OWN}
        # There are many variables that no rule knows, and a fingerprint means nothing to a person.
        for name, value in (fact for fact in flat(rest) if f" {OTHERS} " not in fact[0]):
            by_name.setdefault(name, {}).setdefault(value, []).append(case)
    same, different = [], []
    for name in sorted(by_name, key=lambda name: (not name.startswith(FIRST), name)):
        values = by_name[name]
        if len(values) == 1 and len(cases) == len(next(iter(values.values()))):
            same.append((name, next(iter(values))))
        else:
            different += [(name, value, share_of(using, cases)) for value, using in values.items()]
    return tuple(same), tuple(different)
