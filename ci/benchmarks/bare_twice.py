"""A base class of checks for ``ci/benchmark noise``: an application whose two sides both run bare.

In the check files that twice.py writes it is the first base of the class, before the application's own class.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from containercheck.job import contract
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts
from reframe.core.builtins import run_before, variable
from reframe.core.pipeline import RegressionTestPlugin


class BareTwice(RegressionTestPlugin):
    """A check that compares the bare program with itself."""

    #: Facts for the benchmark that the results do not have. ``changes``, by metric, in log scale or in the metric's
    #: unit; positive is worse. ``seconds`` of each run.
    noise_facts = variable(dict, value={}, loggable=True)

    @property
    def side_count(self):
        """Return the number of sides."""
        return 2

    def sides(self):
        """Return the bare side twice."""
        (bare,) = super().sides()
        return [bare, replace(bare, name=contract.SUBJECT, label="bare again", compared_with=bare.name)]

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
        self.noise_facts = {
            "changes": {place.metric: pairs.changes for place, pairs in evaluation.pairs.items()},
            "seconds": [run["seconds"] for run in record["runs"] if str(run["round"]) not in record["replaced"]],
        }
