"""Run Quantum ESPRESSO with one MPI against another: two images of the same source, each with its own library.

D12.6 section 7.4, figure 7.5, MARCONI: with Intel MPI pw.x was about five times faster than with Open MPI, on 1 to 4
nodes, 24 atoms, bare and in containers. Here the image with the partition's family of MPI comes first, and the one with
the other family is judged against it: the answer is whether it is faster or slower than the accepted range.

Both are compiled alike, from Debian's source (images/espresso.def): they differ by MPI alone.
"""

import reframe as rfm
from containercheck import MPI_FAMILIES, Candidate, Unavailable, node_counts
from espresso import QuantumEspresso
from reframe.core.builtins import parameter


@rfm.simple_test
class QuantumEspressoMPI(QuantumEspresso):
    """Two images, whose ranks are each started by the launcher of their own MPI."""

    descr = "Quantum ESPRESSO pw.x, one MPI against another"
    num_nodes = parameter(node_counts(), loggable=True)
    variant = parameter(["generic"], loggable=True)
    ranks = parameter([0], loggable=True)
    openmp = parameter([1], loggable=True)
    metrics = [*QuantumEspresso.metrics]
    full_only = True
    # Three runs a round.
    seconds = 150

    def candidates(self):
        """Return an image for each family, the partition's first; runtimes are compared by other checks."""
        if super().candidates():
            raise Unavailable("it compares images of its own, and nothing else")
        families = sorted(MPI_FAMILIES, key=lambda family: family != self.site.mpi_family)
        return tuple(Candidate(family, mpi=family, arguments={"BUILD": "source"}) for family in families)
