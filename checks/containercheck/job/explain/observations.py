"""Read the observations of a job's sides before the rounds (job/observation.py), and pair the compared sides."""

import json
import re
import statistics
from pathlib import Path
from typing import Any, FrozenSet, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from containercheck.job import contract
from containercheck.job.explain.causes import Cause

#: Name of the directory in which programs start.
DIRECTORY = "working directory"


class Observation(NamedTuple):
    """Hold the observation of one side.

    :ivar host: observed node; empty if that is not known.
    :ivar nodes: values that differ on the job's other nodes, by the node's name and then by their field here.
    :ivar environment: variables, with their value or a fingerprint of it.
    :ivar fingerprints: of the variables' values, by name; the same in all jobs of a user, and empty for a possible
        secret.
    :ivar set_by: the variable of the job by which a runtime sets another one in containers, by its name; or a place in
        PATH, by ``PATH place``; or :data:`DIRECTORY`.
    :ivar hidden_programs: in PATH, each by the path of one that comes before it.
    :ivar image_variables: names of the variables that the image sets by itself.
    :ivar hooks: scripts of the image's environment, except those that the runtime gives each image.
    :ivar limits: soft limits, in the words of /proc.
    :ivar hard_limits: up to which a process may raise its soft ones.
    :ivar cgroup_limits: existing limits of its cgroups: ``processors``, bytes of ``memory``, ``processes``.
    :ivar machine: output of ``uname -m``; and ``instructions``: those by which libraries choose their kernels.
    :ivar status: capabilities, seccomp and such, in the words of /proc.
    :ivar mounts: type, source, options, and options of the whole file system, by directory.
    :ivar space: size and free bytes, by directory.
    :ivar directories: ``usable``, ``unwritable`` or ``missing``, by path.
    :ivar settings: of MPI in files, by path and name.
    :ivar libc: its name and version.
    """

    host: str = ""
    nodes: Mapping[str, Mapping[str, Any]] = {}
    environment: Mapping[str, str] = {}
    fingerprints: Mapping[str, str] = {}
    set_by: Mapping[str, str] = {}
    hidden_programs: Mapping[str, str] = {}
    image_variables: Sequence[str] = ()
    hooks: Sequence[str] = ()
    limits: Mapping[str, str] = {}
    hard_limits: Mapping[str, str] = {}
    cgroup_limits: Mapping[str, float] = {}
    machine: str = ""
    instructions: Sequence[str] = ()
    status: Mapping[str, str] = {}
    mounts: Mapping[str, Sequence[str]] = {}
    cgroup: Sequence[str] = ()
    space: Mapping[str, Sequence[int]] = {}
    directories: Mapping[str, str] = {}
    user: str = ""
    interfaces: Sequence[str] = ()
    devices: Sequence[str] = ()
    settings: Mapping[str, str] = {}
    kernel: Mapping[str, str] = {}
    libc: str = ""
    system: str = ""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Observation":
        """Return an observation as the job stored it; fields that it lacks are empty."""
        return cls(**{name: stored[name] for name in cls._fields if name in stored})

    def at(self, host: str) -> "Optional[Observation]":
        """Return the observation of the side on one of the job's nodes; None if that is not known."""
        if host == self.host:
            return self
        return self._replace(host=host, nodes={}, **self.nodes[host]) if host in self.nodes else None


#: Fields of a use that are medians over the runs.
_MEDIANS = ("user", "system", "helpers", "disk", "faults", "major_faults", "memory", "watched", "switched_out", "read")
_COUNTERS = ("instructions", "cycles")


