"""Check the other evidence of a job's runs: the loaded MPI libraries, the ranks' cores, the files left.

Without as many cores as the bare ones, all ranks of a container may share one core (seen: 185 s instead of 3 s). Only
ranks on the first node are checked. If one container replaces another, both must see the same environment.

Standard library only, Python 3.6 or newer.
"""

import json
import re
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from containercheck.job import contract
from containercheck.job.container_runtimes import RUNTIMES
from containercheck.job.outputs.facts import JobSide
from containercheck.job.texts import cores_of, size

#: A run of the record.
Run = Dict[str, Any]

#: Entries of a run with the files that it left, their place, and their harm.
_LEFT = (
    ("left_files", "/dev/shm", "they take the node's memory, and a later run that meets them may fail"),
    ("left_temporary", "/tmp", "they fill the node's disk"),
)
#: Most ranks with listed cores.
LISTED = 8
#: Variables that are expected to differ: between any two processes or jobs, or because they name the runtime's version
#: or command, its working directory, or the image.
_RUNTIME_PREFIXES = "|".join(runtime.settings for runtime in RUNTIMES if runtime.settings)
_EXPECTED_TO_DIFFER = re.compile(
    rf"^(_|PWD|OLDPWD|SHLVL|USER_PATH|{contract.RUN}|({_RUNTIME_PREFIXES})(COMMAND|VERSION|INSTANCE|CONTAINER|NAME))$"
)


