"""Run Ping Pong with its MPI linked statically and dynamically: the cost of loading the library, without containers.

SANDIA sections VI.A and VI.B, figures 3 and 4, Volta: containers need programs that load their MPI, so that the host's
can take the place of the image's, and so IMB ran natively with either. Statically linked, small messages between two
nodes took 11.3 % (about 200 ns) less, and Allreduce a little; a container cost nothing beyond that. IMB comes linked:
here it is our own Ping Pong, with MPICH, of which Debian has both libraries.
"""

import reframe as rfm
from containercheck import StaticMpiSides, node_counts
from pingpong import PingPong
from reframe.core.builtins import parameter


@rfm.simple_test
class PingPongStatic(StaticMpiSides, PingPong):
    """All pairs, once with each program: the one that loads its MPI is judged."""

    descr = "Ping Pong, MPI linked dynamically against statically"
    num_nodes = parameter(node_counts(), loggable=True)
    variant = parameter(["bare"], loggable=True)
    image_release = parameter(["fitting"], loggable=True)
    metrics = [*PingPong.metrics]
    static_mpi = True
    mpi_family = "mpich"
    debian = ["mpich", "libmpich-dev"]
    full_only = True
