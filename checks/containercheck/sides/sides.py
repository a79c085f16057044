"""What is compared: sides, as values. A variant is a pair of them, a job two or more.

A side says what runs and where; it says nothing of how it came to be chosen. Two runtimes, or two images, are two sides
like any others::

    image = Container(runtime, "hpcc.sif")
    old = Side("old", "apptainer 1.3.6", program, launcher, replace(image, command="/opt/old/bin/apptainer"))
    new = Side("new", "apptainer 1.4.5", program, launcher, image, compared_with="old")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from containercheck.application.facts import Step
from containercheck.node.container_runtimes import Runtime


@dataclass(frozen=True)
class Needs:
    """What a job needs for a side, beside its script.

    :ivar before: commands before the rounds that change the job's environment.
    :ivar prepare: commands before the rounds that take a moment: they run with the machine to themselves.
    :ivar modules: modules to be loaded.
    :ivar variables: environment variables of the job.
    :ivar files: files outside the stage directory, to be removed when the job ends.
    """

    before: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    def __add__(self, other: Needs) -> Needs:
        """Return both together; what the first one says of a variable holds, and nothing is done twice."""
        return Needs(
            _joined(self.before, other.before),
            _joined(self.prepare, other.prepare),
            _joined(self.modules, other.modules),
            {**other.variables, **self.variables},
            _joined(self.files, other.files),
        )


def _joined(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *other)))


@dataclass(frozen=True)
class Program:
    """What a side runs.

    :ivar executable: the command, where it is one.
    :ivar options: its options.
    :ivar steps: the commands of an application that runs in several; they take the place of the executable.
    :ivar reset: commands that put the working directory into its first state before each run.
    :ivar mpi: a program whose libraries tell which MPI there is; None for one without.
    :ivar preloads_mpi: whether the host's MPI library is loaded into it, which does not ask for it.
    """

    executable: str
    options: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    reset: tuple[str, ...] = ()
    mpi: str | None = None
    preloads_mpi: bool = False


@dataclass(frozen=True)
class Launcher:
    """What starts a program's ranks: the words before it, and what they need. Empty for a program that needs none.

    :ivar ranks: of MPI, which it starts; 0 where that is not what it does.
    """

    words: str = ""
    needs: Needs = Needs()
    ranks: int = 0


@dataclass(frozen=True)
class HostMpi:
    """The host's MPI, brought into a container.

    :ivar program: a bare program that loads it.
    :ivar library: the library, where the program does not tell.
    :ivar environment: variables that the program needs to load it.
    :ivar family: a key of ``mpi.FAMILIES``: where neither tells, what the loader finds of it is taken.
    """

    program: str
    library: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    family: str | None = None


@dataclass(frozen=True)
class Container:
    """A container that a side runs in.

    :ivar image: path of the image, or its name in a registry.
    :ivar command: what to type for the runtime; None for its usual command.
    :ivar host_mpi: the host's MPI, for the integrated variant; None where the image brings its own.
    :ivar copied_to: path of the node that the image is copied to for the job; None to run it from where it lies.
    :ivar unpacked_to: directory that the image is unpacked to for the job, and runs from; None to run it as a file.
    :ivar gpus: whether the container sees the node's GPUs.
    :ivar options: more options of the runtime, quoted.
    :ivar needs: what the site wants loaded for the runtime.
    :ivar required_program: a program that somebody says the image has: without it the check fails before anything runs.
    :ivar software_trees: directories of the host's, by their place in the container, from where MPI counts as the
        image's own.
    """

    runtime: Runtime
    image: str
    command: str | None = None
    host_mpi: HostMpi | None = None
    copied_to: str | None = None
    unpacked_to: str | None = None
    gpus: bool = False
    options: tuple[str, ...] = ()
    needs: Needs = Needs()
    required_program: str | None = None
    software_trees: Mapping[str, str] = field(default_factory=dict)

    @property
    def typed(self) -> str:
        """What to type for the runtime."""
        return self.command or self.runtime.command


@dataclass(frozen=True)
class Candidate:
    """What takes its turn in a container's place, beside others: a runtime, or an image.

    :ivar name: of its side.
    :ivar command: what to type for the runtime; None for its usual command.
    :ivar image: a ready image; None for the recipe's.
    :ivar builds: whether its image is one that this runtime built, and no other's.
    :ivar arguments: values of the recipe's own arguments, for an image that is built with them; an empty one for an
        image with their defaults. None for the check's image.
    """

    name: str
    command: str | None = None
    image: str | None = None
    builds: bool = False
    arguments: Mapping[str, str] | None = None

    @property
    def has_own_image(self) -> bool:
        """Whether its image is not the one of all."""
        return self.builds or self.image is not None or self.arguments is not None


@dataclass(frozen=True)
class Side:
    """One of the things that are compared.

    :ivar name: a word, in the names of its files and in the record: ``baseline``, ``subject``, or another.
    :ivar label: what people call it: ``bare``, ``integrated``, a version, the name of an image.
    :ivar environment: variables that this side's runs have, and no other's.
    :ivar compared_with: name of the side that it is compared with; None for one that is only a measure.
    :ivar replaces: whether it is judged as what is to take the place of that side, by the figures' margins, and not as
        a container against the host.
    """

    name: str
    label: str
    program: Program
    launcher: Launcher = Launcher()
    container: Container | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    compared_with: str | None = None
    replaces: bool = False

    def facts(self, margins: Mapping[str, tuple[float, float]]) -> dict[str, object]:
        """Return what the job is told of it.

        :param margins: what is accepted of a successor, by figure.
        """
        own = margins if self.replaces else {}
        return {"name": self.name, "label": self.label, "compared_with": self.compared_with, "accepted": own}

    def changed(self, **facts) -> Side:
        """Return this side with other values for some of its fields."""
        return replace(self, **facts)