class Findings:
    """Collect the findings about the runs of a job.

    :param record: of the job (job/runner.py).
    :param sides: of the facts, without lost sides.
    :param stagedir: of the job.
    """

    def __init__(self, record: Mapping[str, Any], sides: Sequence[JobSide], stagedir: Path) -> None:
        """Keep the arguments; the methods do the checks."""
        self._record, self._sides, self._stagedir = record, sides, stagedir
        self._runs: Sequence[Run] = record["runs"]

    def start_problems(self) -> List[str]:
        """Return the faults in the start of a side's ranks: wrong MPI, or too few cores."""
        return self._mpi_problems() or self.binding_problems()

    def _mpi_problems(self) -> List[str]:
        """Return the reason if the runs do not prove that each side loaded the right MPI; else an empty list."""
        bare = next((side.name for side in self._sides if side.mpi and not side.contained), "")
        contained = {side.name: side for side in self._sides if side.mpi and side.contained}
        of_bare = [run for run in self._runs if run["side"] == bare]
        # A job that ended before the bare program ran proves nothing; its end is reported instead.
        if not contained or not of_bare:
            return []
        unseen = f"no process with an MPI library was seen on {self._record['host']}"
        host_files = {(each["device"], each["inode"]) for run in of_bare for each in run["mpi"].values()}
        if not host_files:
            return [f"{bare}: {unseen}"]
        for run in (run for run in self._runs if run["side"] in contained):
            side, where = contained[run["side"]], f"round {run['round']}, {run['side']}"
            if not run["mpi"]:
                return [f"{where}: {unseen}"]
            for path, library in run["mpi"].items():
                from_host = (library["device"], library["inode"]) in host_files
                if side.host_mpi and not from_host:
                    wanted = json.loads((self._stagedir / contract.mpi_plan_file(side.name)).read_text())["path"]
                    return [f"{where}: loaded {path} of the image, not the host's {wanted}"]
                # The site's trees count as the image's own.
                in_tree = any(Path(tree) in Path(path).parents for tree in side.trees)
                if from_host and not side.host_mpi and not in_tree:
                    return [f"{where}: loaded the host's {path}, though the generic variant must bring its own"]
        return []

    def binding_problems(self) -> List[str]:
        """Return a message for each side with wrong cores, or fewer than the side that it is compared with."""
        strays = [problem for problem in map(stray_problem, self._runs) if problem]
        if strays:
            return strays[:1]
        best = self._roomiest()
        by_intent = {side.name for side in self._sides if side.shares_cores}
        pairs = [
            (best[side.name], best.get(side.compared_with or ""))
            for side in self._sides
            if not by_intent & {side.name, side.compared_with}
        ]
        problems = [cores_problem(own, other) for own, other in pairs if own and other]
        return [problem for problem in problems if problem]

    def remarks(self) -> List[str]:
        """Return remarks that are not faults: unusual starts of ranks, unknown cores, files that were left."""
        return [*self._unusual_starts(), *self._unseen_bindings(), *self._left_files()]

    def disturbances(self) -> List[str]:
        """Return lines about rounds that other processes on the machine disturbed; empty if there were none."""
        rounds = len({run["round"] for run in self._runs})
        replaced, busy = self._record["replaced"], self._record["busy"]
        lines = []
        if replaced:
            who = contract.names(replaced.values())
            lines.append(f"{len(replaced)} of {rounds} rounds disturbed by {who} and replaced")
        if busy:
            lines.append(f"the machine is busy: {busy}. Rounds were counted all the same: they spread more")
        return lines

    def changes(self) -> Tuple[List[str], List[str]]:
        """Return the differences in environment between a container and the container that it replaces.

        The first list has faults: different environment variables although the image is the same. The second has
        remarks: mounts, limits, the runtimes' configuration, and variables if the images differ.
        """
        faults: List[str] = []
        remarks: List[str] = []
        images: Dict[Any, str] = {side.name: side.image for side in self._sides if side.contained}
        for side in self._sides:
            if not side.replaces or side.compared_with is None:
                continue
            old, new = (self._surroundings(name) for name in (side.compared_with, side.name))
            for kind in old:
                same = images[side.compared_with] == images[side.name]
                target = faults if kind == "variable" and same else remarks
                target += [f"{side.name}: {line}" for line in _differences(kind, old[kind], new[kind])]
        return faults, remarks

    def _surroundings(self, side: str) -> Dict[str, Dict[str, str]]:
        """Return the environment of a container by kind and name, without the side's name in it."""
        runtime = json.loads((self._stagedir / contract.runtime_file(side)).read_text())
        seen = json.loads((self._stagedir / contract.surroundings_file(side)).read_text())
        stagedir = str(self._stagedir.absolute())
        variables = {
            name: without_side(value, side, stagedir)
            for name, value in seen["environment"].items()
            if re.fullmatch(r"\w+", name) and not _EXPECTED_TO_DIFFER.match(name)
        }
        return {
            "variable": variables,
            "mount": {without_side(place, side, stagedir): facts[0] for place, facts in seen["mounts"].items()},
            "limit": {**seen["limits"], "CapEff": seen["status"].get("CapEff", "")},
            "directive": runtime["configuration"],
        }

    def _left_files(self) -> List[str]:
        """Return a line for each side that left files in shared memory, or files in /tmp in every run.

        Other processes of the same user also write to /tmp, so files after a single run prove nothing.
        """
        lines = []
        for side in self._sides:
            runs = [run for run in self._runs if run["side"] == side.name]
            for key, place, harm in _LEFT:
                left = [run[key] for run in runs if run.get(key)]
                if left and (place == "/dev/shm" or len(left) == len(runs) > 1):
                    most = max(left, key=lambda files: files["bytes"])
                    amount = f"{most['count']} of {size(most['bytes'])} ({', '.join(most['names'][:3])})"
                    lines.append(f"{side.label}: {len(left)} of its runs left files in {place}, up to {amount}: {harm}")
        return lines

    def _unusual_starts(self) -> List[str]:
        """Return lines about sides with an unusual start of ranks, with the reason."""
        lines = []
        for side, start in starts(self._runs, self._stagedir).items():
            if start["because"]:
                whose = "" if side == contract.SUBJECT else f"{side}: "
                lines.append(f"{whose}ranks are started {start['started']}, because {start['because']}")
        return lines

    def _unseen_bindings(self) -> List[str]:
        """Return lines about sides with too few visible ranks to compare their cores."""
        best, by_name = self._roomiest(), {side.name: side for side in self._sides}
        lines = []
        for side in self._sides:
            other = by_name.get(side.compared_with or "")
            # A program that only loads the library has no ranks. A statically linked program has no library by which
            # its processes are found.
            if side.mpi and not side.preloads_mpi and not side.shares_cores and other and other.mpi:
                seen, others = (len(run["bound"]) if run else 0 for run in (best[side.name], best[other.name]))
                if not seen or seen != others:
                    lines.append(
                        f"the cores of ranks were not compared: of {side.label} {seen} were seen while they ran, of "
                        f"{other.label} {others}"
                    )
        return lines

    def _roomiest(self) -> Dict[str, Optional[Run]]:
        names = [side.name for side in self._sides]
        return {name: roomiest(run for run in self._runs if run["side"] == name) for name in names}


