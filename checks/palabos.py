"""Run a flow past an obstacle with Palabos, a lattice Boltzmann library: memory, and the instruction set.

D12.6 section 8.1.3, HLRS EXCESS: 10 s of air around the profile of a car. It ran on one node (figure 8.7) and on two
(figures 8.8 and 8.9, seconds and speed-up against one rank). The container was slightly faster on one node, with a
slight trend to a slow-down over InfiniBand. The profile is not public; here the obstacle is a sphere.

The program is the project's, on Debian's library, which is in Debian 12 but not in Debian 13. D12.6 has OpenMP within a
node. The library has none, so the program gives a rank's blocks of the lattice to threads. The channel grows with the
cores of the nodes. It stays the same for any number of ranks on them, as in the full axes. So the report's speed-up
over cores is that of figure 8.9 on one node. Over nodes the channel grows, and the speed-up takes this into account.
"""

import reframe as rfm
from containercheck import Answer, ContainerCheck, Identity, Metric, RanksPerNode, ThreadsPerRank, Work, node_counts
from reframe.core.builtins import parameter, run_before, variable

#: On a virtual machine ten rounds of a duet spread by 3 %, and by 1.5 % while other processes keep all cores busy.
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
    # Debian's options for the library, with the C++ standard that it was written for.
    compile_options = ["-O3", "-std=gnu++14", "-DPLB_MPI_PARALLEL", "-DPLB_USE_POSIX", "-DPLB_SMP_PARALLEL", "-fopenmp"]
    compile_options += ["-isystem/usr/include/palabos", "-isystem/usr/include/eigen3", "-lplb"]
    headers = {"palabos3D.h": "libplb-dev"}
    recipe = "palabos"
    run_limit = 300
    seconds = 70
    # Ten rounds spread by 9 % in turn, and by 3 % when both sides run at the same time.
    gains_by_duet = True
    #: Timed steps. The noise is between runs, so runs are short (ci/benchmark noise).
    timesteps = variable(int, value=30)

    identity = [Identity("version", r"^compiler (\S.*)")]
    rank_count = Answer("ranks", r"^ranks (\d+)")
    metrics = [
        # Includes the start of the program, which reads its libraries from the image.
        Metric("seconds", r"^seconds (\S+)", "s", better="lower", spread=6.0, scaling="strong", **DUET),
        Metric("MLUPS", r"^MLUPS (\S+)", "MLUPS", spread=6.0, **DUET),
    ]
    answers = [Answer(name, rf"^{name} (\d+)") for name in ("threads", "sites", "steps")]
    # Sums over all sites; compilers and MPI libraries add in different orders.
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
        """The sites, by the nodes' cores; fewer ranks have the same channel."""
        return self.work.amount((self.site.cores or 1) * self.num_nodes)
