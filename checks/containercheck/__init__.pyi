"""The names of :mod:`containercheck` with their types: a type checker does not follow ``__getattr__``."""

from containercheck.application.axes import FilePlacement as FilePlacement
from containercheck.application.axes import ImagePlacement as ImagePlacement
from containercheck.application.axes import ImageRelease as ImageRelease
from containercheck.application.axes import RanksPerNode as RanksPerNode
from containercheck.application.axes import ThreadsPerRank as ThreadsPerRank
from containercheck.application.declare import RUN_BEGAN as RUN_BEGAN
from containercheck.application.declare import STDERR as STDERR
from containercheck.application.declare import STDOUT as STDOUT
from containercheck.application.declare import Answer as Answer
from containercheck.application.declare import Identity as Identity
from containercheck.application.declare import Metric as Metric
from containercheck.application.declare import Neighbour as Neighbour
from containercheck.application.declare import Step as Step
from containercheck.application.declare import Work as Work
from containercheck.application.declare import by_ratio as by_ratio
from containercheck.application.declare import seconds_of as seconds_of
from containercheck.application.declare import side_by_side as side_by_side
from containercheck.application.declare import skip_unless as skip_unless
from containercheck.application.declare import skip_without_threads as skip_without_threads
from containercheck.check.base import ContainerCheck as ContainerCheck
from containercheck.check.base import SingleNodeCheck as SingleNodeCheck
from containercheck.check.collocation import MIXES as MIXES
from containercheck.check.collocation import WHOLE as WHOLE
from containercheck.check.collocation import CollocationSides as CollocationSides
from containercheck.check.variants import StaticMpiSides as StaticMpiSides
from containercheck.job import architectures, mpi
from containercheck.sides.sides import Candidate as Candidate
from containercheck.site.sites import core_counts as core_counts
from containercheck.site.sites import instruction_sets as instruction_sets
from containercheck.site.sites import node_counts as node_counts
from containercheck.site.sites import partitions_with_gpus as partitions_with_gpus
from containercheck.site.sites import partitions_with_instructions as partitions_with_instructions
from containercheck.software import images
from containercheck.software.host import SITES as SITES
from containercheck.software.host import ask_program as ask_program
from containercheck.software.provision import Misconfigured as Misconfigured
from containercheck.software.provision import Unavailable as Unavailable

ARCHITECTURES = architectures.KNOWN
MPI_FAMILIES = mpi.FAMILIES
native_instructions = images.native_kernels
portable_instructions = images.portable_kernels

def require_python() -> None: ...
