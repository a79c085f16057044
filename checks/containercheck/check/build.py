"""Define the values that one phase of a check hands to the next ones, and the build step, here or on a node."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reframe.core.builtins import run_after, run_before
from reframe.core.exceptions import ReframeError
from reframe.core.schedulers import Job

from containercheck import reframe_internals, software
from containercheck.application.allowance import Allowance
from containercheck.application.interface import ApplicationFacts
from containercheck.job import contract, variables
from containercheck.results.row import Record
from containercheck.sides.sides import Needs
from containercheck.site import jobs, node_commands
from containercheck.site.extras import Software
from containercheck.site.layout import Layout
from containercheck.site.node_commands import CacheCommand
from containercheck.site.sites import Site
from containercheck.software import Provision, host

#: Seconds and cores for a build on a node. The largest image takes about ten minutes.
SECONDS, CORES = 3600, 8
#: Identity of this session: a long build that failed is not repeated for its other cases (job/build/cache.py).
SESSION = uuid.uuid4().hex
#: Attributes of a check that its wanted software has under the same names (software/provision.py).
WANTED = (
    *("executable", "source", "static_mpi", "headers", "requirements", "artifacts", "spack", "easybuild", "library"),
    *("view_directory", "published", "mpi_family", "mpi_times", "runtime", "release", "gpu"),
)


@dataclass(frozen=True)
class Prepared:
    """Keep the results of the setup phase.

    :ivar software: the site's own software for this check; an empty value for none.
    :ivar program: the bare program's command in the job.
    :ivar program_in_image: the program in the image.
    :ivar allowance: time and node-hours of the job.
    :ivar runtime_needs: modules and variables of the container runtime.
    :ivar provision: software, image and published input, and the commands that make them available.
    """

    software: Software
    program: str
    program_in_image: str
    allowance: Allowance
    runtime_needs: Needs
    provision: Provision


@dataclass(frozen=True)
class Finished:
    """Keep the state and the record of a job that has ended.

    :ivar state: the scheduler's state of the job; None if it is not known.
    :ivar record: the record of its runs, with the verdict; an empty one in a dry run.
    """

    state: str | None
    record: Record


class BuiltCheck(ApplicationFacts):
    """Build an application's software, and its image, before its job if they do not exist.

    :ivar prepared: the values of the setup phase; ReFrame compiles after it.
    """

    prepared: Prepared
    # Attributes of ReFrame, for type checkers, which do not see their types.
    build_system: Any
    build_locally: bool
    build_time_limit: Any

    def site_of_build(self) -> Site:
        """Return the partition's site; ReFrame's ``build_locally: no`` counts as the site's ``build_on_node``."""
        site = Site.of(self.current_partition)
        return site if self.build_locally else replace(site, build_on_node=True)

    def wanted_software(self, site_software: Software, runtime_needs: Needs) -> software.Wanted:
        """Return the software and images that the check needs.

        :param site_software: the site's own software for this check.
        :param runtime_needs: modules and variables of the container runtime.
        """
        return software.Wanted(
            **{name: getattr(self, name) for name in WANTED},
            check=type(self).__name__,
            modules=(*self.current_environ.modules, *self.modules, *site_software.modules),
            own_modules=tuple(site_software.modules),
            environ=site_software.environ,
            compile_options=tuple(self.compile_options),
            debian=tuple(self.debian),
            of_site=has_own_source(site_software),
            recipe=self.recipe if self.contained else None,
            image=site_software.image,
            candidates=self.candidates() if self.contained else (),
            default_spack=type(self).spack,
            stack=site_software.stack,
            nodes=self.num_nodes,
            each_node=jobs.is_slurm(self.job) or jobs.has_list(self.job, self.num_nodes),
            copied=bool(self.image_directory),
            runtime_modules=runtime_needs.modules,
            dry=self.is_dry_run(),
        )

    def build_with(self, provision: Provision) -> None:
        """Set the commands of the build step; no job is needed if all software is in caches."""
        if self.images_only:
            self._report_images(provision)
        os.environ[contract.SESSION] = SESSION
        on_node = self.site.builds_on_node and bool(provision.build)
        if on_node and not self.is_dry_run() and _is_in_caches(provision.build, Path(self.stagedir)):
            provision, on_node = Provision(), False
        first = [f"{{ {command}; }}" for command in node_commands.require_python(self.site)] if on_node else []
        self.build_system.commands = [software.build_command(replace(provision, build=(*first, *provision.build)))]
        if self.build_locally == on_node:
            self.build_locally = not on_node
            reframe_internals.set_up_build_job(self)
        if on_node:
            self.build_time_limit = self.build_time_limit or min(SECONDS, self.site.time_limit or SECONDS)
            _ask_for_little(self.build_job, self.site)

    def _report_images(self, provision: Provision) -> None:
        """Report the images of this case in its provenance; skip it if nothing is to be built.

        :raises ReframeError: ``images_only`` has an unknown value.
        """
        known = (contract.LIST_IMAGES, contract.BUILD_IMAGES)
        if self.images_only not in known:
            raise ReframeError(f"images_only is {self.images_only!r}, and must be one of {', '.join(known)}")
        programs = [command.words[1:] for command in provision.build if isinstance(command, CacheCommand)]
        images = [words for words in programs if words[-2] in contract.IMAGE_PROGRAMS]
        # Only image files as they are built can be pulled again.
        is_converted = any(words[-2] == contract.CONVERT for words in programs)
        site = {"registry": None if is_converted else self.site.image_registry, "key": self.site.image_key}
        self.provenance = {contract.IMAGES: {"programs": images, **site}}
        if not images or self.images_only == contract.LIST_IMAGES:
            self.skip_because(contract.NOTHING_RUN)

    @property
    def published_path(self) -> str:
        """Path of the published input in the job; empty if there is none."""
        return self.prepared.provision.published

    @run_before("run")
    def copy_sites_input(self) -> None:
        """Copy the input that only the site has into the working directory, because runs write their output there."""
        if self.site_provides_input:
            self.input_commands = [host.copy_command(self.published_path), *self.input_commands]

    @run_after("setup")
    @run_after("compile")
    def close_stage(self) -> None:
        """Keep others out of the stage directory: ReFrame's scripts in it have values of the site file.

        If a check has its own files, ReFrame copies them, and gives the stage directory the mode of their directory.
        """
        os.chmod(self.stagedir, 0o700)

    def write_private(self, files: Mapping[str, str]) -> None:
        """Write files in the stage directory that only their owner may read; none without a text."""
        for name, text in ((name, text) for name, text in files.items() if text):
            variables.write_private(Path(self.stagedir, name), text)

    def write_files(self, files: Mapping[str, str]) -> None:
        """Write files in the stage directory, each with a line end."""
        for name, text in files.items():
            Path(self.stagedir, name).write_text(f"{text}\n")

    @run_after("run")
    def close_scripts(self) -> None:
        """Keep others from reading ReFrame's scripts, of which it leaves copies in the output directory."""
        for job in filter(None, (self.build_job, self.job)):
            script = Path(self.stagedir, job.script_filename)
            if script.exists():
                script.chmod(0o700)

    @run_after("compile")
    def check_build(self) -> None:
        """Fail with the errors of the build, or skip if the software does not exist for this partition."""
        if self.is_dry_run():
            return
        stagedir, ended = Path(self.stagedir), ""
        stderr, finished = self.build_stderr.evaluate(), (stagedir / contract.BUILD_STATUS).exists
        if not self.build_locally and not finished():
            state = jobs.outlast(self.build_job, finished)
            ended = jobs.end_of_job(self.build_job, state, stagedir / stderr, self.max_pending_time)
        try:
            software.require_built(stagedir, stderr, ended)
        except software.Unavailable as error:
            self.skip_because(str(error))
        if self.images_only:
            self.skip_because(contract.NOTHING_RUN)


def has_own_source(site_software: Software) -> bool:
    """Return whether the site file names the source of the bare program."""
    return bool(site_software.executable or site_software.modules or site_software.spack or site_software.easybuild)


def _ask_for_little(job: Job, site: Site) -> None:
    """Request one task with a few cores for a build job: it measures nothing, and needs no exclusive node."""
    job.options = [*jobs.options_of(job, replace(site, exclusive=False), Layout(1, 1, 1)), *site.build_access]
    job.num_tasks, job.num_tasks_per_node = 1, 1
    job.num_cpus_per_task = min(CORES, site.cores or 1)
    job.max_pending_time = site.max_pending_time


def _is_in_caches(build: Sequence[str], stagedir: Path) -> bool:
    """Return whether the caches have everything that is to be built, and link it, without a job in a queue."""
    env = {**os.environ, contract.CACHED_ONLY: "1"}
    return all(
        isinstance(command, CacheCommand)
        and subprocess.run([sys.executable, *command.words], cwd=stagedir, env=env, capture_output=True).returncode == 0
        for command in build
    )
