"""Read the record of a job, and the row of each metric. Reports store the rows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeGuard

from containercheck.job import contract
from containercheck.job.stats import boundaries, pairs
from containercheck.job.verdict.comparison import EMULATED as EMULATED
from containercheck.job.verdict.comparison import NOT_JUDGED as NOT_JUDGED

#: Version of the format of stored rows. Rows without a version have version 1, with the same fields or fewer.
SCHEMA = 3
#: Key of that version in a stored row.
VERSION = "schema"
#: Verdicts. Metrics on emulated processors get none of them.
PASS, FAIL, OPEN = pairs.PASS, pairs.FAIL, pairs.INCONCLUSIVE


@dataclass(frozen=True)
class Record:
    """The record of a job.

    :ivar runs: for each run: round, side, seconds, limit, status, timed_out, leftover_processes, mpi, bound, output.
    :ivar complete: whether the job finished.
    :ivar judged: whether its rounds finished; their confirmation may be incomplete.
    :ivar ended: the signal that ended it early, such as ``SIGTERM``; None if there was none.
    :ivar took: seconds of the job, including the time before the rounds.
    :ivar verdict: see job/rounds.py; empty if the job was killed before its verdict.
    """

    runs: Sequence[Mapping[str, Any]] = ()
    complete: bool = False
    judged: bool = False
    ended: str | None = None
    took: float = 0.0
    verdict: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, stagedir: Path) -> Record:
        """Read the record of the job in this stage directory; an empty one if there is none, or it is incomplete."""
        try:
            stored = json.loads((stagedir / contract.RECORD).read_text())
            return cls(**{name: stored[name] for name in cls.__dataclass_fields__ if name in stored})
        except (OSError, ValueError):
            return cls()

    def early_end(self, met_limit: bool) -> list[str]:
        """Return a line about a job that was ended before its last round and is judged by its complete rounds.

        The line is different if the job was ended during the confirmation of a failure. There is no line if the job
        finished, if another cause than its time limit ended it, or if no round is complete.

        :param met_limit: whether the time limit may have ended it.
        """
        if self.judged and not self.complete:
            return ["the job was ended during the confirmation of a failure"]
        rounds = len(self.verdict.get("measured", ()))
        if self.complete or not rounds or not (met_limit and self.ended):
            return []
        return [f"the job was ended ({self.ended}) before its last round: judged by the {rounds} that are complete"]


class RowError(ValueError):
    """A stored row cannot be read; the message has the reason and a remedy."""


@dataclass(frozen=True)
class Row:
    """A metric that was compared, or the value of a bare run by itself.

    :ivar metric: name of the metric.
    :ivar unit: unit of its values.
    :ivar better: whether ``higher`` or ``lower`` values are better.
    :ivar baseline: median of the baseline's values.
    :ivar baseline_label: name of the baseline.
    :ivar baseline_error: mean error of its values; None after a single run.
    :ivar baseline_spread: standard deviation of its values, in ``unit``; None after a single run, and in old rows.
    :ivar subject: the baseline changed by the overhead. Without a comparison, it and the next ones have their defaults.
    :ivar subject_label: name of the subject; empty for the case's variant.
    :ivar subject_error, subject_spread: mean error and standard deviation of its values.
    :ivar overhead: overhead of the subject, in ``overhead_unit``; positive is worse.
    :ivar overhead_unit: percent, or the unit of the metric.
    :ivar low, high: ends of the overhead's interval; None if there is none yet.
    :ivar interval: half its width.
    :ivar accepted: lowest and highest accepted overhead; None for no limit.
    :ivar expected: whether a reference expects this overhead.
    :ivar verdict: :data:`PASS`, :data:`FAIL`, :data:`OPEN` or :data:`EMULATED`; empty if nothing was compared.
    :ivar rounds: number of rounds that were compared.
    :ivar spread: spread of the rounds, in ``overhead_unit``.
    :ivar rounds_needed: total number of rounds to close an open verdict; None for too many.
    :ivar round_seconds: duration of a round.
    :ivar open_kind: kind of an open verdict (job/stats/forecasts.py).
    :ivar answer: message about an open verdict.
    :ivar known_spread: spread that was known before the rounds; None if it was not.
    :ivar known_degrees: degrees of freedom of the known spread.
    :ivar spread_source: source of the known spread.
    :ivar contradicted: whether the rounds contradict it.
    :ivar difference: line about both builds, if they differ or are proven to be the same.
    :ivar scaling: ``strong`` or ``weak`` if the metric shows the scaling of the application over nodes.
    :ivar emulated: whether the nodes' processors are emulated.
    :ivar duet: whether both sides ran at the same time, each on half of a node.
    :ivar answers_compared: whether the check has answers, which show if both sides computed the same.
    """

    metric: str
    unit: str = ""
    better: str = ""
    baseline: float | None = None
    baseline_label: str = "bare"
    baseline_error: float | None = None
    baseline_spread: float | None = None
    subject: float | None = None
    subject_label: str = ""
    subject_error: float | None = None
    subject_spread: float | None = None
    overhead: float | None = None
    overhead_unit: str = "%"
    low: float | None = None
    high: float | None = None
    interval: float | None = None
    accepted: tuple[float | None, float | None] = (None, None)
    expected: bool = False
    verdict: str = ""
    rounds: int = 0
    spread: float | None = None
    rounds_needed: int | None = None
    round_seconds: float = 0.0
    open_kind: str = ""
    answer: str = ""
    known_spread: float | None = None
    known_degrees: int = boundaries.PRIOR_DEGREES
    spread_source: str = ""
    contradicted: bool = False
    difference: str = ""
    scaling: str = ""
    emulated: bool = False
    duet: bool = False
    answers_compared: bool = True

    @property
    def is_comparison(self) -> bool:
        """Whether two sides were compared."""
        return bool(self.verdict) or self.overhead is not None

    @property
    def is_judged(self) -> bool:
        """Whether it has a verdict; open is a verdict too."""
        return self.verdict not in ("", EMULATED)

    def to_json(self) -> dict[str, Any]:
        """Return the row as it is stored. A value without a comparison is stored without the comparison's fields."""
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {
            VERSION: SCHEMA,
            **{name: value for name, (value, default) in values.items() if self.is_comparison or value != default},
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Row:
        """Read a row that this version or an earlier one stored; None stands for a missing value.

        :raises RowError: it is not a row, or a later version stored it.
        """
        require_readable([stored])
        known = {field.name for field in fields(cls)}
        values = {name: frozen(value) for name, value in stored.items() if name in known and value is not None}
        return cls(**values)


def is_finite(value: Any) -> TypeGuard[float]:
    """Return whether a value is a number and neither infinite nor NaN."""
    return isinstance(value, (int, float)) and math.isfinite(value)


def frozen(value: Any) -> Any:
    """Return a value of JSON; a list becomes a tuple."""
    return tuple(value) if isinstance(value, list) else value


def rows_of(testcase: Mapping[str, Any]) -> list[Row]:
    """Return the rows of a test case as ReFrame stored it.

    :raises RowError: see :meth:`Row.from_json`.
    """
    return [Row.from_json(stored) for stored in testcase.get("results") or ()]


def require_readable(stored: Iterable[Any]) -> None:
    """Check that stored rows can be read.

    :raises RowError: a row has no metric, or a later version stored it.
    """
    for row in stored:
        if not isinstance(row, Mapping) or "metric" not in row:
            raise RowError(f"a row of its results has no metric: {str(row)[:80]}")
        version = row.get(VERSION, 1)
        if not isinstance(version, int) or version > SCHEMA:
            raise RowError(
                f"its results are of schema version {version}, and this library reads those up to {SCHEMA}: use the "
                "library that stored them"
            )
