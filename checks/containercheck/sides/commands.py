"""The commands of a side, as a person would type them, and what they need in the job. Changes nothing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from containercheck.application.facts import PROGRAM
from containercheck.node import container_runtimes, contract
from containercheck.sides import host_mpi_scripts
from containercheck.sides.sides import Container, Needs, Side
from containercheck.site import node_commands
from containercheck.site.layout import Layout
from containercheck.site.sites import Site

#: The program in our images that says who started its ranks (checks/src/ranks), and what tells whether it is there.
RANKS, LOOKUP = "mpi-ranks", "sh -c 'command -v mpi-ranks'"
#: Writes the files of an image, as an archive, without what the runtime binds in; some are for their owner only.
_DIRECTORIES = f"{container_runtimes.METADATA} bin etc lib* opt sbin srv usr var"
UNPACK = f"cd / && tar -cf - --ignore-failed-read $(ls -d {_DIRECTORIES} 2>/dev/null)"
#: Prints what a process in a container sees: variables, a NUL after each; mounts; limits. For
#: node/job/container_view.py only.
SURROUNDINGS = "sh -c 'env -0; echo; cat /proc/self/mountinfo; echo; ulimit -a; grep -E ^Cap /proc/self/status'"


@dataclass(frozen=True)
class Job:
    """What a job does before the rounds, and what it needs.

    :ivar first: commands before those of the application.
    :ivar last: commands after them; they write the scripts.
    :ivar needs: modules and variables of the job.
    :ivar prepares: whether there is a script that prepares what all runs read.
    :ivar scripts: of each side what one run of it is, by its name.
    :ivar private: texts of files of the stage directory that are for their owner only, by name.
    """

    first: tuple[str, ...]
    last: tuple[str, ...]
    needs: Needs
    prepares: bool
    private: Mapping[str, str]
    scripts: Mapping[str, str] = field(default_factory=dict)


def job_commands(
    sides: Sequence[Side], own: Needs, input_commands: Sequence[str], site: Site, layout: Layout, stagedir: str
) -> Job:
    """Return the commands of a job that runs these sides.

    :param own: what the application needs besides.
    :param input_commands: they make the input, with the variables that the bare program has.
    """
    several = sum(side.container is not None for side in sides) > 1
    made = {side.name: side_commands(side, site, layout, stagedir, several) for side in sides}
    needs = sum((one.needs for one in made.values()), own)
    scripts = {contract.script_file(name): one.script for name, one in made.items()}
    for one in made.values():
        scripts.update(one.scripts)
    variables = next((side.environment for side in sides if not side.container), {}) if input_commands else {}
    prepare = [*needs.prepare, *node_commands.exports(variables), *input_commands]
    if prepare:
        scripts[contract.PREPARE] = "\n".join(prepare)
    # One trap for all files, before the job makes any of them.
    trap = [f"trap {shlex.quote(shlex.join(['rm', '-rf', '--', *needs.files]))} EXIT"] if needs.files else []
    texts = [node_commands.written(name, text) for name, text in scripts.items()]
    private = {contract.environment_file(side.name): node_commands.private_exports(side.environment) for side in sides}
    first, runs = (*node_commands.require_python(site), *trap), {name: one.script for name, one in made.items()}
    return Job(first, (*needs.before, *texts), needs, bool(prepare), private, runs)


@dataclass(frozen=True)
class Commands:
    """What a job needs of one side.

    :ivar script: what one run of it is.
    :ivar needs: what the job does before, loads, sets, and removes.
    :ivar scripts: other scripts that the job needs, by their file.
    """

    script: str
    needs: Needs
    scripts: Mapping[str, str] = field(default_factory=dict)


def side_commands(side: Side, site: Site, layout: Layout, stagedir: str, several: bool = False) -> Commands:
    """Return the commands of a side on a partition.

    :param stagedir: the check's stage directory, which a container has as its working directory.
    :param several: whether there are other containers, so that what it sees around it is of interest.
    """
    if not side.container:
        return Commands(_script(side, _Host(side)), side.launcher.needs)
    container = _InContainer(side, stagedir)
    needs = side.launcher.needs + side.container.needs + container.needs(site, layout)
    if several:
        keep = node_commands.in_job(site, "surroundings", side.name)
        needs += Needs(prepare=(f"(set -o pipefail; {container.words(SURROUNDINGS)} | {keep})",), files=(contract.KEY,))
    scripts = {}
    if side.launcher.ranks:
        inside = _Inside(container, layout)
        ranks = contract.ranks_file(side.name)
        scripts = {ranks: container.parallel(RANKS), contract.inside_file(ranks): inside.parallel(RANKS)}
        scripts[contract.lookup_file(side.name)] = container.words(LOOKUP)
        scripts[contract.inside_file(contract.script_file(side.name))] = _script(side, inside)
    scripts.update(container.mpi_scripts())
    return Commands(_script(side, container), needs, scripts)


def _script(side: Side, place: _Host | _InContainer | _Inside) -> str:
    program = side.program
    lines = node_commands.exports(side.environment, side.name)
    if not program.steps:
        command = shlex.join([program.executable, *program.options])
        command = place.parallel(f"env LD_PRELOAD={place.host_mpi} {command}" if program.preloads_mpi else command)
        return "\n".join([*lines, *program.reset, command])
    lines = ["set -e", node_commands.PHASE, *lines, *program.reset]
    for step in program.steps:
        command = step.command.replace(PROGRAM, shlex.quote(program.executable))
        lines += [f"phase {step.name}", place.parallel(command) if step.parallel else place.words(command)]
    return "\n".join([*lines, "phase end"])


class _Host:
    """The host: what is typed before a command there."""

    host_mpi = f"./{contract.MPI_PRELOAD}"

    def __init__(self, side: Side) -> None:
        self._launcher = side.launcher

    def words(self, command: str) -> str:
        """Return what runs a command as it is."""
        return command

    def parallel(self, command: str) -> str:
        """Return what starts the ranks of a program."""
        return f"{self._launcher.words} {command}".strip()


class _InContainer:
    """A side's container: what is typed before its commands, and what has to be there first."""

    def __init__(self, side: Side, stagedir: str) -> None:
        self._name, self._program, self._stagedir = side.name, side.program, stagedir
        self._launcher = side.launcher
        self._container: Container = side.container
        self._links = f"{contract.WORKDIR}/{contract.mpi_links(side.name)}"
        self.host_mpi = f"{self._links}/{contract.MPI_PRELOAD}"

    def words(self, command: str) -> str:
        """Return what runs a command in the image."""
        if self._container.host_mpi:
            command = f"sh {contract.WORKDIR}/{contract.mpi_entry_file(self._name)} {command}"
        return self._launch(command, self._container)

    def parallel(self, command: str) -> str:
        """Return what starts the ranks of a program, each in a container."""
        return f"{self._launcher.words} {self.words(command)}".strip()

    def mpi_scripts(self) -> dict[str, str]:
        """Return the scripts that bring the host's MPI in, by their file."""
        if not self._container.host_mpi:
            return {}
        return {
            contract.mpi_entry_file(self._name): host_mpi_scripts.entry(self._links),
            contract.mpi_lookup_file(self._name): host_mpi_scripts.lookup(self.host_mpi),
        }

    def needs(self, site: Site, layout: Layout) -> Needs:
        """Return what the job does before the rounds."""
        container = self._container
        files: tuple[str, ...] = ()
        ranks = layout.ranks_per_node if self._program.mpi else 0
        own = [] if container.host_mpi else ["--own-environment"]
        words = [f"--command={container.typed}", f"--ranks={ranks}", *own]
        words += [] if container.runtime.storage else [f"--image={container.image}"]
        if container.copied_to:
            files = (str(Path(container.copied_to).parent),)
            words.append(f"--copy-to={container.copied_to}")
        prepare = [node_commands.in_job(site, "runtime", *words, self._name)]
        if container.unpacked_to:
            prepare += [f"mkdir -p {container.unpacked_to}", self._unpack(container)]
        if container.host_mpi:
            prepare.append(self._plan_host_mpi(site))
        if container.required_program:
            program = shlex.quote(container.required_program)
            said = f"echo error: no software: the image has no {program} >&2"
            look = node_commands.unless_found(program, said, 1)
            prepare.append(self.words(shlex.join(["sh", "-c", look])))
        if container.host_mpi:
            prepare += self._verify_host_mpi(site)
        if self._launcher.ranks:
            options = [f"--ranks={layout.ranks}", f"--nodes={layout.nodes}"]
            options += [f"--launcher={self._launcher.words}"]
            options += ["--host-mpi"] if container.host_mpi else []
            prepare.append(node_commands.in_job(site, "ranks", *options, self._name))
        # PMIx's shared-memory store does not work from inside an image, and complains.
        return Needs(prepare=tuple(prepare), variables={"PMIX_MCA_gds": "hash"}, files=files)

    def _unpack(self, container: Container) -> str:
        """Have the image hand out its own files: what builds and unpacks images may not be allowed on nodes."""
        target = f"{contract.WORKDIR}/{container.unpacked_to}"
        unpack = f"{UNPACK} | tar -C {target} -xof - && cd {target} && mkdir -p dev proc sys tmp"
        as_it_is = replace(container, unpacked_to=None, copied_to=None, host_mpi=None)
        return self._launch(shlex.join(["sh", "-c", unpack]), as_it_is)

    def _launch(self, command: str, container: Container) -> str:
        # What has to stand before the runtime is known in the job: see node/job/runtime_start.py and
        # node/job/rank_trial.py. So are the options that the node's runtime needs, and that the host's MPI does.
        options = [f"$(cat {contract.options_file(self._name)})"]
        # What a daemon runs is found by its label.
        options += [container.runtime.label.format(label=f"{contract.RUN}=${contract.RUN}")]
        options += container.options
        options += [f"$(cat {contract.mpi_options_file(self._name)})"] if container.host_mpi else []
        copied = container.copied_to and shlex.quote(container.copied_to)
        line = container.runtime.command_line(
            command,
            container.unpacked_to or copied or container.image,
            [(self._stagedir, contract.WORKDIR)],
            contract.WORKDIR,
            filter(None, options),
            container.gpus,
            container.typed,
        )
        return f"$(cat {contract.start_file(self._name)}) {line}"

    def _plan_host_mpi(self, site: Site) -> str:
        """Find the host's MPI in the job."""
        host = self._container.host_mpi
        options = [f"--bind={self._container.runtime.bind}", f"--side={self._name}"]
        options += [f"--libmpi={host.library}"] if host.library else []
        options += [f"--family={host.family}"] if host.family else []
        plan = node_commands.in_job(site, "hostmpi", "plan", *options, host.program)
        exports = node_commands.exports(host.environment)
        return f"({'; '.join([*exports, plan])})" if exports else plan

    def _verify_host_mpi(self, site: Site) -> list[str]:
        """Check that the image's program can load it."""
        look = f"sh {contract.WORKDIR}/{contract.mpi_lookup_file(self._name)} {shlex.quote(self._program.mpi)}"
        said = contract.preflight_file(self._name)
        trees = [f"--tree={source}:{target}" for target, source in self._container.software_trees.items()]
        return [
            # Whatever it says, and however it ends, is for the next one to judge.
            f"{self.words(look)} >{said} 2>&1 || true",
            node_commands.in_job(site, "hostmpi", "verify", *trees, self._name),
        ]


class _Inside:
    """A container in which the image's own launcher starts the ranks."""

    def __init__(self, container: _InContainer, layout: Layout) -> None:
        self.words, self.host_mpi = container.words, container.host_mpi
        self._launcher = " ".join([f"mpirun -np {layout.ranks}", *layout.bound_by("mpirun")])

    def parallel(self, command: str) -> str:
        """Return what starts the ranks of a program."""
        return self.words(f"{self._launcher} {command}")
