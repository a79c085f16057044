"""Run WRF on the tropical cyclone, a weather model on a grid: a halo exchange in each step, memory and network.

D12.6 section 5, ICHEC on Kay: the case em_tropical_cyclone of WRF 4.0's distribution (200 x 200 x 20 points, six days
in steps of a minute), initialised once with ideal.exe. Execution time of wrf.exe on 1 to 8 nodes of 40 cores (figure
5.1): Singularity with the host's MPI equals bare. A default run has 40 steps of a grid that grows with the cores.
Debian does not have WRF: it comes from Spack, or from the site (its modules, or a program), compiled for this case. The
input is made from the files of the distribution.
"""

import reframe as rfm
from containercheck import Answer, ContainerCheck, Identity, Metric, Step, Work, by_ratio, node_counts, seconds_of
from reframe.core.builtins import parameter, run_after, run_before, variable

#: Output of the first rank.
LOG = "rsl.out.0000"
#: End of the first step, in the case's own time.
FIRST = "2007-09-01_00:01:00"
#: Grid points in each direction, and steps: those of D12.6, and those of a default run.
PUBLISHED, DAYS = 200, 6 * 24 * 60
QUICK, MOST = 60, 506
#: Seconds that a core takes for a step of a column of 20 points.
STEP = 3.5e-5
#: Fewest points of a rank's part of the grid in each direction that WRF accepts.
NARROWEST = 10


def mean(what, number, **facts):
    """Return the answer for a mean over the grid before the last step; ``number`` counts its place from 1."""
    return Answer(what, rf"Domain average of .*\b{what}\b.*: +(?:\S+ +){{{number}}}(\S+)", file=LOG, **facts)


@rfm.simple_test
class WRF(ContainerCheck):
    """The cyclone with one rank on each core."""

    descr = "WRF tropical cyclone"
    tags = {"memory", "network"}
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    executable = "wrf.exe"
    spack = "wrf"
    view_directory = "main"
    recipe = "wrf"
    output_files = [LOG]
    run_limit = 300
    full_run_limit = 4 * 3600
    seconds = 100
    #: Grid points in each direction; 0 chooses the number by the cores.
    points = parameter([0, PUBLISHED], loggable=True)
    plain = {"points": 0}
    #: Steps of a default run.
    timesteps = variable(int, value=40)
    # WRF prints a fatal error in its logs only.
    reset_commands = [
        "rm -f rsl.* wrfout_d01_* wrfrst_d01_*",
        "trap 'grep -hA 1 \"FATAL CALLED FROM\" rsl.error.* >&2' ERR",
    ]

    identity = [Identity("version", r"^ *WRF V(\S+) MODEL", file=LOG)]
    # The grid of ranks: the numbers in one direction and in the other.
    rank_count = Answer("ranks", r"(?:Ntasks in X|ntasks in Y) +(\d+)", file=LOG, reduce="product")
    # All steps but the first, which still reads the program. From an image, through FUSE, the reading took 0.4 to 0.8 s
    # more in all.
    metrics = [
        Metric("step", rf"^Timing for main: time (?!{FIRST}).*: +(\S+) elapsed", "s", "lower", "mean", LOG),
        seconds_of("wrf", compare="difference", tolerance=1.0, scaling="strong"),
    ]
    answers = [
        Answer("success", r"SUCCESS COMPLETE (\w+)", equals="WRF", file=LOG),
        Answer("minutes", r"Domain average of dpsdt, dmudt \(mb/3h\): +(\S+)", file=LOG),
        # Single precision. The mean change of the air's mass in a step (rounding is 0.04 % of it); then evaporation,
        # heat flux and latent heat at the surface.
        mean("dmudt", 2, rtol=1e-2),
        mean("sfcevp", 1, rtol=1e-3),
        mean("hfx", 2, rtol=1e-3),
        mean("lh", 3, rtol=1e-3),
    ]

    @run_after("setup")
    def need_points(self):
        """Skip the grid of D12.6 if it has too few points for the ranks."""
        rows = max(self.layout.grid)
        if self.points and self.points < NARROWEST * rows:
            self.skip_because(f"its input has work for {self.points // NARROWEST} ranks in a row, and has {rows}")

    @run_before("run")
    def write_input(self):
        """Write the namelist; the bare program makes the input from it, once."""
        steps = DAYS if self.points else self.timesteps
        edge = round(self.amount ** (1 / 2))
        # WRF counts the last point of the staggered grid, one more.
        self.fill_in("wrf/namelist.input", "namelist.input", edge=edge + 1, minutes=steps)
        self.input_commands = [f"sh {self.own('wrf/prepare')} {self.bare_program}"]
        self.steps = [Step("wrf", self.program, parallel=True)]
        if self.points:
            self.metrics = by_ratio(self.metrics)

    @property
    def work(self) -> Work:
        """The columns of the grid; one process makes the input, and writes it."""
        facts = {"fixed_seconds": 0.6, "setup_seconds_per_unit": 6e-5, "bytes_per_unit": 4e4, "bytes_per_core": 6e7}
        if self.points:
            return Work("grid columns", PUBLISHED**2, parallel_seconds_per_unit=DAYS * STEP, **facts)
        return Work("grid columns", QUICK**2, 400, MOST**2, parallel_seconds_per_unit=self.timesteps * STEP, **facts)

    @property
    def amount(self):
        """The columns, at least as many as WRF accepts for this number of ranks."""
        return max(self.work.amount(self.layout.cores), (NARROWEST * max(self.layout.grid)) ** 2)
