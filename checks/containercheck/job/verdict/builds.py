"""Record the programs that ran: each side's build, MPI libraries, runtimes, images.

A difference between programs is reported; it is not overhead.

Standard library only, Python 3.6 or newer.
"""

import json
import re
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Sequence

from containercheck.job import contract, processes, texts
from containercheck.job.verdict.findings import roomiest, starts

#: Facts that a program prints about its build, by their names. If the image has the tree that bare runs, ``executable``
#: is the digest of the ranks' program, and :data:`LIBRARIES` has those of the libraries that they loaded from the tree.
Build = Mapping[str, Any]
#: Key of the digests of libraries, as they are installed, by name; empty for libraries from elsewhere.
LIBRARIES = "libraries"
#: Key of the digests of the operating system's libraries that compute, by name.
SYSTEM = "system"
#: Beginning of the line about two sides with the same executable and libraries.
SAME = "same build"
#: Beginning of the line about other sides, and most libraries that it names.
OTHER, MOST_NAMED = "not the same build", 3


def read(identity: Sequence[Any], runs: Iterable[Mapping[str, Any]], stagedir: Path) -> Dict[str, Build]:
    """Return the build that the first successful run of each side printed; leave out sides that print none.

    :param identity: facts that programs print about their build.
    :param runs: of the record.
    """
    builds: Dict[str, Build] = {}
    packed_tree = tree(stagedir)
    for run in runs:
        if run["side"] not in builds and run["status"] == 0:
            builds[run["side"]] = _printed_in(identity, stagedir / run["output"])
            digest = run.get("executable", "")
            if packed_tree and digest:
                # Packing replaced the paths in the files.
                installed, packed = packed_tree["executable"]
                by_packed = packed_tree.get(LIBRARIES, {})
                in_tree = {**{each: each for each in by_packed.values()}, **by_packed}
                loaded = run.get(LIBRARIES, {})
                others = {name: each for name, each in loaded.items() if each and each not in in_tree}
                own = {
                    "executable": installed if digest == packed else digest,
                    LIBRARIES: {name: in_tree.get(each, "") for name, each in loaded.items()},
                    SYSTEM: {name: each for name, each in others.items() if re.match(processes.COMPUTING, name)},
                }
                builds[run["side"]] = {**builds[run["side"]], **own}
    return {side: build for side, build in builds.items() if build}


def known(identity: Sequence[Any], runs: Iterable[Mapping[str, Any]], stagedir: Path) -> Dict[str, str]:
    """Return the known builds of each side's program and of the bare software, and the runtimes, each as a line."""
    runs = list(runs)
    builds: Dict[str, Any] = {**read(identity, runs, stagedir), **_software(stagedir)}
    return joined({**builds, **runtimes(_runtimes({run["side"] for run in runs}, stagedir))})