class Use(NamedTuple):
    """Hold the resources that the runs of a side used, on the job's first node: medians of seconds, and other values.

    Libraries, interfaces and shared memory are those of all nodes, if a scheduler lets the job watch them.

    :ivar seconds: of a run, by the clock.
    :ivar user, system: processor time of the side's processes.
    :ivar helpers: processor time of the runtime's helpers.
    :ivar disk: in which processors of the node were idle because processes waited for disks.
    :ivar threads: most threads of a process that computed, in half of the runs.
    :ivar watched: seconds of a run after which faults and switches were last counted.
    :ivar libraries: paths of libraries that were mapped.
    :ivar interfaces: of its connections.
    :ivar throttled: periods in which a quota held it back, all periods, and the processors allowed; empty for no quota.
    :ivar faults, major_faults: page faults, and those of them that read from a file.
    :ivar memory, memory_limit: most bytes that its processes held, and bytes that its cgroup allows; 0 for no limit.
    :ivar switched_out: how often its processes had to leave their processor to another one.
    :ivar shared_memory: segments in /dev/shm that were mapped.
    :ivar devices: adapters of fabrics that its processes had open, with their drivers (run_observation.adapter).
    :ivar processors: on which the threads of its processes may run, all together; 0 if that is not known.
    :ivar read: bytes that its processes read from disks.
    :ivar user_namespaces: of the processes that computed, without that of the job.
    :ivar instructions, cycles: of its processes, without those of the kernel; 0 if they are not known.
    """

    seconds: float = 0.0
    user: float = 0.0
    system: float = 0.0
    helpers: float = 0.0
    threads: int = 0
    libraries: FrozenSet[str] = frozenset()
    interfaces: FrozenSet[str] = frozenset()
    throttled: Sequence[float] = ()
    faults: float = 0.0
    major_faults: float = 0.0
    memory: float = 0.0
    memory_limit: float = 0.0
    switched_out: float = 0.0
    shared_memory: FrozenSet[str] = frozenset()
    user_namespaces: int = 0
    watched: float = 0.0
    devices: FrozenSet[str] = frozenset()
    processors: int = 0
    read: float = 0.0
    disk: float = 0.0
    instructions: float = 0.0
    cycles: float = 0.0

    @classmethod
    def of_side(cls, runs: Sequence[Mapping[str, Any]], name: str) -> "Use":
        """Return the resources that the runs of a side used, by the side's name in the record."""
        return cls.of([run for run in runs if run["side"] == name])

    @classmethod
    def of(cls, runs: Sequence[Mapping[str, Any]]) -> "Use":
        """Return the resources of some runs of the record: those that ended well, and if none did, those that hung.

        A run that died may have ended before it used some resources.
        """
        runs = [run for run in runs if run.get("used")]
        runs = [run for run in runs if run["status"] == 0] or [run for run in runs if run.get("timed_out")]
        # The first run is different: it reads image and input from the disk.
        runs = runs[1:] or runs
        used = [run["used"] for run in runs]
        if not used:
            return cls()
        held_back = [each["throttled"] for each in used if each["throttled"]]
        quota = min((each[2] for each in held_back), default=0.0)
        return cls(
            seconds=statistics.median(run["seconds"] for run in runs),
            **{name: statistics.median(each[name] for each in used) for name in _MEDIANS},
            **{name: statistics.median(each.get(name, 0.0) for each in used) for name in _COUNTERS},
            libraries=_all(used, "libraries"),
            interfaces=_all(used, "interfaces"),
            shared_memory=_all(used, "shared_memory"),
            devices=_all(used, "devices"),
            threads=int(statistics.median(each["threads"] for each in used)),
            throttled=[*(sum(each[place] for each in held_back) for place in (0, 1)), quota] if held_back else (),
            memory_limit=min((each["memory_limit"] for each in used if each["memory_limit"]), default=0.0),
            processors=max(each["processors"] for each in used),
            user_namespaces=max(each["user_namespaces"] for each in used),
        )


def _all(used: Sequence[Mapping[str, Any]], name: str) -> FrozenSet[str]:
    """Return the union of a value over some runs."""
    return frozenset().union(*(each[name] for each in used))


def of_pair(
    stagedir: Path, runs: Sequence[Mapping[str, Any]], names: Tuple[str, str]
) -> Tuple[Optional[Observation], Optional[Observation], Tuple[Use, Use]]:
    """Return the observations of two sides of a job, and the resources of their runs.

    :param runs: of the record.
    :param names: of the sides.
    """
    first, second = (Use.of_side(runs, name) for name in names)
    return read(stagedir, names[0]), read(stagedir, names[1]), (first, second)


def read(stagedir: Path, side: str) -> Optional[Observation]:
    """Return the observation of a side; None if the job did not record it."""
    try:
        return Observation.from_json(json.loads((stagedir / contract.observed_file(side)).read_text()))
    except (OSError, ValueError):
        return None


#: Words of the rules for a place, and for the thing itself.
CONTAINER, HOST = ("in the container", "the container"), ("on the host", "the host")


class Pair(NamedTuple):
    """Pair a container with the side that it is compared with.

    :ivar subject: the container.
    :ivar baseline: bare, or another container.
    :ivar is_only: whether the job has no other container: then sentences need not name it.
    """

    subject: Any
    baseline: Any
    is_only: bool = True

    def seen(
        self, stagedir: Path, runs: Sequence[Mapping[str, Any]]
    ) -> Tuple[Optional[Observation], Optional[Observation], Tuple[Use, Use]]:
        """Return the observations of both, the baseline first, and the resources of their runs.

        :param runs: of the job's record.
        """
        return of_pair(stagedir, runs, (self.baseline.name, self.subject.name))

    def named(self, causes: Iterable[Cause]) -> List[Cause]:
        """Return causes with the names of both sides in their sentences, if the job has several containers.

        The rules speak of "the container" and "the host". Remedies stay as they are, because they change the container
        or the host.
        """
        if self.is_only:
            return [*causes]
        subject, baseline = self.subject.label, self.baseline.label
        host = (f"in {baseline}", baseline) if self.baseline.contained else HOST
        return [
            cause._replace(sentence=reworded(cause.sentence, (f"in {subject}", subject), host), side=subject)
            for cause in causes
        ]


def reworded(sentence: str, container: Tuple[str, str], host: Tuple[str, str]) -> str:
    """Return the sentence of a rule with other words for the two that it compares.

    :param container, host: in place of "in the container" and "the container", "on the host" and "the host".

    >>> reworded("the container has 1, the host 2", ("in new", "new"), ("in old", "old"))
    'new has 1, old 2'
    """
    words = dict(zip((*CONTAINER, *HOST), (*container, *host)))
    return re.sub("|".join(words), lambda match: words[match[0]], sentence)


def pairs_of(sides: Sequence[Any]) -> List[Pair]:
    """Return a pair for each container that is compared with another side."""
    by_name = {side.name: side for side in sides}
    is_only = sum(side.contained for side in sides) == 1
    return [Pair(side, by_name[side.compared_with], is_only) for side in sides if side.contained and side.compared_with]
