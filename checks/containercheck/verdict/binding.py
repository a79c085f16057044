"""Whether the ranks of a container have as many cores to themselves as the bare ones.

Where they have not, all of them may share one: 185 s in place of 3 s were seen. They are looked at on the first node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def cores_of(text: str) -> set[int]:
    """Return the processors of a list as Linux writes it.

    >>> sorted(cores_of("0-2,8"))
    [0, 1, 2, 8]
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def problem(run: dict[str, Any], measure: dict[str, Any]) -> str | None:
    """Return why a run's ranks on the first node have fewer cores than those of its measure; None where they have not.

    :param run: of the record, with ``bound``: of each rank the processors that it may use.
    :param measure: a run of the side that it is compared with.
    """
    own, others = run.get("bound", []), measure.get("bound", [])
    if not own or len(own) != len(others):
        # See unseen().
        return None
    if _alone(others) and not _alone(own):
        what = "share cores"
    elif len(_all(own)) < len(_all(others)):
        what = "have fewer cores"
    else:
        return None
    where = f"round {run['round']}, {run['side']}"
    return f"{where}: its ranks {what}: they are bound to {_said(own)}, those of {measure['side']} to {_said(others)}"


def stray(run: dict[str, Any]) -> str | None:
    """Return why a run was not confined to its half of the node, where both sides ran at the same time; else None.

    :param run: of the record; ``processors`` are those of its half.
    """
    half, seen = run.get("processors"), run.get("bound", [])
    if not half or _all(seen) <= cores_of(half):
        return None
    return (
        f"round {run['round']}, {run['side']}: its ranks are bound to {_said(seen)}, outside of its half of the node, "
        f"{half}: the launcher moves them; run the sides one after the other (-S duet=no)"
    )


def unseen(label: str, run: dict[str, Any] | None, against: str, measure: dict[str, Any] | None) -> str | None:
    """Return that two sides cannot be compared: a run may be over before all its ranks were seen. Else None.

    :param label: of the side; ``run`` is the one in which most was seen, None where nothing was.
    :param against: of the side that it is compared with, with ``measure``.
    """
    own, others = (len(one["bound"]) if one else 0 for one in (run, measure))
    if own and own == others:
        return None
    return f"the cores of ranks were not compared: of {label} {own} were seen while they ran, of {against} {others}"


def roomiest(runs: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the run whose ranks had the most cores: what is wrong with how they are started is so in all of them.

    None where no run's were seen.
    """
    seen = [run for run in runs if run.get("bound")]
    return max(seen, key=lambda run: (len(run["bound"]), _alone(run["bound"]), len(_all(run["bound"]))), default=None)


def _all(bound: Sequence[str]) -> set[int]:
    return set().union(*map(cores_of, bound))


def _alone(bound: Sequence[str]) -> bool:
    """Tell whether no two ranks have a processor in common."""
    return sum(len(cores_of(one)) for one in bound) == len(_all(bound))


def _said(bound: Sequence[str], most: int = 8) -> str:
    more = " ..." if len(bound) > most else ""
    return " | ".join(bound[:most]) + more
