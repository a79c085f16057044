"""Describe the compared sides, as values. A variant is a pair of sides, a job has two or more.

A side names its program, image and launcher, and not the reason for its choice. Two runtimes, or two images, are two
sides like any others::

    image = Container(runtime, "hpcc.sif")
    old = Side("old", "apptainer 1.3.6", program, launcher, replace(image, command="/opt/old/bin/apptainer"))
    new = Side("new", "apptainer 1.4.5", program, launcher, image, compared_with="old")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from containercheck.application.declare import Neighbour, Step
from containercheck.job.container_runtimes import Runtime


@dataclass(frozen=True)
class Needs:
    """Describe the needs of a side in a job, besides its script.

    :ivar before: commands before the rounds that change the job's environment.
    :ivar prepare: commands before the rounds that take time: they run with the machine's lock held.
    :ivar modules: modules to load.
    :ivar variables: environment variables of the job.
    :ivar files: files outside the stage directory that the job removes when it ends.
    """

    before: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    def __add__(self, other: Needs) -> Needs:
        """Return both together, without duplicates; for a variable, the first value counts."""
        return Needs(
            _joined(self.before, other.before),
            _joined(self.prepare, other.prepare),
            _joined(self.modules, other.modules),
            {**other.variables, **self.variables},
            _joined(self.files, other.files),
        )


def _joined(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


@dataclass(frozen=True)
class Program:
    """Describe the program or the programs of a side.

    :ivar executable: the command, if there is only one.
    :ivar options: its options.
    :ivar steps: the commands of an application that runs in several; they replace the executable.
    :ivar neighbours: programs that run at the same time; they replace the executable too.
    :ivar reset: commands that restore the initial state of the working directory before each run.
    :ivar mpi: a program with the libraries that identify the MPI; None for a program without MPI.
    :ivar times_mpi: whether the time in MPI is measured by a library that is preloaded.
    :ivar preloads_mpi: whether the host's MPI library is preloaded into a program that is not linked with it.
    """

    executable: str
    options: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    reset: tuple[str, ...] = ()
    mpi: str | None = None
    preloads_mpi: bool = False
    times_mpi: bool = False


@dataclass(frozen=True)
class Launcher:
    """Describe a program's launcher: the words before the program, and their needs. Empty for no launcher.

    :ivar ranks: number of MPI ranks that it starts; 0 if it starts none.
    :ivar hand_on: command before a run that makes it hand on the environment; empty if it does so by itself.
    """

    words: str = ""
    needs: Needs = Needs()
    ranks: int = 0
    hand_on: str = ""


@dataclass(frozen=True)
class HostMpi:
    """Describe the host's MPI that a container uses.

    :ivar program: a bare program that loads it.
    :ivar library: path of the library, if the program does not load it.
    :ivar environment: variables that the program needs to load it.
    :ivar family: a key of ``mpi.FAMILIES``: without program and library, the loader is asked for one of this family.
    """

    program: str
    library: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    family: str | None = None


@dataclass(frozen=True)
class Container:
    """Describe a container that a side runs in.

    :ivar image: path of the image, or its name in a registry.
    :ivar command: the runtime's command; None for its usual one.
    :ivar host_mpi: the host's MPI, for the integrated variant; None if the image brings its own.
    :ivar copied_to: path on the node to which the image is copied for the job; None to run the original.
    :ivar gpus: options that let the container see the node's GPUs; empty for a program without.
    :ivar options: further options of the runtime, quoted.
    :ivar needs: modules and variables of the runtime.
    :ivar required_program: a program that the image must have (site file); else the check fails before the rounds.
    :ivar software_trees: directories of the host, by their path in the container; MPI in them counts as the image's.
    """

    runtime: Runtime
    image: str
    command: str | None = None
    host_mpi: HostMpi | None = None
    copied_to: str | None = None
    gpus: str = ""
    options: tuple[str, ...] = ()
    needs: Needs = Needs()
    required_program: str | None = None
    software_trees: Mapping[str, str] = field(default_factory=dict)

    @property
    def typed(self) -> str:
        """Command of the runtime."""
        return self.command or self.runtime.command


@dataclass(frozen=True)
class Candidate:
    """Describe a runtime or an image that is compared with others of its kind.

    :ivar name: name of its side.
    :ivar command: the runtime's command; None for its usual one.
    :ivar runtime: its runtime, if runtimes of several kinds are compared; None for the partition's.
    :ivar image: a ready image; None for the recipe's.
    :ivar arguments: values of the recipe's own arguments for its image; empty for their defaults. None for the check's
        image.
    :ivar against_bare: whether it is compared with bare, as runtimes of several kinds are; otherwise it is judged as
        the successor of the first candidate.
    :ivar mpi: family of the MPI in its image, a key of ``mpi.FAMILIES``; the launcher of this family starts its ranks.
        None for the partition's.
    """

    name: str
    command: str | None = None
    runtime: Runtime | None = None
    image: str | None = None
    arguments: Mapping[str, str] | None = None
    mpi: str | None = None
    against_bare: bool = False

    @property
    def has_own_image(self) -> bool:
        """Whether its image is not the check's, which the others share."""
        return any(each is not None for each in (self.runtime, self.image, self.arguments, self.mpi))


@dataclass(frozen=True)
class Side:
    """Describe one of the compared things.

    :ivar name: a word for file names and the record: ``baseline``, ``subject``, or another.
    :ivar label: name for people: ``bare``, ``integrated``, a version, the name of an image.
    :ivar environment: variables of this side's runs only.
    :ivar compared_with: name of the side that it is compared with; None for one that is only a baseline.
    :ivar replaces: whether it is judged as the successor of that side, by the metrics' margins, and not as a container
        against the host.
    :ivar shares_cores: whether its ranks use each other's cores on purpose: their binding then proves nothing.
    :ivar may_fail: whether the other sides go on without it, such as several runtimes that are each compared with bare.
    """

    name: str
    label: str
    program: Program
    launcher: Launcher = Launcher()
    container: Container | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    compared_with: str | None = None
    replaces: bool = False
    shares_cores: bool = False
    may_fail: bool = False

    def facts(self, margins: Mapping[str, tuple[float, float]]) -> dict[str, object]:
        """Return the side's entry for ``facts.json``.

        :param margins: the range that is accepted of a successor, by metric.
        """
        facts: dict[str, object] = {"name": self.name, "label": self.label, "compared_with": self.compared_with}
        facts.update({"mpi": self.program.mpi is not None, "preloads_mpi": self.program.preloads_mpi})
        facts.update({name: getattr(self, name) for name in ("may_fail", "replaces", "shares_cores")})
        if self.container:
            container = {"host_mpi": self.container.host_mpi is not None, "image": self.container.image}
            facts.update({"contained": True, **container, "trees": [*self.container.software_trees]})
        return {**facts, "accepted": margins if self.replaces else {}}
