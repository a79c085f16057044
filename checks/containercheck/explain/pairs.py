"""Pair each container with the side that it is compared with: bare, or the container that it is to replace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from containercheck.explain import observations
from containercheck.explain.causes import Cause
from containercheck.explain.observations import Observation, Use
from containercheck.sides.sides import Side


@dataclass(frozen=True)
class Pair:
    """A container, and the side that it is compared with.

    :ivar subject: the container.
    :ivar baseline: bare, or another container.
    :ivar is_only: whether the job has no other container: then sentences need not name it.
    """

    subject: Side
    baseline: Side
    is_only: bool = True

    def seen(
        self, stagedir: Path, runs: Sequence[Mapping[str, Any]]
    ) -> tuple[Observation | None, Observation | None, tuple[Use, Use]]:
        """Return what both saw, the baseline first, and what their runs used.

        :param runs: of the job's record.
        """
        return observations.of_pair(stagedir, runs, (self.baseline.name, self.subject.name))

    def named(self, causes: Iterable[Cause]) -> list[Cause]:
        """Return causes with the names of both sides in their sentences, where the job has several containers.

        The rules speak of "the container" and "the host"; remedies stay as they are, because what they change is the
        container or the host.
        """
        if self.is_only:
            return [*causes]
        return [replace(cause, sentence=self._worded(cause.sentence), side=self.subject.label) for cause in causes]

    def _worded(self, sentence: str) -> str:
        sentence = sentence.replace("the container", self.subject.label)
        if not self.baseline.container:
            return sentence
        return sentence.replace("on the host", f"in {self.baseline.label}").replace("the host", self.baseline.label)


def pairs_of(sides: Sequence[Side]) -> list[Pair]:
    """Return a pair for each container that is compared with another side."""
    by_name = {side.name: side for side in sides}
    is_only = sum(side.container is not None for side in sides) == 1
    return [Pair(side, by_name[side.compared_with], is_only) for side in sides if side.container and side.compared_with]
