"""Run Trilinos MueLu, algebraic multigrid: memory, and over nodes many small messages and collectives.

SANDIA section IV.B: Trilinos 12.8.1 and the MueLu tutorial are the example of a container that a developer builds, and
runs elsewhere. SANDIA gives no metrics. The check shows that the image builds, and computes the same as the host; the
metrics are the times of set-up and solution. The program is the project's, on Debian's Trilinos. It solves the problem
of the tutorial's first chapters: Laplace's equation, by conjugate gradients with smoothed aggregation.
"""

import reframe as rfm
from containercheck import Answer, ContainerCheck, Identity, Work, node_counts, seconds_of
from reframe.core.builtins import parameter, run_before


@rfm.simple_test
class MueLu(ContainerCheck):
    """Laplace's equation, by the project's own program."""

    descr = "Trilinos MueLu, Laplace's equation"
    tags = {"memory", "network"}
    variant = parameter(["bare", "integrated", "generic"], loggable=True)
    num_nodes = parameter(node_counts(), loggable=True)
    executable = "muelu-laplace"
    source = "muelu/laplace.cpp"
    # The linker takes the libraries that Trilinos' libraries need.
    compile_options = ["-fopenmp", "-isystem/usr/include/trilinos", "-Wl,--copy-dt-needed-entries"]
    compile_options += ["-ltrilinos_muelu-adapters", "-ltrilinos_muelu-interface", "-ltrilinos_muelu"]
    compile_options += ["-ltrilinos_belostpetra", "-ltrilinos_belos", "-ltrilinos_galeri-xpetra"]
    headers = {
        "MueLu_CreateTpetraPreconditioner.hpp": "libtrilinos-muelu-dev",
        "Galeri_XpetraMaps.hpp": "trilinos-all-dev",
    }
    recipe = "muelu"
    run_limit = 300
    seconds = 70
    tolerance = 10.0
    # Seconds of a core for an unknown, set-up and solution, in bare runs on two cores of an AMD EPYC 9004.
    work = Work("unknowns", 80**3, 80**3 / 2, fixed_seconds=0.7, parallel_seconds_per_unit=7e-6, bytes_per_unit=800)

    identity = [Identity("version", r"^Trilinos (\S+)")]
    rank_count = Answer("ranks", r"^ranks (\d+)")
    # On a virtual machine, eight rounds of the solution spread by 7.4 % in turn, and by 3.2 % at the same time.
    gains_by_duet = True
    metrics = [seconds_of("setup", spread=5.0, duet=True), seconds_of("solve", spread=5.0, duet=True)]
    answers = [
        Answer("unknowns", r"^unknowns (\d+)"),
        # Sums in another order may need one more iteration.
        Answer("iterations", r"^iterations (\d+)", atol=1),
        Answer("convergence", r"^convergence (\w+)", equals="reached"),
        Answer("residual", r"^residual (\S+)", at_most=1e-8),
        Answer("norm", r"^norm (\S+)", rtol=1e-7),
    ]

    @run_before("run")
    def choose_size(self):
        """Set the edge of the cube of unknowns."""
        self.executable_opts = [str(round(self.amount ** (1 / 3)))]
