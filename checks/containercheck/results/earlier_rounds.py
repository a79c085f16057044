"""Rounds that an earlier session measured, from ReFrame's report of it; they count where the same was compared."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ReframeError

from containercheck.node import contract
from containercheck.sides.sides import Side
from containercheck.site.layout import Layout

#: Names of a job's own directories: see axes.own_directory.
OWN = re.compile(r"containercheck-\d+-[0-9a-f]{16}")

#: What has to be the same, in the order in which a difference is told, and what is said of it.
_SAME = {
    "side": "side {name} was {old}, and is {new}",
    "runtime": "the runtime of {name} was {old}, and is {new}",
    "image": "the image of {name} was {old}, and is {new}",
    "layout": "{name} were {old}, and are {new}",
    "work": "{name} was {old}, and is {new}",
    "command": "the command of {name} is another one",
}
#: What is said of something that one of them has not.
_NONE = "none"

#: What was compared: of each kind in ``_SAME`` names and values.
Compared = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Earlier:
    """Rounds of an earlier session.

    :ivar rounds: of each one side, figure and value.
    :ivar runtimes: command and version of each side's runtime that they were measured with; what the nodes have now is
        known in the job (node/outputs/evaluation.py).
    :ivar refused: why there are none though the case has some; empty where that is not so.
    """

    rounds: Sequence[Mapping[str, Mapping[str, float]]] = ()
    runtimes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    refused: str = ""

    @property
    def facts(self) -> dict[str, Any]:
        """What the job is told of them."""
        return {"earlier": list(self.rounds), "earlier_runtimes": dict(self.runtimes), "earlier_refused": self.refused}


def compared_in(
    sides: Sequence[Side], scripts: Mapping[str, str], layout: Layout, work: Mapping[str, Any], stagedir: str
) -> Compared:
    """Return what a job compares, by what its rounds are told from those of another job.

    :param scripts: of each side, by its name.
    :param work: what the runs work on: any facts that have to be the same.
    :param stagedir: the job's stage directory, with the records of its images; where it lies makes no difference.
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
        "work": {name: _lasting(str(value), stagedir) for name, value in work.items()},
        "command": {name: _lasting(text, stagedir) for name, text in scripts.items()},
    }


def _lasting(text: str, stagedir: str) -> str:
    """Return a text without what is another name in each session: the stage directory, and directories of the job's.

    Those lie beside the stage directory too: see axes.own_directory.
    """
    return OWN.sub("", text.replace(stagedir, "."))


def _label(side: Side) -> str:
    judged = "as its successor" if side.replaces else "against it"
    return f"{side.label} (judged {judged}: {side.compared_with})" if side.compared_with else side.label


def _image(image: str, stagedir: Path) -> str:
    """Return which image a link in the stage directory leads to: its digest, or what else tells it from others."""
    own = stagedir / f"{Path(image).stem}.json"
    try:
        known = json.loads((own if own.exists() else stagedir / contract.IMAGE_RECORD).read_text())
    except (OSError, ValueError):
        return image
    return known.get("sha256") or known.get("id") or known["path"]


def rounds_of(report: str, unique_name: str, partition: str, compared: Compared) -> Earlier:
    """Return the rounds of a case in a report; none where there is no report, or something else was compared.

    :param report: path of ReFrame's report; empty for none.
    :param compared: what this job compares.
    :raises ReframeError: it cannot be read.
    """
    if not report:
        return Earlier()
    cases = [one for one in _cases(report) if (one["unique_name"], _partition(one)) == (unique_name, partition)]
    rounds = cases[-1].get("measured") if cases else None
    if not rounds:
        return Earlier()
    difference = _difference(cases[-1].get("compared") or {}, compared)
    if difference:
        return Earlier(refused=difference)
    used = (cases[-1].get("provenance") or {}).get("runtimes") or {}
    return Earlier(rounds, used)


def _difference(old: Compared, new: Compared) -> str:
    """Return the first thing that was another one; empty where all is the same."""
    if not old:
        return "they do not say what they compared"
    for kind, text in _SAME.items():
        before, now = old.get(kind, {}), new.get(kind, {})
        for name in (*before, *(name for name in now if name not in before)):
            if before.get(name) != now.get(name):
                return text.format(name=name, old=before.get(name, _NONE), new=now.get(name, _NONE))
    return ""


def _partition(case: dict[str, Any]) -> str:
    return f"{case['system']}:{case['partition']}"


@functools.lru_cache(maxsize=1)
def _cases(report: str) -> list[dict[str, Any]]:
    try:
        return [case for run in json.loads(Path(report).read_text())["runs"] for case in run["testcases"]]
    except (OSError, ValueError, KeyError) as error:
        raise ReframeError(f"cannot read the earlier session's report {report}: {error}") from None
