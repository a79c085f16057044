"""Pair what is compared without a failure: the cases of two reports, and partitions or sides of one session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from containercheck.explain.between import SEES, USES
from containercheck.node import contract
from containercheck.results.cases import Case, ReportError

#: Parts of a provenance that say what a side ran, beside what it saw and used.
_RAN = ("machine", "runtimes", "image_sha256", "image_release", "mpi", "builds", "bound", "started")
#: Those of them that have an entry for each side, by the side's name.
_OF_SIDES = ("runtimes", "images", "mpi", "builds", "bound", "started")
#: A case, with what is known of the first and of the second of those that are compared.
Matched = tuple[Case, Mapping[str, Any], Mapping[str, Any]]


def of_reports(old: Sequence[Case], new: Sequence[Case]) -> list[Matched]:
    """Return the cases that two reports have in common.

    Where none has the same system and partition in both, those of the same check and axes: of two hosts, say.

    :raises ReportError: they have none in common.
    """
    matched = _matched(old, new, lambda case: case.identity) or _matched(old, new, _shape)
    if not matched:
        raise ReportError("the two reports have no case in common that was run: no check with the same axes")
    return matched


def in_session(cases: Sequence[Case], first: str, second: str) -> list[Matched]:
    """Return the cases of a session for two of its partitions, or two sides: runtimes, images, variants, bare.

    :param first, second: ``system:partition`` or partition; or the label of a side.
    :raises ReportError: it has no such partitions or sides, or no case has both.
    """
    ran = [case for case in cases if case.provenance]
    places = {name for case in ran for name in (_place(case), case.partition)}
    labels = {label for case in ran for label in (*(case.provenance.get(SEES) or {}), *_subjects(case))}
    if {first, second} <= places:
        old, new = ([case for case in ran if word in (_place(case), case.partition)] for word in (first, second))
        matched = _matched(old, new, _shape)
    elif {first, second} <= labels:
        matched = _of_sides(ran, first, second)
    else:
        unknown = [word for word in (first, second) if word not in places | labels]
        known = ", ".join([*sorted({_place(case) for case in ran}), *sorted(labels)])
        if unknown:
            raise ReportError(
                f"{unknown[0]} is no report, and no partition or side of the last session: it has {known}"
            )
        raise ReportError(f"{first} and {second} are a partition and a side: name two of one kind, of {known}")
    if not matched:
        raise ReportError(f"no check was run with the same axes for both {first} and {second}")
    return matched


def _matched(old: Sequence[Case], new: Sequence[Case], key: Callable[[Case], Any]) -> list[Matched]:
    before = {key(case): case for case in old if case.provenance}
    pairs = [(before[key(case)], case) for case in new if case.provenance and key(case) in before]
    return [(second, _facts(first), _facts(second)) for first, second in pairs]


def _facts(case: Case) -> dict[str, Any]:
    return {key: case.provenance.get(key) or {} for key in (*_RAN, SEES, USES)}


def _shape(case: Case) -> tuple[Any, ...]:
    """Return the check with its axes, wherever it was run."""
    return case.application, case.variant, case.nodes, tuple(sorted(case.axes.items()))


def _place(case: Case) -> str:
    return f"{case.key[0]}:{case.partition}"


def _subjects(case: Case) -> list[str]:
    """Return the labels of the sides that an acceptance compares: they are their names."""
    sides = case.provenance.get("runtimes") or {}
    return [name for name in sides if name not in (contract.BASELINE, contract.SUBJECT)]


def _of_sides(cases: Sequence[Case], first: str, second: str) -> list[Matched]:
    """Return a pair for each check and axes; each variant is a case of its own, and so may be both sides."""
    by_case: dict[tuple[Any, ...], dict[str, tuple[Case, Mapping[str, Any]]]] = {}
    for case in cases:
        key = (*case.identity_as(""),)
        for label in (first, second):
            if label in (case.provenance.get(SEES) or {}) or label in _subjects(case):
                by_case.setdefault(key, {}).setdefault(label, (case, _of_side(case, label)))
    return [
        (sides[second][0], sides[first][1], sides[second][1])
        for sides in by_case.values()
        if {first, second} <= {*sides}
    ]


def _of_side(case: Case, label: str) -> dict[str, Any]:
    """Return what is known of a side: the label of bare and of the container is not their name in the record."""
    names = {"bare": contract.BASELINE, case.variant: contract.SUBJECT}
    name = label if label in _subjects(case) else names.get(label, label)
    facts: dict[str, Any] = {key: (case.provenance.get(key) or {}).get(label) or {} for key in (SEES, USES)}
    facts.update({key: (case.provenance.get(key) or {}).get(name) or {} for key in _OF_SIDES})
    if name == contract.SUBJECT:
        facts["images"] = {"image_sha256": case.provenance.get("image_sha256")}
    return {key: value for key, value in facts.items() if value}
