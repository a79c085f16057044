"""Check what the runs of a job prove besides their figures: whose MPI they loaded, their cores, what they left.

Standard library only, Python 3.6 or newer.
"""

import json
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from containercheck.node import contract
from containercheck.node.formatting import size
from containercheck.node.verdict import binding, container_differences

#: Runs of the record.
Runs = Sequence[Dict[str, Any]]


class Findings:
    """What the runs of a job prove.

    :param record: of the job (node/job/runner.py).
    :param sides: of the facts, without those that were lost.
    :param stagedir: of the job.
    """

    def __init__(self, record: Mapping[str, Any], sides: Sequence[Any], stagedir: Path) -> None:
        """Nothing is looked at yet."""
        self._record, self._sides, self._stagedir = record, sides, stagedir
        self._runs: Runs = record["runs"]

    def start_problems(self) -> List[str]:
        """Return why the ranks of a side were started wrongly: with another MPI, or bound to too few cores."""
        return self._mpi_problems() or self.binding_problems()

    def _mpi_problems(self) -> List[str]:
        """Return why the runs do not prove that each side loaded the right MPI; empty where they do."""
        bare = [side.name for side in self._sides if side.mpi and not side.contained]
        contained = [side for side in self._sides if side.mpi and side.contained]
        # A job that ended before the bare program ran proves nothing: its end is reported instead.
        if not bare or not contained or not any(run["side"] == bare[0] for run in self._runs):
            return []
        plans = {side.name: self._stagedir / contract.mpi_plan_file(side.name) for side in contained}
        wants_host = {
            side.name: json.loads(plans[side.name].read_text())["path"] if side.host_mpi else None for side in contained
        }
        problem = mpi_problem(self._record, bare[0], wants_host, {side.name: side.trees for side in contained})
        return [problem] if problem else []

    def binding_problems(self) -> List[str]:
        """Return why the ranks of a side have wrong cores, or fewer than those of the side it is compared with."""
        strays = [problem for problem in map(binding.stray, self._runs) if problem]
        if strays:
            return strays[:1]
        best = self._roomiest()
        by_intent = {side.name for side in self._sides if side.shares_cores}
        pairs = [
            (best[side.name], best.get(side.compared_with))
            for side in self._sides
            if not by_intent & {side.name, side.compared_with}
        ]
        problems = [binding.problem(own, other) for own, other in pairs if own and other]
        return [problem for problem in problems if problem]

    def remarks(self) -> List[str]:
        """Return lines about what is no fault: unusual starts of ranks, unknown cores, an image named by a tag."""
        lines = [*self._unusual_starts(), *self._unseen_bindings(), *self._left_files()]
        path = self._stagedir / contract.IMAGE_RECORD
        image = json.loads(path.read_text()) if path.exists() else {}
        if "id" in image and not image["sha256"]:
            lines.append(f"the image {image['path']} is named by a tag, which may move: what ran is {image['id']}")
        return lines

    def disturbances(self) -> List[str]:
        """Return lines about rounds that other processes on the machine disturbed; empty where there are none."""
        rounds, replaced, busy = (
            len({run["round"] for run in self._runs}),
            self._record["replaced"],
            self._record["busy"],
        )
        lines = []
        if replaced:
            who = contract.names(replaced.values())
            lines.append(f"{len(replaced)} of {rounds} rounds disturbed by {who} and replaced")
        if busy:
            lines.append(f"the machine is busy: {busy}. Rounds were counted all the same: they spread more")
        return lines

    def changes(self) -> Tuple[List[str], List[str]]:
        """Return the differences between what a container sees and what the one that it replaces sees.

        First faults: other environment variables, as the same image should see the same ones. Then remarks: mounts,
        limits, the runtimes' configuration, and variables where the images differ.
        """
        faults: List[str] = []
        remarks: List[str] = []
        images: Dict[Any, str] = {side.name: side.image for side in self._sides if side.contained}
        for side in self._sides:
            if not side.replaces:
                continue
            pair = [self._surroundings(name) for name in (side.compared_with, side.name)]
            for kind in pair[0]:
                lines = container_differences.differences(kind, pair[0][kind], pair[1][kind])
                same = images[side.compared_with] == images[side.name]
                target = faults if kind == "variable" and same else remarks
                target += [f"{side.name}: {line}" for line in lines]
        return faults, remarks

    def _surroundings(self, side: str) -> Dict[str, Dict[str, str]]:
        runtime = json.loads((self._stagedir / contract.runtime_file(side)).read_text())
        text = (self._stagedir / contract.surroundings_file(side)).read_text(errors="replace")
        seen = container_differences.read(
            container_differences.without_side(text, side, str(self._stagedir.absolute()))
        )
        return {**seen, "directive": runtime["configuration"]}

    def _left_files(self) -> List[str]:
        """Return a line for each side whose runs left files in shared memory, and whose runs all left some in /tmp.

        In /tmp others of the same user write too: what a single run seems to have left proves nothing.
        """
        lines = []
        for side in self._sides:
            left = [run["left_files"] for run in self._runs if run["side"] == side.name and run.get("left_files")]
            if left:
                most = max(left, key=lambda files: files["bytes"])
                lines.append(
                    f"{side.label}: {len(left)} of its runs left files in /dev/shm, up to {most['count']} of "
                    f"{size(most['bytes'])} ({', '.join(most['names'][:3])}): they take the node's memory, and a later "
                    "run that meets them may fail"
                )
            runs: List[Any] = [run.get("left_temporary") for run in self._runs if run["side"] == side.name]
            if len(runs) > 1 and all(runs):
                most = max(runs, key=lambda files: files["count"])
                lines.append(
                    f"{side.label}: each of its runs left something in /tmp, up to {most['count']} files and "
                    f"directories ({', '.join(most['names'][:3])}): they fill the node's disk"
                )
        return lines

    def _unusual_starts(self) -> List[str]:
        """Return lines about sides whose ranks are not started like all others, with the reason."""
        lines = []
        for side, start in self.starts().items():
            if start["because"]:
                whose = "" if side == contract.SUBJECT else f"{side}: "
                lines.append(f"{whose}ranks are started {start['started']}, because {start['because']}")
        return lines

    def starts(self) -> Dict[str, Dict[str, str]]:
        """Return how the ranks of each side were started, where the job recorded it (see node/job/start_ranks.py)."""
        paths = {run["side"]: self._stagedir / contract.started_file(run["side"]) for run in self._runs}
        return {side: json.loads(path.read_text()) for side, path in paths.items() if path.exists()}

    def _unseen_bindings(self) -> List[str]:
        """Return lines about sides whose ranks' cores could not be compared, as too few of them were seen."""
        best, by_name = self._roomiest(), {side.name: side for side in self._sides}
        pairs = [
            (side, by_name[side.compared_with])
            for side in self._sides
            # A program that only loads the library has no ranks.
            if side.mpi and not side.preloads_mpi
            # Of a program with its MPI in itself no process is known by a library.
            if side.compared_with in by_name and by_name[side.compared_with].mpi and not side.shares_cores
        ]
        lines = [binding.unseen(own.label, best[own.name], other.label, best[other.name]) for own, other in pairs]
        return [line for line in lines if line]

    def _roomiest(self) -> Dict[str, Optional[Dict[str, Any]]]:
        names = [side.name for side in self._sides]
        return {name: binding.roomiest(run for run in self._runs if run["side"] == name) for name in names}


