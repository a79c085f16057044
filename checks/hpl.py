"""Run High Performance Linpack, dense linear algebra: the processor, and the network that broadcasts the panels.

MIPT, sections 2 and 3, on two nodes with QDR InfiniBand: N 8000 to 96000 (the largest fills about 60 % of the memory),
NB 128, a 4 x 3 grid. Bare metal and Singularity did not differ. With InfiniBand libraries in the image that do not fit
the host's, the result was 43 and 31 times lower (N 8000 and 16000). Debian has HPL only as a part of ``hpcc``, which
first runs its other components. ``-S HPL.executable=xhpl`` takes a site's own HPL, which reads the same input under
another name.
"""

import math

import reframe as rfm
from containercheck import Answer, ContainerCheck, Identity, Metric, Work, node_counts
from reframe.core.builtins import parameter, run_before, variable

OUTPUT = "hpccoutf.txt"
BLOCK = 128
#: Largest matrix of MIPT, and the part of its two nodes' memory that it took.
LARGEST, LARGEST_PART = 96000, 96000**2 * 8 / (128 << 30)
#: Order of a default run's matrix for one core; it grows like the root of the number of cores. Over several nodes it is
#: smaller, because HPCC's RandomAccess sends its updates one by one: on TCP that would take minutes.
QUICK, QUICK_OVER_NODES = 1280, 640
#: Seconds of a core that HPCC's other components take for an element of the matrix (measured, orders 3431 and 6863).
OTHER_COMPONENTS = 2e-6


@rfm.simple_test
class HPL(ContainerCheck):
    """One matrix, solved once; a small matrix is solved several times, because one solution is too short."""

    descr = "High Performance Linpack"
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    executable = "hpcc"
    debian = ["hpcc", "libopenblas0-serial"]
    recipe = "hpcc"
    output_files = [OUTPUT]
    #: Matrices of MIPT, scaled by the memory of the nodes against MIPT's 128 GiB.
    size = parameter([QUICK, 8000, 16000, 32000, 64000, LARGEST], loggable=True)
    plain = {"size": QUICK}
    run_limit = 300
    seconds = 80
    # The largest took 22 minutes.
    full_run_limit = 4 * 3600
    #: Whether to scale the matrices; ``-S HPL.scaled=no`` runs the published ones.
    scaled = variable(bool, value=True)
    #: Solutions of the small matrix in a run; their median counts.
    repeats = variable(int, value=5)

    identity = [Identity("version", r"^HPLinpack (\S+)", file=OUTPUT)]
    # The last P and Q (HPCC prints them twice). With fewer ranks than the grid has, HPL refuses to run, and HPCC
    # takes a grid of one rank.
    rank_count = Answer("ranks", r"^[PQ] +: +(\d+)(?![\s\S]*^P +: +\d)", file=OUTPUT, reduce="product")
    metrics = [
        Metric(
            "HPL",
            r"^W[RC]\w+(?: +\d+){4} +\S+ +(\S+)",
            "GFLOPS",
            file=OUTPUT,
            reduce="median",
            spread=15.0,
            of_peak=True,
            measures=("computing", "messages", "network"),
        )
    ]
    answers = [
        Answer("N", r"^W[RC]\w+ +(\d+)", file=OUTPUT),
        Answer("residual", r"^\|\|Ax-b\|\|.*= +(\S+) \.+", file=OUTPUT, reduce="max", at_most=16.0),
        Answer("check", r"^\|\|Ax-b\|\|.*\.\.\. (\w+)", file=OUTPUT, equals="PASSED"),
    ]

    @run_before("run")
    def write_input(self):
        """Write the input file for HPL and for HPCC; the grid is as square as the ranks allow."""
        order = max(1, round(math.sqrt(self.amount) / BLOCK)) * BLOCK
        rows, columns = self.layout.grid
        repeats = 1 if self.full_only else self.repeats
        facts = {"repeats": repeats, "broadcasts": " ".join(["0"] * repeats)}
        grid = {"order": order, "block": BLOCK, "rows": rows, "columns": columns}
        self.fill_in("hpl/HPL.dat", "HPL.dat", "hpccinf.txt", **grid, **facts)

    @property
    def work(self) -> Work:
        """The matrix elements: each takes 2/3 x order operations, and a core does about 2e10 of them a second."""
        facts = {"fixed_seconds": 2, "bytes_per_unit": 8}
        if self.size == QUICK:
            order = QUICK if self.num_nodes == 1 else QUICK_OVER_NODES
            return Work("matrix elements", 0, order**2, parallel_seconds_per_unit=5e-7, **facts)
        order = self.size
        if self.scaled:
            order *= math.sqrt(LARGEST_PART * self.site.memory * self.num_nodes / 8) / LARGEST
        return Work("matrix elements", order**2, parallel_seconds_per_unit=order / 3e10 + OTHER_COMPONENTS, **facts)
