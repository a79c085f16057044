"""Run Ping Pong between pairs of ranks: the network, and shared memory inside a node.

D12.6 section 8.1.1, HLRS EXCESS: 10000 exchanges of 4 bytes and 50 of 1 MB between every two of 40 cores on two nodes.
The container had a larger dispersion between the cores of one socket, and no difference between nodes. Here the full
axes measure the dispersion: the distance between the quartiles, in percent of the median. The file ``pairs.csv`` of
each run is the map of figures 8.4 and 8.5: class, latency and bandwidth of each pair. SANDIA section VI.B and D12.6
section 6.9.1 show the loss of a container that does not know the fabric.
"""

import math

import reframe as rfm
from containercheck import Answer, ContainerCheck, ImageRelease, Metric, Work, node_counts
from reframe.core.builtins import parameter, run_after, run_before, variable

#: Classes of pairs, and the parts of the machine that their metrics depend on.
MEASURES = {"within_socket": ("messages",), "between_sockets": ("messages",), "between_nodes": ("network",)}
CLASSES = tuple(MEASURES)


def metric_for_pair_class(name, unit, pair, **facts):
    """Return a metric for one class of pair; it does not apply if the program finds no such pair."""
    pattern = rf"^{name} {pair} (\S+) {unit}"
    return Metric(
        f"{name}_{pair}",
        pattern,
        unit,
        not_applicable_if=rf"^pairs {pair} 0$",
        spread=6.0,
        measures=MEASURES[pair],
        **facts,
    )


def dispersion(name, unit, pair):
    """Return the metric for the dispersion of one class of pair (figures 8.4 and 8.5), in points of percent."""
    return Metric(
        f"{name}_dispersion_{pair}",
        rf"^{name} {pair} \S+ {unit} dispersion (\S+) %",
        "%",
        better="lower",
        compare="difference",
        tolerance=20.0,
        not_applicable_if=rf"^pairs {pair} 0$",
        measures=MEASURES[pair],
    )


@rfm.simple_test
class PingPong(ContainerCheck, ImageRelease):
    """All pairs one after the other, by the project's own program."""

    descr = "Ping Pong between pairs of ranks, 4 B and 1 MB"
    tags = {"smoke"}
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    executable = "pingpong"
    source = "pingpong/pingpong.c"
    recipe = "pingpong"
    min_ranks = 2
    #: Seconds for all pairs together; slow networks take longer, as each pair has at least three trials.
    seconds_of_pairs = variable(float, int, value=1.5)
    #: Most pairs of each class, drawn evenly; 0 for all, as in D12.6, which may take long.
    pairs_of_class = variable(int, value=40)
    #: The map of the pairs. The map of each side's first round is kept.
    output_files = ["pairs.csv"]
    keep_files = ["rounds/01-*"]
    # Three trials of 10 ms inside a node, or of 60 ms over a fabric.
    work = Work("pairs", min_amount=1, fixed_seconds=1.5, serial_seconds_per_unit=0.15)
    run_limit = 300
    seconds = 70
    tolerance = 10.0
    rank_count = Answer("ranks", r"^ranks (\d+)")
    metrics = [metric_for_pair_class("latency", "us", pair, better="lower") for pair in CLASSES]
    metrics += [metric_for_pair_class("bandwidth", "MB/s", pair) for pair in CLASSES]
    answers = [Answer("wrong_bytes", r"^wrong bytes (\d+)", at_most=0)]
    answers += [Answer(f"pairs_{pair}", rf"^pairs {pair} (\d+)") for pair in CLASSES]

    @run_after("init")
    def add_dispersion(self):
        """Add the dispersion of each class on the full axes, in the usual image: with few pairs it is mostly noise."""
        if self.full and self.image_release == "fitting":
            units = {"latency": "us", "bandwidth": "MB/s"}
            more = [dispersion(name, unit, pair) for name, unit in units.items() for pair in CLASSES]
            self.metrics = [*self.metrics, *more]

    @run_before("run")
    def choose_seconds(self):
        """Set the program's options: seconds, and pairs of a class."""
        self.executable_opts = [f"{self.seconds_of_pairs:g}", str(self.pairs_of_class)]

    @property
    def amount(self):
        """The number of pairs: two classes on a node, three over several nodes."""
        pairs = math.comb(self.layout.ranks, 2)
        return min(pairs, self.pairs_of_class * (2 if self.num_nodes == 1 else 3)) if self.pairs_of_class else pairs
