"""Run GROMACS with OpenMP threads in place of ranks, and with two ranks on a node that share its cores and GPUs.

D12.6 section 4, ARIS, GROMACS 2018.4, UEABS case A. 1 to 40 threads of a node are as fast in a container as bare. With
GPUs, and two ranks on each of up to 8 nodes, the container was 1.5 to 1.8 times slower: it used TCP over nodes.
"""

import reframe as rfm
from containercheck import Answer, node_counts
from gromacs import LOG, RATE, Dynamics
from reframe.core.builtins import parameter, run_after, run_before

#: GPUs of a node that are used, in the log (GROMACS's source, reportgpuusage.cpp).
GPUS = r"(\d+) GPUs? (?:auto-|user-)?selected for this run"


@rfm.simple_test
class GROMACSThreads(Dynamics):
    """OpenMP threads of one rank (section 4.4.2)."""

    descr = "GROMACS, OpenMP threads of one rank"
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    openmp = parameter([1, 2, 4, 8, 10, 20, 40], loggable=True)
    metrics = [RATE]
    ranks_per_node = 1
    full_only = True

    @run_after("init")
    def choose_threads(self):
        """Set the threads of a rank, as D12.6 varied them."""
        self.threads = self.openmp


@rfm.simple_test
class GROMACSHybrid(Dynamics):
    """Two ranks on a node; each has half of the cores and, if the node has GPUs, one GPU (section 4.4.4)."""

    descr = "GROMACS, two ranks on a node, with threads, and with GPUs if there are any"
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    metrics = [RATE]
    ranks_per_node = 2
    threads = 0
    gpu = True
    full_only = True

    @run_before("run")
    def require_gpus(self):
        """Require that GPUs were used if the node has any; otherwise GROMACS computes on processors."""
        if self.num_gpus_per_node:
            self.answers = [*self.answers, Answer("gpus", GPUS, file=LOG)]
