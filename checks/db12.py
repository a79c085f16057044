"""Run DB12, the DIRAC benchmark, on the cores of a node, from one job slot to all of them.

D12.6 section 9.3, CC-IN2P3: 12.3 with Singularity 3.3.0, no significant degradation, and 12.1 with 2.6.1. Higher is
better; the unit is the score itself. The score is that of one slot. Slots that share a core, a cache or a clock have a
lower one.
"""

import reframe as rfm
from containercheck import Answer, Metric, SingleNodeCheck, Work, core_counts
from reframe.core.builtins import parameter, run_before

ALL = "all"


@rfm.simple_test
class DB12(SingleNodeCheck):
    """One copy for each slot in use, all at once."""

    descr = "DB12, the DIRAC benchmark"
    variant = parameter(["bare", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    executable = "db12"
    requirements = "db12/requirements.txt"
    recipe = "db12"
    threads = 0
    run_limit = 300
    seconds = 135
    # A run always takes 12 to 20 s: one unmeasured iteration, and one that counts.
    work = Work("copies", min_amount=1, amount_per_core=1, fixed_seconds=16)
    #: Copies that run at once.
    slots = parameter([*core_counts(), ALL], loggable=True)
    plain = {"slots": ALL}

    # A line with copies, sum, arithmetic mean, geometric mean, median; then the score of each copy, lowest first.
    metrics = [
        Metric("DB12", r"^\d+ \S+ (\S+) \S+ \S+$", "DB12", spread=10.0, measures=("computing",)),
        Metric("DB12_slowest", r"^\d+ \S+ \S+ \S+ \S+\n(\S+)", "DB12", spread=10.0, measures=("computing",)),
    ]
    answers = [Answer("copies", r"^(\d+) \S+ \S+ \S+ \S+$")]

    @run_before("run")
    def fill_slots(self):
        """Set the number of copies."""
        self.executable_opts = ["multiple", str(self.threads if self.slots == ALL else self.slots)]
