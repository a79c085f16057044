"""A base class of checks for ``ci/benchmark itself`` and ``noise``: an application whose two sides both run bare.

In the check files that twice.py writes it is the first base of the class, before the application's own class.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from containercheck.node import contract
from containercheck.node.outputs.evaluation import Evaluation, Facts
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.pipeline import RegressionTestPlugin


class BareTwice(RegressionTestPlugin):
    """A check that compares the bare program with itself, or with itself doing more work.

    ``more`` states how the subject does more: commands that make its ``input``, ``files`` that the job removes, its
    ``executable``, ``options`` or ``reset`` commands where they are others, and the ``answers`` that still agree.
    """

    more = variable(dict, value={}, loggable=False)
    #: Facts for the benchmarks, beside the results. ``pairs``, by figure: ``compare``, ``decided_after`` (None while
    #: open) and ``changes`` (in log scale, or in the figure's unit; positive is worse). ``seconds`` of each run.
    told = variable(dict, value={}, loggable=True)

    @run_after("init")
    def compare_what_agrees(self):
        """Keep the answers that agree with more work too."""
        if self.more:
            self.answers = [answer for answer in self.answers if answer.name in self.more["answers"]]

    @run_before("run", always_last=True)
    def make_more(self):
        """Make the subject's input too. Before the job is written: this class comes before the library's."""
        self.input_commands = [*self.input_commands, *self.more.get("input", ())]
        self.own_files = [*self.own_files, *self.more.get("files", ())]

    @property
    def side_count(self):
        """Return the number of sides."""
        return 2

    def sides(self):
        """Return the bare side twice."""
        (bare,) = super().sides()
        changes = {name: self.more[name] for name in ("executable", "options") if name in self.more}
        reset = (*bare.program.reset, *self.more.get("reset", ()))
        program = replace(bare.program, reset=reset, **changes)
        label = "bare with more work" if self.more else "bare again"
        return [bare, replace(bare, name=contract.SUBJECT, label=label, program=program, compared_with=bare.name)]

    @run_before("performance")
    def tell(self):
        """Put into the report what the results do not have; runs of replaced rounds are left out."""
        if self.is_dry_run():
            return
        stage = Path(self.stagedir)
        record, facts = (json.loads((stage / name).read_text()) for name in (contract.RECORD, contract.FACTS))
        evaluation = Evaluation(Facts(facts), stage)
        for values in record["verdict"]["measured"]:
            evaluation.count(values)
        self.told = {
            "pairs": {
                figure: {"compare": pairs.compare, "decided_after": pairs.decided_after, "changes": pairs.changes}
                for (_, figure), pairs in evaluation.pairs.items()
            },
            "seconds": [run["seconds"] for run in record["runs"] if str(run["round"]) not in record["replaced"]],
        }
