"""Run GROMACS, molecular dynamics: bound by the instruction set, and over nodes by the network's latency.

D12.6 section 4, ARIS, GROMACS 2018.4, UEABS case A (130 000 atoms), 10000 steps. Kernels of C, SSE2 and AVX_256 on one
core of Ivy Bridge run like 1 : 4.9 : 6.1 (figure 4.1), and with AVX2 on Haswell like 1 : 4.8 : 6.1 : 7.8 (figure 4.2);
the same kernels are as fast in a container as bare, and so are 1 to 40 OpenMP threads of a node. Over nodes (20 ranks
each) the container had not the fabric's libraries and used TCP: 4 times slower at 16, 1.5 to 1.8 times at up to 8 nodes
with GPUs. The embedded input is water, 17496 atoms, and more for many cores (``-S GROMACS.boxes=2``: 5184);
``-S GROMACS.published=<case A>/topol.tpr`` is that of D12.6.
"""

import shlex

import reframe as rfm
from containercheck import Answer, ContainerCheck, Identity, ImageRelease, Metric, Work, node_counts
from reframe.core.builtins import parameter, run_after, run_before, variable

LOG = "md.log"
#: Instruction set of a build, in the log.
SIMD = r"^SIMD instructions: +(\S+)"
#: GPUs of a node that are used, in the log (GROMACS's source, reportgpuusage.cpp).
GPUS = r"(\d+) GPUs? (?:auto-|user-)?selected for this run"
#: The log has energies in columns of 15, and five to a line: a value is 76 characters after its name.
POTENTIAL = r"Potential(?!-)[\s\S]{61}( *-?\d\.\d+e[+-]\d+)"
#: Atoms of the box of water that is repeated, in each direction.
BOX = 648


class Dynamics(ContainerCheck):
    """The common base of the checks, which all run ``mdrun``."""

    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    executable = "gmx_mpi"
    debian = ["gromacs"]
    recipe = "gromacs"
    output_files = [LOG]
    seconds = 100
    #: Steps of a run; with the published input its own 10000.
    timesteps = variable(int, value=200)
    #: Boxes of water in each direction; 0 for as many as the cores have work for.
    boxes = variable(int, value=0)

    identity = [
        Identity("version", r"^GROMACS version: +(\d[\w.]*)", file=LOG),
        Identity("instruction set", SIMD, file=LOG),
    ]
    rank_count = Answer("ranks", r"^Using (\d+) MPI process", file=LOG)
    metrics = [Metric("rate", r"^Performance: +(\S+)", "ns/day", file=LOG, scaling="strong", spread=4.0)]
    answers = [
        # Single precision, and six digits in the log.
        Answer("potential_energy_at_start", POTENTIAL, file=LOG, reduce="first", rtol=2e-5),
        # Trajectories part, in the order in which forces are added up; their average is the same.
        Answer("potential_energy_average", POTENTIAL, file=LOG, reduce="last", rtol=2e-3),
    ]

    @property
    def work(self) -> Work:
        """The atoms of three to twelve boxes in each direction: with more, the input alone takes a minute."""
        # Seconds for 200 steps, measured bare on two cores of an AMD EPYC 9004.
        costs = {"fixed_seconds": 0.5, "setup_seconds_per_unit": 3e-5, "parallel_seconds_per_unit": 3.4e-4}
        if self.boxes:
            return Work("atoms", self.boxes**3 * BOX, cube_unit=BOX, bytes_per_unit=1e3, **costs)
        return Work("atoms", 3**3 * BOX, 400, 12**3 * BOX, cube_unit=BOX, bytes_per_unit=1e3, **costs)

    @run_before("run")
    def prepare_input(self):
        """Make the input once, with the bare program; bare and container both run it."""
        steps = 10000 if self.published_path else self.timesteps
        self.executable_opts = ["-nobackup", "mdrun", "-s", "topol.tpr", "-noconfout", "-ntomp", str(self.threads)]
        self.executable_opts += ["-nsteps", str(steps)]
        boxes = round((self.amount / BOX) ** (1 / 3))
        make = f"sh {self.own('gromacs/prepare')} {self.bare_program} {boxes}"
        copy = f"cp {shlex.quote(self.published_path)} topol.tpr"
        self.input_commands = [copy if self.published_path else make]


@rfm.simple_test
class GROMACS(Dynamics, ImageRelease):
    """A rank on each core, on a number of nodes (section 4.4.3)."""

    descr = "GROMACS, a rank on each core"
    tags = {"network"}


@rfm.simple_test
class GROMACSThreads(Dynamics):
    """OpenMP threads of one rank (section 4.4.2)."""

    descr = "GROMACS, OpenMP threads of one rank"
    num_nodes = parameter([1], loggable=True)
    openmp = parameter([1, 2, 4, 8, 10, 20, 40], loggable=True)
    ranks_per_node = 1
    full_only = True

    @run_after("init")
    def choose_threads(self):
        """Set the threads of a rank, the axis of D12.6."""
        self.threads = self.openmp


@rfm.simple_test
class GROMACSHybrid(Dynamics):
    """Two ranks on a node with half its cores, and where it has GPUs with one of them, each (section 4.4.4)."""

    descr = "GROMACS, two ranks on a node, with threads, and GPUs where there are any"
    ranks_per_node = 2
    threads = 0
    gpu = True
    full_only = True

    @run_before("run")
    def require_gpus(self):
        """Require that GPUs were used where the node has any: without one, GROMACS computes on processors."""
        if self.num_gpus_per_node:
            self.answers = [*self.answers, Answer("gpus", GPUS, file=LOG)]
