"""Read rounds, spreads and nodes of earlier sessions for a check. Rounds count if the same things were compared.

The error probabilities of the boundaries hold if the known spread is at least the true one
(``ci/benchmarks/detection.py``). The nights of a site (history/spreads.py) give a better value than the defaults here.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from reframe.core.exceptions import ReframeError

from containercheck.application.declare import Metric
from containercheck.job import contract
from containercheck.job.stats.forecasts import DEFAULT
from containercheck.job.stats.pairs import Pairs, Prior
from containercheck.job.verdict import builds
from containercheck.results.cases import SIDE
from containercheck.sides.sides import Side
from containercheck.site.layout import Layout

#: Names of the directories of a job: see axes.own_directory.
OWN = re.compile(r"containercheck-\d+-[0-9a-f]{16}")

#: Beginning of the names of the sides' commands among the compared things.
COMMAND = "the command of "
#: The compared things: values by name.
Compared = Mapping[str, str]
#: Source of a spread that the check states.
OF_CHECK = "the check"
#: Assumed spread of a ratio that was never measured, in percent. Most programs spread less on a shared virtual machine.
#: With this value, only the rank test finds small slowdowns; a factor of two is found in two or three rounds.
UNKNOWN_SPREAD = 20.0
#: Assumed spread of a difference, as a part of the tolerance. Measured spreads are between a tenth of the tolerance
#: (start-up, memory) and two fifths (files that are not cached).
UNKNOWN_PART = 0.5


@dataclass(frozen=True)
class Earlier:
    """Rounds of an earlier session.

    :ivar rounds: for each round, the values by side and metric.
    :ivar provenance: provenance of their case. The job compares its runtimes and builds with the present ones
        (job/rounds.py).
    :ivar refused: why the rounds of the case cannot be used; empty if they can, or there are none.
    """

    rounds: Sequence[Mapping[str, Mapping[str, float]]] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        """The job's facts about earlier rounds."""
        software = {name: self.provenance[name] for name in ("spack", "easybuild") if name in self.provenance}
        runtimes = builds.runtimes(self.provenance.get("runtimes") or {})
        return {
            "earlier": list(self.rounds),
            "earlier_refused": self.refused,
            "earlier_builds": builds.joined({**(self.provenance.get("builds") or {}), **software, **runtimes}),
        }


def compared_in(
    sides: Sequence[Side], scripts: Mapping[str, str], layout: Layout, work: Mapping[str, Any], stagedir: str
) -> Compared:
    """Return the compared things of a job. Rounds of two jobs count together only if these are the same.

    :param scripts: the script of each side, by the side's name.
    :param work: facts about the work of the runs that have to be the same.
    :param stagedir: the job's stage directory, with the records of its images. Its path is not compared.
    """
    containers = {side.name: side.container for side in sides if side.container}
    return {
        **{SIDE + side.name: _label(side) for side in sides},
        **{f"the runtime of {name}": container.typed for name, container in containers.items()},
        **{f"the image of {name}": _image(container.image, Path(stagedir)) for name, container in containers.items()},
        "nodes": str(layout.nodes),
        "ranks on a node": str(layout.ranks_per_node),
        "threads of a rank": str(layout.threads),
        **{name: _without_own_directories(str(value), stagedir) for name, value in work.items()},
        **{COMMAND + name: _without_own_directories(text, stagedir) for name, text in scripts.items()},
    }


def _without_own_directories(text: str, stagedir: str) -> str:
    """Return a text without names that differ in each session: the stage directory, and the job's own directories.

    The job's own directories may be outside of the stage directory: see axes.own_directory.
    """
    return OWN.sub("", text.replace(stagedir, "."))


def _label(side: Side) -> str:
    judged = "as its successor" if side.replaces else "against it"
    return f"{side.label} (judged {judged}: {side.compared_with})" if side.compared_with else side.label


def _image(image: str, stagedir: Path) -> str:
    """Return the identity of a side's image: its digest, else its ID, else its path."""
    record = stagedir / f"{Path(image).stem}.json"
    try:
        stored = json.loads((record if record.exists() else stagedir / contract.IMAGE_RECORD).read_text())
    except (OSError, ValueError):
        return image
    return stored.get("sha256") or stored.get("id") or stored["path"]


def rounds_of(report: str, unique_name: str, partition: str, compared: Compared) -> Earlier:
    """Return the rounds of a case in a report; none without a report, or if other things were compared.

    :param report: path of ReFrame's report; empty for none.
    :param compared: the compared things of this job.
    :raises ReframeError: the report cannot be read.
    """
    if not report:
        return Earlier()
    this = (unique_name, *partition.split(":"))
    cases = [case for case in _cases(report) if (case["unique_name"], case["system"], case["partition"]) == this]
    # A run that was stopped has no rounds.
    last = next((case for case in reversed(cases) if case.get("measured")), None)
    if last is None:
        return Earlier()
    difference = _difference(last.get("compared") or {}, compared)
    if difference:
        return Earlier(refused=difference)
    return Earlier(last["measured"], last.get("provenance") or {})


