"""Run HPC Challenge, seven benchmarks, each bound by another part of the machine.

CHPCE, sections "Compute performance" to "Interconnect performance", on x86 and OpenPOWER: 4 to 64 ranks in a flat grid
(1 x n), block size 100; 70 % of the memory (``-S HPCC.memory_fraction=0.7``), the median of 20 runs. Here a run takes
seconds. Over nodes the matrix is even smaller: RandomAccess sends its updates one by one, which takes minutes on TCP.
"""

import math

import reframe as rfm
from containercheck import Answer, ContainerCheck, Identity, ImageRelease, Metric, RanksPerNode, Work, node_counts
from reframe.core.builtins import parameter, run_before, variable

OUTPUT = "hpccoutf.txt"
BLOCK = 100
#: Orders of a tiny matrix: a run takes milliseconds, in which a container still reads the program from the image.
TINY = r"^HPL_N=1?\d{1,3}$"
#: Order of HPL's matrix for one core, on one node and over several. It grows like the root of the number of cores: the
#: memory for a core stays the same. Longer runs do not spread less (ci/benchmark noise).
ORDER, ORDER_OVER_NODES = 1400, 700
#: Parts of the machine that bound a metric of ranks with messages.
MESSAGES = ("messages", "network")
FLAT = 64  # CHPCE's largest flat grid
#: Order of the smallest matrix for PTRANS. It is transposed twice; the better result counts, without first calls.
TRANSPOSED = 2000


def metric(name, key, unit, spread, **facts):
    """Return a metric of HPCC's summary section."""
    return Metric(name, rf"^{key}=(\S+)", unit, file=OUTPUT, spread=spread, **{"duet": True, **facts})


def per_core(name, key, unit, spread, **facts):
    """Return a metric of single cores, which does not apply to a tiny matrix."""
    return metric(name, key, unit, spread, not_applicable_if=TINY, **facts)


def between_ranks(name, key, unit, **facts):
    """Return a metric of b_eff, which does not apply to a single rank; its tolerance is that of Ping Pong and IMB."""
    facts = {"tolerance": 10.0, "duet": False, "measures": MESSAGES, **facts}
    return metric(name, key, unit, 10.0, not_applicable_if=r"^CommWorldProcs=1$", **facts)


def self_check(name, pattern, **facts):
    """Return an answer of HPCC's output."""
    return Answer(name, pattern, file=OUTPUT, **facts)


@rfm.simple_test
class HPCC(ContainerCheck, ImageRelease, RanksPerNode):
    """HPC Challenge 1.5."""

    descr = "HPC Challenge"
    tags = {"smoke"}
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    executable = "hpcc"
    debian = ["hpcc", "libopenblas0-serial"]
    recipe = "hpcc"
    output_files = [OUTPUT]
    run_limit = 300
    seconds = 90
    #: Part of the nodes' memory that HPL's matrix takes; 0 for a matrix that grows with the cores.
    memory_fraction = variable(float, int, value=0)
    published_values = {"memory_fraction": 0.7}

    identity = [Identity("version", r"^This is the DARPA/DOE HPC Challenge Benchmark version (\S+)", file=OUTPUT)]
    rank_count = self_check("ranks", r"^CommWorldProcs=(\d+)")
    metrics = [
        metric("HPL", "HPL_Tflops", "TFLOPS", 15.0, of_peak=True, measures=("computing", *MESSAGES)),
        per_core("SingleDGEMM", "SingleDGEMM_Gflops", "GFLOPS", 20.0, measures=("computing",)),
        per_core("StarDGEMM", "StarDGEMM_Gflops", "GFLOPS", 15.0, measures=("computing",)),
        per_core("StarFFT", "StarFFT_Gflops", "GFLOPS", 20.0, measures=("computing", "memory")),
        metric("MPIFFT", "MPIFFT_Gflops", "GFLOPS", 20.0, measures=("computing", "memory", *MESSAGES)),
        per_core("SingleSTREAM_Triad", "SingleSTREAM_Triad", "GB/s", 15.0, measures=("memory",)),
        per_core("StarSTREAM_Triad", "StarSTREAM_Triad", "GB/s", 20.0, measures=("memory",)),
        per_core("StarRandomAccess", "StarRandomAccess_GUPs", "GUP/s", 40.0, measures=("memory",)),
        metric("MPIRandomAccess", "MPIRandomAccess_GUPs", "GUP/s", 30.0, measures=("memory", *MESSAGES)),
        metric("PTRANS", "PTRANS_GBs", "GB/s", 15.0, measures=("memory", *MESSAGES)),
        between_ranks("AvgPingPongLatency", "AvgPingPongLatency_usec", "us", better="lower"),
        between_ranks("AvgPingPongBandwidth", "AvgPingPongBandwidth_GBytes", "GB/s"),
        between_ranks("RandomRingLatency", "RandomlyOrderedRingLatency_usec", "us", better="lower"),
        between_ranks("RandomRingBandwidth", "RandomlyOrderedRingBandwidth_GBytes", "GB/s"),
    ]
    answers = [
        self_check("success", r"^Success=(\d)", equals="1"),
        self_check("HPL_N", r"^HPL_N=(\d+)"),
        self_check("HPL_residual", r"^\|\|Ax-b\|\|.*=\s+(\S+) \.+", at_most=16.0, reduce="max"),
        self_check("HPL_check", r"^\|\|Ax-b\|\|.*\.\.\. (\w+)", equals="PASSED"),
        self_check("DGEMM_residual", r"^Scaled residual: (\S+)", at_most=16.0, reduce="max"),
        self_check("PTRANS_check", r"^WALL .* (PASSED|FAILED)", equals="PASSED"),
        self_check("PTRANS_residual", r"^PTRANS_residual=(\S+)", at_most=16.0),
        # One update in a hundred may be lost, by the rules of the benchmark.
        self_check("MPIRandomAccess_errors", r"^MPIRandomAccess_ErrorsFraction=(\S+)", at_most=0.01),
        self_check("RandomAccess_check", r"^Found \d+ errors in \d+ locations \((\w+)\)", equals="passed"),
        self_check("MPIFFT_error", r"^MPIFFT_maxErr=(\S+)", at_most=1e-12),
    ]

    @run_before("run")
    def write_input(self):
        """Write the input: a flat grid of ranks, as in CHPCE; beyond 64 ranks a squarer one: each rank has a block."""
        self.input = "published" if self.memory_fraction == 0.7 else self.input
        order = max(1, round(math.sqrt(self.amount) / BLOCK)) * BLOCK
        rows, columns = (1, self.layout.ranks) if self.layout.ranks <= FLAT else self.layout.grid
        sizes = {"order": order, "block": BLOCK, "transposed": max(TRANSPOSED, order // 2)}
        self.fill_in("hpcc/hpccinf.txt", "hpccinf.txt", **sizes, rows=rows, columns=columns)

    @property
    def work(self) -> Work:
        """The elements of HPL's matrix, never tiny on one node; all benchmarks together take a core 1 us an element."""
        facts = {"unit": "matrix elements", "fixed_seconds": 1, "parallel_seconds_per_unit": 1e-6, "bytes_per_unit": 8}
        if self.memory_fraction:
            return Work(min_amount=self.memory_fraction * self.site.memory * self.num_nodes / 8, **facts)
        least, order = (2000, ORDER) if self.num_nodes == 1 else (0, ORDER_OVER_NODES)
        return Work(min_amount=least**2, amount_per_core=order**2, **facts)
