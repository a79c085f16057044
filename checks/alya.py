"""Run Alya, multi-physics with finite elements: its assembly is bound by the processor, its solver by the network.

D12.6 section 6.5, BSC: a pulsating artery filled with blood, as CFD on Lenox (112 cores as 4 x 28 to 112 x 1 ranks x
threads), CTE-POWER and ThunderX, as FSI on MareNostrum4. A step is the assembly and the solver; reported are the mean
seconds of each over 20 steps, and the speed-up against the smallest run. Integrated equals bare everywhere; generic is
slower beyond 32 nodes of MareNostrum4, and hung at a barrier on 256; on CTE-POWER its solver is slower from the start.
A hang is not an expected outcome here: some ranks got no connection within TCP's time limit there, now and then with
fewer nodes too, and a run that is stopped at its limit does not show which hang it was. It fails like any other.

Alya cannot be downloaded: the site's file names program, input (with the files of the case, for 20 steps), options (the
case comes last) and the pattern of the rank count, which is read from the case's log. The seconds are those of the
slowest rank in the convergence file of its module NASTIN, one line for each inner iteration: its columns 20 and 22, as
the README of PRACE's benchmark suite (UEABS) has them. It says too that with Runge-Kutta the first has only the last of
the step's assemblies: with that scheme ``assembly`` is the time of one of them, not of the step's. FSI, two programs at
once, is not run here.
"""

import shlex

import reframe as rfm
from containercheck import SITES, Answer, ContainerCheck, Metric, Misconfigured, Step, node_counts
from reframe.core.builtins import parameter, run_after, run_before


def column(name, number, more="", **facts):
    """Return the metric for the mean of a column, whose lines begin with three numbers: step and iterations."""
    pattern = rf"^ *\d+ +\d+ +\d+(?: +\S+){{{number - 4}}} +(\S+){more}"
    return Metric(name, pattern, "s", better="lower", reduce="mean", **facts)


@rfm.simple_test
class Alya(ContainerCheck):
    """The site's own program."""

    descr = "Alya, CFD"
    tags = {"network"}
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    executable = "Alya.x"
    recipe = "mpi"
    site_provides_input = True
    #: Threads of a rank.
    openmp = parameter([1, 2, 4, 7, 14, 28], loggable=True)
    plain = {"openmp": 1}
    run_limit = 1800
    seconds = 600

    rank_count = Answer("ranks", SITES)
    metrics = [column("assembly", 20), column("solver", 22)]
    # Both together, of each step (figure 6.5); the speed-up over nodes is that of steps.
    metrics += [column("step", 20, more=r" +\S+ +(\S+)", parts=2, scaling="strong")]
    answers = [
        Answer("steps", r"^ *(\d+) +\d+ +\d+(?: +\S+){19}"),
        # A number of the case's log, by the site's pattern.
        Answer("answer", SITES, rtol=1e-6),
    ]

    @run_after("init")
    def choose_threads(self):
        """Set the threads of a rank, the axis of D12.6."""
        self.threads = self.openmp

    @run_after("setup")
    def need_case(self):
        """Fail where the options do not name the case."""
        if not self.executable_opts:
            raise Misconfigured("no input: the options of the site's software, Alya, have to end with the case's name")

    @run_before("run")
    def write_steps(self):
        """Run Alya, then print the two files that it writes."""
        case = self.executable_opts[-1]
        written = shlex.join([f"{case}.log", f"{case}.nsi.cvg"])
        self.reset_commands = [f"rm -f {written}"]
        self.steps = [
            Step("run", f"{self.program} {shlex.join(self.executable_opts)}", parallel=True),
            Step("print", f"cat {written}"),
        ]
