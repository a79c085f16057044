"""Make the sides that a variant runs and compares: the bare program, and the same in a container."""

from __future__ import annotations

import shlex
from dataclasses import replace

from reframe.core.exceptions import ReframeError
from reframe.core.pipeline import RegressionTestPlugin

from containercheck.application import axes
from containercheck.node import container_runtimes, contract, mpi
from containercheck.sides import launchers, runtimes
from containercheck.sides.sides import Candidate, Container, HostMpi, Launcher, Program, Side
from containercheck.site import extras


class VariantSides(RegressionTestPlugin):
    """The sides of a check, made from its facts, partition and software when the base class has found these."""

    @property
    def bare_program(self) -> str:
        """Return the path of the bare program in the job, quoted, for commands that make the input."""
        return shlex.quote(self.prepared.provision.program)

    @property
    def program_names(self) -> tuple[str, ...]:
        """Names of programs that run beside each other; empty where there is only one program."""
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
        program, environ = self._program(self.prepared.provision.program), self.prepared.site_software.environ
        bare = Side(contract.BASELINE, "bare", program, self._launcher(), environment=environ)
        if not self.contained:
            return [bare]
        program = self._program(self.prepared.image_executable)
        launcher, container = self._launcher(self.variant == "generic"), self._container(program, self.runtime)
        subject = Side(contract.SUBJECT, self.variant, program, launcher, container, compared_with=bare.name)
        return [bare, *self._successors(subject)] if self.candidates() else [bare, subject]

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
                builds=self.built_by_each and not several,
                against_bare=several,
            )
            for name, word in self.runtimes.items()
        ]
        return (*named, *(Candidate(name, image=path) for name, path in self.compared_images.items()))

    def _has_other_words(self, runtime):
        """Return whether a runtime that is known cannot be started with the words of the partition's."""
        return runtime != container_runtimes.UNKNOWN and runtime.launch != self.runtime.launch

    def _successors(self, subject):
        """Return a side for each candidate.

        Runtimes of several kinds are each compared with bare. Of others, the first is compared with nothing, and each
        other as its successor.
        """
        first, sides = self.candidates()[0].name, []
        for candidate in self.candidates():
            is_successor = not candidate.against_bare and candidate.name != first
            side = subject.changed(
                name=candidate.name,
                label=candidate.name,
                container=self._as_candidate(subject, candidate),
                launcher=self._launcher_of(subject, candidate),
                replaces=is_successor,
                may_fail=candidate.against_bare,
            )
            if not candidate.against_bare:
                side = side.changed(compared_with=first if is_successor else None)
            sides.append(side)
        return sides

    def _launcher_of(self, subject, candidate):
        if candidate.mpi is None:
            return subject.launcher
        # The launchers of two families bind by rules of their own: here both are told the same.
        binding = "cores" if self.layout.binding == "launcher" else self.layout.binding
        layout = replace(self.layout, binding=binding)
        if candidate.mpi == self.site.mpi_family:
            return self._launcher(True, layout)
        return launchers.own_launcher(candidate.mpi, self.job, self.site, layout)

    def _as_candidate(self, subject, candidate):
        container = subject.container
        if candidate.runtime:
            container = self._container(subject.program, candidate.runtime)
        container = replace(container, command=candidate.command)
        if not candidate.has_own_image:
            return container
        # Each image needs a path of its own.
        paths = {"copied_to": container.copied_to, "unpacked_to": container.unpacked_to}
        paths = {name: f"{path}.{candidate.name}" if path else None for name, path in paths.items()}
        return replace(container, image=self.prepared.provision.images[candidate.name], **paths)

    def _program(self, executable):
        preloads = self.preloads_mpi and self.variant == "integrated"
        mpi_program = mpi.FAMILIES[self.site.mpi_family].program if preloads else executable
        facts = (tuple(self.executable_opts), tuple(self.steps), (), tuple(self.reset_commands))
        mpi_program = mpi_program if preloads or self.rank_count is not None else None
        return Program(executable, *facts, mpi_program, preloads, self.mpi_times)

    def _launcher(self, image_brings_mpi=False, layout=None):
        if self.started_by or self.rank_count is None:
            return Launcher(self.started_by or "")
        software, layout = self.prepared.site_software, layout or self.layout
        options = software.launcher_options
        if self.mpi_family:
            return launchers.family_launcher(self.mpi_family, self.job, self.site, layout, options)
        if image_brings_mpi:
            options = [*options, *self.site.image_launcher_options, *software.image_launcher_options]
            return launchers.partition_launcher(self.job, self.site, layout, options, self.site.image_launcher)
        return launchers.partition_launcher(self.job, self.site, layout, options)

    def _container(self, program, runtime):
        software, host_mpi = self.prepared.site_software, None
        if self.variant == "integrated":
            # For another family, the bare program loads the library: see launchers.family_launcher.
            library = None if self.mpi_family else self.site.host_mpi
            family = self.site.mpi_family if program.preloads_mpi else None
            loads_mpi = program.mpi if family else self.prepared.provision.program
            host_mpi = HostMpi(loads_mpi, library, software.environ, family)
        binds = [*self.site.binds, *software.binds, *self.binds]
        return Container(
            runtime,
            self.prepared.provision.image,
            host_mpi=host_mpi,
            copied_to=f"{axes.own_directory(self.image_directory)}/image.sif" if self.image_directory else None,
            unpacked_to=contract.UNPACKED if self.unpacked else None,
            gpus=self.gpu and self.site.gpus > 0,
            options=(*runtime.bind_words(extras.bound(binds)), *self.container_options),
            needs=runtimes.needs(self.current_partition, runtime),
            required_program=self.prepared.image_executable if software.image or software.image_executable else None,
            software_trees=software.trees,
        )