def _difference(old: Compared, new: Compared) -> str:
    """Return a message about the first difference; empty if all is the same."""
    if not old:
        return "their report does not name the compared things"
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            values = f"{old.get(name, 'none')} -> {new.get(name, 'none')}"
            return f"{name} is another one" if name.startswith(COMMAND) else f"{name}: {values}"
    return ""


@functools.lru_cache(maxsize=1)
def _cases(report: str) -> list[dict[str, Any]]:
    try:
        return [case for run in json.loads(Path(report).read_text())["runs"] for case in run["testcases"]]
    except (OSError, ValueError, KeyError) as error:
        raise ReframeError(f"cannot read the earlier session's report {report}: {error}") from None


class KnownSpread(NamedTuple):
    """The spread of a metric in earlier sessions.

    :ivar unit: unit of the spread: percent for a ratio, the metric's unit for a difference.
    """

    prior: Prior
    unit: str


def known(path: str, name: str, partition: str) -> dict[str, KnownSpread]:
    """Return the spreads of a case's metrics in earlier sessions, by metric.

    :param path: file that ``ci/run`` wrote (history/spreads.py); empty for none.
    :param name: ReFrame's name of the case with all its parameters. ReFrame's numbers change with the check.
    :raises ReframeError: the file cannot be read.
    """
    if not path:
        return {}
    metrics = _stored(path).get(partition, {}).get(name, {})
    return {
        name: KnownSpread(Prior(stored["spread"], stored["source"], stored["degrees"]), stored["unit"])
        for name, stored in metrics.items()
    }


def rerun_nodes(path: str, name: str, partition: str) -> tuple[str, Sequence[str]]:
    """Return the option of Slurm with the nodes of a case that runs again; see ``nightly.confirm``.

    :param path: file that ``containercheck nightly`` wrote; empty for none.
    :returns: ``exclude`` or ``nodelist``, and nodes; empty for any nodes.
    :raises ReframeError: the file cannot be read.
    """
    option, nodes = _stored(path).get(partition, {}).get(name, ("", ())) if path else ("", ())
    return option, nodes


@functools.lru_cache(maxsize=2)
def _stored(path: str) -> dict[str, Any]:
    try:
        return dict(json.loads(Path(path).read_text()))
    except (OSError, ValueError) as error:
        raise ReframeError(f"cannot read {path}: {error}") from None


def metric_priors(metrics: Iterable[Metric], sessions: Mapping[str, KnownSpread]) -> dict[str, Prior]:
    """Return the known spread of metrics by name: from earlier sessions, else from the check, else a default."""
    priors = {metric.name: _prior(metric, sessions.get(metric.name)) for metric in metrics}
    return {name: prior for name, prior in priors.items() if prior}


def _prior(metric: Metric, earlier: KnownSpread | None) -> Prior | None:
    if earlier and earlier.unit == metric.overhead_unit:
        return earlier.prior
    if metric.spread is not None:
        return Prior(metric.spread, OF_CHECK)
    if metric.compare == "ratio":
        return Prior(UNKNOWN_SPREAD, DEFAULT)
    # A tolerance of 0 gives no estimate of the spread: only the rank test decides then.
    return Prior(UNKNOWN_PART * abs(metric.tolerance), DEFAULT) if metric.tolerance else None


def rounds_expected(metrics: Iterable[Metric], usual: float, sessions: Mapping[str, KnownSpread]) -> int:
    """Estimate the number of rounds until the verdict of a check without overhead, from its known spreads.

    If one of its metrics is expected to stay open, the number is the horizon.

    :param usual: the tolerance of metrics without their own tolerance, in percent.
    """
    metrics = list(metrics)
    return max([1, *(_rounds_expected(metric, len(metrics), usual, sessions) for metric in metrics)])


def closing(metrics: Iterable[Metric], usual: float, sessions: Mapping[str, KnownSpread]) -> list[int]:
    """Return the rounds that each metric with a measured spread is expected to need, the fewest first."""
    metrics = list(metrics)
    priors = [(metric, _prior(metric, sessions.get(metric.name))) for metric in metrics]
    measured = [metric for metric, prior in priors if prior and prior.source != DEFAULT]
    return sorted(_rounds_expected(metric, len(metrics), usual, sessions) for metric in measured)


def _rounds_expected(metric: Metric, together: int, usual: float, sessions: Mapping[str, KnownSpread]) -> int:
    highest = usual if metric.tolerance is None else metric.tolerance
    prior = _prior(metric, sessions.get(metric.name))
    return Pairs(metric.better, metric.compare, -math.inf, highest, together, prior=prior).rounds_expected
