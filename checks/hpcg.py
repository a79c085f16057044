"""Run HPCG, preconditioned conjugate gradients on a sparse matrix: memory, and a sum over all ranks in each step.

D12.6 sections 6.7 and 6.8.3, BSC on Lenox: 120 points in each direction for a rank, all mixes of ranks and threads.
Singularity and Shifter reach bare's GFLOPS and GB/s. SANDIA section VI.C, weak scaling to 768 ranks on Volta: within
0.5 % on one node, and 18.1 % slower at scale with an MPI over TCP. Debian does not have HPCG: it comes from Spack, or
from the site (its modules, or a program).
"""

import reframe as rfm
from containercheck import Answer, ContainerCheck, Identity, Metric, Step, Work, core_counts, node_counts
from reframe.core.builtins import parameter, run_after, run_before

#: Parts of a step of HPCG: dot product, sum of vectors, matrix times vector, and the preconditioner.
KERNELS = ("DDOT", "WAXPBY", "SpMV", "MG")
RESULTS = "HPCG-Benchmark_*.txt"
#: Seconds of the timed part; an official result takes 1800.
TIMED = 1
#: Points of a rank in each direction: those of D12.6, and those of a default run.
PUBLISHED, QUICK = 120, 32
#: Ranks of a default run (one on each core, the smaller problem), and one on each core with the problem of D12.6.
PLAIN, ALL = "plain", "all"


@rfm.simple_test
class HPCG(ContainerCheck):
    """A problem of the same size for each rank."""

    descr = "HPCG"
    tags = {"memory"}
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    executable = "xhpcg"
    spack = "hpcg"
    recipe = "hpcg"
    run_limit = 300
    full_run_limit = 3600
    seconds = 100
    #: Ranks on a node for the problem of D12.6, with threads on its other cores; or the default run.
    ranks = parameter([PLAIN, *core_counts(), ALL], loggable=True)
    plain = {"ranks": PLAIN}

    identity = [Identity("version", r"^version=(\S+)")]
    rank_count = Answer("ranks", r"^Machine Summary::Distributed Processes=(\d+)")
    metrics = [
        Metric(
            "HPCG", r"^Final Summary::HPCG result is VALID with a GFLOP/s rating of=(\S+)", "GFLOPS", scaling="weak"
        ),
        Metric("bandwidth", r"^GB/s Summary::Raw Total B/W=(\S+)", "GB/s"),
    ]
    answers = [
        Answer("result", r"^Final Summary::HPCG result is[ =](\w+)", equals="VALID"),
        Answer("unknowns", r"^Linear System Information::Number of Equations=(\d+)"),
        # Mean of all sets of 50 steps. A small problem leaves little more than rounding errors.
        Answer("residual", r"^Reproducibility Information::Scaled residual mean=(\S+)", atol=1e-9),
    ]

    @run_after("init")
    def choose_ranks(self):
        """Set the ranks of a node; fewer ranks have more threads each."""
        if self.ranks not in (PLAIN, ALL):
            self.ranks_per_node, self.threads = self.ranks, 0

    @run_after("init")
    def add_kernels(self):
        """Add the rates of the kernels for the problem of D12.6, in which only the dot product's time differed.

        HPCG also prints the seconds of each kernel, but for as many sets of 50 steps as fit into the timed part. That
        number may differ between runs; a rate does not depend on it.
        """
        if self.ranks != PLAIN:
            kernels = [Metric(name, rf"^GFLOP/s Summary::Raw {name}=(\S+)", "GFLOPS") for name in KERNELS]
            self.metrics = [*self.metrics, *kernels]

    @run_before("run")
    def choose_problem(self):
        """Run HPCG, then print its results; the name of their file contains the time."""
        size = " ".join(f"--n{axis}={self.points}" for axis in "xyz")
        self.reset_commands = [f"rm -f {RESULTS} hpcg20*.txt"]
        self.steps = [
            Step("solve", f"{self.program} {size} --rt={TIMED}", parallel=True),
            Step("results", f"cat {RESULTS}"),
        ]

    @property
    def points(self):
        """The points of a rank in each direction."""
        return QUICK if self.ranks == PLAIN else PUBLISHED

    @property
    def work(self) -> Work:
        """The unknowns; in the untimed parts a core takes one second for 13000 of them."""
        count = self.points**3
        return Work(
            "unknowns", count, count, fixed_seconds=1 + TIMED, parallel_seconds_per_unit=8e-5, bytes_per_unit=1000
        )

    @property
    def amount(self):
        """The unknowns of all ranks, for any number of threads."""
        return self.work.amount(self.layout.ranks)
