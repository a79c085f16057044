"""Run Ping Pong with its MPI linked statically and dynamically: the cost of loading the library, without containers.

SANDIA sections VI.A and VI.B, figures 3 and 4, Volta. Containers need programs that load their MPI, so that the host's
can replace the image's. So SANDIA ran IMB natively with both. Linked statically, small messages between two nodes took
11.3 % (about 200 ns) less, and Allreduce a little less; a container cost nothing more. IMB comes linked already. So
this check uses the project's Ping Pong, with MPICH: Debian has both of its libraries.
"""

import reframe as rfm
from containercheck import StaticMpiSides, node_counts
from pingpong import PingPong
from reframe.core.builtins import parameter


@rfm.simple_test
class PingPongStatic(StaticMpiSides, PingPong):
    """All pairs, with each of two programs; the program that loads its MPI is judged."""

    descr = "Ping Pong, MPI linked dynamically against statically"
    num_nodes = parameter(node_counts(), loggable=True)
    variant = parameter(["bare"], loggable=True)
    image_release = parameter(["fitting"], loggable=True)
    metrics = [*PingPong.metrics]
    static_mpi = True
    mpi_family = "mpich"
    debian = ["mpich", "libmpich-dev"]
    full_only = True