def runtimes(by_side: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the runtimes of sides, as provenance has them, by a name for :func:`joined`."""
    return {f"the runtime of {side}": runtime for side, runtime in by_side.items()}


def joined(builds: Mapping[str, Mapping[str, Any]]) -> Dict[str, str]:
    """Return each build as a line."""
    return {name: ", ".join(map(str, _without_libraries(build).values())) for name, build in builds.items()}


def _without_libraries(build: Build) -> Dict[str, Any]:
    """Return the facts of a build without the libraries: those that are seen depend on the moment of the look."""
    return {name: value for name, value in build.items() if name not in (LIBRARIES, SYSTEM)}


def difference(baseline: Build, subject: Build) -> str:
    """Return a line about two builds, the baseline's first; empty if they print the same, or nothing.

    Only libraries that both sides have loaded count.
    """
    common = [name for name in _without_libraries(baseline) if name in subject]
    if any(baseline[name] != subject[name] for name in common):
        first, second = (" ".join(build[name][:40] for name in common if build[name]) for build in (baseline, subject))
        return f"{OTHER}: {first} against {second}"
    if "executable" not in common:
        return ""
    host, inside = (build.get(LIBRARIES, {}) for build in (baseline, subject))
    shared = sorted(name for name in host if name in inside and (host[name] or inside[name]))
    others = [name for name in shared if host[name] != inside[name]]
    if others:
        return f"{OTHER}: the same executable with another {_named(others)}"
    counted = f" and {len(shared)} librar{'y' if len(shared) == 1 else 'ies'}" if shared else ""
    other = _other_system(baseline.get(SYSTEM, {}), subject.get(SYSTEM, {}))
    system = f", with another {_named(other)} of the operating system" if other else ""
    return f"{SAME}, executable {baseline['executable'][:12]}{counted}{system}"


def _named(libraries: Sequence[str]) -> str:
    """Return the names of the first libraries, and the number of the others."""
    more = f" and {len(libraries) - MOST_NAMED} more" if len(libraries) > MOST_NAMED else ""
    return ", ".join(libraries[:MOST_NAMED]) + more


def _other_system(host: Mapping[str, str], inside: Mapping[str, str]) -> List[str]:
    """Return the subject's libraries that are not the baseline's.

    A library that only one side has counts if the other side has such a library too: a look may come too early.
    """
    common = sorted(name for name in inside if name in host and inside[name] != host[name])
    only_inside, only_host = sorted(inside.keys() - host.keys()), host.keys() - inside.keys()
    return common + (only_inside if only_host else [])


def tree(stagedir: Path) -> Dict[str, Any]:
    """Return the facts of the image's tree (job/build/packing.py); empty if the image has other software."""
    try:
        facts = json.loads((stagedir / contract.IMAGE_RECORD).read_text())["tree"]
        return dict(facts) if len(facts["executable"]) == 2 else {}
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def _printed_in(identity: Iterable[Any], output: Path) -> Build:
    build = {}
    for fact in identity:
        try:
            match = re.search(fact.pattern, texts.read(output / fact.file), re.MULTILINE)
        except OSError:
            continue
        if match:
            build[fact.name] = texts.printable(match[1])
    return build


def provenance(record: Mapping[str, Any], builds: Mapping[str, Build], stagedir: Path) -> Dict[str, Any]:
    """Return the host, MPI libraries, runtimes and images of a job, from the records of job and build.

    :param builds: printed by each side.
    """
    runs: List[Dict[str, Any]] = record["runs"]
    sides = list(dict.fromkeys(run["side"] for run in runs))
    seen = {side: roomiest(run for run in runs if run["side"] == side) for side in sides}
    # Paths as the side's processes see them.
    libraries = {side: sorted({path for run in runs if run["side"] == side for path in run["mpi"]}) for side in sides}
    facts: Dict[str, Any] = {
        "host": record["host"],
        "machine": record["machine"],
        "kept_awake": record["kept_awake"],
        "builds": {side: _without_libraries(build) for side, build in builds.items()},
        "mpi": {side: paths for side, paths in libraries.items() if paths},
        "bound": {side: run["bound"] for side, run in seen.items() if run},
        "runtimes": _runtimes(sides, stagedir),
        "started": {side: start["started"] for side, start in starts(runs, stagedir).items()},
        **_software(stagedir),
    }
    if record["halves"]:
        facts["halves"] = record["halves"]
    if (stagedir / contract.IMAGE_RECORD).exists():
        # Only images with the tree of bare have a release; a site's own image has none.
        facts.update(_image(stagedir / contract.IMAGE_RECORD, ("release", "id", "source", "tree")))
        facts.get("image_tree", {}).pop(LIBRARIES, None)
    # Sides may have their own images.
    images = sorted(stagedir.glob(contract.image_file("*").replace(".sif", ".json")))
    if images:
        facts["images"] = {path.name.split(".")[0]: _image(path, ("source", "arguments")) for path in images}
    return facts


def _runtimes(sides: Iterable[str], stagedir: Path) -> Dict[str, Dict[str, str]]:
    paths = {side: stagedir / contract.runtime_file(side) for side in sides}
    records = {side: json.loads(path.read_text()) for side, path in paths.items() if path.exists()}
    return {side: {name: record[name] for name in ("command", "version")} for side, record in records.items()}


def _software(stagedir: Path) -> Dict[str, Any]:
    """Return the record of the bare software, by the provider that installed it."""
    paths = {"spack": stagedir / contract.SPACK_RECORD, "easybuild": stagedir / contract.EASYBUILD_RECORD}
    return {provider: json.loads(path.read_text()) for provider, path in paths.items() if path.exists()}


def _image(path: Path, names: Iterable[str]) -> Dict[str, Any]:
    """Return the provenance of an image.

    :param path: of its record.
    :param names: of further entries, as far as the record has them.
    """
    image = json.loads(path.read_text())
    # A site's own directory has no size.
    named = [name for name in ("bytes", *names) if image.get(name)]
    return {
        "image": image["path"],
        "image_sha256": image["sha256"],
        **{f"image_{name}": image[name] for name in named},
    }