def mpi_problem(
    record: Mapping[str, Any],
    bare: str,
    wants_host: Mapping[str, Optional[str]],
    trees: Mapping[str, Iterable[str]],
) -> Optional[str]:
    """Return why the runs do not prove that each side loaded the right MPI; None where they do.

    :param bare: name of a side that runs on the host, with the host's MPI.
    :param wants_host: for each side in a container: the path of the host's MPI library that it must load, or None where
        it must bring its own.
    :param trees: for each side in a container: directories whose libraries count as its own.
    """
    host_files = {
        (library["device"], library["inode"])
        for run in record["runs"]
        if run["side"] == bare
        for library in run["mpi"].values()
    }
    if not host_files:
        return f"{bare}: no process with an MPI library was seen on {record['host']}"
    for run in record["runs"]:
        if run["side"] not in wants_host:
            continue
        where, wanted = f"round {run['round']}, {run['side']}", wants_host[run["side"]]
        if not run["mpi"]:
            return f"{where}: no process with an MPI library was seen on {record['host']}"
        for path, library in run["mpi"].items():
            from_host = (library["device"], library["inode"]) in host_files
            if wanted is not None and not from_host:
                return f"{where}: loaded {path} of the image, not the host's {wanted}"
            in_tree = any(Path(tree) in Path(path).parents for tree in trees.get(run["side"], ()))
            if wanted is None and from_host and not in_tree:
                return f"{where}: loaded the host's {path}, though the generic variant must bring its own"
    return None


