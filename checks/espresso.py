"""Run Quantum ESPRESSO, pw.x, electronic structure with plane waves: linear algebra, and many collectives.

D12.6 section 7.4, MARCONI, 1 to 10 nodes of 48 ranks: ZrSi2, 24 atoms with 6 x 19 x 13 points and 108 with 6 x 6 x 5;
seconds of PWSCF and fftw, mean of 5. The container had no overhead; Intel MPI was about 5 times faster than Open MPI.
D12.5 section 3.3.1: silane, with OpenMP. In a build without OpenMP, such as Debian's, the BLAS has the threads.

The embedded inputs are a silicon crystal and silane. ``-S QuantumEspresso.published=<directory>`` gives the systems of
D12.6: ``ZrSi2-24.in`` and ``ZrSi2-108.in``, with ``pseudo_dir = '.'`` and the pseudopotentials next to them. Silane's
cell grows beyond 8 cores, so that the work for a core stays the same; silicon is a fixed case.
"""

import shlex

import reframe as rfm
from containercheck import (
    Answer,
    ContainerCheck,
    Identity,
    Metric,
    RanksPerNode,
    ThreadsPerRank,
    Work,
    by_ratio,
    node_counts,
    skip_without_threads,
)
from reframe.core.builtins import parameter, run_after, run_before

PUBLISHED = ("ZrSi2-24", "ZrSi2-108")
#: Pseudopotentials of Debian, or of the site's ESPRESSO_PSEUDO.
PSEUDO = '"${ESPRESSO_PSEUDO:-/usr/share/espresso/pseudo}"'
COPY_PSEUDOPOTENTIALS = f"cp {PSEUDO}/Si.pz-vbc.UPF {PSEUDO}/H.pz-vbc.UPF ."
#: Edge of silane's cell in Bohr, and points of the FFT's grid in it.
EDGE, POINTS = 26.0, 96**3


def wall_clock(name, **facts):
    """Return the metric for the wall-clock time of a routine."""
    return Metric(name, rf"^ +{name} +: .*CPU +(\S.*?) WALL", "s", better="lower", **facts)


@rfm.simple_test
class QuantumEspresso(ContainerCheck, RanksPerNode, ThreadsPerRank):
    """A self-consistent field; pure MPI as in D12.6, and in mixes of ranks and threads."""

    descr = "Quantum ESPRESSO pw.x"
    tags = {"network"}
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    executable = "pw.x"
    debian = ["quantum-espresso", "quantum-espresso-data"]
    recipe = "espresso"
    min_ranks = 1
    material = parameter(["silicon", "SiH4", *PUBLISHED], loggable=True)
    plain = {"material": "SiH4"}
    run_limit = 300
    full_run_limit = 3600
    reset_commands = ["rm -rf scratch"]

    identity = [Identity("version", r"^ +Program PWSCF v\.(\S+) starts")]
    rank_count = Answer("ranks", r"^ +(?:Parallel version \(MPI\), running on|Number of MPI processes:) +(\d+)")
    # The embedded inputs take seconds; a container needs 0.2 s of them to read the program's code from its image.
    metrics = [
        wall_clock("PWSCF", compare="difference", tolerance=0.5, scaling="strong", spread=0.1),
        wall_clock("fftw", compare="difference", tolerance=0.3, spread=0.06),
    ]
    answers = [
        # A hundred times the threshold of the inputs.
        Answer("total_energy", r"^! +total energy += +(\S+) Ry", atol=1e-6),
        Answer("convergence", r"convergence (has been|NOT) achieved", equals="has been"),
    ]

    @run_after("init")
    def mix_silane_only(self):
        """Run fewer ranks, or threads, with silane only, as D12.5 did."""
        if (self.ranks or self.openmp != 1) and self.material != self.plain["material"]:
            self.valid_systems = []

    @run_after("setup")
    def need_published_input(self):
        """Skip the systems of D12.6 if the site does not have them; their runs are long enough for a ratio."""
        if self.material in PUBLISHED:
            self.metrics = by_ratio(self.metrics)
        if self.material in PUBLISHED and not self.published_path:
            self.skip_because(f"no input: set 'published' to the directory that holds {self.material}.in")

    @property
    def takes_published(self):
        """Whether the case is a system of D12.6; the others have embedded inputs."""
        return self.material in PUBLISHED

    @run_before("run")
    def copy_input(self):
        """Copy the input and its pseudopotentials."""
        self.executable_opts = ["-in", f"{self.material}.in"]
        if self.material in PUBLISHED:
            self.input_commands = [f"cp -r {shlex.quote(self.published_path)}/. ."]
            return
        edge = EDGE * (self.amount / POINTS) ** (1 / 3)
        self.fill_in(f"espresso/{self.material}.in", f"{self.material}.in", edge=f"{edge:.1f}")
        self.input_commands = [COPY_PSEUDOPOTENTIALS]
        if self.openmp != 1:
            self.input_commands += [skip_without_threads(self.bare_program)]

    @property
    def work(self) -> Work:
        """The grid points, up to 384 cores: then each rank has one plane of the grid.

        A core takes 4e-6 s for a point of silane, and one second for a k point of silicon (bare, AMD EPYC 9004).
        """
        if self.material == "SiH4":
            times = {"fixed_seconds": 0.5, "parallel_seconds_per_unit": 4e-6, "bytes_per_unit": 1e3}
            return Work("grid points", POINTS, POINTS / 8, 48 * POINTS, **times)
        return Work("k points", 28, fixed_seconds=1, parallel_seconds_per_unit=1)
