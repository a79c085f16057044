"""What a session shows while it goes: a heading, a line for each case that ended, and what failed with its reason."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.text import Text

from containercheck.node import inventory
from containercheck.report import case_lines, ending, machine, skipped
from containercheck.report.case_lines import Line
from containercheck.results import selections
from containercheck.results.cases import Case, Key, collect
from containercheck.results.formatting import short_name
from containercheck.session.progress import Ended

#: Colours of the states.
_STYLES = {
    case_lines.FAILED: "bold red",
    case_lines.SLOW: "bold yellow",
    case_lines.FAST: "yellow",
    case_lines.STILL_OPEN: "cyan",
    case_lines.PASSED: "green",
    case_lines.RAN: "dim",
}
#: Widths of the columns after the state: figure, and its value.
_FIGURE, _VALUE = 20, 24
#: Widest column of names. A longer name pushes the rest of its own line.
_NAME = 34
#: Columns where the output is no terminal: nothing is cut off there.
_ENDLESS = 10_000
#: How ReFrame begins what a person has to read in any case.
_ERROR = "ERROR: "


class CaseView:
    """Shows a line for each case that ended; what ReFrame prints is in the log."""

    def __init__(self, is_terminal: bool) -> None:
        """Begin with nothing shown.

        :param is_terminal: whether a person looks on: then with colours, and cut to the width.
        """
        width = shutil.get_terminal_size().columns if is_terminal else _ENDLESS
        # rich sees to NO_COLOR itself.
        self._console = Console(force_terminal=is_terminal, width=width, highlight=False, markup=False)
        self._name = _NAME
        self._told: set[tuple[Key, int]] = set()

    def head(self, cases: Sequence[Case]) -> None:
        """Show on what the session runs, and how many cases of how many.

        :param cases: of a dry run.
        """
        if not cases:
            # The dry run failed; the session says why.
            return
        run = selections.ran(cases)
        self._name = min(_NAME, max((len(short_name(case)) for case in run), default=0))
        if all(case.scheduler == "local" for case in run):
            _print(machine.heading(inventory.brief()))
        else:
            _print(f"partitions: {', '.join(dict.fromkeys(case.partition for case in run))}")
        missing = len(skipped.by_reason(cases))
        why = f"; {len(cases) - len(run)} lack something, for {missing} reason(s) told at the end" if missing else ""
        _print(f"{len(run)} of {len(cases)} cases{why}")

    def lines(self, printed: str, ended: Ended | None) -> Iterable[str]:
        """Return what is shown of a line that ReFrame printed.

        :param ended: the case whose end it told.
        """
        if ended:
            return [self._rendered(self._line(ended))]
        text = printed.strip()
        return [printed] if text.startswith(_ERROR) else []

    def collected(self, cases: Sequence[Case]) -> None:
        """Show why cases failed that had not failed before.

        :param cases: all of the session, after another run of ReFrame.
        """
        for case in selections.ran(cases):
            mark = (case.key, len(case.earlier))
            if selections.failure(case) and mark not in self._told:
                self._told.add(mark)
                for line in ending.failure(case):
                    _print(line)

    def _line(self, ended: Ended) -> Line:
        # One node is not worth a word.
        name = ended.name.replace(", 1 node(s)", "").replace("node(s)", "nodes")
        if not ended.raw:
            return Line(case_lines.FAILED if ended.result != "pass" else case_lines.RAN, name)
        raw: Mapping[str, Any] = {**ended.raw, "result": ended.result, "results": ended.rows}
        line = case_lines.line(collect([{"runs": [{"testcases": [raw]}]}])[0])
        # Read alone, a case does not know which of its axes tell it from others.
        return replace(line, name=name)

    def _rendered(self, line: Line) -> str:
        rest = f"{line.name:{self._name}}  {line.figure:{_FIGURE}} {line.value:{_VALUE}}  {line.rest}".rstrip()
        text = Text.assemble((f"{line.state:5}", _STYLES[line.state]), " ", rest)
        with self._console.capture() as captured:
            self._console.print(text, no_wrap=True, overflow="ellipsis", crop=True)
        return captured.get()


def _print(text: str) -> None:
    print(text, flush=True)