def provenance(record: Mapping[str, Any], builds: Mapping[str, Dict[str, str]], stagedir: Path) -> Dict[str, Any]:
    """Return what ran where, from the records of job and build: host, MPI libraries, runtimes, image.

    :param builds: what each side printed about its own build.
    """
    runs = record["runs"]
    sides = list(dict.fromkeys(run["side"] for run in runs))
    facts: Dict[str, Any] = {
        "host": record["host"],
        "machine": record["machine"],
        "kept_awake": record["kept_awake"],
        "builds": dict(builds),
        "mpi": {},
        "bound": {},
        "runtimes": {},
        "started": {side: start["started"] for side, start in Findings(record, (), stagedir).starts().items()},
    }
    facts.update({"halves": record["halves"]} if record["halves"] else {})
    for side in sides:
        # The libraries' paths as the side's processes see them.
        paths = {path for run in runs if run["side"] == side for path in run["mpi"]}
        if paths:
            facts["mpi"][side] = sorted(paths)
        best = binding.roomiest(run for run in runs if run["side"] == side)
        if best:
            facts["bound"][side] = best["bound"]
        if (stagedir / contract.runtime_file(side)).exists():
            runtime = json.loads((stagedir / contract.runtime_file(side)).read_text())
            facts["runtimes"][side] = {name: runtime[name] for name in ("command", "version")}
    if (stagedir / contract.IMAGE_RECORD).exists():
        image = json.loads((stagedir / contract.IMAGE_RECORD).read_text())
        facts.update({"image": image["path"], "image_sha256": image["sha256"]})
        facts.update(_sizes(image))
        # The record of a site's own image has no release; only images with an environment of Spack have that.
        facts.update({f"image_{name}": image[name] for name in ("release", "id", "source", "spack") if name in image})
    for provider, name in (("spack", contract.SPACK_RECORD), ("easybuild", contract.EASYBUILD_RECORD)):
        if (stagedir / name).exists():
            facts[provider] = json.loads((stagedir / name).read_text())
    if "spack" in facts and "image_spack" in facts:
        for side in sides:
            target = facts["spack" if side == contract.BASELINE else "image_spack"]["target"]
            facts["builds"].setdefault(side, {})["target"] = target
    # Images of sides that have their own.
    for path in sorted(stagedir.glob(contract.image_file("*").replace(".sif", ".json"))):
        image = json.loads(path.read_text())
        own_image = {"image": image["path"], "image_sha256": image["sha256"]}
        own_image.update(_sizes(image))
        own_image.update({f"image_{name}": image[name] for name in ("source", "arguments") if name in image})
        facts.setdefault("images", {})[path.name.split(".")[0]] = own_image
    return facts


def _sizes(image: Mapping[str, Any]) -> Dict[str, int]:
    """Return the bytes of an image and those of its files, for a provenance; neither where it is not known.

    :param image: its record.
    """
    # That of a site's own directory has no size, and what an older library made has none of its files.
    sizes = {"image_bytes": image.get("bytes"), "image_content_bytes": image.get(contract.CONTENT_BYTES)}
    return {name: count for name, count in sizes.items() if count}
