"""Make the sides that a check runs and compares: the bare program and the same in a container, or two linkings."""

from __future__ import annotations

import shlex
from dataclasses import replace

from reframe.core.exceptions import ReframeError
from reframe.core.pipeline import RegressionTestPlugin

from containercheck.application import axes
from containercheck.check.build import Prepared
from containercheck.job import container_runtimes, contract, mpi
from containercheck.job.container_runtimes import Runtime
from containercheck.sides import launchers
from containercheck.sides.sides import Candidate, Container, HostMpi, Launcher, Program, Side
from containercheck.site import extras
from containercheck.site.layout import Layout


class VariantSides(RegressionTestPlugin):
    """Make the sides of a check from its facts, and from the values of the setup phase.

    :ivar prepared: the values of the setup phase.
    :ivar runtime: the partition's container runtime; None if there is none, or nothing runs in a container.
    """

    prepared: Prepared
    runtime: Runtime | None

    @property
    def bare_program(self) -> str:
        """Return the path of the bare program in the job, quoted, for commands that make the input."""
        return shlex.quote(self.prepared.program)

    @property
    def program_names(self) -> tuple[str, ...]:
        """Names of programs that run at the same time; empty if there is only one program."""
        return ()

    @property
    def side_count(self) -> int:
        """Number of sides in a round, known before the sides are: the job's allowance depends on it.

        Override it together with ``sides``, if these are another number.
        """
        return 1 + (len(self.candidates()) or 1) if self.contained else 1

    def sides(self) -> list[Side]:
        """Return the sides to run and compare: the bare program and, for the container variants, the same in an image.

        To compare anything else (two runtimes, two images), override it to return other sides.
        """
        bare = self._bare_side()
        if not self.contained:
            return [bare]
        program = self._program(self.prepared.program_in_image)
        launcher, container = self._launcher(self.variant == "generic"), self._container(program, self.runtime)
        subject = Side(contract.SUBJECT, self.variant, program, launcher, container, compared_with=bare.name)
        candidates = self.candidates()
        if not candidates:
            return [bare, subject]
        first = candidates[0].name
        return [bare, *(self._candidate_side(subject, container, candidate, first) for candidate in candidates)]

    def candidates(self) -> tuple[Candidate, ...]:
        """Return the runtimes or images that are compared; empty if there is only one container.

        :raises ReframeError: both runtimes and images are given.
        """
        if self.runtimes and self.compared_images:
            raise ReframeError("runtimes and images are two comparisons: name one of them")
        try:
            kinds = {name: container_runtimes.chosen(word) for name, word in self.runtimes.items()}
        except ValueError as error:
            raise ReframeError(f"runtimes: {error}") from None
        several = len(set(kinds.values())) > 1 and container_runtimes.UNKNOWN not in kinds.values()
        named = [
            Candidate(
                name,
                container_runtimes.with_way(word)[0],
                kinds[name] if several or kinds[name].way.name or self._has_other_words(kinds[name]) else None,
                against_bare=several,
            )
            for name, word in self.runtimes.items()
        ]
        return (*named, *(Candidate(name, image=path) for name, path in self.compared_images.items()))

    def _has_other_words(self, runtime: Runtime) -> bool:
        """Return whether a known runtime needs other words to start than the partition's runtime."""
        return runtime != container_runtimes.UNKNOWN and (self.runtime is None or runtime.launch != self.runtime.launch)

    def _bare_side(self) -> Side:
        """Return the bare program as the measure."""
        program, environment = self._program(self.prepared.program), self.prepared.software.environ
        return Side(contract.BASELINE, "bare", program, self._launcher(), environment=environment)

    def _candidate_side(self, subject: Side, container: Container, candidate: Candidate, first: str) -> Side:
        """Return the side of a candidate.

        Runtimes of several kinds are each compared with bare. Of others, the first is compared with nothing, and each
        other as its successor.

        :param container: the subject's container.
        :param first: name of the first candidate.
        """
        is_successor = not candidate.against_bare and candidate.name != first
        compared_with = first if is_successor else subject.compared_with if candidate.against_bare else None
        return replace(
            subject,
            name=candidate.name,
            label=candidate.name,
            container=self._container_of(subject.program, container, candidate),
            launcher=self._launcher_of(subject, candidate),
            compared_with=compared_with,
            replaces=is_successor,
            may_fail=candidate.against_bare,
        )

    def _launcher_of(self, subject: Side, candidate: Candidate) -> Launcher:
        if candidate.mpi is None:
            return subject.launcher
        # The launchers of two families have different binding rules: here both bind alike.
        binding = "cores" if self.layout.binding == "launcher" else self.layout.binding
        layout = replace(self.layout, binding=binding)
        if candidate.mpi == self.site.mpi_family:
            return self._launcher(True, layout)
        return launchers.own_launcher(candidate.mpi, self.job, self.site, layout)

    def _container_of(self, program: Program, container: Container, candidate: Candidate) -> Container:
        if candidate.runtime:
            container = self._container(program, candidate.runtime)
        container = replace(container, command=candidate.command)
        if not candidate.has_own_image:
            return container
        # Each image needs its own path.
        copied_to = container.copied_to and f"{container.copied_to}.{candidate.name}"
        return replace(container, image=self.prepared.provision.images[candidate.name], copied_to=copied_to)

    def _program(self, executable: str) -> Program:
        preloads = self.preloads_mpi and self.variant == "integrated"
        mpi_program = executable if self.rank_count is not None else None
        return Program(
            executable,
            options=tuple(self.executable_opts),
            steps=tuple(self.steps),
            reset=tuple(self.reset_commands),
            mpi=mpi.FAMILIES[self.site.mpi_family].program if preloads else mpi_program,
            preloads_mpi=preloads,
            times_mpi=self.mpi_times,
        )

    def _launcher(self, image_brings_mpi: bool = False, layout: Layout | None = None) -> Launcher:
        if self.started_by or self.rank_count is None:
            return Launcher(self.started_by or "")
        software, layout = self.prepared.software, layout or self.layout
        options = software.launcher_options
        if self.mpi_family:
            return launchers.family_launcher(self.mpi_family, self.job, self.site, layout, options)
        if image_brings_mpi:
            options = [*options, *self.site.image_launcher_options]
        return launchers.partition_launcher(self.job, self.site, layout, options)

    def _container(self, program: Program, runtime: Runtime | None) -> Container:
        if runtime is None:
            raise ReframeError(f"{self.display_name}: the partition has no container runtime")
        prepared, software = self.prepared, self.prepared.software
        binds = [*self.site.binds, *software.binds, *self.binds]
        return Container(
            runtime,
            prepared.provision.image or "",
            host_mpi=self._host_mpi(program) if self.variant == "integrated" else None,
            copied_to=f"{axes.own_directory(self.image_directory)}/image.sif" if self.image_directory else None,
            gpus=runtime.gpu_words(self.site.gpu_arch) if self.gpu and self.site.gpus else "",
            options=(*runtime.bind_words(extras.bound(binds)), *self.container_options),
            needs=launchers.runtime_needs(self.current_partition, runtime),
            required_program=prepared.program_in_image if software.image or software.image_executable else None,
            software_trees=software.trees,
        )

    def _host_mpi(self, program: Program) -> HostMpi:
        # For another family, the bare program loads the library: see launchers.family_launcher.
        library = None if self.mpi_family else self.site.host_mpi
        family = self.site.mpi_family if program.preloads_mpi else None
        loads_mpi = program.mpi if family and program.mpi else self.prepared.program
        return HostMpi(loads_mpi, library, self.prepared.software.environ, family)


class StaticMpiSides(VariantSides):
    """Compare a program that loads its MPI with one that has it in itself; neither is in a container.

    SANDIA section VI: a program in a container must load its MPI, so that the host's can take its place; containers do
    not cause that cost. For ``class MyCode(StaticMpiSides, ContainerCheck)``, which sets ``static_mpi``.
    """

    @property
    def side_count(self) -> int:
        """Number of sides in a round."""
        return 2

    def sides(self) -> list[Side]:
        """Return the program with its MPI in itself, as the measure, and the one that loads it."""
        bare = self._bare_side()
        # None of its processes has a library that identifies its MPI.
        static = replace(bare.program, executable=bare.program.executable + contract.STATIC, mpi=None)
        judged = replace(bare, name=contract.SUBJECT, label="dynamic MPI", compared_with=bare.name)
        return [replace(bare, label="static MPI", program=static), judged]
