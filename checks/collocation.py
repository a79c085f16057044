"""Run several programs on one node at the same time, and measure the gain of sharing cores between them.

D12.5 section 3.2, BSC on MareNostrum4: BT-MZ, with its zones left uneven.
- One program on a socket, in five mixes of ranks and threads, bare and in Singularity (table 1, figure 11).
- Two of these mixes with DLB (table 2, figures 13 and 14): a speed-up of 1.58 at most, for 8x3.
- Five programs (3x2 6x3 2x2 2x5 5x2) that fill the node, under each policy of DLB (figures 16 to 21): 1.04 to 2.3.
Bare and container took the same time. The five programs ran bare without DLB only.

DLB comes from the site's modules, a directory or Spack, and is loaded into bare and container alike. Without it, the
check is skipped. Any machine runs the project's program: its last rank works three times as much as its first.
"""

from dataclasses import replace

import reframe as rfm
from containercheck import MIXES, Answer, CollocationSides, ContainerCheck, Metric, Work, seconds_of, side_by_side
from reframe.core.builtins import parameter, run_after, run_before

#: Steps of the program, regions of its lightest rank in a step, chunks for a region and thread, seconds of a chunk.
STEPS, REGIONS, CHUNKS, CHUNK = 40, 10, 8, 2.1e-4


def report_of(name, words):
    """Return the metric for a number that TALP reports at the end of a program, the mean of all programs."""
    facts = {"compare": "difference", "tolerance": 0.05, "sides": ("talp", "bare_talp")}
    return Metric(name, rf"{words}: +(\d\.\d+)", "of 1", "higher", "mean", **facts)


def idle_of(points):
    """Return the metric for the idle share of the node's cores.

    :param points: accepted difference, in points of percent.
    """
    facts = {"compare": "difference", "tolerance": points, "not_applicable_if": "^idle unknown"}
    return Metric("idle", r"^idle (\S+) %", "%", "lower", **facts)


class Collocated(CollocationSides, ContainerCheck):
    """Several programs at the same time, under each policy."""

    library = "dlb"
    # A waiting rank yields its core. A process that keeps the processor awake would get it, and the wait take 40 ms.
    keep_awake = False
    num_nodes = parameter([1], loggable=True)
    run_limit = 120
    full_run_limit = 1800
    seconds = 150
    tolerance = 10.0
    # Assumed: the programs of these checks differ.
    work = Work("node's programs", min_amount=1, fixed_seconds=20)
    #: How each program prints its seconds.
    seconds_pattern = r"seconds (\S+)"
    #: Programs on the node: see ``mixes``.
    use_case = parameter(
        ["two", "one", "five", *(f"{count} of {mix}" for count in (1, 2) for mix in MIXES)], loggable=True
    )
    plain = {"use_case": "two"}
    metrics = [
        seconds_of("whole"),
        idle_of(10.0),
        # Useful work of the busiest core: a lower bound of the time, which other load on the machine does not change.
        Metric("busiest_core", r"^busiest (\S+) s", "s", better="lower", not_applicable_if="^busiest unknown"),
        report_of("parallel_efficiency", r"### Parallel efficiency"),
        report_of("load_balance", r"Communication efficiency: .*\n.*- Load Balance"),
    ]

    @run_after("init")
    def time_each(self):
        """Add a metric for the seconds of each program."""
        self.metrics = [*self.metrics, *map(self.time_of, self.program_names)]

    def time_of(self, name):
        """Return the metric for the seconds of a program; its lines in the output begin with its name."""
        return Metric(f"seconds_{name}", f"^{name}: {self.seconds_pattern}", "s", better="lower")

    @run_after("setup")
    def place_programs(self):
        """Set the programs; each gets separate cores."""
        self.neighbours = tuple(self.programs(side_by_side(self.mixes_on(self.site.cores or 0))))


@rfm.simple_test
class Collocation(Collocated):
    """The project's own uneven program."""

    descr = "several programs on a node, with DLB"
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    executable = "imbalanced"
    source = "collocation/imbalanced.c"
    compile_options = ["-fopenmp", "-ldl"]
    recipe = "collocation"
    # A run takes two seconds. The start of a container is a sixth of it; cores are idle then, except the busiest one.
    metrics = [seconds_of("whole", compare="difference", tolerance=0.5), idle_of(20.0), *Collocated.metrics[2:]]
    rank_count = Answer("ranks", r"^\w+: ranks (\d+)", reduce="sum")
    answers = [Answer("sum", r"^\w+: sum (\d+)", words=True)]
    work = Work(
        "steps", min_amount=STEPS, parallel_seconds_per_unit=0.0, serial_seconds_per_unit=3 * REGIONS * CHUNKS * CHUNK
    )

    def programs(self, programs):
        """Give the second of two programs half the steps, and each of five the same work for any number of cores."""
        for program in programs:
            steps = STEPS // 2 if self.use_case == "two" and program.name == "program2" else STEPS
            regions = max(1, 10 * REGIONS // program.cores) if self.use_case == "five" else REGIONS
            yield replace(program, options=(str(steps), str(regions), str(CHUNKS * program.threads)))

    @run_before("run")
    def confirm_library(self):
        """Require DLB in the ranks of the sides that have a policy, and in no others."""
        for side in self.sides():
            has_policy = "DLB_ARGS" in side.program.neighbours[0].environment
            facts = {"equals": "yes" if has_policy else "no", "side": side.name}
            self.answers = [*self.answers, Answer(f"dlb_{side.name}", r"^\w+: dlb (\w+)", **facts)]
