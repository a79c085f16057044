"""What a lock file of Spack's says. Standard library only, Python 3.6 or newer."""

from typing import Any, Dict, List, Set

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
    return sorted(one for one in _running(locked) if "external" not in locked["concrete_specs"][one])


def outside(locked: Dict[str, Any]) -> Dict[str, str]:
    """Return the directories of the site's own libraries that an environment needs while it runs, by their names.

    Those are not Spack's, nor MPI, nor the operating system's.
    """
    linked = (locked["concrete_specs"][one] for one, types in _running(locked).items() if "link" in types)
    places = {one["name"]: one["external"]["path"] for one in linked if "external" in one}
    return {name: path for name, path in sorted(places.items()) if path.rstrip("/") not in ("", "/usr")}


def _running(locked: Dict[str, Any]) -> Dict[str, Set[str]]:
    """Return what an environment needs while it runs, and in which ways; of what is not Spack's, itself only."""
    found: Dict[str, Set[str]] = {one: set() for one in roots(locked)}
    todo = list(found)
    while todo:
        package = locked["concrete_specs"][todo.pop()]
        if "external" in package:
            continue
        for edge in package.get("dependencies", []):
            # Before Spack 0.21 an edge says its types only.
            more = edge.get("parameters", {"deptypes": edge.get("type", [])})
            types = _RUNNING & set(more["deptypes"])
            if not types or "mpi" in more.get("virtuals", []):
                continue
            if edge["hash"] not in found:
                todo.append(edge["hash"])
            found.setdefault(edge["hash"], set()).update(types)
    return found
