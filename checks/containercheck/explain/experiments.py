"""Make the sides that try remedies: the container with one change each."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from containercheck.node import contract
from containercheck.node.container_runtimes import SIF
from containercheck.results.earlier_rounds import cases_of
from containercheck.results.row import FAIL, rows_of
from containercheck.sides.sides import Side

#: Kinds of experiments: a variable removed or set in the container, an option of the runtime, a directory of the host
#: bound, the image unpacked, processors allowed, a limit set, words before the program, the node's GPUs handed in.
UNSET, SET, OPTION, BIND, UNPACK, CPUS = "unset", "set", "option", "bind", "unpack", "cpus"
LIMIT, PREFIX, GPUS = "limit", "prefix", "gpus"
#: Stands between several variables that are set.
AND = "\n"
#: Options of the shell's ``ulimit`` by the name of the limit in /proc, and the bytes of its unit: POSIX shells and
#: bash(1); that of processes is another one in some shells (dash(1): -p).
_ULIMITS = {
    "Max locked memory": (("l",), 1024),
    "Max stack size": (("s",), 1024),
    "Max address space": (("v",), 1024),
    "Max processes": (("u", "p"), 1),
    "Max cpu time": (("t",), 1),
    "Max open files": (("n",), 1),
}
#: Runs of a remedy that have to end well, and runs of the container that have to end or hang, all of them and before
#: the remedy is tried, until that is proven: where each run ends by chance, whatever its probability p, the proof is
#: wrong in p^3 (1-p)^4 of all cases at most, less than one in a hundred.
ENDING_WELL, ENDED, ENDED_BEFORE = 4, 3, 2
#: Most remedies that are tried beside a confirmation.
MOST = 3


@dataclass(frozen=True)
class Experiment:
    """A change to a container.

    :ivar kind: one of the kinds above.
    :ivar value: the name of a variable, ``name=value`` (several with :data:`AND` between them), options of the runtime,
        a path, a list of processors, ``name=value`` of a soft limit in the words of /proc, or words.
    """

    kind: str
    value: str = ""

    @property
    def label(self) -> str:
        """The change in words, to follow "with" in a sentence."""
        return {
            UNSET: f"{self.value} removed",
            SET: self.value.replace(AND, " and "),
            OPTION: f"the runtime's option {self.value}",
            BIND: f"{self.value} of the host bound",
            UNPACK: "the image unpacked into a directory",
            CPUS: f"processors {self.value} allowed",
            LIMIT: "the limit of {} at {}".format(*self.value[len("Max ") :].split("=")) if self.kind == LIMIT else "",
            PREFIX: f"{self.value} before the program",
            GPUS: "the node's GPUs handed in",
        }[self.kind]

    def fits(self, side: Side) -> bool:
        """Return whether a side's own words can carry it out."""
        container = side.container
        assert container
        if self.kind == UNPACK:
            return container.runtime.form == SIF and not container.unpacked_to
        if self.kind == GPUS:
            return bool(container.runtime.gpus) and not container.gpus
        return True

    def applied_to(self, side: Side, name: str) -> Side:
        """Return a side in a container with this change.

        :param name: of the new side.
        """
        container = side.container
        assert container
        if self.kind == UNSET:
            container = replace(container, prefix=("env", "-u", shlex.quote(self.value), *container.prefix))
        elif self.kind == SET:
            variables = map(shlex.quote, self.value.split(AND))
            container = replace(container, prefix=("env", *variables, *container.prefix))
        elif self.kind == OPTION:
            container = replace(container, options=(*container.options, *map(shlex.quote, shlex.split(self.value))))
        elif self.kind == BIND:
            words = container.runtime.bind_words([(self.value, self.value)])
            container = replace(container, options=(*container.options, *words))
        elif self.kind == CPUS:
            container = replace(container, prefix=("taskset", "-c", shlex.quote(self.value), *container.prefix))
        elif self.kind == LIMIT:
            container = replace(container, prefix=(*_limited(*self.value.split("=")), *container.prefix))
        elif self.kind == PREFIX:
            container = replace(container, prefix=(self.value, *container.prefix))
        elif self.kind == GPUS:
            container = replace(container, gpus=True)
        elif self.kind == UNPACK:
            container = replace(container, unpacked_to=f"{contract.UNPACKED}.{name}")
        label = f"{side.label} with {self.label}"
        return side.changed(name=name, label=label, container=container, compared_with=None, remedy_of=side.name)


