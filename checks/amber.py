"""Run Amber's pmemd, molecular dynamics with particle mesh Ewald: the processor, and the balance of its ranks.

D12.5 section 3.3.2, MARCONI, Amber 16: 48 ranks on a node. Every fourth rank took about 135 s, the others 35 to 70
(figure 22, from Intel's trace analyzer). Then 8 ranks of 6 threads, with and without DLB: the time of the run was the
same. pmemd itself reports the imbalance as the mean time in which its ranks exchange data and wait.

Amber is licensed. The site's file names the input: a directory with ``mdin``, ``prmtop`` and ``inpcrd``, for a run of
some minutes. Files of other names go into the program's options. The file also names the program, which may come from
Spack (``"spack": "amber"``) with the archives in a mirror of the site's. All metrics are read from ``mdout``.
``AmberDLB`` (amber_dlb.py) runs Amber with DLB.
"""

import reframe as rfm
from containercheck import Answer, ContainerCheck, Identity, Metric, node_counts
from reframe.core.builtins import parameter, run_after

MDOUT = "mdout"
VERSION = Identity("version", r"^ +Amber (\S+) PMEMD", file=MDOUT)
RANKS = Answer("ranks", r"^\| Running AMBER/MPI version on +(\d+)", file=MDOUT)
STEPS = Answer("steps", r"^ NSTEP = +(\d+)", file=MDOUT)
#: Potential energy: printed for the first step, for some later ones, and as the average of all steps.
POTENTIAL = r"EPtot +=\s*(\S+)"
FIRST_ENERGY = Answer("potential_energy_first", POTENTIAL, file=MDOUT, reduce="first", rtol=5e-3)
ALL_STEPS = "Average timings for all steps:"


def time_of(name, words, **facts):
    """Return the metric for the seconds after these words."""
    return Metric(name, rf"^\| +{words} +(\S+)", "s", better="lower", file=MDOUT, **facts)


@rfm.simple_test
class Amber(ContainerCheck):
    """The site's own program and input."""

    descr = "Amber pmemd"
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    executable = "pmemd.MPI"
    recipe = "mpi"
    site_provides_input = True
    output_files = [MDOUT]
    # pmemd.MPI refuses to run with one rank.
    min_ranks = 2
    #: Threads of a rank.
    openmp = parameter([1, 6], loggable=True)
    plain = {"openmp": 1}
    run_limit = 1800
    seconds = 600

    identity = [VERSION]
    rank_count = RANKS
    metrics = [
        # The rate of all steps; that of the last steps comes before it.
        Metric("rate", rf"{ALL_STEPS}\n.*\n\| +ns/day = +(\S+)", "ns/day", file=MDOUT, scaling="strong"),
        # Both are in whole seconds.
        time_of("total", "Master Total wall time:"),
        time_of("setup", "Master Setup wall time:", compare="difference", tolerance=2.0),
        time_of("exchange", "DataDistrib", tolerance=20.0, not_applicable_if=r"\A(?![\s\S]*DataDistrib)"),
    ]
    answers = [
        STEPS,
        # Trajectories diverge, because forces are added up in another order.
        FIRST_ENERGY,
        Answer("potential_energy_average", rf"A V E R A G E S[\s\S]*?{POTENTIAL}", file=MDOUT, rtol=5e-3),
    ]

    @run_after("init")
    def choose_threads(self):
        """Set the threads of a rank, as D12.5 varied them; a program without OpenMP prints no number of threads."""
        self.threads = self.openmp
        if self.openmp > 1:
            pattern = r"^\| Number of openmp threads per MPI task: +(\d+)"
            self.answers = [*self.answers, Answer("threads", pattern, file=MDOUT, equals=str(self.openmp))]

    @run_after("setup")
    def name_output(self):
        """Overwrite an older output; the site's options come last, and take priority."""
        self.executable_opts = ["-O", "-o", MDOUT, *self.executable_opts]
