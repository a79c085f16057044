"""Read what earlier sessions tell a check: rounds that count where the same was compared, and how far rounds spread.

The error probabilities of the boundaries hold for any known spread that is at least the true one
(``ci/benchmarks/detection.py``). A site's nights (history/spreads.py) give a better one than the defaults here.
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
from containercheck.sides.sides import Side
from containercheck.site.layout import Layout

#: Names of a job's own directories: see axes.own_directory.
OWN = re.compile(r"containercheck-\d+-[0-9a-f]{16}")

#: Kinds of facts that have to be the same, in the order in which they are checked, each with the message otherwise.
_SAME = {
    "side": "side {name} was {old}, and is {new}",
    "runtime": "the runtime of {name} was {old}, and is {new}",
    "image": "the image of {name} was {old}, and is {new}",
    "layout": "{name} were {old}, and are {new}",
    "work": "{name} was {old}, and is {new}",
    "command": "the command of {name} is another one",
}
#: Value in a message for something that is missing on one side.
_NONE = "none"

#: What was compared: for each kind in ``_SAME``, values by name.
Compared = Mapping[str, Mapping[str, str]]
#: Source of a spread that the check states.
OF_CHECK = "the check"
#: Assumed spread of a ratio that was never measured, in percent. Most programs spread less on a shared virtual machine:
#: small slowdowns are then left to the rank test, and a factor of two is still found in two or three rounds.
UNKNOWN_SPREAD = 20.0
#: Assumed spread of a difference, as a part of the tolerance: measured ones are a tenth of it (start-up, memory) to
#: two fifths (files that are read cold).
UNKNOWN_PART = 0.5


@dataclass(frozen=True)
class Earlier:
    """Rounds of an earlier session.

    :ivar rounds: for each round, the values by side and metric.
    :ivar provenance: of the case that they are from; the job compares runtimes and builds with those that it has now
        (job/outputs/evaluation.py).
    :ivar refused: why the rounds of the case cannot be used; empty where they can, or there are none.
    """

    rounds: Sequence[Mapping[str, Mapping[str, float]]] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        """The job's facts about earlier rounds."""
        software = {name: self.provenance[name] for name in ("spack", "easybuild") if name in self.provenance}
        return {
            "earlier": list(self.rounds),
            "earlier_runtimes": self.provenance.get("runtimes") or {},
            "earlier_refused": self.refused,
            "earlier_builds": builds.joined({**(self.provenance.get("builds") or {}), **software}),
        }


def compared_in(
    sides: Sequence[Side], scripts: Mapping[str, str], layout: Layout, work: Mapping[str, Any], stagedir: str
) -> Compared:
    """Return what a job compares: rounds of two jobs count together only where this is the same.

    :param scripts: the script of each side, by the side's name.
    :param work: what the runs work on: any facts that have to be the same.
    :param stagedir: the job's stage directory, with the records of its images; its path makes no difference.
    """
    containers = {side.name: side.container for side in sides if side.container}
    return {
        "side": {side.name: _label(side) for side in sides},
        "runtime": {name: container.typed for name, container in containers.items()},
        "image": {name: _image(container.image, Path(stagedir)) for name, container in containers.items()},
        "layout": {
            "nodes": str(layout.nodes),
            "ranks on a node": str(layout.ranks_per_node),
            "threads of a rank": str(layout.threads),
        },
        "work": {name: _without_own_directories(str(value), stagedir) for name, value in work.items()},
        "command": {name: _without_own_directories(text, stagedir) for name, text in scripts.items()},
    }


def _without_own_directories(text: str, stagedir: str) -> str:
    """Return a text without the names that differ in each session: the stage directory, and the job's own directories.

    The latter may lie outside of the stage directory: see axes.own_directory.
    """
    return OWN.sub("", text.replace(stagedir, "."))


def _label(side: Side) -> str:
    judged = "as its successor" if side.replaces else "against it"
    return f"{side.label} (judged {judged}: {side.compared_with})" if side.compared_with else side.label


