"""What a lock file of Spack's says. Standard library only, Python 3.6 or newer."""

from typing import Any, Dict, List

#: What a package depends on while it runs.
_RUNNING = {"link", "run"}


def roots(locked: Dict[str, Any]) -> Dict[str, Dict[str, Any]]:
    """Return the packages that were asked for, by their hashes."""
    return {root["hash"]: locked["concrete_specs"][root["hash"]] for root in locked["roots"]}


def targets(locked: Dict[str, Any]) -> Dict[str, str]:
    """Return what the packages that were asked for are compiled for, by their names: archspec's names."""
    found = {one["name"]: one["arch"]["target"] for one in roots(locked).values()}
    # Those of a vendor have more to them than a name.
    return {name: one if isinstance(one, str) else one["name"] for name, one in found.items()}


def needed(locked: Dict[str, Any]) -> List[str]:
    """Return the hashes of the packages that an environment needs while it runs.

    Those that are not Spack's are not among them, nor is MPI.
    """
    found, todo = [], list(roots(locked))
    while todo:
        digest = todo.pop()
        package = locked["concrete_specs"][digest]
        if digest in found or "external" in package:
            continue
        found.append(digest)
        for edge in package.get("dependencies", []):
            # Before Spack 0.21 an edge says its types only.
            more = edge.get("parameters", {"deptypes": edge.get("type", [])})
            if _RUNNING & set(more["deptypes"]) and "mpi" not in more.get("virtuals", []):
                todo.append(edge["hash"])
    return sorted(found)
