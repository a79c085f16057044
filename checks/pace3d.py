"""Run PACE3D, sintering by the phase-field method: optimised for the processor, and bound by memory.

D12.6 section 8.1.4, HLRS EXCESS: domains of 640 x 480 x 640 and 1920 x 6720 x 1280 cells, ranks only. The container had
no effect on the efficiency (speed-up by cores, figure 8.10). With all optimisation turned off, each domain had 60 runs
on two nodes, in lattice updates per second; they spread a little less in the container (figure 8.11).

Neither the program nor its output is public. The site's file names program, input, options, and the patterns of the
rate (LUPS) and of the rank count; it may name the pattern of an answer. The other domain, or the program without
optimisation, needs another session: ``-S PACE3D.published=<its input>``. The full axes have the 60 runs, with their
spread in the report. They also have fewer ranks on a node, for speed-up and efficiency over cores.
"""

import reframe as rfm
from containercheck import SITES, Answer, ContainerCheck, Metric, RanksPerNode, node_counts
from reframe.core.builtins import parameter, run_after


@rfm.simple_test
class PACE3D(ContainerCheck, RanksPerNode):
    """The site's own program."""

    descr = "PACE3D, sintering"
    tags = {"memory"}
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    executable = "pace3d"
    recipe = "mpi"
    site_provides_input = True
    #: Runs of each side; 0 lets the verdict decide.
    runs = parameter([0, 60], loggable=True)
    plain = {"runs": 0}
    run_limit = 1800
    seconds = 600

    rank_count = Answer("ranks", SITES)
    metrics = [Metric("LUPS", SITES, "LUPS", scaling="strong")]
    answers = [Answer("answer", SITES, rtol=1e-6)]

    @run_after("init")
    def choose_rounds(self):
        """Set rounds and time, on all cores only; a round has two runs, each of a quarter of its limit."""
        if self.runs and self.ranks:
            self.valid_systems = []
        if self.runs:
            self.rounds = self.rounds or self.runs
            self.seconds = self.rounds * self.run_limit / 2
