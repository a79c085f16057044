"""Run several BT-MZ at once on a node, under each policy of DLB: the programs of D12.5 section 3.2, on any machine.

Nodes with 24 cores or more, as a socket of MareNostrum4 has, run class C. Each number of ranks needs a separate
program, from Spack or the site. D12.5 changed the program to keep its zones uneven; NPB's variable NPB_MZ_BLOAD does
the same. BT-MZ with OmpSs, in figure 11 as fast as with OpenMP, is not run: it is a port by D12.5 (section 4) that
needs BSC's compiler Mercurium, and NPB has BT-MZ with OpenMP only.
"""

from dataclasses import replace

import reframe as rfm
from collocation import Collocated
from containercheck import Answer, Identity
from reframe.core.builtins import parameter


@rfm.simple_test
class BTMZCollocation(Collocated):
    """BT-MZ with its uneven zones, of class C on a large node."""

    descr = "several BT-MZ on a node, with DLB"
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    executable = "bt-mz"
    spack = "btmz"
    recipe = "btmz"
    run_limit = 600
    metrics = [*Collocated.metrics]
    seconds_pattern = r" Time in seconds =\s+(\S+)"
    rank_count = Answer("ranks", r"^\w+:  Total processes =\s+(\d+)", reduce="sum")
    identity = [Identity("version", r"^\w+:  Version\s+=\s+(\S+)")]
    answers = [Answer("verification", r"^\w+:  Verification\s+=\s+(\w+)", equals="SUCCESSFUL")]

    @property
    def size(self):
        """The class: that of D12.5 on nodes with the cores of its socket, else a small one."""
        return "C" if (self.site.cores or 0) >= 24 else "W"

    @property
    def program_suffix(self):
        """The end of the first program's name: class and ranks."""
        return f".{self.size}.{self.mixes_on(self.site.cores or 0)[0][0]}"

    def programs(self, programs):
        """Choose the program for each number of ranks, and turn off the balancing of zones (NPB_MZ_BLOAD)."""
        for program in programs:
            suffix = f".{self.size}.{program.ranks}"
            yield replace(program, suffix=suffix, environment={"NPB_MZ_BLOAD": "0"})
