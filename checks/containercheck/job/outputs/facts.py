"""Read ``facts.json``: a job's sides, metrics and answers.

Standard library only, Python 3.6 or newer.
"""

import copy
import math
import types
from typing import Any, Collection, Dict, List, NamedTuple, Optional, Sequence, Tuple

from containercheck.job.stats.pairs import Pairs, Prior


class JobSide(NamedTuple):
    """Describe a side of the job.

    :ivar name: of the side.
    :ivar label: readable name.
    :ivar compared_with: name of the side that it is compared with; None if it is only a baseline.
    :ivar accepted: lowest and highest accepted overhead for this side alone, by metric.
    :ivar may_fail: whether the other sides run on without it.
    :ivar contained: whether it runs in a container. ``host_mpi``, ``image``, ``trees``, ``mpi``, ``preloads_mpi``,
        ``replaces`` and ``shares_cores`` describe its programs (sides/sides.py).
    """

    name: str
    label: str
    compared_with: Optional[str]
    accepted: Dict[str, Tuple[float, float]] = {}
    may_fail: bool = False
    contained: bool = False
    host_mpi: bool = False
    image: str = ""
    trees: Sequence[str] = ()
    mpi: bool = False
    preloads_mpi: bool = False
    replaces: bool = False
    shares_cores: bool = False


class Facts:
    """Hold the facts by which runs are read.

    :ivar metrics: declared metrics, in their order. ``accepted`` is the accepted range of the overhead; ``expected`` is
        the overhead that a reference expects in it, or None.
    :ivar priors: by metric, the known spread.
    :ivar answers: declared answers.
    :ivar rank_count: the answer with the number of ranks of a run; None for a program without MPI.
    :ivar ranks: the required number of ranks.
    :ivar sides: the sides of the job.
    :ivar cores: processors that a side has on a node.
    :ivar identity: facts that the program prints about its build.
    :ivar expected: metrics with a reference for their overhead.
    :ivar emulated: whether the nodes' processors are emulated; overheads are then meaningless.
    :ivar duet: ``cores`` of each side if both run at the same time, and the ``stagedir`` as their commands name it;
        None if the sides take turns.
    :ivar remedies: most changes that are tried on a container that failed.
    :ivar deadline: seconds of the job after which a confirmation begins no further run.
    :ivar earlier: the counted rounds of an earlier job: metrics by side and name.
    :ivar earlier_builds: the builds of these rounds' programs, and their runtimes (job/verdict/builds.py).
    :ivar earlier_refused: the reason if rounds of an earlier job do not count; else empty.
    """

    def __init__(self, content: Dict[str, Any]) -> None:
        """Take the facts from the object in the JSON file.

        :raises KeyError: a fact is missing.
        """
        defaults: Dict[str, Any] = {"expected": None, "sides": ()}
        self.metrics = [types.SimpleNamespace(**{**defaults, **metric}) for metric in content["metrics"]]
        self.priors = {metric: Prior(*prior) for metric, prior in content.get("priors", {}).items()}
        self.answers = [types.SimpleNamespace(**answer) for answer in content["answers"]]
        self.rank_count = types.SimpleNamespace(**content["rank_count"]) if content["rank_count"] else None
        self.ranks: int = content["ranks"]
        self.sides = [JobSide(**side) for side in content["sides"]]
        self.emulated: bool = content["emulated"]
        self.cores: int = content.get("cores", 1)
        self.identity = [types.SimpleNamespace(**identity) for identity in content.get("identity", ())]
        self.expected: List[str] = content.get("with_reference", [])
        self.duet: Optional[Dict[str, Any]] = content.get("duet")
        self.remedies: int = content.get("remedies", 0)
        self.deadline: float = content.get("deadline", math.inf)
        self.earlier: List[Dict[str, Dict[str, float]]] = content["earlier"]
        self.earlier_builds: Dict[str, str] = content.get("earlier_builds", {})
        self.earlier_refused: str = content.get("earlier_refused", "")

    def side(self, name: str) -> JobSide:
        """Return the side with this name."""
        return next(side for side in self.sides if side.name == name)

    def metrics_of(self, side: str) -> List[Any]:
        """Return the metrics that a side has."""
        return [metric for metric in self.metrics if not metric.sides or side in metric.sides]

    def answers_of(self, side: str) -> List[Any]:
        """Return the answers that a side has."""
        return [answer for answer in self.answers if answer.side in (None, side)]

    def of_sides(self, names: Collection[str]) -> "Facts":
        """Return the facts for some of the sides only, without rounds of an earlier job."""
        facts = copy.copy(self)
        facts.sides = [side for side in self.sides if side.name in names]
        facts.earlier, facts.earlier_refused = [], ""
        return facts

    def new_pairs(self, side: JobSide, metric: Any, count: int, may_gain: bool = False) -> Pairs:
        """Return the pairs of a metric of a side, without rounds.

        :param count: number of metrics that are judged together.
        :param may_gain: whether any gain is accepted, as for sides with their own accepted range.
        """
        low, high = side.accepted.get(metric.name, metric.accepted)
        # A reference expects an overhead against the host, but not against another container.
        has_range = metric.name in side.accepted
        expected = None if has_range else metric.expected
        prior = self.priors.get(metric.name)
        return Pairs(metric.better, metric.compare, low, high, count, expected, prior, may_gain or has_range)
