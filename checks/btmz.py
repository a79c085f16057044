"""Run BT-MZ of the NAS Parallel Benchmarks, a solver on zones of unequal size: MPI between zones, OpenMP within.

D12.6 sections 6.6 and 6.8.2, BSC on Lenox: class C in all mixes of ranks and threads (table 6.2), 50 runs each, in
seconds and Mop/s. Singularity and Shifter were as fast as bare. Docker's virtual network doubled the time in MPI with
each doubling of the ranks (table 6.3).

Each class and number of ranks needs a separate program, such as ``bt-mz.C.16``. Debian does not have them. They come
from Spack or from the site (its modules, or the path of a program without class and ranks in its name).
"""

import reframe as rfm
from containercheck import Answer, ContainerCheck, Identity, Metric, Work, core_counts, node_counts
from reframe.core.builtins import parameter, run_after, run_before

#: Points, time steps and zones of each class; a run has at most one rank for each zone (NPB's sys/setparams.c).
CLASSES = {
    "S": (24 * 24 * 6, 60, 4),
    "W": (64 * 64 * 8, 200, 16),
    "A": (128 * 128 * 16, 200, 16),
    "B": (304 * 208 * 17, 200, 64),
    "C": (480 * 320 * 28, 200, 256),
    "D": (1632 * 1216 * 34, 250, 1024),
    "E": (4224 * 3456 * 92, 250, 4096),
    "F": (12032 * 8960 * 250, 250, 16384),
}
#: Size of a default run: the first of these classes with a zone for each rank (larger classes take minutes). D12.6 has
#: class C.
FITTING, FITTED, PUBLISHED = "fitting", "WBC", "C"
#: One rank on each core.
ALL = "all"
#: Input that turns on the timers of the program's parts; number and length of steps stay the defaults.
INPUT = "inputbt-mz.data"


@rfm.simple_test
class BTMZ(ContainerCheck):
    """One class on a number of ranks, each with the threads that fill its cores."""

    descr = "NAS Parallel Benchmarks, BT-MZ"
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    executable = "bt-mz"
    spack = "btmz"
    recipe = "btmz"
    run_limit = 300
    full_run_limit = 3600
    seconds = 60
    size = parameter([FITTING, *CLASSES], loggable=True)
    #: Ranks on a node, with threads on its other cores (table 6.2), for the class of D12.6.
    ranks = parameter([ALL, *core_counts()], loggable=True)
    plain = {"size": FITTING, "ranks": ALL}

    identity = [Identity("version", r"^ Version\s+=\s+(\S+)")]
    rank_count = Answer("ranks", r"^ Total processes =\s+(\d+)")
    metrics = [
        Metric("seconds", r"^ Time in seconds =\s+(\S+)", "s", better="lower", scaling="strong"),
        Metric("rate", r"^ Mop/s total\s+=\s+(\S+)", "Mop/s"),
        # Share of the ranks' time (table 6.3b), compared in points of percent.
        Metric(
            "communication", r"^  qbc_comm:.*\( *(\S+)%\)", "%", "lower", "mean", compare="difference", tolerance=10.0
        ),
    ]
    answers = [
        Answer("verification", r"^ Verification\s+=\s+(\w+)", equals="SUCCESSFUL"),
        Answer("threads", r"^ Total threads\s+=\s+(\d+)"),
        # BT-MZ verifies a class by five norms of the residual, and five of the solution's error.
        Answer("norms", r"^ +\d+ +(\d\.\d+E[+-]\d+) +\d\.\d+E", rtol=1e-8, reduce="sum"),
    ]

    @run_after("init")
    def choose_ranks(self):
        """Set the ranks of a node; fewer ranks have more threads each."""
        if self.ranks != ALL:
            self.ranks_per_node, self.threads = self.ranks, 0
            self.valid_systems = self.valid_systems if self.size == PUBLISHED else []

    @run_before("run")
    def ask_for_timers(self):
        """Write the three lines of the input: number of steps, their length, timers on."""
        self.input_commands = [f"printf '0\\n0.0\\n1\\n' >{INPUT}"]

    @property
    def program_suffix(self):
        """The end of the program's name: class and ranks."""
        return f".{self.fitted}.{self.layout.ranks}"

    @property
    def fitted(self):
        """The class that is run."""
        enough = (name for name in FITTED if CLASSES[name][2] >= self.layout.ranks)
        return next(enough, FITTED[-1]) if self.size == FITTING else self.size

    @property
    def work(self) -> Work:
        """The points of the class. Each rank needs a zone; with threads there may be more cores than zones.

        A core takes 4e-7 s for a step of a point (bare, AMD EPYC 9004).
        """
        points, steps, zones = CLASSES[FITTED[-1] if self.size == FITTING else self.size]
        per_core = points / zones if self.ranks == ALL else 0
        return Work(
            "grid points", CLASSES["S"][0], per_core, points, parallel_seconds_per_unit=steps * 4e-7, bytes_per_unit=300
        )

    @property
    def amount(self):
        """The grid points of the class."""
        return CLASSES[self.fitted][0]
