"""The names of :mod:`containercheck` with their types: a type checker does not follow ``__getattr__``."""

from containercheck.application.axes import FilePlacement as FilePlacement
from containercheck.application.axes import ImagePlacement as ImagePlacement
from containercheck.application.axes import RanksOnNode as RanksOnNode
from containercheck.application.axes import ReleaseOfImage as ReleaseOfImage
from containercheck.application.axes import ThreadsOfRank as ThreadsOfRank
from containercheck.application.facts import RUN_BEGAN as RUN_BEGAN
from containercheck.application.facts import STDERR as STDERR
from containercheck.application.facts import STDOUT as STDOUT
from containercheck.application.facts import Answer as Answer
from containercheck.application.facts import Figure as Figure
from containercheck.application.facts import Identity as Identity
from containercheck.application.facts import Neighbour as Neighbour
from containercheck.application.facts import Step as Step
from containercheck.application.facts import Work as Work
from containercheck.application.facts import by_ratio as by_ratio
from containercheck.application.facts import seconds_of as seconds_of
from containercheck.application.facts import side_by_side as side_by_side
from containercheck.application.facts import skip_unless as skip_unless
from containercheck.application.facts import skip_without_threads as skip_without_threads
from containercheck.check import ContainerCheck as ContainerCheck
from containercheck.check import OneNodeCheck as OneNodeCheck
from containercheck.sides.collocation import CollocationSides as CollocationSides
from containercheck.sides.sides import Candidate as Candidate
from containercheck.sides.static_mpi import StaticMpiSides as StaticMpiSides
from containercheck.software.licensed import SITES as SITES

def require_python() -> None: ...
