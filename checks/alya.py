"""Run Alya, multi-physics with finite elements: the processor bounds its assembly, the network its solver.

D12.6 section 6.5, BSC: a pulsating artery filled with blood. CFD ran on Lenox (112 cores as 4 x 28 to 112 x 1 ranks x
threads), CTE-POWER and ThunderX, FSI on MareNostrum4. A step consists of assembly and solver. D12.6 reports the mean
seconds of each over 20 steps, and the speed-up against the smallest run.

Expected: integrated equals bare everywhere. Generic is slower beyond 32 nodes of MareNostrum4, and hung at a barrier on
256; on CTE-POWER its solver is slower from the start. A hang is not expected here; it fails like any other run. On
MareNostrum4 some ranks got no connection within TCP's time limit, sometimes with fewer nodes too. A run that is stopped
at its limit does not show which hang it was.

Alya cannot be downloaded. The site's file names the program, the input (the case's files, for 20 steps) and the
options, with the case last. It also has the pattern of the rank count, which is read from the case's log. The seconds
are those of the slowest rank: columns 20 and 22 of the convergence file of module NASTIN, with a line for each inner
iteration. The README of PRACE's benchmark suite (UEABS) describes these columns. With Runge-Kutta, it says, column 20
has only the last of the step's assemblies: then ``assembly`` is the time of one assembly. FSI needs two programs at
once, and is not run here.
"""

import shlex

import reframe as rfm
from containercheck import SITES, Answer, ContainerCheck, Metric, Misconfigured, Step, node_counts
from reframe.core.builtins import parameter, run_after, run_before


def column(name, number, more="", **facts):
    """Return the metric for the mean of a column; each line begins with three numbers: step and iterations."""
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
    # Assembly and solver of each step (figure 6.5); the speed-up over nodes is computed from it.
    metrics += [column("step", 20, more=r" +\S+ +(\S+)", parts=2, scaling="strong")]
    answers = [
        Answer("steps", r"^ *(\d+) +\d+ +\d+(?: +\S+){19}"),
        # A number of the case's log, by the site's pattern.
        Answer("answer", SITES, rtol=1e-6),
    ]

    @run_after("init")
    def choose_threads(self):
        """Set the threads of a rank, as D12.6 varied them."""
        self.threads = self.openmp

    @run_after("setup")
    def need_case(self):
        """Fail if the options do not name the case."""
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
