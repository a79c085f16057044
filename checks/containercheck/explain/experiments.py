"""Make the sides that try remedies: the container with one change each."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from containercheck.node import contract
from containercheck.results.earlier_rounds import cases_of
from containercheck.results.row import FAIL, rows_of
from containercheck.sides.sides import Side

#: Kinds of experiments: a variable removed or set in the container, an option of the runtime, a directory of the host
#: bound, the image unpacked, processors allowed.
UNSET, SET, OPTION, BIND, UNPACK, CPUS = "unset", "set", "option", "bind", "unpack", "cpus"
#: Most remedies that are tried beside a confirmation.
MOST = 3


@dataclass(frozen=True)
class Experiment:
    """A change to a container.

    :ivar kind: one of the kinds above.
    :ivar value: the name of a variable, ``name=value``, options of the runtime, a path, or a list of processors.
    """

    kind: str
    value: str = ""

    @property
    def label(self) -> str:
        """The change in words, to follow "with" in a sentence."""
        return {
            UNSET: f"{self.value} removed",
            SET: self.value,
            OPTION: f"the runtime's option {self.value}",
            BIND: f"{self.value} of the host bound",
            UNPACK: "the image unpacked into a directory",
            CPUS: f"processors {self.value} allowed",
        }[self.kind]

    def applied_to(self, side: Side, name: str) -> Side:
        """Return a side in a container with this change.

        :param name: of the new side.
        """
        container = side.container
        assert container
        if self.kind == UNSET:
            container = replace(container, prefix=("env", "-u", shlex.quote(self.value), *container.prefix))
        elif self.kind == SET:
            container = replace(container, prefix=("env", shlex.quote(self.value), *container.prefix))
        elif self.kind == OPTION:
            container = replace(container, options=(*container.options, *map(shlex.quote, shlex.split(self.value))))
        elif self.kind == BIND:
            words = container.runtime.bind_words([(self.value, self.value)])
            container = replace(container, options=(*container.options, *words))
        elif self.kind == CPUS:
            container = replace(container, prefix=("taskset", "-c", shlex.quote(self.value), *container.prefix))
        elif self.kind == UNPACK:
            container = replace(container, unpacked_to=f"{contract.UNPACKED}.{name}")
        label = f"{side.label} with {self.label}"
        return side.changed(name=name, label=label, container=container, compared_with=None, remedy_of=side.name)


@dataclass(frozen=True)
class Plan:
    """The remedies that run beside a confirmation.

    :ivar causes: of the earlier session that have an experiment, the likeliest first; each is tried by one side.
    :ivar figures: overheads of the figures that failed in the earlier session, by name.
    :ivar seconds: that a run of a side took there.
    """

    causes: Sequence[Mapping[str, Any]] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def sides(self, subject: Side) -> list[Side]:
        """Return a side for each cause: the container with the change that is to take the difference away."""
        return [
            Experiment(**cause["experiment"]).applied_to(subject, f"remedy{number}")
            for number, cause in enumerate(self.causes, 1)
        ]

    def facts(self, sides: Sequence[Side], budget: float) -> dict[str, Any]:
        """Return the entries for ``facts.json``.

        :param budget: seconds for all that is run for the sake of remedies only.
        """
        if not sides:
            return {}
        remedies = [{"name": side.name, "of": side.remedy_of, "figures": dict(self.figures)} for side in sides]
        return {"remedies": remedies, "remedy_seconds": self.seconds, "remedy_budget": budget}


def planned(report: str, unique_name: str, partition: str) -> Plan:
    """Return the remedies for a case of an earlier session; none where there is no report, or nothing to try.

    :param report: path of ReFrame's report; empty for none.
    :raises ReframeError: the report cannot be read.
    """
    cases = cases_of(report, unique_name, partition) if report else []
    causes = [cause for cause in (cases[-1].get("causes") or () if cases else ()) if cause.get("experiment")]
    rows = [row for row in rows_of(cases[-1]) if row.verdict == FAIL] if causes else []
    figures = {row.figure: row.overhead for row in rows if row.overhead and row.overhead > 0}
    if not figures:
        return Plan()
    # Two sides took turns.
    seconds = max(row.round_seconds for row in rows) / 2
    return Plan(causes[:MOST], figures, seconds)
