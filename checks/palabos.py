"""Run a flow past an obstacle with Palabos, a lattice Boltzmann library: memory, and the instruction set.

D12.6 section 8.1.3, HLRS EXCESS: air around the profile of a car, 10 s of it, on one node (figure 8.7) and on two
(figures 8.8 and 8.9, seconds and speed-up against one rank). Slightly faster in the container on one node, with a
slight trend to a slow-down over InfiniBand. The profile is not public: here the obstacle is a sphere, in a program of
the project's own on Debian's library, which Debian 12 has and Debian 13 has not. D12.6 has OpenMP within a node: the
library has none, and the program shares a rank's blocks of the lattice out to its threads. The channel has more sites
for more cores of the nodes, and the same for any number of ranks on them, which the full axes take: the report's
speed-up over cores is that of figure 8.9, on one node; over nodes the channel grows, which the speed-up counts.
"""

import reframe as rfm
from containercheck import Answer, ContainerCheck, Identity, Metric, RanksPerNode, ThreadsPerRank, Work, node_counts
from reframe.core.builtins import parameter, run_before, variable

#: On a virtual machine ten rounds of a duet spread by 3 %, and by 1.5 % while others keep all cores busy.
DUET = {"duet": True, "duet_spread": 4.0}


@rfm.simple_test
class Palabos(ContainerCheck, RanksPerNode, ThreadsPerRank):
    """The flow past a sphere, by the project's own program."""

    descr = "Palabos, flow past a sphere"
    tags = {"memory"}
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    executable = "palabos-flow"
    source = "palabos/flow.cpp"
    # The library's own, as Debian builds it, and no other standard of C++ than it was written for.
    compile_options = ["-O3", "-std=gnu++14", "-DPLB_MPI_PARALLEL", "-DPLB_USE_POSIX", "-DPLB_SMP_PARALLEL", "-fopenmp"]
    compile_options += ["-isystem/usr/include/palabos", "-isystem/usr/include/eigen3", "-lplb"]
    headers = {"palabos3D.h": "libplb-dev"}
    recipe = "palabos"
    run_limit = 300
    seconds = 70
    # Ten rounds spread by 9 % in turn, and by 3 % at the same time.
    gains_by_duet = True
    #: Steps that are timed. The noise is between runs, so they are short (ci/benchmark noise).
    timesteps = variable(int, value=30)

    identity = [Identity("version", r"^compiler (\S.*)")]
    rank_count = Answer("ranks", r"^ranks (\d+)")
    metrics = [
        # With the start of the program, which reads its libraries from the image.
        Metric("seconds", r"^seconds (\S+)", "s", better="lower", spread=6.0, scaling="strong", **DUET),
        Metric("MLUPS", r"^MLUPS (\S+)", "MLUPS", spread=6.0, **DUET),
    ]
    answers = [Answer(name, rf"^{name} (\d+)") for name in ("threads", "sites", "steps")]
    # Sums over all sites: compilers and MPI libraries differ in the order.
    answers += [Answer(name, rf"^{name} (\S+)", rtol=1e-6) for name in ("drag", "mass", "energy")]

    @run_before("run")
    def choose_size(self):
        """Set the edge of the channel, which is twice as long as it is wide and high."""
        edge = round((self.amount / 2) ** (1 / 3) / 4) * 4
        self.executable_opts = [str(edge), str(self.timesteps)]

    @property
    def work(self) -> Work:
        """The lattice sites; a core does about 7 million a second."""
        return Work(
            "lattice sites",
            2 * 64**3,
            64**3,
            fixed_seconds=0.7,
            parallel_seconds_per_unit=self.timesteps / 7e6,
            bytes_per_unit=250,
        )

    @property
    def amount(self):
        """The sites for the nodes' cores: with fewer ranks on them, the channel is the same."""
        return self.work.amount((self.site.cores or 1) * self.num_nodes)