def _limited(name: str, value: str) -> tuple[str, ...]:
    """Return the words that set a soft limit for the program after them; they end with an error above the hard one."""
    options, unit = _ULIMITS[name]
    amount = value if not value.isdigit() else str(int(value) // unit)
    setting = " || ".join(f'ulimit -S -{option} "$0"' for option in options)
    return ("sh", "-c", shlex.quote(f'{{ {setting}; }} && exec "$@"'), shlex.quote(amount))


@dataclass(frozen=True)
class Plan:
    """The remedies that run beside a confirmation.

    :ivar causes: of the earlier session that have an experiment, the likeliest first; each is tried by one side.
    :ivar tried: those that were tried there, with the result.
    :ivar figures: overheads of the figures that failed in the earlier session, by name.
    :ivar seconds: that a run of a side took there.
    :ivar ended: how many of how many runs of the container ended or hung there; empty where it was slow.
    """

    causes: Sequence[Mapping[str, Any]] = ()
    tried: Sequence[Mapping[str, Any]] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    ended: Sequence[int] = ()

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
        facts = {"remedies": remedies, "remedy_seconds": self.seconds, "remedy_budget": budget}
        return {**facts, "remedy_runs": ENDING_WELL} if self.ended else facts


def planned(report: str, unique_name: str, partition: str, subject: Side, most: int = MOST) -> Plan:
    """Return the remedies for a case of an earlier session; none where there is no report, or nothing to try.

    :param report: path of ReFrame's report; empty for none.
    :param subject: the container that they are to mend.
    :param most: so many at most.
    :raises ReframeError: the report cannot be read.
    """
    cases = cases_of(report, unique_name, partition) if report else []
    known = (cases[-1].get("causes") or ()) if cases else ()
    causes = to_try(known, subject)
    ended = next((cause["ended"] for cause in known if cause.get("ended")), ())
    if ended:
        return Plan(causes[:1], ended=ended) if causes and always_ended(ended) else Plan()
    rows = [row for row in rows_of(cases[-1]) if row.verdict == FAIL] if causes else []
    figures = {row.figure: row.overhead for row in rows if row.overhead and row.overhead > 0}
    if not figures:
        return Plan()
    # Two sides took turns.
    seconds = max(row.round_seconds for row in rows) / 2
    return Plan(causes[:most], [cause for cause in known if cause.get("result")], figures, seconds)


def always_ended(ended: Sequence[int]) -> bool:
    """Return whether all runs of a container ended or hung, and often enough to try a remedy.

    :param ended: how many of how many.
    """
    return ended[0] == ended[1] >= ENDED_BEFORE


def to_try(causes: Sequence[Mapping[str, Any]], subject: Side | None = None) -> list[Mapping[str, Any]]:
    """Return the causes that have an experiment of their own, that was not tried and that the side can carry out.

    :param subject: None where it is not known what it can.
    """
    chosen: dict[Experiment, Mapping[str, Any]] = {}
    # What was tried comes first: the same need not be tried for another cause.
    for cause in sorted(causes, key=lambda cause: not cause.get("result")):
        if cause.get("experiment"):
            experiment = Experiment(**cause["experiment"])
            if not subject or experiment.fits(subject):
                chosen.setdefault(experiment, cause)
    return [cause for cause in chosen.values() if not cause.get("result")]
