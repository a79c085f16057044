"""Run the Intel MPI Benchmarks with the host's MPI under a program that was built with another one: the network.

SANDIA section VI.B, Volta: PingPong between two adjacent nodes (figures 2 and 3), and Allreduce on 768 ranks (figure 4;
the text has the value for 8 bytes), average of 10 trials. The image was built with Intel MPI. With Cray's MPI, of the
same ABI, in its place at run time it reached 99.4 % of the native bandwidth (integrated). With Intel MPI over Ethernet
it reached 39.5 %, and took 7 to 8 us instead of 1.3 (generic). Here the host's MPI is MPICH or one of its relatives;
bare runs IMB with it too.
"""

import reframe as rfm
from containercheck import Answer, ContainerCheck, Identity, Metric, Step, Work, node_counts
from reframe.core.builtins import parameter, run_after, run_before, variable

#: Bytes of the messages with a metric for the time, or the bandwidth; IMB measures all powers of two between.
LATENCIES = (8, 1024)
BANDWIDTHS = (65536, 1048576, 4194304)
#: All sizes of IMB's PingPong but 0. Allreduce sums numbers of 4 bytes, so its sizes begin at 4.
ALL_SIZES = tuple(1 << power for power in range(23))
# One microsecond as a difference: inside a node, runs of the same program differ by 0.5 us, too much for a ratio.
# SANDIA's container lost 6 us without its fabric.
LATENCY = {"better": "lower", "compare": "difference", "tolerance": 1.0, "spread": 0.1}
# PingPong's rows have four columns: bytes, repetitions, time, bandwidth; those of Allreduce have five.
ROW = r"^ +{size} +\d+ +{time} +{bandwidth}$"


def latency(size):
    """Return the metric for the time of a message."""
    return Metric(f"latency_{size}B", ROW.format(size=size, time=r"(\S+)", bandwidth=r"\S+"), "us", **LATENCY)


def bandwidth(size):
    """Return the metric for the bandwidth of a message."""
    pattern = ROW.format(size=size, time=r"\S+", bandwidth=r"(\S+)")
    return Metric(f"bandwidth_{size >> 10}KiB", pattern, "MB/s", spread=25.0)


def allreduce(size):
    """Return the metric for the time of a reduction, the mean of all ranks."""
    facts = LATENCY if size <= 4096 else {"better": "lower", "spread": 25.0}
    return Metric(f"allreduce_{size}B", rf"^ +{size} +\d+ +\S+ +\S+ +(\S+)$", "us", **facts)


@rfm.simple_test
class IMB(ContainerCheck):
    """IMB-MPI1, PingPong and Allreduce."""

    descr = "Intel MPI Benchmarks, PingPong and Allreduce"
    tags = {"network"}
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    executable = "IMB-MPI1"
    requirements = "imb/requirements.txt"
    mpi_family = "mpich"
    debian = ["mpich", "libmpich-dev"]
    recipe = "imb"
    min_ranks = 2
    run_limit = 300
    seconds = 70
    tolerance = 10.0
    # Two ranks exchange messages of 24 sizes; all take part in the reduction.
    work = Work("ranks in a reduction", min_amount=2, amount_per_core=1, fixed_seconds=4)
    #: Sizes of messages with a metric: few, or all sizes of IMB, for the curves of SANDIA's figures 2 to 4.
    sizes = parameter(["few", "all"], loggable=True)
    plain = {"sizes": "few"}
    #: Trials of a small message.
    trials = variable(int, value=5000)
    #: Megabytes that the trials of a large message move; 0 for 500 on a node, and 100 between nodes (two seconds over
    #: Ethernet). IMB's own limit, ``-time``, leaves out the largest messages on a slow machine.
    volume = variable(int, value=0)

    identity = [Identity("version", r"^# +Intel\(R\) MPI Benchmarks (\S+),")]
    rank_count = Answer("ranks", r"^# #processes = (\d+)", reduce="last")
    metrics = [
        *map(latency, LATENCIES),
        *map(bandwidth, BANDWIDTHS),
        Metric(
            "bandwidth_peak",
            ROW.format(size=r"\d+", time=r"\S+", bandwidth=r"(\S+)"),
            "MB/s",
            reduce="max",
            spread=25.0,
        ),
        allreduce(8),
    ]
    answers = [Answer("finished", r"^# All processes entering (\w+)", equals="MPI_Finalize")]

    @run_after("init")
    def measure_all_sizes(self):
        """Add a metric for each size: the time of a message up to 4 KiB, else its bandwidth; and the time of a sum."""
        if self.sizes == "all":
            small = [size for size in ALL_SIZES if size <= 4096 and size not in LATENCIES]
            large = [size for size in ALL_SIZES if size > 4096 and size not in BANDWIDTHS]
            reductions = [size for size in ALL_SIZES if size >= 4 and size != 8]
            more = [*map(latency, small), *map(bandwidth, large), *map(allreduce, reductions)]
            self.metrics = [*self.metrics, *more]

    @run_before("run")
    def choose_ranks_and_trials(self):
        """Run PingPong between neighbouring nodes (on one node, between cores), then Allreduce on all ranks."""
        common = f"-iter {self.trials},{self.volume or (500 if self.num_nodes == 1 else 100)}"
        if self.num_nodes > 1 and self.num_tasks_per_node > 1:
            common += f" -map {self.num_tasks_per_node}x{self.num_nodes}"
        reduction = f"{common} -npmin {self.num_tasks}" + (" -msglog 3:3" if self.sizes == "few" else "")
        self.steps = [
            Step("PingPong", f"{self.program} {common} PingPong", parallel=True),
            Step("Allreduce", f"{self.program} {reduction} Allreduce", parallel=True),
        ]
