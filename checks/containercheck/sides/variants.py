"""What a variant runs and compares: the bare program, and the same in a container."""

from __future__ import annotations

import shlex
from dataclasses import replace

from reframe.core.exceptions import ReframeError
from reframe.core.pipeline import RegressionTestPlugin

from containercheck.application import axes
from containercheck.node import contract, mpi
from containercheck.sides import launchers
from containercheck.sides.sides import Candidate, Container, HostMpi, Launcher, Program, Side
from containercheck.site import extras


class VariantSides(RegressionTestPlugin):
    """The sides of a check, made of its facts, its place and its software, once the base class knows them."""

    @property
    def bare_program(self) -> str:
        """Return the bare program, as the job finds it; quoted. For commands that make the input."""
        return shlex.quote(self._provision.program)

    @property
    def side_count(self) -> int:
        """Number of sides that a round runs, known before they are: what a job may take follows from it.

        Whoever overrides ``sides`` with another number of them overrides this too.
        """
        return 1 + (len(self.candidates()) or 1) if self.contained else 1

    def sides(self) -> list[Side]:
        """Return what is run and compared: the bare program and, for the container variants, the same in an image.

        To compare anything else (two runtimes, two images), return other sides; nothing else has to change.
        """
        program, environ = self._program(self._provision.program), self._sites_own.environ
        bare = Side(contract.BASELINE, "bare", program, self._launcher(), environment=environ)
        if not self.contained:
            return [bare]
        program = self._program(self._in_image)
        launcher, container = self._launcher(self.variant == "generic"), self._container(program)
        subject = Side(contract.SUBJECT, self.variant, program, launcher, container, compared_with=bare.name)
        return [bare, *self._successors(subject)] if self.candidates() else [bare, subject]

    def candidates(self) -> tuple[Candidate, ...]:
        """Return what takes turns in the container's place; nothing where there is one container only.

        :raises ReframeError: runtimes and images are to be compared at the same time.
        """
        if self.runtimes and self.compared_images:
            raise ReframeError("runtimes and images are two comparisons: name one of them")
        own = [Candidate(name, command=command, builds=self.built_by_each) for name, command in self.runtimes.items()]
        return (*own, *(Candidate(name, image=path) for name, path in self.compared_images.items()))

    def _successors(self, subject):
        """The container as each of the candidates has it: the first is a measure, as bare is."""
        first = self.candidates()[0].name
        return [
            subject.changed(
                name=one.name,
                label=one.name,
                container=self._as_candidate(subject.container, one),
                compared_with=None if one.name == first else first,
                replaces=one.name != first,
            )
            for one in self.candidates()
        ]

    def _as_candidate(self, container, one):
        container = replace(container, command=one.command)
        if not one.has_own_image:
            return container
        # No two of them in one place.
        places = {"copied_to": container.copied_to, "unpacked_to": container.unpacked_to}
        places = {what: f"{place}.{one.name}" if place else None for what, place in places.items()}
        return replace(container, image=self._provision.images[one.name], **places)

    def _program(self, executable):
        preloads = self.preloads_mpi and self.variant == "integrated"
        telling = mpi.FAMILIES[self.site.mpi_family].program if preloads else executable
        facts = (tuple(self.executable_opts), tuple(self.steps), tuple(self.reset_commands))
        return Program(executable, *facts, telling if preloads or self.rank_count is not None else None, preloads)

    def _launcher(self, of_image=False):
        if self.started_by or self.rank_count is None:
            return Launcher(self.started_by or "")
        own = self._sites_own
        if self.mpi_family:
            return launchers.family_launcher(self.mpi_family, self.job, self.site, self.layout, own.launcher_options)
        if of_image:
            options = [*own.launcher_options, *self.site.image_launcher_options, *own.image_launcher_options]
            return launchers.partition_launcher(self.job, self.site, self.layout, options, self.site.image_launcher)
        return launchers.partition_launcher(self.job, self.site, self.layout, own.launcher_options)

    def _container(self, program):
        own, host_mpi = self._sites_own, None
        if self.variant == "integrated":
            # Of another family, the bare program tells: see launchers.of_family.
            library = None if self.mpi_family else self.site.host_mpi
            family = self.site.mpi_family if program.preloads_mpi else None
            host_mpi = HostMpi(program.mpi if family else self._provision.program, library, own.environ, family)
        binds = [*self.site.binds, *own.binds, *self.binds]
        return Container(
            self.runtime,
            self._provision.image,
            host_mpi=host_mpi,
            copied_to=f"{axes.own_directory(self.image_directory)}/image.sif" if self.image_directory else None,
            unpacked_to=axes.UNPACKED if self.unpacked else None,
            gpus=self.gpu and self.site.gpus > 0,
            options=(*self.runtime.bind_words(extras.bound(binds)), *self.container_options),
            needs=self._of_runtime,
            required_program=self._in_image if own.image or own.image_executable else None,
            software_trees=own.trees,
        )
