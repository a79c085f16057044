"""Read the record that a job left, ``rounds.json``: its runs, and the verdict on them (job/rounds.py)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from containercheck.job import contract


@dataclass(frozen=True)
class Record:
    """The record of a job.

    :ivar runs: for each run: round, side, seconds, limit, status, timed_out, leftover_processes, mpi, bound, output.
    :ivar complete: whether the job came to its end.
    :ivar judged: whether its rounds came to their end, whatever became of their confirmation.
    :ivar ended: the signal that ended it early, such as ``SIGTERM``; None where there was none.
    :ivar took: seconds of the job, including what came before the rounds.
    :ivar verdict: see job/rounds.py; empty where the job was killed before it had one.
    """

    runs: Sequence[Mapping[str, Any]] = ()
    complete: bool = False
    judged: bool = False
    ended: str | None = None
    took: float = 0.0
    verdict: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, stagedir: Path) -> Record:
        """Return the record of the job in this stage directory; an empty one if there is none, or it is cut."""
        try:
            stored = json.loads((stagedir / contract.RECORD).read_text())
            return cls(**{name: stored[name] for name in cls.__dataclass_fields__ if name in stored})
        except (OSError, ValueError):
            return cls()

    def early_end(self, met_limit: bool) -> list[str]:
        """Return a line that says that the job was ended before its last round, and is judged by its complete rounds.

        Empty where the job came to its end, something else than its time limit ended it, or no round is complete.
        Where it was ended while it confirmed a failure, the line says that.

        :param met_limit: whether the time limit may have ended it.
        """
        if self.judged and not self.complete:
            return ["the job was ended while it confirmed what failed"]
        rounds = len(self.verdict.get("measured", ()))
        if self.complete or not rounds or not (met_limit and self.ended):
            return []
        return [f"the job was ended ({self.ended}) before its last round: judged by the {rounds} that are complete"]
