"""The runner's record of a job, ``rounds.json``, and what it proves."""

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
from containercheck.sides.sides import Side
from containercheck.verdict import binding, container_differences, identities


@dataclass(frozen=True)
class Record:
    """What the runner wrote down.

    :ivar runs: of each run: round, side, seconds, limit, status, timed_out, leftover_processes, mpi, bound, output.
    :ivar complete: whether the runner came to its end.
    :ivar ended: the signal that ended it before, such as ``SIGTERM``; None where there was none.
    :ivar host: the node that the runner ran on.
    :ivar replaced: of each round that was replaced, by its number: who disturbed it.
    :ivar busy: who disturbed rounds that had to count all the same; empty for nobody.
    :ivar machine: what the job's first node is (node/job/node_state.py).
    :ivar kept_awake: whether the processors of a virtual machine were kept awake.
    :ivar why: why there were no more rounds; empty while that is not known.
    :ivar took: seconds of the job, with what came before the rounds.
    :ivar halves: processors of each half of the node where both sides ran at the same time; else none.
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

        :raises UnreadableError: the runner left none.
        """
        try:
            known = json.loads((stagedir / contract.RECORD).read_text())
            replaced = {int(number): who for number, who in known["replaced"].items()}
            names = ("runs", "complete", "ended", "host", "machine", "busy", "kept_awake", "why", "took")
            halves = known.get("halves", [])
            return cls(replaced=replaced, halves=halves, **{name: known[name] for name in names})
        except (OSError, ValueError, KeyError):
            raise UnreadableError("no rounds were run") from None

    def evaluate(self, facts: dict[str, Any], stagedir: Path) -> Evaluation:
        """Read all runs again.

        :param facts: what was given to the runner in ``facts.json``.
        """
        evaluation = Evaluation(Facts(facts), stagedir)
        for number, runs in itertools.groupby(self.runs, lambda run: run["round"]):
            for run in runs:
                evaluation.add(run)
            evaluation.end_round(number in self.replaced)
        return evaluation

    @property
    def disturbances(self) -> list[str]:
        """Lines about rounds that something else on the machine disturbed, if there were any."""
        rounds = len({run["round"] for run in self.runs})
        lines = []
        if self.replaced:
            who = contract.names(self.replaced.values())
            lines.append(f"{len(self.replaced)} of {rounds} rounds disturbed by {who} and replaced")
        if self.busy:
            lines.append(f"the machine is busy: {self.busy}. Rounds were counted all the same: they spread more")
        return lines

    def provenance(self, stagedir: Path, identity: Sequence[Identity] = ()) -> dict[str, Any]:
        """Return what ran, and where, as the job and the build wrote it down: host, MPI libraries, runtimes, image.

        :param identity: what the program says of its own build; ``builds`` has it, by side.
        """
        found: dict[str, Any] = {
            "host": self.host,
            "machine": self.machine,
            "kept_awake": self.kept_awake,
            "builds": identities.read(identity, self.runs, stagedir),
            "mpi": {},
            "bound": {},
            "runtimes": {},
            "started": {side: known["started"] for side, known in self._starts(stagedir).items()},
        }
        found.update({"halves": self.halves} if self.halves else {})
        for side in dict.fromkeys(run["side"] for run in self.runs):
            # As the side's processes saw them.
            paths = {path for run in self.runs if run["side"] == side for path in run["mpi"]}
            if paths:
                found["mpi"][side] = sorted(paths)
            best = binding.roomiest(run for run in self.runs if run["side"] == side)
            if best:
                found["bound"][side] = best["bound"]
            if (stagedir / contract.runtime_file(side)).exists():
                known = json.loads((stagedir / contract.runtime_file(side)).read_text())
                found["runtimes"][side] = {name: known[name] for name in ("command", "version")}
        if (stagedir / contract.IMAGE_RECORD).exists():
            image = json.loads((stagedir / contract.IMAGE_RECORD).read_text())
            found.update({"image": image["path"], "image_sha256": image["sha256"]})
            # A site's own image does not tell.
            found.update({"image_release": image["release"]} if "release" in image else {})
            found.update({"image_id": image["id"]} if "id" in image else {})
            # Of one that an environment of Spack was installed in.
            found.update({"image_spack": image["spack"]} if "spack" in image else {})
        for provider, name in (("spack", contract.SPACK_RECORD), ("easybuild", contract.EASYBUILD_RECORD)):
            if (stagedir / name).exists():
                found[provider] = json.loads((stagedir / name).read_text())
        if "spack" in found and "image_spack" in found:
            for side in dict.fromkeys(run["side"] for run in self.runs):
                target = found["spack" if side == contract.BASELINE else "image_spack"]["target"]
                found["builds"].setdefault(side, {})["target"] = target
        # Of sides that have their own.
        for path in sorted(stagedir.glob(contract.image_file("*").replace(".sif", ".json"))):
            image = json.loads(path.read_text())
            known = {"image": image["path"], "image_sha256": image["sha256"]}
            known.update({"image_arguments": image["arguments"]} if "arguments" in image else {})
            found.setdefault("images", {})[path.name.split(".")[0]] = known
        return found

    def remarks(self, sides: Sequence[Side], stagedir: Path) -> list[str]:
        """Lines about what is no fault: unusual starts of ranks, cores that are not known, an image by its tag."""
        lines = [*self.unusual_starts(stagedir), *self.unseen_bindings(sides)]
        path = stagedir / contract.IMAGE_RECORD
        image = json.loads(path.read_text()) if path.exists() else {}
        if "id" in image and not image["sha256"]:
            lines.append(f"the image {image['path']} is named by a tag, which may move: what ran is {image['id']}")
        return lines

    def changes(self, sides: Sequence[Side], stagedir: Path) -> tuple[list[str], list[str]]:
        """Return what a container sees otherwise than the one whose successor it is.

        First lines that are faults: programs that find other variables are other programs, unless their images are
        others too. Then what is said of it: mounts, limits, and the runtimes' configuration.
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
                kept = faults if kind == "variable" and same else remarks
                kept += [f"{side.name}: {line}" for line in lines]
        return faults, remarks

    @staticmethod
    def _surroundings(side: str, stagedir: Path) -> dict[str, dict[str, str]]:
        runtime = json.loads((stagedir / contract.runtime_file(side)).read_text())
        seen = container_differences.read((stagedir / contract.surroundings_file(side)).read_text(errors="replace"))
        return {**seen, "directive": runtime["configuration"]}

    def unusual_starts(self, stagedir: Path) -> list[str]:
        """Lines about sides whose ranks are not started like all others, with the reason."""
        lines = []
        for side, known in self._starts(stagedir).items():
            if known["because"]:
                whose = "" if side == contract.SUBJECT else f"{side}: "
                lines.append(f"{whose}ranks are started {known['started']}, because {known['because']}")
        return lines

    def _starts(self, stagedir: Path) -> dict[str, dict[str, str]]:
        """How the ranks of each side were started, of those that the job says it of (see node/job/rank_trial.py)."""
        paths = {run["side"]: stagedir / contract.started_file(run["side"]) for run in self.runs}
        return {side: json.loads(path.read_text()) for side, path in paths.items() if path.exists()}

    def early_end(self, evaluation: Evaluation, met_limit: bool) -> list[str]:
        """Return a line that says that the job was ended before its last round, and is judged by what is complete.

        Nothing where that is not so: it came to its end, something else ended it, or no round is complete.

        :param met_limit: whether it may have been its time limit that ended it.
        """
        rounds = len(evaluation.rounds)
        if self.complete or not rounds or not (met_limit and self.ended):
            return []
        return [f"the job was ended ({self.ended}) before its last round: judged by the {rounds} that are complete"]

    def start_problems(self, sides: Sequence[Side], stagedir: Path) -> list[str]:
        """Return why the ranks of a side were not started as they are meant to be: with another MPI, or crowded."""
        return self.mpi_problems(sides, stagedir) or self.binding_problems(sides)

    def mpi_problems(self, sides: Sequence[Side], stagedir: Path) -> list[str]:
        """Return why the runs do not prove that each side loaded the MPI that it is meant to; empty where they do."""
        bare = [side.name for side in sides if side.program.mpi and not side.container]
        contained = [side for side in sides if side.program.mpi and side.container]
        # A job that ended before the bare program ran proves nothing, and its end is what has to be said.
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
        """Return why the ranks of a side have other cores than they should, or fewer than those that it is against."""
        strays = [problem for run in self.runs if (problem := binding.stray(run))]
        if strays:
            return strays[:1]
        best = self._roomiest(sides)
        pairs = [(best[side.name], best.get(side.compared_with)) for side in sides]
        return [problem for own, other in pairs if own and other and (problem := binding.problem(own, other))]

    def unseen_bindings(self, sides: Sequence[Side]) -> list[str]:
        """Lines about sides with ranks whose cores could not be compared, as too few of them were seen."""
        best, known = self._roomiest(sides), {side.name: side for side in sides}
        pairs = [
            (side, known[side.compared_with]) for side in sides if side.program.mpi and side.compared_with in known
        ]
        lines = [binding.unseen(own.label, best[own.name], other.label, best[other.name]) for own, other in pairs]
        return [line for line in lines if line]

    def _roomiest(self, sides: Sequence[Side]) -> dict[str, dict[str, Any] | None]:
        return {side.name: binding.roomiest(run for run in self.runs if run["side"] == side.name) for side in sides}

    def mpi_problem(
        self, bare: str, wants_host: Mapping[str, str | None], trees: Mapping[str, Iterable[str]] | None = None
    ) -> str | None:
        """Return why the runs do not prove that each side loaded the MPI that it is meant to, or None.

        :param bare: a side that runs on the host, whose MPI is the host's.
        :param wants_host: of each side in a container: the path of the host's MPI library that it must load, or None
            where it must bring its own.
        :param trees: of each side in a container: directories from where a library counts as its own.
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
                own = any(Path(tree) in Path(path).parents for tree in (trees or {}).get(run["side"], ()))
                if wanted is None and from_host and not own:
                    return f"{where}: loaded the host's {path}, though the generic variant must bring its own"
        return None


def is_complete(stagedir: Path) -> bool:
    """Tell whether the runner's record is there and says that it came to its end."""
    try:
        return Record.read(stagedir).complete
    except UnreadableError:
        return False
