"""Pair each container with the side that it is compared with: bare, or the container that it is to replace."""

import re
from pathlib import Path
from typing import Any, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from containercheck.node.explain import observations
from containercheck.node.explain.causes import Cause
from containercheck.node.explain.observations import Observation, Use

#: Words of the rules for where something is, and for the thing itself.
CONTAINER, HOST = ("in the container", "the container"), ("on the host", "the host")


class Pair(NamedTuple):
    """A container, and the side that it is compared with.

    :ivar subject: the container.
    :ivar baseline: bare, or another container.
    :ivar is_only: whether the job has no other container: then sentences need not name it.
    """

    subject: Any
    baseline: Any
    is_only: bool = True

    def seen(
        self, stagedir: Path, runs: Sequence[Mapping[str, Any]]
    ) -> Tuple[Optional[Observation], Optional[Observation], Tuple[Use, Use]]:
        """Return what both saw, the baseline first, and what their runs used.

        :param runs: of the job's record.
        """
        return observations.of_pair(stagedir, runs, (self.baseline.name, self.subject.name))

    def named(self, causes: Iterable[Cause]) -> List[Cause]:
        """Return causes with the names of both sides in their sentences, where the job has several containers.

        The rules speak of "the container" and "the host"; remedies stay as they are, because what they change is the
        container or the host.
        """
        if self.is_only:
            return [*causes]
        subject, baseline = self.subject.label, self.baseline.label
        host = (f"in {baseline}", baseline) if self.baseline.contained else HOST
        return [
            cause._replace(sentence=reworded(cause.sentence, (f"in {subject}", subject), host), side=subject)
            for cause in causes
        ]


def reworded(sentence: str, container: Tuple[str, str], host: Tuple[str, str]) -> str:
    """Return the sentence of a rule with other words for the two that it compares.

    :param container, host: in place of "in the container" and "the container", "on the host" and "the host".

    >>> reworded("the container has 1, the host 2", ("in new", "new"), ("in old", "old"))
    'new has 1, old 2'
    """
    words = dict(zip((*CONTAINER, *HOST), (*container, *host)))
    return re.sub("|".join(words), lambda match: words[match[0]], sentence)


def pairs_of(sides: Sequence[Any]) -> List[Pair]:
    """Return a pair for each container that is compared with another side."""
    by_name = {side.name: side for side in sides}
    is_only = sum(side.contained for side in sides) == 1
    return [Pair(side, by_name[side.compared_with], is_only) for side in sides if side.contained and side.compared_with]
