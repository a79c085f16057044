"""Read the runner's record of a job, ``rounds.json``, and check what it proves."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from containercheck.application.facts import Identity
from containercheck.node import contract
from containercheck.node.outputs.evaluation import Evaluation, Facts
from containercheck.node.outputs.reading import UnreadableError
from containercheck.results.formatting import size
from containercheck.sides.sides import Side
from containercheck.verdict import binding, container_differences, identities


@dataclass(frozen=True)
class Record:
    """The runner's record of a job.

    :ivar runs: for each run: round, side, seconds, limit, status, timed_out, leftover_processes, mpi, bound, output.
    :ivar complete: whether the runner came to its end.
    :ivar ended: the signal that ended it early, such as ``SIGTERM``; None where there was none.
    :ivar host: the node that the runner ran on.
    :ivar replaced: who disturbed each round that was replaced, by its number.
    :ivar busy: who disturbed rounds that were counted all the same; empty where none was disturbed.
    :ivar machine: description of the job's first node (node/job/node_state.py).
    :ivar kept_awake: whether the processors of a virtual machine were kept awake.
    :ivar why: reason for which there were no more rounds; empty while it is not known.
    :ivar took: seconds of the job, including what came before the rounds.
    :ivar halves: processors of each half of the node where both sides ran at the same time; else empty.
    """

    runs: list[dict[str, Any]]
    complete: bool
    ended: str | None
    host: str
    replaced: dict[int, str]
    busy: str
    machine: dict[str, str]
    kept_awake: bool
    why: str
    took: float
    halves: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, stagedir: Path) -> Record:
        """Return the record of the job in this stage directory.

        :raises UnreadableError: there is none, or it cannot be read.
        """
        try:
            stored = json.loads((stagedir / contract.RECORD).read_text())
            replaced = {int(number): who for number, who in stored["replaced"].items()}
            names = ("runs", "complete", "ended", "host", "machine", "busy", "kept_awake", "why", "took")
            halves = stored.get("halves", [])
            return cls(replaced=replaced, halves=halves, **{name: stored[name] for name in names})
        except (OSError, ValueError, KeyError):
            raise UnreadableError("no rounds were run") from None

    def evaluate(self, facts: dict[str, Any], stagedir: Path) -> Evaluation:
        """Return the rounds, read again from the output of all runs.

        :param facts: the runner's input, ``facts.json``.
        """
        evaluation = Evaluation(Facts(facts), stagedir)
        for number, runs in itertools.groupby(self.runs, lambda run: run["round"]):
            for run in runs:
                evaluation.add(run)
            evaluation.end_round(number in self.replaced)
        return evaluation

    @property
    def disturbances(self) -> list[str]:
        """Lines about rounds that other processes on the machine disturbed; empty where there are none."""
        rounds = len({run["round"] for run in self.runs})
        lines = []
        if self.replaced:
            who = contract.names(self.replaced.values())
            lines.append(f"{len(self.replaced)} of {rounds} rounds disturbed by {who} and replaced")
        if self.busy:
            lines.append(f"the machine is busy: {self.busy}. Rounds were counted all the same: they spread more")
        return lines

    def provenance(self, stagedir: Path, identity: Sequence[Identity] = ()) -> dict[str, Any]:
        """Return what ran where, from the records of job and build: host, MPI libraries, runtimes, image.

        :param identity: what the program prints about its own build; ``builds`` has it, by side.
        """
        provenance: dict[str, Any] = {
            "host": self.host,
            "machine": self.machine,
            "kept_awake": self.kept_awake,
            "builds": identities.read(identity, self.runs, stagedir),
            "mpi": {},
            "bound": {},
            "runtimes": {},
            "started": {side: start["started"] for side, start in self._starts(stagedir).items()},
        }
        provenance.update({"halves": self.halves} if self.halves else {})
        for side in dict.fromkeys(run["side"] for run in self.runs):
            # The libraries' paths as the side's processes see them.
            paths = {path for run in self.runs if run["side"] == side for path in run["mpi"]}
            if paths:
                provenance["mpi"][side] = sorted(paths)
            best = binding.roomiest(run for run in self.runs if run["side"] == side)
            if best:
                provenance["bound"][side] = best["bound"]
            if (stagedir / contract.runtime_file(side)).exists():
                runtime = json.loads((stagedir / contract.runtime_file(side)).read_text())
                provenance["runtimes"][side] = {name: runtime[name] for name in ("command", "version")}
        if (stagedir / contract.IMAGE_RECORD).exists():
            image = json.loads((stagedir / contract.IMAGE_RECORD).read_text())
            provenance.update({"image": image["path"], "image_sha256": image["sha256"]})
            provenance.update(_sizes(image))
            # The record of a site's own image has no release.
            provenance.update({"image_release": image["release"]} if "release" in image else {})
            provenance.update({"image_id": image["id"]} if "id" in image else {})
            provenance.update({"image_source": image["source"]} if "source" in image else {})
            # Only images with an environment of Spack have this.
            provenance.update({"image_spack": image["spack"]} if "spack" in image else {})
        for provider, name in (("spack", contract.SPACK_RECORD), ("easybuild", contract.EASYBUILD_RECORD)):
            if (stagedir / name).exists():
                provenance[provider] = json.loads((stagedir / name).read_text())
        if "spack" in provenance and "image_spack" in provenance:
            for side in dict.fromkeys(run["side"] for run in self.runs):
                target = provenance["spack" if side == contract.BASELINE else "image_spack"]["target"]
                provenance["builds"].setdefault(side, {})["target"] = target
        # Images of sides that have their own.
        for path in sorted(stagedir.glob(contract.image_file("*").replace(".sif", ".json"))):
            image = json.loads(path.read_text())
            own_image = {"image": image["path"], "image_sha256": image["sha256"]}
            own_image.update(_sizes(image))
            own_image.update({"image_source": image["source"]} if "source" in image else {})
            own_image.update({"image_arguments": image["arguments"]} if "arguments" in image else {})
            provenance.setdefault("images", {})[path.name.split(".")[0]] = own_image
        return provenance

    def remarks(self, sides: Sequence[Side], stagedir: Path) -> list[str]:
        """Return lines about what is no fault: unusual starts of ranks, unknown cores, an image named by a tag."""
        lines = [*self.unusual_starts(stagedir), *self.unseen_bindings(sides), *self.left_files(sides)]
        path = stagedir / contract.IMAGE_RECORD
        image = json.loads(path.read_text()) if path.exists() else {}
        if "id" in image and not image["sha256"]:
            lines.append(f"the image {image['path']} is named by a tag, which may move: what ran is {image['id']}")
        return lines

    def left_files(self, sides: Sequence[Side]) -> list[str]:
        """Return a line for each side whose runs left files in shared memory, and whose runs all left some in /tmp.

        In /tmp others of the same user write too: what a single run seems to have left proves nothing.
        """
        lines = []
        for side in sides:
            left = [run["left_files"] for run in self.runs if run["side"] == side.name and run.get("left_files")]
            if left:
                most = max(left, key=lambda files: files["bytes"])
                lines.append(
                    f"{side.label}: {len(left)} of its runs left files in /dev/shm, up to {most['count']} of "
                    f"{size(most['bytes'])} ({', '.join(most['names'][:3])}): they take the node's memory, and a later "
                    "run that meets them may fail"
                )
            runs = [run.get("left_temporary") for run in self.runs if run["side"] == side.name]
            if len(runs) > 1 and all(runs):
                most = max(runs, key=lambda files: files["count"])
                lines.append(
                    f"{side.label}: each of its runs left something in /tmp, up to {most['count']} files and "
                    f"directories ({', '.join(most['names'][:3])}): they fill the node's disk"
                )
        return lines

    def changes(self, sides: Sequence[Side], stagedir: Path) -> tuple[list[str], list[str]]:
        """Return the differences between what a container sees and what the one that it replaces sees.

        First faults: other environment variables, as the same image should see the same ones. Then remarks: mounts,
        limits, the runtimes' configuration, and variables where the images differ.
        """
        faults: list[str] = []
        remarks: list[str] = []
        images = {side.name: side.container.image for side in sides if side.container}
        for side in sides:
            if not side.replaces:
                continue
            pair = [self._surroundings(name, stagedir) for name in (side.compared_with, side.name)]
            for kind in pair[0]:
                lines = container_differences.differences(kind, pair[0][kind], pair[1][kind])
                same = images[side.compared_with] == images[side.name]
                target = faults if kind == "variable" and same else remarks
                target += [f"{side.name}: {line}" for line in lines]
        return faults, remarks

    @staticmethod
    def _surroundings(side: str, stagedir: Path) -> dict[str, dict[str, str]]:
        runtime = json.loads((stagedir / contract.runtime_file(side)).read_text())
        text = (stagedir / contract.surroundings_file(side)).read_text(errors="replace")
        seen = container_differences.read(container_differences.without_side(text, side, str(stagedir)))
        return {**seen, "directive": runtime["configuration"]}

    def unusual_starts(self, stagedir: Path) -> list[str]:
        """Return lines about sides whose ranks are not started like all others, with the reason."""
        lines = []
        for side, start in self._starts(stagedir).items():
            if start["because"]:
                whose = "" if side == contract.SUBJECT else f"{side}: "
                lines.append(f"{whose}ranks are started {start['started']}, because {start['because']}")
        return lines

    def _starts(self, stagedir: Path) -> dict[str, dict[str, str]]:
        """Return how the ranks of each side were started, where the job recorded it (see node/job/rank_trial.py)."""
        paths = {run["side"]: stagedir / contract.started_file(run["side"]) for run in self.runs}
        return {side: json.loads(path.read_text()) for side, path in paths.items() if path.exists()}

    def early_end(self, evaluation: Evaluation, met_limit: bool) -> list[str]:
        """Return a line that says that the job was ended before its last round, and is judged by its complete rounds.

        Empty where the job came to its end, something else than its time limit ended it, or no round is complete.

        :param met_limit: whether the time limit may have ended it.
        """
        rounds = len(evaluation.rounds)
        if self.complete or not rounds or not (met_limit and self.ended):
            return []
        return [f"the job was ended ({self.ended}) before its last round: judged by the {rounds} that are complete"]

    def start_problems(self, sides: Sequence[Side], stagedir: Path) -> list[str]:
        """Return why the ranks of a side were started wrongly: with another MPI, or bound to too few cores."""
        return self.mpi_problems(sides, stagedir) or self.binding_problems(sides)

    def mpi_problems(self, sides: Sequence[Side], stagedir: Path) -> list[str]:
        """Return why the runs do not prove that each side loaded the right MPI; empty where they do."""
        bare = [side.name for side in sides if side.program.mpi and not side.container]
        contained = [side for side in sides if side.program.mpi and side.container]
        # A job that ended before the bare program ran proves nothing: its end is reported instead.
        if not bare or not contained or not any(run["side"] == bare[0] for run in self.runs):
            return []
        plans = {side.name: stagedir / contract.mpi_plan_file(side.name) for side in contained}
        wants_host = {
            side.name: json.loads(plans[side.name].read_text())["path"] if side.container.host_mpi else None
            for side in contained
        }
        trees = {side.name: side.container.software_trees for side in contained}
        problem = self.mpi_problem(bare[0], wants_host, trees)
        return [problem] if problem else []

    def binding_problems(self, sides: Sequence[Side]) -> list[str]:
        """Return why the ranks of a side have wrong cores, or fewer than those of the side it is compared with."""
        strays = [problem for run in self.runs if (problem := binding.stray(run))]
        if strays:
            return strays[:1]
        best = self._roomiest(sides)
        by_intent = {side.name for side in sides if side.shares_cores}
        pairs = [
            (best[side.name], best.get(side.compared_with))
            for side in sides
            if not by_intent & {side.name, side.compared_with}
        ]
        return [problem for own, other in pairs if own and other and (problem := binding.problem(own, other))]

    def unseen_bindings(self, sides: Sequence[Side]) -> list[str]:
        """Return lines about sides whose ranks' cores could not be compared, as too few of them were seen."""
        best, by_name = self._roomiest(sides), {side.name: side for side in sides}
        pairs = [
            (side, by_name[side.compared_with])
            for side in sides
            # A program that only loads the library has no ranks.
            if side.program.mpi and not side.program.preloads_mpi
            # Of a program with its MPI in itself no process is known by a library.
            if side.compared_with in by_name and by_name[side.compared_with].program.mpi and not side.shares_cores
        ]
        lines = [binding.unseen(own.label, best[own.name], other.label, best[other.name]) for own, other in pairs]
        return [line for line in lines if line]

    def _roomiest(self, sides: Sequence[Side]) -> dict[str, dict[str, Any] | None]:
        return {side.name: binding.roomiest(run for run in self.runs if run["side"] == side.name) for side in sides}

    def mpi_problem(
        self, bare: str, wants_host: Mapping[str, str | None], trees: Mapping[str, Iterable[str]] | None = None
    ) -> str | None:
        """Return why the runs do not prove that each side loaded the right MPI; None where they do.

        :param bare: name of a side that runs on the host, with the host's MPI.
        :param wants_host: for each side in a container: the path of the host's MPI library that it must load, or None
            where it must bring its own.
        :param trees: for each side in a container: directories whose libraries count as its own.
        """
        host_files = {
            (library["device"], library["inode"])
            for run in self.runs
            if run["side"] == bare
            for library in run["mpi"].values()
        }
        if not host_files:
            return f"{bare}: no process with an MPI library was seen on {self.host}"
        for run in self.runs:
            if run["side"] not in wants_host:
                continue
            where, wanted = f"round {run['round']}, {run['side']}", wants_host[run["side"]]
            if not run["mpi"]:
                return f"{where}: no process with an MPI library was seen on {self.host}"
            for path, library in run["mpi"].items():
                from_host = (library["device"], library["inode"]) in host_files
                if wanted is not None and not from_host:
                    return f"{where}: loaded {path} of the image, not the host's {wanted}"
                in_tree = any(Path(tree) in Path(path).parents for tree in (trees or {}).get(run["side"], ()))
                if wanted is None and from_host and not in_tree:
                    return f"{where}: loaded the host's {path}, though the generic variant must bring its own"
        return None


def _sizes(image: Mapping[str, Any]) -> dict[str, int]:
    """Return the bytes of an image and those of its files, for a provenance; neither where it is not known.

    :param image: its record.
    """
    # That of a site's own directory has no size, and what an older library made has none of its files.
    sizes = {"image_bytes": image.get("bytes"), "image_content_bytes": image.get(contract.CONTENT_BYTES)}
    return {name: count for name, count in sizes.items() if count}


def is_complete(stagedir: Path) -> bool:
    """Return whether the runner's record is there and says that it came to its end."""
    try:
        return Record.read(stagedir).complete
    except UnreadableError:
        return False
