"""Show a session: a line for each finished case, with the reason of a failure, and the lines at its end."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from containercheck.job import inventory
from containercheck.report import machine, scaling, table
from containercheck.results import exported, selections, states
from containercheck.results.cases import Case, Key, short_name
from containercheck.results.formatting import number, typed
from containercheck.results.row import FAIL, OPEN, Row
from containercheck.results.states import State, state_of
from containercheck.session import estimate
from containercheck.session.progress import View

#: Most lines of a failure's reason that are shown.
REASON = 8
_INDENT = "  "
#: Styles of a terminal by the color of a state.
_STYLES = {"bad": "bold red", "doubt": "yellow", "good": "green", "muted": "dim"}
#: Widths of the columns after the state: metric, and its value.
_METRIC, _VALUE = 20, 24
#: Widest column of names. A longer name moves the rest of its line to the right.
_NAME = 34
#: Columns of an output that is not a terminal, so that nothing is cut off.
_ENDLESS = 10_000
#: Beginning of ReFrame's lines that are always shown.
_ERROR = "ERROR: "


@dataclass(frozen=True)
class CaseLine:
    """The columns of a line.

    :ivar name: name of the case.
    :ivar metric: the metric that decides.
    :ivar value: overhead of the metric with the interval; value of a bare case.
    :ivar rest: number of rounds, and remarks.
    """

    state: State
    name: str
    metric: str = ""
    value: str = ""
    rest: str = ""


def line_of(case: Case) -> CaseLine:
    """Return the line of a case that ran."""
    state, row = state_of(case), deciding(case)
    if row is None:
        return CaseLine(state, short_name(case))
    if not row.is_comparison:
        return CaseLine(state, short_name(case), row.metric, f"{number(row.baseline)} {row.unit}".strip())
    several = states.tally(case) if len(selections.judged(case)) > 1 else ""
    agree = several if len(states.verdicts(case)) == 1 else ""
    rest = states.describe(row) if row.verdict == OPEN else agree
    if state in (states.FAIL, states.UNMEASURED) and several:
        rest = several
    return CaseLine(
        state, short_name(case), row.metric, table.overhead(row), "; ".join(filter(None, [table.rounds(row), rest]))
    )


def columns_of(line: CaseLine, name: int = 0) -> str:
    """Return the columns of a line after its state.

    :param name: width of the column of names.
    """
    return f"{line.name:{name}}  {line.metric:{_METRIC}} {line.value:{_VALUE}}  {line.rest}".rstrip()


def deciding(case: Case) -> Row | None:
    """Return the metric that decides: the worst failed one, else the most urgent open one, else the worst of all."""
    failed = [row for row in case.rows if row.verdict == FAIL]
    still_open = selections.open_rows(case)
    if failed or not still_open:
        return max(failed or case.rows, key=_badness, default=None)
    return max((row for row in still_open if row.open_kind == still_open[0].open_kind), key=_badness)


def _badness(row: Row) -> float:
    """Return the overhead divided by the accepted overhead; equal for all rows that compare nothing."""
    most = row.accepted[1]
    return (row.overhead or 0.0) / most if most else row.overhead or 0.0


def lines(cases: Sequence[Case]) -> list[str]:
    """Return the table of all metrics, the lines on scaling, builds and networks, and the ending of a session."""
    proven = [*table.same_builds(cases), *table.networks(cases)]
    return [*table.table(cases), *scaling.lines(cases), *proven, *ending(cases)]


def ending(cases: Sequence[Case], are_shown: bool = False) -> list[str]:
    """Return counts, failures, open verdicts, and the reasons of the cases that were not run.

    :param are_shown: whether each failure was shown when it happened; then one line names it and its cause.
    """
    run = selections.ran(cases)
    counts = ", ".join(f"{number} {state.word}" for state, number in states.counted(run))
    printed = [f"{len(run)} case(s): {counts}" if run else "no case was run"]
    for case in run:
        printed += in_short(case) if are_shown else failure(case)
    printed += table.questions(cases)
    return [*printed, *table.notes(cases), *table.last_line(cases), *not_run(cases)]


def not_run(cases: Sequence[Case]) -> list[str]:
    """Return the reasons of skipped cases; none if all were run."""
    reasons = [f"{_INDENT}{reason.line}" for reason in table.by_reason(cases)]
    return ["not run:", *reasons] if reasons else []


def failure(case: Case) -> list[str]:
    """Return the reason of a failed case with the command that repeats it; nothing without a failure."""
    run = selections.failure(case)
    if not run:
        return []
    again = "" if run is case else ", and passed later"
    reason = run.fail_reason.splitlines()
    more = [f"{_INDENT}..."] if len(reason) > REASON else []
    printed = [f"FAILED{again}: {short_name(case)}: {reason[0]}"]
    nodes = selections.nodes_of_failure(case)
    printed += [f"{_INDENT}{line}" for line in (*([nodes] if nodes else []), *reason[1:REASON])] + more
    return [*printed, *(f"{_INDENT}{line}" for line in table.repetition(run))]


def in_short(case: Case) -> list[str]:
    """Return the reason of a failed case in one line, with its cause and remedy; nothing without a failure."""
    return ["; ".join(filter(None, [line, exported.cause_of(case)])) for line in failure(case)[:1]]


def files_line(report: str, log: str) -> str:
    """Return the line that names the files of a session.

    :param report: path of the report.
    :param log: path of the log of ReFrame's output.
    """
    return f"every metric: {typed('report')}; report: {report}; output of ReFrame: {log}"


class CaseView(View):
    """Shows a line for each finished case. ReFrame's output is in the log only."""

    def __init__(self, is_terminal: bool) -> None:
        """Begin with nothing shown.

        :param is_terminal: whether the output is a terminal; then lines have colours and are cut to the width.
        """
        width = shutil.get_terminal_size().columns if is_terminal else _ENDLESS
        # rich obeys NO_COLOR itself.
        self._console = Console(force_terminal=is_terminal, width=width, highlight=False, markup=False)
        self._name = _NAME
        self._shown: set[Key] = set()

    def head(self, cases: Sequence[Case]) -> None:
        """Show the machine or the partitions, and the number of cases that run and of all cases.

        :param cases: cases of a dry run.
        """
        if not cases:
            # The dry run failed; the session prints the reason.
            return
        run = selections.ran(cases)
        self._name = min(_NAME, max((len(short_name(case)) for case in run), default=0))
        if all(case.scheduler == "local" for case in run):
            _print(machine.heading(inventory.brief()))
        else:
            partitions = ", ".join(dict.fromkeys(case.partition for case in run))
            _print(f"partitions: {partitions}; {estimate.total(run)}")
        missing = len(table.by_reason(cases))
        why = f"; {len(cases) - len(run)} lack something, for {missing} reason(s) listed at the end" if missing else ""
        _print(f"{len(run)} of {len(cases)} cases{why}")

    def printed(self, line: str) -> str:
        """Return a line of ReFrame's output if it is shown, else an empty text."""
        return line if line.startswith(_ERROR) else ""

    def ended(self, case: Case) -> str:
        """Return the line of a finished case, with the reason of a failure."""
        self._shown.add(case.key)
        return "".join([self._rendered(line_of(case)), *(f"{line}\n" for line in failure(case))])

    def collected(self, cases: Sequence[Case]) -> None:
        """Show the cases of a run that did not announce their end.

        :param cases: all cases of this run of ReFrame.
        """
        for case in selections.ran(cases):
            if case.key not in self._shown:
                print(self.ended(case), end="", flush=True)
        self._shown.clear()

    def _rendered(self, line: CaseLine) -> str:
        state = (f"{line.state.shown:5}", _STYLES[line.state.color])
        text = Text.assemble(state, " ", columns_of(line, self._name))
        with self._console.capture() as captured:
            self._console.print(text, no_wrap=True, overflow="ellipsis", crop=True)
        return captured.get()


def _print(text: str) -> None:
    print(text, flush=True)
