"""Read the rounds of an earlier session from ReFrame's report; they count only where the same was compared."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ReframeError

from containercheck.job import contract
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
    contained = [side for side in sides if side.container]
    commands = {side.name: side.container.typed for side in contained}
    return {
        "side": {side.name: _label(side) for side in sides},
        "runtime": commands,
        "image": {side.name: _image(side.container.image, Path(stagedir)) for side in contained},
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
