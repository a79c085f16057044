"""Published numbers for the plots: the absolute values of our references, with the machine of each."""

from __future__ import annotations

import functools
import runpy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from containercheck.node.project import CHECKS, COMMON

#: Key of a file's axes, and end of the name of an expected overhead, which is no value of a plot.
INDEX, OVERHEAD = "$index", "_overhead"
#: Systems of ours: their references are no published numbers.
OURS = ("generic:", "virtual-cluster:")


@dataclass(frozen=True)
class Published:
    """A published value of a figure.

    :ivar partition: machine, a partition of ``config/``.
    :ivar axes: values of the axes that it is of, as texts, by name.
    """

    partition: str
    variant: str
    nodes: int
    axes: tuple[tuple[str, str], ...]
    figure: str
    value: float
    unit: str = ""

    @property
    def machine(self) -> str:
        """Name of the machine."""
        return self.partition.partition(":")[0]

    @property
    def label(self) -> str:
        """Machine and variant: no mark of a plot is without its machine."""
        return f"{self.machine}, {self.variant}"

    @property
    def cores(self) -> int | None:
        """Cores of a node of the machine, by its file in ``config/``; None where it does not say."""
        return _cores(self.partition)

    def is_of(self, axes: Mapping[str, str]) -> bool:
        """Tell whether it is of a case with these values of its axes, as far as the references tell cases apart."""
        return all(axes.get(name) == value for name, value in self.axes)


@functools.cache
def _cores(partition: str) -> int | None:
    system, _, name = partition.partition(":")
    path = COMMON.with_name(f"{system.replace('-', '_')}.py")
    systems = runpy.run_path(str(path))["site_configuration"]["systems"] if path.is_file() else []
    for facts in (part for known in systems if known["name"] == system for part in known["partitions"]):
        if facts["name"] == name and "num_cpus" in facts.get("processor", {}):
            return int(facts["processor"]["num_cpus"] // facts["processor"].get("num_cpus_per_core", 1))
    return None


@functools.cache
def of(application: str) -> tuple[Published, ...]:
    """Return the published values of an application's figures; none where no document has any."""
    path = CHECKS / "references" / f"{application}.yaml"
    if not path.is_file():
        return ()
    tree = yaml.safe_load(path.read_text())[application]
    return tuple(_values(dict(tree), [name.lstrip("$") for name in tree[INDEX]]))


def _values(tree: dict[str, Any], index: list[str]) -> Iterator[Published]:
    tree.pop(INDEX)
    for keys, figures in _entries(tree, len(index)):
        where = dict(zip(index, keys))
        partition, variant, nodes = (where.pop(name) for name in ("partition", "variant", "num_nodes"))
        axes = tuple(sorted((name, str(value)) for name, value in where.items()))
        for name, reference in figures.items():
            if not name.endswith(OVERHEAD) and not partition.startswith(OURS):
                yield Published(partition, variant, nodes, axes, name, float(reference[0]), str(reference[3]))


def _entries(tree: Any, depth: int) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if depth == 0:
        yield (), tree
        return
    for key, below in tree.items():
        for more, entry in _entries(below, depth - 1):
            yield (key, *more), entry
