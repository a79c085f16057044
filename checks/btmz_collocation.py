"""Run several BT-MZ at once on a node, under each policy of DLB: the programs of D12.5 section 3.2, on any machine.

Class C on nodes with 24 cores or more, a socket of MareNostrum4; each number of ranks has a program of its own, from
Spack or the site. D12.5 changed the program so that its zones stay uneven; its variable NPB_MZ_BLOAD does so too.
BT-MZ with OmpSs, in figure 11 as fast as with OpenMP, is not run: it is a port of D12.5's own (section 4), to be
compiled with BSC's Mercurium, and NPB has BT-MZ with OpenMP only.
"""

from dataclasses import replace

import reframe as rfm
from collocation import Collocated
from containercheck import Answer, Identity
from reframe.core.builtins import parameter


@rfm.simple_test
class BTMZCollocation(Collocated):
    """BT-MZ with its uneven zones, of class C on a large node."""

    descr = "BT-MZ beside itself on a node, with DLB"
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
        """Give each its program, which leaves the zones to ranks as they come (NPB_MZ_BLOAD)."""
        for program in programs:
            suffix = f".{self.size}.{program.ranks}"
            yield replace(program, suffix=suffix, environment={"NPB_MZ_BLOAD": "0"})