def starts(runs: Iterable[Run], stagedir: Path) -> Dict[str, Dict[str, str]]:
    """Return the start of each side's ranks, if the job recorded it (see job/start_ranks.py)."""
    paths = {run["side"]: stagedir / contract.started_file(run["side"]) for run in runs}
    return {side: json.loads(path.read_text()) for side, path in paths.items() if path.exists()}


# Cores.


def cores_problem(run: Run, measure: Run) -> Optional[str]:
    """Return a message if a run's ranks on the first node have fewer cores than those of another run; else None.

    :param run: of the record, with ``bound``: the processors that each rank may use.
    :param measure: a run of the side with which it is compared.
    """
    bound, others = run.get("bound", []), measure.get("bound", [])
    shares = _are_alone(others) and not _are_alone(bound)
    # A remark reports other numbers of ranks.
    if len(bound) != len(others) or not (shares or len(_all_cores(bound)) < len(_all_cores(others))):
        return None
    defect = "share cores" if shares else "have fewer cores"
    where = f"round {run['round']}, {run['side']}"
    listed = f"they are bound to {_listed(bound)}, those of {measure['side']} to {_listed(others)}"
    return f"{where}: its ranks {defect}: {listed}"


def stray_problem(run: Run) -> Optional[str]:
    """Return a message if a run left its half of the node while both sides ran at the same time; else None.

    :param run: of the record; ``processors`` are those of its half.
    """
    half, seen = run.get("processors"), run.get("bound", [])
    if not half or _all_cores(seen) <= cores_of(half):
        return None
    return (
        f"round {run['round']}, {run['side']}: its ranks are bound to {_listed(seen)}, outside of its half of the "
        f"node, {half}: the launcher moves them; run the sides one after the other (-S duet=no)"
    )


def roomiest(runs: Iterable[Run]) -> Optional[Run]:
    """Return the run with the most cores for its ranks; None if no ranks were seen.

    A defect in the start of ranks shows in every run, so also in this one.
    """
    seen = [run for run in runs if run.get("bound")]
    return max(
        seen, key=lambda run: (len(run["bound"]), _are_alone(run["bound"]), len(_all_cores(run["bound"]))), default=None
    )


def _all_cores(bound: Sequence[str]) -> Set[int]:
    return set().union(*map(cores_of, bound))


def _are_alone(bound: Sequence[str]) -> bool:
    """Return whether no two ranks share a processor."""
    return sum(len(cores_of(processors)) for processors in bound) == len(_all_cores(bound))


def _listed(bound: Sequence[str]) -> str:
    return " | ".join(bound[:LISTED]) + (" ..." if len(bound) > LISTED else "")


# Differences between two containers.


def without_side(text: str, side: str, stagedir: str) -> str:
    """Return a text with ``SIDE`` in place of a side's name in files and directories of the job (job/contract.py).

    :param stagedir: directory of these files, on the host or as seen in containers.

    >>> without_side("/rfm_workdir/new.host-mpi:/opt/new.d", "new", "/stage")
    '/rfm_workdir/SIDE.host-mpi:/opt/new.d'
    """
    job_path = re.compile(rf"(?<![\w/.-])({contract.WORKDIR}|{re.escape(stagedir)})(/[^\s:]+)")
    named = re.compile(rf"(?<=[/.]){re.escape(side)}(?=[/.]|$)")
    return job_path.sub(lambda path: path[1] + named.sub("SIDE", path[2]), text)


def _differences(kind: str, old: Mapping[str, str], new: Mapping[str, str]) -> List[str]:
    """Return a line for each name that is missing on one side, or has different values."""
    lines = []
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            lines.append(f"{kind} {name} is gone: it was {old[name]}")
        elif name not in old:
            lines.append(f"{kind} {name} is new: {new[name]}")
        elif old[name] != new[name]:
            lines.append(f"{kind} {name} was {old[name]}, and is {new[name]}")
    return lines
