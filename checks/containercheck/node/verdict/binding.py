"""Check that the ranks of a container have as many cores to themselves as the bare ones.

Otherwise all of them may share one core: 185 s instead of 3 s were seen. Only ranks on the first node are looked at.
"""

from typing import Any, Dict, Iterable, Optional, Sequence, Set

from containercheck.node.formatting import cores_of


def problem(run: Dict[str, Any], measure: Dict[str, Any]) -> Optional[str]:
    """Return a message if a run's ranks on the first node have fewer cores than those of another run; else None.

    :param run: of the record, with ``bound``: the processors that each rank may use.
    :param measure: a run of the side that it is compared with.
    """
    own, others = run.get("bound", []), measure.get("bound", [])
    if not own or len(own) != len(others):
        # unseen() reports this.
        return None
    if _alone(others) and not _alone(own):
        defect = "share cores"
    elif len(_all(own)) < len(_all(others)):
        defect = "have fewer cores"
    else:
        return None
    where = f"round {run['round']}, {run['side']}"
    bound = f"they are bound to {_listed(own)}, those of {measure['side']} to {_listed(others)}"
    return f"{where}: its ranks {defect}: {bound}"


def stray(run: Dict[str, Any]) -> Optional[str]:
    """Return a message if a run left its half of the node, where both sides ran at the same time; else None.

    :param run: of the record; ``processors`` are those of its half.
    """
    half, seen = run.get("processors"), run.get("bound", [])
    if not half or _all(seen) <= cores_of(half):
        return None
    return (
        f"round {run['round']}, {run['side']}: its ranks are bound to {_listed(seen)}, outside of its half of the "
        f"node, {half}: the launcher moves them; run the sides one after the other (-S duet=no)"
    )


def unseen(label: str, run: Optional[Dict[str, Any]], against: str, measure: Optional[Dict[str, Any]]) -> Optional[str]:
    """Return a message if the cores of two sides cannot be compared, as a run may end before all ranks are seen.

    :param label: of the side; ``run`` is the one in which most ranks were seen, None where none were.
    :param against: label of the side that it is compared with; ``measure`` is its run.
    """
    own, others = (len(side["bound"]) if side else 0 for side in (run, measure))
    if own and own == others:
        return None
    return f"the cores of ranks were not compared: of {label} {own} were seen while they ran, of {against} {others}"


def roomiest(runs: Iterable[Dict[str, Any]]) -> Optional[Dict[str, Any]]:
    """Return the run whose ranks had the most cores; None where no ranks were seen.

    A defect in how ranks are started shows in every run, so also in this one.
    """
    seen = [run for run in runs if run.get("bound")]
    return max(seen, key=lambda run: (len(run["bound"]), _alone(run["bound"]), len(_all(run["bound"]))), default=None)


def _all(bound: Sequence[str]) -> Set[int]:
    return set().union(*map(cores_of, bound))


def _alone(bound: Sequence[str]) -> bool:
    """Return whether no two ranks have a processor in common."""
    return sum(len(cores_of(processors)) for processors in bound) == len(_all(bound))


def _listed(bound: Sequence[str], most: int = 8) -> str:
    more = " ..." if len(bound) > most else ""
    return " | ".join(bound[:most]) + more
