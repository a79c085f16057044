"""The values of an axis as numbers, and the published values of an application over it.

A default such as ``ranks=0`` or ``ranks=all`` stands at the number that its case had. What the numbers of an axis are
(ranks of a node, threads of a rank ...) follows from the layouts of the cases that state one. Published values are the
absolute values of the references of documents, each with its machine.
"""

from __future__ import annotations

import functools
import math
import re
import runpy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from containercheck.job.project import CHECKS, COMMON
from containercheck.results.cases import Case

#: Value of an axis for all cores of a node, and relative difference up to which two amounts of work are the same.
ALL, SAME = "all", 1e-9
#: Facts of a case's layout that an axis may set; None where the case does not state them.
FACTS: Mapping[str, Callable[[Case], float | None]] = {
    "on a node": lambda case: _product(case, ("ranks",), case.nodes),
    "in all": lambda case: _product(case, ("ranks",)),
    "threads of a rank": lambda case: _product(case, ("threads",)),
    "cores of a node": lambda case: _product(case, ("ranks", "threads"), case.nodes),
}
#: Facts whose value ``all`` is the number of cores of a node.
OF_CORES = ("on a node", "cores of a node")
#: Key of the axes in a file of references, and end of the name of an expected overhead.
INDEX, OVERHEAD = "$index", "_overhead"
#: Beginnings of systems whose references are measurements of this project.
MEASURED_HERE = ("generic:", "virtual-cluster:")


@dataclass(frozen=True)
class Places:
    """Numbers of the values of an axis.

    :ivar meaning: fact of :data:`FACTS` that the axis sets; empty where all values are numbers.
    :ivar numbers: number of each value that has one.
    :ivar left_out: values without one, each with the reason.
    """

    meaning: str
    numbers: Mapping[str, float]
    left_out: tuple[tuple[str, str], ...] = ()

    def elsewhere(self, reference: Published, value: str) -> float | None:
        """Return the number of a value on the machine of a published value; None where it has none."""
        if is_number(value):
            return float(value)
        return cores(reference.partition) if value == ALL and self.meaning in OF_CORES else None


def is_number(value: str) -> bool:
    """Return whether a value of an axis is a positive number: 0 stands for a default."""
    return re.fullmatch(r"\d+(\.\d+)?", value) is not None and float(value) > 0


def places(axis: str, cases: Sequence[Case]) -> Places | None:
    """Return the numbers of the values of an axis; None where they are names.

    :param cases: they differ in that axis and variant only.
    """
    stated = [case for case in cases if is_number(case.axes[axis])]
    first = {case.axes[axis]: case for case in reversed(cases)}
    defaults = {value: case for value, case in sorted(first.items()) if not is_number(value)}
    fitting = [name for name, fact in FACTS.items() if all(fact(case) == float(case.axes[axis]) for case in stated)]
    if not fitting and ALL in defaults:
        fitting = ["cores of a node"]
    numbers = {case.axes[axis]: float(case.axes[axis]) for case in stated}
    candidates = [_placed(meaning, numbers, defaults, stated) for meaning in fitting if defaults]
    candidates.append(Places("", numbers, tuple((value, "no number") for value in defaults)))
    best = max(candidates, key=lambda candidate: len(candidate.numbers))
    return best if numbers and len(best.numbers) > 1 else None


def _placed(
    meaning: str, stated: Mapping[str, float], defaults: Mapping[str, Case], numbered: Sequence[Case]
) -> Places:
    numbers, left_out = dict(stated), []
    for value, case in defaults.items():
        at = FACTS[meaning](case)
        if at is None:
            left_out.append((value, "no number"))
        elif not any(_is_same_work(case, other) for other in numbered):
            left_out.append((value, "another amount of work"))
        elif at in numbers.values():
            left_out.append((value, f"also {at:g}"))
        else:
            numbers[value] = at
    return Places(meaning, numbers, tuple(left_out))


def _is_same_work(case: Case, other: Case) -> bool:
    """Return whether two cases work on as much, in all or for each rank: else they are different problems."""
    amounts = [each.expected.get("amount") or 0.0 for each in (case, other)]
    of_ranks = [amount / (each.expected.get("ranks") or 1) for amount, each in zip(amounts, (case, other))]
    return any(math.isclose(first, second, rel_tol=SAME) for first, second in (amounts, of_ranks))


def _product(case: Case, names: Sequence[str], divisor: int = 1) -> float | None:
    """Return the product of numbers of a case's layout, divided; None where a number is not known."""
    if any(case.expected.get(name) is None for name in names):
        return None
    return math.prod(case.expected[name] for name in names) / divisor


@dataclass(frozen=True)
class Published:
    """A published value of a metric.

    :ivar partition: machine, a partition of ``config/``.
    :ivar axes: values of its axes, as texts, by name.
    """

    partition: str
    variant: str
    nodes: int
    axes: Mapping[str, str]
    metric: str
    value: float
    unit: str = ""

    @property
    def label(self) -> str:
        """Machine and variant."""
        return f"{self.partition.partition(':')[0]}, {self.variant}"

    def is_of(self, axes: Mapping[str, str]) -> bool:
        """Return whether it belongs to a case with these axes, as far as the references tell cases apart."""
        return all(axes.get(name) == value for name, value in self.axes.items())


@functools.cache
def published(application: str) -> tuple[Published, ...]:
    """Return the published values of an application's metrics."""
    path = CHECKS / "references" / f"{application}.yaml"
    tree = yaml.safe_load(path.read_text())[application] if path.is_file() else {INDEX: []}
    index = [name.lstrip("$") for name in tree.pop(INDEX)]
    return tuple(_values(tree, index, {}))


def _values(tree: Mapping[Any, Any], index: list[str], where: dict[str, Any]) -> Iterator[Published]:
    """Yield the values below a branch of a file.

    :param index: names of the keys of the levels below.
    :param where: keys of the levels above, by name.
    """
    if index:
        for key, branch in tree.items():
            yield from _values(branch, index[1:], {**where, index[0]: key})
        return
    partition, variant, nodes = (where.pop(name, "") for name in ("partition", "variant", "num_nodes"))
    axes = {name: str(value) for name, value in where.items()}
    for name, reference in tree.items():
        if not name.endswith(OVERHEAD) and not partition.startswith(MEASURED_HERE):
            yield Published(partition, variant, nodes, axes, name, float(reference[0]), str(reference[3]))


@functools.cache
def cores(partition: str) -> int | None:
    """Return the number of cores of a node of a machine, by its file in ``config/``; None where it has none."""
    system, _, name = partition.partition(":")
    path = COMMON.with_name(f"{system.replace('-', '_')}.py")
    systems = runpy.run_path(str(path))["site_configuration"]["systems"] if path.is_file() else []
    partitions = [part for machine in systems if machine["name"] == system for part in machine["partitions"]]
    for processor in (part.get("processor", {}) for part in partitions if part["name"] == name):
        if "num_cpus" in processor:
            return int(processor["num_cpus"] // processor.get("num_cpus_per_core", 1))
    return None
