"""Run Quantum ESPRESSO with one MPI against another: two images of the same source, each with its own library.

D12.6 section 7.4, figure 7.5, MARCONI: with Intel MPI pw.x was about five times faster than with Open MPI, on 1 to 4
nodes, 24 atoms, bare and in containers. Here the first image has the partition's family of MPI, and the second one the
other family. The second is judged against the first: it is faster or slower than the accepted range, or within it.

Both are compiled alike, from Debian's source (images/espresso.def): only the MPI differs.
"""

import reframe as rfm
from containercheck import MPI_FAMILIES, Candidate, Unavailable, node_counts
from espresso import QuantumEspresso
from reframe.core.builtins import parameter


@rfm.simple_test
class QuantumEspressoMPI(QuantumEspresso):
    """Two images; the launcher of an image's own MPI starts its ranks."""

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
        """Return an image for each family, the partition's first; other checks compare runtimes."""
        if super().candidates():
            raise Unavailable("this check compares its own two images only")
        families = sorted(MPI_FAMILIES, key=lambda family: family != self.site.mpi_family)
        return tuple(Candidate(family, mpi=family, arguments={"BUILD": "source"}) for family in families)
