"""Facts read from the content of a lock file of Spack. Standard library only, Python 3.6 or newer."""

from typing import Any, Dict, List, Set

#: Types of dependencies that a program needs at run time.
_RUN_TIME = {"link", "run"}


def roots(locked: Dict[str, Any]) -> Dict[str, Dict[str, Any]]:
    """Return the packages that the environment names, by their hashes."""
    return {root["hash"]: locked["concrete_specs"][root["hash"]] for root in locked["roots"]}


def targets(locked: Dict[str, Any]) -> Dict[str, str]:
    """Return the processors, in archspec's names, that the packages of :func:`roots` are compiled for, by package."""
    processors = {package["name"]: package["arch"]["target"] for package in roots(locked).values()}
    # Generic processors are names, those of a vendor dictionaries.
    return {name: target if isinstance(target, str) else target["name"] for name, target in processors.items()}


def needed(locked: Dict[str, Any]) -> List[str]:
    """Return the hashes of the packages that an environment needs at run time, without external packages and MPI."""
    packages = locked["concrete_specs"]
    return sorted(digest for digest in _needed_at_run_time(locked) if "external" not in packages[digest])


def outside(locked: Dict[str, Any]) -> Dict[str, str]:
    """Return the directories of the external libraries that an environment needs at run time, by package.

    MPI and the libraries of the operating system are not among them.
    """
    needs = _needed_at_run_time(locked).items()
    libraries = (locked["concrete_specs"][digest] for digest, types in needs if "link" in types)
    directories = {library["name"]: library["external"]["path"] for library in libraries if "external" in library}
    return {name: path for name, path in sorted(directories.items()) if path.rstrip("/") not in ("", "/usr")}


def _needed_at_run_time(locked: Dict[str, Any]) -> Dict[str, Set[str]]:
    """Return the hashes of the packages that an environment needs at run time, each with the types of its dependence.

    The dependencies of external packages are left out.
    """
    needs: Dict[str, Set[str]] = {digest: set() for digest in roots(locked)}
    todo = list(needs)
    while todo:
        package = locked["concrete_specs"][todo.pop()]
        if "external" in package:
            continue
        for edge in package.get("dependencies", []):
            # Before Spack 0.21 an edge has its types only.
            parameters = edge.get("parameters", {"deptypes": edge.get("type", [])})
            types = _RUN_TIME & set(parameters["deptypes"])
            if not types or "mpi" in parameters.get("virtuals", []):
                continue
            if edge["hash"] not in needs:
                todo.append(edge["hash"])
            needs.setdefault(edge["hash"], set()).update(types)
    return needs
