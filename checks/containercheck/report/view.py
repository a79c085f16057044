"""What a session shows while it goes: a heading, a line for each case that ended, and what failed with its reason."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from containercheck.job import inventory
from containercheck.report import case_lines, ending, machine, skipped
from containercheck.report.case_lines import Line
from containercheck.results import selections
from containercheck.results.cases import Case, Key
from containercheck.results.formatting import short_name

#: Colours of the states.
_STYLES = {
    case_lines.FAILED: "bold red",
    case_lines.SLOW: "bold yellow",
    case_lines.FAST: "yellow",
    case_lines.STILL_OPEN: "cyan",
    case_lines.PASSED: "green",
    case_lines.RAN: "dim",
}
#: Widths of the columns after the state: metric, and its value.
_METRIC, _VALUE = 20, 24
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
        self._shown: set[Key] = set()

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

    def printed(self, line: str) -> str:
        """Return what is shown of a line that ReFrame printed."""
        return line if line.startswith(_ERROR) else ""

    def ended(self, case: Case) -> str:
        """Return the line of a case that has ended, and why it failed."""
        self._shown.add(case.key)
        return "".join([self._rendered(case_lines.line(case)), *(f"{line}\n" for line in ending.failure(case))])

    def collected(self, cases: Sequence[Case]) -> None:
        """Show the cases of a run that did not announce their end.

        :param cases: all of this run of ReFrame.
        """
        for case in selections.ran(cases):
            if case.key not in self._shown:
                print(self.ended(case), end="", flush=True)
        self._shown.clear()

    def _rendered(self, line: Line) -> str:
        rest = f"{line.name:{self._name}}  {line.metric:{_METRIC}} {line.value:{_VALUE}}  {line.rest}".rstrip()
        text = Text.assemble((f"{line.state:5}", _STYLES[line.state]), " ", rest)
        with self._console.capture() as captured:
            self._console.print(text, no_wrap=True, overflow="ellipsis", crop=True)
        return captured.get()


def _print(text: str) -> None:
    print(text, flush=True)
