"""Run GROMACS, molecular dynamics: bound by the instruction set, and over nodes by the network's latency.

D12.6 section 4, ARIS, GROMACS 2018.4, UEABS case A (130 000 atoms), 10000 steps. On one core, kernels of C, SSE2 and
AVX_256 run like 1 : 4.9 : 6.1 on Ivy Bridge (figure 4.1); with AVX2 like 1 : 4.8 : 6.1 : 7.8 on Haswell (figure 4.2).
The same kernels are as fast in a container as bare. Over nodes (20 ranks each) the container lacked the fabric's
libraries and used TCP: it was 4 times slower at 16. Threads and GPUs are in ``gromacs_threads.py``.

The embedded input is water, 17496 atoms, and more for many cores (``-S GROMACS.boxes=2``: 5184). ``-S
GROMACS.published=topol.tpr`` runs the input of D12.6, case A.
"""

import shlex

import reframe as rfm
from containercheck import Answer, ContainerCheck, Identity, ImageRelease, Metric, Work, node_counts
from reframe.core.builtins import parameter, run_before, variable

LOG = "md.log"
#: Instruction set of a build, in the log.
SIMD = r"^SIMD instructions: +(\S+)"
#: The log has energies in columns of 15 characters, five in a line: a value is 76 characters after its name.
POTENTIAL = r"Potential(?!-)[\s\S]{61}( *-?\d\.\d+e[+-]\d+)"
#: Speed, in the log.
RATE = Metric("rate", r"^Performance: +(\S+)", "ns/day", file=LOG, scaling="strong", spread=4.0, duet=True)
#: Atoms of the box of water, which is repeated in each direction.
BOX = 648
#: Steps of a run, and seconds of a run on few cores, which has fewer steps. On one core of a virtual machine, rounds of
#: 200 steps spread by 6.2 %, and took 15.5 s; rounds of 80 steps spread by 5 %, and took 7.5 s.
STEPS, LONGEST = 200, 2.5


class Dynamics(ContainerCheck):
    """The common base of the checks, which all run ``mdrun``."""

    executable = "gmx_mpi"
    debian = ["gromacs"]
    recipe = "gromacs"
    output_files = [LOG]
    seconds = 100
    #: Steps of a run; 0 chooses the number by the cores. The published input runs 10000.
    timesteps = variable(int, value=0)
    #: Boxes of water in each direction; 0 chooses the number by the cores.
    boxes = variable(int, value=0)

    identity = [
        Identity("version", r"^GROMACS version: +(\d[\w.]*)", file=LOG),
        Identity("instruction set", SIMD, file=LOG),
    ]
    rank_count = Answer("ranks", r"^Using (\d+) MPI process", file=LOG)
    answers = [
        # Single precision, and six digits in the log.
        Answer("potential_energy_at_start", POTENTIAL, file=LOG, reduce="first", rtol=2e-5),
        # Trajectories diverge, because forces are added up in another order; their average is the same.
        Answer("potential_energy_average", POTENTIAL, file=LOG, reduce="last", rtol=2e-3),
    ]

    @property
    def work(self) -> Work:
        """The atoms of three to twelve boxes in each direction; with more, making the input takes a minute."""
        # Seconds for all steps, measured bare on two cores of an AMD EPYC 9004.
        costs = {"fixed_seconds": 0.5, "setup_seconds_per_unit": 3e-5, "parallel_seconds_per_unit": 3.4e-4}
        if self.boxes:
            return Work("atoms", self.boxes**3 * BOX, cube_unit=BOX, bytes_per_unit=1e3, **costs)
        return Work("atoms", 3**3 * BOX, 400, 12**3 * BOX, cube_unit=BOX, bytes_per_unit=1e3, **costs)

    @run_before("run")
    def prepare_input(self):
        """Make the input once, with the bare program; bare and container both run it."""
        steps = 10000 if self.published_path else self.timesteps or self._usual_steps()
        self.executable_opts = ["-nobackup", "mdrun", "-s", "topol.tpr", "-noconfout", "-ntomp", str(self.threads)]
        self.executable_opts += ["-nsteps", str(steps)]
        boxes = round((self.amount / BOX) ** (1 / 3))
        make = f"sh {self.own('gromacs/prepare')} {self.bare_program} {boxes}"
        copy = f"cp {shlex.quote(self.published_path)} topol.tpr"
        self.input_commands = [copy if self.published_path else make]

    def _usual_steps(self):
        """Return the steps of a run with the embedded input."""
        return round(STEPS * min(1.0, LONGEST / self.work.seconds(self.amount, self.layout.cores)))


@rfm.simple_test
class GROMACS(Dynamics, ImageRelease):
    """A rank on each core, on a number of nodes (section 4.4.3)."""

    # On a virtual machine, eight rounds spread by 7 % in turn, and by 3.7 % when both sides run at the same time.
    gains_by_duet = True
    descr = "GROMACS, a rank on each core"
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    metrics = [RATE]
    tags = {"network"}
