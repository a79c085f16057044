"""Read ``facts.json``: what a job knows of its sides, figures and answers.

Standard library only, Python 3.6 or newer.
"""

import copy
import math
import types
from typing import Any, Collection, Dict, List, NamedTuple, Optional, Sequence, Tuple

from containercheck.node.stats.pairs import Pairs, Prior


class JobSide(NamedTuple):
    """A side of the job.

    :ivar name: of the side, and ``label`` for people.
    :ivar compared_with: name of the side that it is compared with; None for one that is only a measure.
    :ivar accepted: lowest and highest accepted overhead for this side alone, by figure.
    :ivar may_fail: whether the other sides run on without it.
    :ivar contained: whether it runs in a container; ``host_mpi``, ``image``, ``trees``, ``mpi``, ``preloads_mpi``,
        ``replaces`` and ``shares_cores`` describe what it runs (sides/sides.py).
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
    """The facts by which runs are read.

    :ivar figures: declared figures, in their order; ``accepted`` is the range in which the overhead must lie, and
        ``expected`` the overhead that a reference expects in it, None where it expects none.
    :ivar priors: by figure, the known spread.
    :ivar answers: declared answers.
    :ivar rank_count: the answer with the number of ranks of a run; None for a program without MPI.
    :ivar ranks: the number that it must be.
    :ivar sides: the sides of the job.
    :ivar cores: processors that a side has on a node.
    :ivar identity: what the program prints about its own build.
    :ivar expected: figures whose overhead has a reference.
    :ivar emulated: whether the nodes' processors are emulated, so that no overhead says anything.
    :ivar duet: ``cores`` of each side where both run at the same time, and the ``stagedir`` as their commands name it;
        None where they take turns.
    :ivar remedies: most changes to a container that are tried where it failed.
    :ivar deadline: seconds of the job after which no further run of a confirmation is begun.
    :ivar earlier: the figures of rounds of an earlier job, which count: of each round side, figure and value.
    :ivar earlier_runtimes: ``command`` and ``version`` of the runtimes that they were measured with, by side.
    :ivar earlier_builds: the builds of the programs that they were measured with (node/verdict/builds.py).
    :ivar earlier_refused: why rounds of an earlier job do not count; empty where they do, or there are none.
    """

    def __init__(self, content: Dict[str, Any]) -> None:
        """Take the facts from the object in the JSON file.

        :raises KeyError: one is missing.
        """
        defaults: Dict[str, Any] = {"expected": None, "sides": ()}
        self.figures = [types.SimpleNamespace(**{**defaults, **figure}) for figure in content["figures"]]
        self.priors = {figure: Prior(*prior) for figure, prior in content.get("priors", {}).items()}
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
        self.earlier_runtimes: Dict[str, Dict[str, str]] = content.get("earlier_runtimes", {})
        self.earlier_builds: Dict[str, str] = content.get("earlier_builds", {})
        self.earlier_refused: str = content.get("earlier_refused", "")

    def side(self, name: str) -> JobSide:
        """Return the side with this name."""
        return next(side for side in self.sides if side.name == name)

    def figures_of(self, side: str) -> List[Any]:
        """Return the figures that a side has."""
        return [figure for figure in self.figures if not figure.sides or side in figure.sides]

    def answers_of(self, side: str) -> List[Any]:
        """Return the answers that a side has."""
        return [answer for answer in self.answers if answer.side in (None, side)]

    def of_sides(self, names: Collection[str]) -> "Facts":
        """Return the facts for some of the sides only, without rounds of an earlier job."""
        facts = copy.copy(self)
        facts.sides = [side for side in self.sides if side.name in names]
        facts.earlier, facts.earlier_runtimes, facts.earlier_refused = [], {}, ""
        return facts

    def refuse_earlier(self, reason: str) -> None:
        """Have rounds of an earlier job not count."""
        self.earlier, self.earlier_refused = [], reason

    def new_pairs(self, side: JobSide, figure: Any, count: int, may_gain: bool = False) -> Pairs:
        """Return the pairs of a figure of a side, without rounds.

        :param count: number of figures that are judged together.
        :param may_gain: whether no gain is a question; none is where the side has an accepted range of its own.
        """
        low, high = side.accepted.get(figure.name, figure.accepted)
        # A reference expects an overhead against the host, and none against another container.
        has_range = figure.name in side.accepted
        expected = None if has_range else figure.expected
        prior = self.priors.get(figure.name)
        return Pairs(figure.better, figure.compare, low, high, count, expected, prior, may_gain or has_range)
