"""Published values: the absolute values of the references of documents, each with its machine."""

from __future__ import annotations

import functools
import runpy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from containercheck.job.project import CHECKS, COMMON

#: Key of a file's axes, and end of the name of an expected overhead.
INDEX, OVERHEAD = "$index", "_overhead"
#: Beginnings of systems whose references are measurements of this project.
MEASURED_HERE = ("generic:", "virtual-cluster:")


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


@functools.cache
def of(application: str) -> tuple[Published, ...]:
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
