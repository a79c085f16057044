"""What ReFrame loads for ``ci/benchmark itself`` and ``noise``: an application whose two sides both run bare.

The files that twice.py writes have it as the first base of their class, before the application's own.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from containercheck.node import contract
from containercheck.verdict.record import Record
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.pipeline import RegressionTestPlugin


class BareTwice(RegressionTestPlugin):
    """Compares the bare program with itself, or with itself doing more work.

    ``more`` says how the subject does more: commands that make its ``input``, ``files`` for the job to remove, its
    ``executable``, ``options`` or ``reset`` commands where they are others, and the ``answers`` that still agree.
    """

    more = variable(dict, value={}, loggable=False)
    #: What the benchmarks read beside the results. ``pairs``, by figure: ``compare``, ``decided_after`` (None while
    #: open) and ``changes`` (in log scale, or in the figure's unit; positive is worse). ``seconds`` of each run.
    told = variable(dict, value={}, loggable=True)

    @run_after("init")
    def compare_what_agrees(self):
        """With more work some answers are others."""
        if self.more:
            self.answers = [answer for answer in self.answers if answer.name in self.more["answers"]]

    @run_before("run", always_last=True)
    def make_more(self):
        """Make the subject's input too. Before the job is written: this class comes before the library's."""
        self.input_commands = [*self.input_commands, *self.more.get("input", ())]
        self.own_files = [*self.own_files, *self.more.get("files", ())]

    @property
    def side_count(self):
        """Return how many there are."""
        return 2

    def sides(self):
        """Return the bare side twice."""
        (bare,) = super().sides()
        others = {name: self.more[name] for name in ("executable", "options") if name in self.more}
        reset = (*bare.program.reset, *self.more.get("reset", ()))
        program = replace(bare.program, reset=reset, **others)
        label = "bare with more work" if self.more else "bare again"
        return [bare, replace(bare, name=contract.SUBJECT, label=label, program=program, compared_with=bare.name)]

    @run_before("performance")
    def tell(self):
        """Leave in the report what the results do not say; runs of replaced rounds count nowhere."""
        if self.is_dry_run():
            return
        found = Record.read(Path(self.stagedir))
        self.told = {
            "pairs": {
                figure: {"compare": one.compare, "decided_after": one.decided_after, "changes": one.changes}
                for (_, figure), one in self.prepared.evaluation.pairs.items()
            },
            "seconds": [run["seconds"] for run in found.runs if run["round"] not in found.replaced],
        }
