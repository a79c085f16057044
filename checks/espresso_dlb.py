"""Run Quantum ESPRESSO with and without DLB, which lends the cores of waiting ranks to others (D12.5, 3.3.1).

MARCONI, QE 6.3 with Open MPI: silane in several mixes of ranks and threads on one node and several, seconds of the run.
DLB made no difference, as the load of the ranks is even. Here it runs on one node, as DLB shares cores within a node
only. In a build without OpenMP, such as Debian's, no thread can run on a lent core: DLB then only costs time.
"""

from dataclasses import replace

import reframe as rfm
from collocation import Collocated
from containercheck import WHOLE, Answer, Identity
from espresso import COPY_PSEUDOPOTENTIALS, EDGE
from reframe.core.builtins import parameter, run_before


@rfm.simple_test
class QuantumEspressoDLB(Collocated):
    """Silane, with a cell that does not grow with the node."""

    descr = "Quantum ESPRESSO pw.x with DLB"
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    executable = "pw.x"
    debian = ["quantum-espresso", "quantum-espresso-data"]
    recipe = "espresso"
    reset_commands = ["rm -rf scratch"]
    use_case = parameter(["one", *WHOLE], loggable=True)
    plain = {"use_case": "one"}
    policies = ["no_dlb", "isolation", "talp"]
    seconds_pattern = r" +PWSCF +: .*CPU +(\S.*?) WALL"

    metrics = [*Collocated.metrics]
    identity = [Identity("version", r"^\w+: +Program PWSCF v\.(\S+) starts")]
    rank_count = Answer("ranks", r"^\w+: +(?:Parallel version \(MPI\), running on|Number of MPI processes:) +(\d+)")
    answers = [
        Answer("total_energy", r"^\w+: ! +total energy += +(\S+) Ry", atol=1e-6),
        Answer("convergence", r"convergence (has been|NOT) achieved", equals="has been"),
    ]

    def programs(self, programs):
        """Start the only program with its input."""
        return [replace(program, options=("-in", "SiH4.in")) for program in programs]

    @run_before("run")
    def copy_input(self):
        """Copy the input and its pseudopotentials."""
        self.fill_in("espresso/SiH4.in", "SiH4.in", edge=f"{EDGE:.1f}")
        self.input_commands = [COPY_PSEUDOPOTENTIALS, *self.input_commands]