def _image(image: str, stagedir: Path) -> str:
    """Return what identifies the image of a side: its digest, else its ID, else its path."""
    record = stagedir / f"{Path(image).stem}.json"
    try:
        stored = json.loads((record if record.exists() else stagedir / contract.IMAGE_RECORD).read_text())
    except (OSError, ValueError):
        return image
    return stored.get("sha256") or stored.get("id") or stored["path"]


def rounds_of(report: str, unique_name: str, partition: str, compared: Compared) -> Earlier:
    """Return the rounds of a case in a report; none without a report, or where something else was compared.

    :param report: path of ReFrame's report; empty for none.
    :param compared: what this job compares.
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
    """Return a message about the first difference; empty where all is the same."""
    if not old:
        return "they do not say what they compared"
    for kind, text in _SAME.items():
        before, now = old.get(kind, {}), new.get(kind, {})
        for name in (*before, *(name for name in now if name not in before)):
            if before.get(name) != now.get(name):
                return text.format(name=name, old=before.get(name, _NONE), new=now.get(name, _NONE))
    return ""


@functools.lru_cache(maxsize=1)
def _cases(report: str) -> list[dict[str, Any]]:
    try:
        return [case for run in json.loads(Path(report).read_text())["runs"] for case in run["testcases"]]
    except (OSError, ValueError, KeyError) as error:
        raise ReframeError(f"cannot read the earlier session's report {report}: {error}") from None


class KnownSpread(NamedTuple):
    """The spread of a metric in earlier sessions.

    :ivar unit: of the spread: percent, or the metric's unit, by how it was compared then.
    """

    prior: Prior
    unit: str


def known(path: str, name: str, partition: str) -> dict[str, KnownSpread]:
    """Return the spreads of a case's metrics in earlier sessions, by metric.

    :param path: file that ``ci/run`` wrote (history/spreads.py); empty for none.
    :param name: of the case, with all its parameters, as ReFrame shows it: ReFrame's numbers move when a check changes.
    :raises ReframeError: the file cannot be read.
    """
    if not path:
        return {}
    metrics = _spreads(path).get(partition, {}).get(name, {})
    return {
        name: KnownSpread(Prior(stored["spread"], stored["source"]), stored["unit"]) for name, stored in metrics.items()
    }


@functools.lru_cache(maxsize=1)
def _spreads(path: str) -> dict[str, Any]:
    try:
        return dict(json.loads(Path(path).read_text()))
    except (OSError, ValueError) as error:
        raise ReframeError(f"cannot read the known spreads {path}: {error}") from None


def metric_priors(metrics: Iterable[Metric], sessions: Mapping[str, KnownSpread]) -> dict[str, Prior]:
    """Return the known spread of metrics, by name: from earlier sessions, else the check's own, else a default."""
    priors = {metric.name: _prior(metric, sessions.get(metric.name)) for metric in metrics}
    return {name: prior for name, prior in priors.items() if prior}


def _prior(metric: Metric, earlier: KnownSpread | None) -> Prior | None:
    if earlier and earlier.unit == metric.overhead_unit:
        return earlier.prior
    if metric.spread is not None:
        return Prior(metric.spread, OF_CHECK)
    if metric.compare == "ratio":
        return Prior(UNKNOWN_SPREAD, DEFAULT)
    # A tolerance of 0 says nothing of the spread: the rank test alone decides then.
    return Prior(UNKNOWN_PART * abs(metric.tolerance), DEFAULT) if metric.tolerance else None


def rounds_expected(metrics: Iterable[Metric], usual: float, sessions: Mapping[str, KnownSpread]) -> int:
    """Return after about how many rounds a check without overhead has its verdict, by its known spreads.

    That is the horizon where one of its metrics is expected to stay open.

    :param usual: the tolerance of metrics that have none of their own, in percent.
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
