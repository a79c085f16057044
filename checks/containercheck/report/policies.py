"""Show the gain of policies of sharing cores: the speed-up of each against none, bare and in the same container.

Of checks of programs beside each other (check/collocation.py). Bare, a policy is compared with running without DLB; a
container's policies with the same ones bare, which gives the cost of a container. The gain of a policy in a container
follows from the values of both: time without DLB / time with the policy, as D12.5 figures 14 and 20 have it, there
against the bare run throughout.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from containercheck.report import scaling
from containercheck.results.cases import Case
from containercheck.results.formatting import number
from containercheck.results.row import Row, is_finite

#: Label of the bare side, and beginning of the names of the metrics of times: of the whole, and of each program.
BARE, SECONDS = "bare", "seconds_"
#: The time of all programs together.
WHOLE = f"{SECONDS}whole"


@dataclass(frozen=True)
class Value:
    """A time with its standard error, both in seconds; the error is None where it is not known."""

    seconds: float
    error: float | None

    def speed_up(self, reference: Value) -> tuple[float, float | None]:
        """Return how many times faster it is than without a policy, and the standard error of that."""
        gain = reference.seconds / self.seconds
        if self.error is None or reference.error is None:
            return gain, None
        return gain, gain * math.hypot(self.error / self.seconds, reference.error / reference.seconds)


#: Times under each policy, by ``bare`` or the variant; without a policy first.
Times = Mapping[str, Mapping[str, Value]]


def times(case: Case, metric: str) -> Times:
    """Return the times of a metric of a case under each policy; none where the case has no policies."""
    rows = [row for row in case.rows if row.metric == metric and row.is_comparison]
    if not rows or not _has_policies(case):
        return {}
    return _bare(rows) if case.variant == BARE else _contained(case.variant, rows)


def metrics(case: Case) -> list[str]:
    """Return the names of the times of a case with policies: of the whole first; of a single program no other."""
    if not _has_policies(case):
        return []
    names = dict.fromkeys(row.metric for row in case.rows if row.metric.startswith(SECONDS) and row.unit == "s")
    others = [name for name in names if name != WHOLE]
    return [*(name for name in names if name == WHOLE), *(others if len(others) > 1 or WHOLE not in names else ())]


def without(cases: Iterable[Case]) -> dict[str, str]:
    """Return the labels of the sides without a policy, as ``bare`` or the variant; none of cases without policies."""
    labels: dict[str, str] = {}
    for case in cases:
        for metric in metrics(case)[:1]:
            none = next(iter(times(case, metric).get(BARE, ())), "")
            labels |= {none: BARE} if case.variant == BARE else {BARE: BARE, f"{case.variant}, {none}": case.variant}
    return labels


def _has_policies(case: Case) -> bool:
    """Return whether the sides of a case are policies: bare ones, or those of a container, whose labels name both."""
    compared = [row for row in case.rows if row.is_comparison]
    if case.variant == BARE:
        return any(row.subject_label for row in compared)
    return any(row.subject_label.startswith(f"{case.variant}, ") for row in compared)


def _bare(rows: Iterable[Row]) -> Times:
    known: dict[str, Value] = {}
    for row in rows:
        _add(known, row.baseline_label, row.baseline, row.baseline_error)
        _add(known, row.subject_label, row.subject, row.subject_error)
    return {BARE: known}


def _contained(variant: str, rows: list[Row]) -> Times:
    """Return the times of a container's sides and of the bare ones that they are compared with.

    The bare side without a policy is called ``bare``, and what is compared with it first is without one too.
    """
    bare: dict[str, Value] = {}
    inside: dict[str, Value] = {}
    none = next((row.subject_label.removeprefix(f"{variant}, ") for row in rows if row.baseline_label == BARE), "")
    for row in rows:
        baseline = none if row.baseline_label == BARE else row.baseline_label.removeprefix(f"{BARE}, ")
        _add(bare, baseline, row.baseline, row.baseline_error)
        _add(inside, row.subject_label.removeprefix(f"{variant}, "), row.subject, row.subject_error)
    return {
        side: {none: known[none], **known} if none in known else {} for side, known in ((BARE, bare), (variant, inside))
    }


def _add(known: dict[str, Value], policy: str, value: float | None, error: float | None) -> None:
    if is_finite(value) and value > 0:
        known.setdefault(policy, Value(value, error if is_finite(error) else None))


def lines(cases: Iterable[Case]) -> list[str]:
    """Return a line for each case with policies: the speed-up of the whole under each, bare in brackets."""
    return [line for case in cases if case.result != "skip" for line in _lines(case)]


def _lines(case: Case) -> Iterator[str]:
    known = {side: values for side, values in times(case, WHOLE).items() if len(values) > 1}
    inside = known.get(case.variant, {})
    if inside:
        none, *policies = inside
        bare = known.get(BARE, {}) if case.variant != BARE else {}
        texts = []
        for policy in policies:
            text = f"{policy} {number(inside[policy].speed_up(inside[none])[0], 3)}"
            if policy in bare and none in bare:
                text += f" (bare {number(bare[policy].speed_up(bare[none])[0], 3)})"
            texts.append(text)
        where = f", {scaling.amount(case.nodes, scaling.NODES)}" if case.nodes > 1 else ""
        yield f"{case.label} {case.variant}{where}: speed-up against {none}: {', '.join(texts)}"
