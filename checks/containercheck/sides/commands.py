"""Return the commands of a side, as a person would type them, and their needs in the job; without side effects."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from reframe.core.exceptions import SkipTestError

from containercheck.application.declare import PROGRAM, Neighbour
from containercheck.job import container_runtimes, contract, launch
from containercheck.sides.sides import Container, HostMpi, Needs, Program, Side
from containercheck.site import node_commands
from containercheck.site.layout import Layout
from containercheck.site.sites import Site

#: Program in our images that prints the launcher of its ranks (checks/src/ranks), and the command that finds it.
RANKS, LOOKUP = "mpi-ranks", "sh -c 'command -v mpi-ranks'"
#: Script that runs a command with the host's MPI before the image's own LD_LIBRARY_PATH, which only a process in the
#: container knows.
_MPI_ENTRY = 'export LD_LIBRARY_PATH={links}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\nexec "$@"'
#: Script that makes the loader in the container list the libraries of a program. For a script, it only preloads the
#: host's MPI into the shell: the program that the script starts is known only when it runs.
_MPI_LOOKUP = """\
if ! program=$(command -v "$1"); then echo "$1: not found"; exit 127; fi
IFS= read -r first <"$program"
case $first in
    ?ELF*) exec env LD_TRACE_LOADED_OBJECTS=1 LD_WARN=yes "$program" ;;
    *) echo "{script} $program"
       exec env LD_PRELOAD={library} LD_TRACE_LOADED_OBJECTS=1 LD_WARN=yes /bin/sh -c : ;;
esac"""
#: Variable of the loader with libraries that come before all others.
_PRELOAD = "LD_PRELOAD"
#: Most ranks that are started for an observation: they wait for each other by files. Above, one process is observed.
OBSERVED = 128


@dataclass(frozen=True)
class Job:
    """Describe the commands of a job before the rounds, and their needs.

    :ivar first: commands before those of the application.
    :ivar last: commands after them; with comments that show the commands of the sides.
    :ivar needs: modules and variables of the job.
    :ivar prepares: whether a script prepares the input of all runs.
    :ivar runs: command of one run of each side, by the side's name, with slots (job/launch.py).
    :ivar files: texts of files in the stage directory that the job reads, by name.
    :ivar private: files that only their owner may read.
    """

    first: tuple[str, ...]
    last: tuple[str, ...]
    needs: Needs
    prepares: bool
    runs: Mapping[str, str]
    files: Mapping[str, str]
    private: Mapping[str, str]


def _lacking(program: str) -> str:
    """Return the command that reports a missing program of the image, and the searched PATH.

    :param program: its name or path, quoted.
    """
    searched = "" if "/" in program else " in $PATH"
    return f'echo "error: no software: the image has no" {program}"{searched}" >&2'


def job_commands(
    sides: Sequence[Side], own: Needs, input_commands: Sequence[str], site: Site, layout: Layout, stagedir: str
) -> Job:
    """Return the commands of a job that runs these sides.

    :param own: further needs of the application.
    :param input_commands: commands that make the input, with the variables of the bare program.
    """
    contained = sum(side.container is not None for side in sides)
    by_side = {side.name: side_commands(side, site, layout, stagedir, contained > 1, contained > 0) for side in sides}
    needs = sum((commands.needs for commands in by_side.values()), own)
    files = {name: text for commands in by_side.values() for name, text in commands.files.items()}
    variables = next((side.environment for side in sides if not side.container), {}) if input_commands else {}
    prepare = [*needs.prepare, *node_commands.exports(variables), *input_commands]
    if prepare:
        files[contract.PREPARE] = "\n".join(prepare)
    files[contract.COMMANDS] = json.dumps({name: commands.stored for name, commands in by_side.items()}, indent=1)
    # One trap for all files, before the job makes any of them.
    trap = [f"trap {shlex.quote(shlex.join(['rm', '-rf', '--', *needs.files]))} EXIT"] if needs.files else []
    private = {contract.environment_file(side.name): node_commands.private_exports(side.environment) for side in sides}
    runs = {name: commands.script for name, commands in by_side.items()}
    first = (*node_commands.require_python(site), *trap)
    shown = [f"# {side.label} runs: {line}" for side in sides for line in _programs(runs[side.name])]
    return Job(first, (*needs.before, contract.RUNS_FOLLOW, *shown), needs, bool(prepare), runs, files, private)


def _programs(script: str) -> list[str]:
    """Return the lines of a run that start its programs, for people."""
    lines = script.splitlines()
    steps = [line for phase, line in zip(lines, lines[1:]) if phase.startswith("phase ")]
    return steps or [line for line in lines if line.startswith("beside ")] or lines[-1:]


@dataclass(frozen=True)
class Commands:
    """Hold the commands of a side, and their needs.

    :ivar script: commands of one run, with slots (job/launch.py).
    :ivar needs: commands before the rounds, modules, variables, and files to remove.
    :ivar others: other commands with slots, by name (job/contract.py).
    :ivar files: scripts that these commands call, by file name.
    :ivar container: facts with which the job can change the container; empty for none.
    """

    script: str
    needs: Needs
    others: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    container: Mapping[str, object] = field(default_factory=dict)

    @property
    def stored(self) -> dict[str, object]:
        """The side's entry in ``commands.json``."""
        return {"commands": {contract.RUN_SIDE: self.script, **self.others}, "container": self.container}


def side_commands(
    side: Side, site: Site, layout: Layout, stagedir: str, several: bool = False, observed: bool = False
) -> Commands:
    """Return the commands of a side on a partition.

    :param stagedir: the check's stage directory, the working directory in containers.
    :param several: whether the job compares the environment of this container with those of others.
    :param observed: whether the job records the side's observation.
    """
    if side.container:
        return _contained_commands(side, side.container, site, layout, stagedir, several, observed)
    host = _Host(side)
    if not observed:
        return Commands(_script(side, host, site), side.launcher.needs)
    needs = side.launcher.needs + Needs(prepare=(_observation(side, site),), files=(contract.KEY,))
    # The job can put words before the program; people see the script without their slot.
    with_slot = _script(side, _Host(side, f" {launch.PREFIX}"), site)
    others = {contract.RUN_SIDE: with_slot, contract.OBSERVE_SIDE: _observing(side, host)}
    return Commands(_script(side, host, site), needs, others)


def _contained_commands(
    side: Side, container: Container, site: Site, layout: Layout, stagedir: str, several: bool, observed: bool
) -> Commands:
    """Return the commands of a side in its container; see :func:`side_commands`."""
    runtime = container.runtime
    place = _InContainer(side, container, stagedir, layout, observed, _network(container, site, layout))
    needs = side.launcher.needs + container.needs + place.needs(site)
    others = place.preparation()
    if several:
        others[contract.SURROUNDINGS] = place.words(_look(place))
        needs += Needs(prepare=(node_commands.in_job(site, "observe", "--alone", side.name),), files=(contract.KEY,))
    if side.launcher.ranks:
        inside = _Inside(place, layout)
        others[contract.START_RANKS] = "\n".join([*_hand_on(side), place.parallel(RANKS)])
        others[contract.START_INSIDE] = inside.parallel(RANKS)
        others[contract.LOOK_UP] = place.words(LOOKUP)
        others[contract.RUN_INSIDE] = _script(side, inside, site)
    files = place.mpi_scripts()
    if runtime.way.own_network:
        files[container_runtimes.OWN_NETWORK_SCRIPT] = container_runtimes.OWN_NETWORK
    if runtime.before:
        files[container_runtimes.HAND_ON_SCRIPT] = container_runtimes.HAND_ON
    if observed:
        others[contract.OBSERVE_SIDE] = _observing(side, place)
    if side.may_fail:
        needs = replace(needs, prepare=(_tried(side.name, needs.prepare),))
    return Commands(_script(side, place, site), needs, others, files, place.facts)


def _tried(name: str, prepare: Sequence[str]) -> str:
    """Return the command that prepares a side, and notes why that failed instead of ending the job."""
    errors, lost = shlex.quote(f"{name}.prepare.err"), shlex.quote(contract.lost_file(name))
    return f"bash -ec {shlex.quote(chr(10).join(prepare))} 2>{errors} || cp {errors} {lost}; cat {errors} >&2"


def _network(container: Container, site: Site, layout: Layout) -> str:
    """Return the network of a side's containers, by its name in the runtime.

    :raises SkipTestError: containers with a network of their own cannot run the side.
    """
    way = container.runtime.way
    if not way.own_network:
        return container_runtimes.HOST_NETWORK
    title = container.runtime.title
    if container.host_mpi:
        raise SkipTestError(f"{title}: the host's MPI needs the host's network: only the generic variant runs there")
    if layout.nodes > 1 and not site.container_network:
        raise SkipTestError(f"{title} on {layout.nodes} nodes needs {way.requirement}")
    return site.container_network or container_runtimes.NODE_NETWORK


def _observation(side: Side, site: Site) -> str:
    """Return the command that records the observation of a side (job/observation.py)."""
    ranks = [f"--ranks={side.launcher.ranks}"] if 0 < side.launcher.ranks <= OBSERVED else []
    return f"{node_commands.in_job(site, 'observe', *ranks, side.name)} || true"


def _observing(side: Side, place: _Host | _InContainer) -> str:
    """Return the command that starts a side once, to print its observation."""
    # A program that starts others to measure them has no ranks, and would measure this one.
    start = place.parallel if 0 < side.launcher.ranks <= OBSERVED else place.words
    return "\n".join([*_exports(side), start(_look(place))])


def _exports(side: Side) -> list[str]:
    """Return the commands that set the variables of a side, for all of its ranks."""
    return [*node_commands.exports(side.environment, side.name), *_hand_on(side)]


def _hand_on(side: Side) -> list[str]:
    return [side.launcher.hand_on] if side.launcher.hand_on else []


def _look(place: _Host | _InContainer) -> str:
    """Return the command that prints the view of a process of a side (job/observe.sh)."""
    directory = place.workdir
    return f"sh {directory}/{contract.OBSERVE} {directory}/{contract.observing_directory(launch.SIDE)}"


def _script(side: Side, place: _Host | _InContainer | _Inside, site: Site) -> str:
    program = side.program
    lines = _exports(side)
    if program.neighbours:
        beside = [neighbour_command(program, neighbour, place) for neighbour in program.neighbours]
        return "\n".join([node_commands.BESIDE, *lines, *program.reset, *beside, "wait", _report(program, site)])
    if not program.steps:
        command = shlex.join([program.executable, *program.options])
        command = place.parallel(f"{_preloaded(program, place)}{command}")
        return "\n".join([*lines, *program.reset, command])
    lines = ["set -e", node_commands.PHASE, *lines, *program.reset]
    times = _preloaded(replace(program, preloads_mpi=False), place)
    for step in program.steps:
        command = step.command.replace(PROGRAM, shlex.quote(program.executable))
        lines += [f"phase {step.name}", place.parallel(f"{times}{command}") if step.parallel else place.words(command)]
    return "\n".join([*lines, "phase end"])


def _preloaded(program: Program, place: _Host | _InContainer | _Inside) -> str:
    """Return the words before a program that preload libraries into it; empty for none."""
    libraries = [place.host_mpi] if program.preloads_mpi else []
    timing = _timing(program, place, contract.MPI_TIMES)
    libraries += [timing.pop(_PRELOAD)] if timing else []
    variables = {**({_PRELOAD: ":".join(libraries)} if libraries else {}), **timing}
    return f"{_env(variables)} " if variables else ""


def _timing(program: Program, place: _Host | _InContainer | _Inside, report: str) -> dict[str, str]:
    """Return the variables that turn on the measurement of the time in MPI; empty without it.

    :param report: name of the file with the result.
    """
    if not program.times_mpi:
        return {}
    library = f"{place.stage}/{contract.MPI_TIMES_LIBRARY}"
    return {_PRELOAD: library, contract.MPI_TIMES_PATH: f"{place.stage}/{report}"}


def _env(variables: Mapping[str, str]) -> str:
    return " ".join(["env", *(f"{name}={value}" for name, value in variables.items())])


def neighbour_command(program: Program, neighbour: Neighbour, place: _Host | _InContainer | _Inside) -> str:
    """Return the command that starts one of the programs that run at the same time, each rank on its own cores."""
    command = shlex.join([program.executable + neighbour.suffix, *neighbour.options])
    variables = {"OMP_NUM_THREADS": str(neighbour.threads), **neighbour.environment}
    timing = _timing(program, place, contract.mpi_times_file(neighbour.name))
    if timing:
        # Before all others: it hands calls on to the next library that has the function, as DLB's does not.
        timing[_PRELOAD] = ":".join(filter(None, [timing[_PRELOAD], variables.get(_PRELOAD)]))
    command = f"{_env({**variables, **timing})} {command}"
    bind = f"sh {contract.BIND} {neighbour.first_core} {neighbour.threads}"
    return f"beside {neighbour.name} {place.bound(neighbour, bind, command)}"


def _report(program: Program, site: Site) -> str:
    """Return the command that prints the programs' output, their seconds, and the idle time of their cores."""
    words = [f"{neighbour.name}={neighbour.ranks}x{neighbour.threads}" for neighbour in program.neighbours]
    return node_commands.in_job(site, "neighbours", "report", *words)


class _Host:
    """Return the words before commands of a side on the host."""

    workdir = "."
    host_mpi, stage = f"./{contract.MPI_PRELOAD}", "$PWD"

    def __init__(self, side: Side, prefix: str = "") -> None:
        self._launcher, self._prefix = side.launcher, prefix

    def words(self, command: str) -> str:
        """Return the command unchanged."""
        return command

    def parallel(self, command: str) -> str:
        """Return the command that starts the ranks of a program."""
        return f"{self._launcher.words}{self._prefix} {command}".strip()

    def bound(self, neighbour: Neighbour, bind: str, command: str) -> str:
        """Return the command that starts the ranks of a program, each bound by the words ``bind``."""
        return f"{neighbour.launcher} {bind} {command}"


class _InContainer:
    """Return the words before commands of a side in its container, and the commands before the rounds."""

    workdir = stage = contract.WORKDIR

    def __init__(
        self, side: Side, container: Container, stagedir: str, layout: Layout, observed: bool, network: str
    ) -> None:
        self._side, self._container, self._stagedir, self._layout = side, container, stagedir, layout
        self._observed, self._network = observed, network
        self._name, self._program, self._launcher = side.name, side.program, side.launcher
        self._local_ranks = layout.ranks_per_node if side.launcher.ranks else 0
        self._links = f"{contract.WORKDIR}/{contract.mpi_links(side.name)}"
        self.host_mpi = f"{self._links}/{contract.MPI_PRELOAD}"

    def words(self, command: str) -> str:
        """Return the command that runs a command in the image."""
        return self._launch(self._entered(command), self._container)

    def parallel(self, command: str) -> str:
        """Return the command that starts the ranks of a program, each in a container, or those of a node in one."""
        if self._container.runtime.way.own_network:
            return self._in_own_network(command)
        joined = self._container.runtime.joined if self._local_ranks > 1 else ""
        options = [joined.format(ranks=self._local_ranks)]
        return self._launch(self._entered(command), self._container, options, self._launcher.words)

    def _in_own_network(self, command: str) -> str:
        """Return the command that starts one container on each node, and in these the ranks of a program."""
        layout = self._layout
        mpirun = " ".join([f"mpirun -np {layout.ranks}", *layout.bound_by("mpirun")])
        script = f"{contract.WORKDIR}/{container_runtimes.OWN_NETWORK_SCRIPT}"
        start = f"sh {script} {layout.nodes} {layout.ranks_per_node} {mpirun} {self._entered(command)}"
        once = f"${contract.EACH_NODE}" if self._launcher.hand_on else layout.once_per_node()
        return self._launch(start, self._container, launcher=once)

    def _entered(self, command: str) -> str:
        """Return a command after the words that enter the container, with the host's MPI if it is used."""
        command = f"{launch.PREFIX} {command}"
        if not self._container.host_mpi:
            return command
        return f"sh {contract.WORKDIR}/{contract.mpi_entry_file(self._name)} {command}"

    def bound(self, neighbour: Neighbour, bind: str, command: str) -> str:
        """Return the command that starts the ranks of a program, each in a container that the words ``bind`` bind."""
        return f"{neighbour.launcher} {bind} {self.own(neighbour).words(command)}"

    def own(self, neighbour: Neighbour) -> _InContainer:
        """Return the same with the directories that only one of several programs has."""
        pairs = [(source, target) for target, source in neighbour.binds.items()]
        options = (*self._container.options, *self._container.runtime.bind_words(pairs))
        container = replace(self._container, options=options)
        return _InContainer(self._side, container, self._stagedir, self._layout, self._observed, self._network)

    def mpi_scripts(self) -> dict[str, str]:
        """Return the scripts that bring the host's MPI in, by file name."""
        if not self._container.host_mpi:
            return {}
        return {
            contract.mpi_entry_file(self._name): _MPI_ENTRY.format(links=self._links),
            contract.mpi_lookup_file(self._name): _MPI_LOOKUP.format(script=contract.IS_SCRIPT, library=self.host_mpi),
        }

    def needs(self, site: Site) -> Needs:
        """Return the commands, modules and variables of the job before the rounds."""
        container, runtime = self._container, self._container.runtime
        prepare = [node_commands.in_job(site, "runtime", self._name)]
        if container.host_mpi:
            prepare.append(self._plan_host_mpi(site, container.host_mpi))
        if runtime.mount_points:
            prepare.append(self._enter(site, contract.MOUNT_POINTS))
        # First, because it explains an early end of the job by the commands after it.
        prepare += [_observation(self._side, site)] if self._observed else []
        if container.required_program:
            prepare.append(self._enter(site, contract.REQUIRE))
        if container.host_mpi:
            prepare += self._verify_host_mpi(site)
        files = [str(Path(container.copied_to).parent)] if container.copied_to else []
        files += [contract.KEY] if self._observed else []
        # PMIx's shared-memory store does not work in a container, and prints warnings.
        return Needs(prepare=tuple(prepare), variables={"PMIX_MCA_gds": "hash"}, files=tuple(files))

    def _enter(self, site: Site, command: str) -> str:
        """Return the command that runs one of :meth:`preparation`."""
        return node_commands.in_job(site, "enter", self._name, command)

    @property
    def facts(self) -> dict[str, object]:
        """Facts with which the job can change the container."""
        container, runtime = self._container, self._container.runtime
        copy = shlex.quote(container.copied_to) if container.copied_to else None
        ranks = {
            "ranks": self._layout.ranks,
            "nodes": self._layout.nodes,
            "launcher": self._launcher.words,
            "host_mpi": container.host_mpi is not None,
            "own_network": runtime.way.own_network,
        }
        start = {
            "way": runtime.way.name,
            "ranks": self._layout.ranks_per_node if self._program.mpi else 0,
            "own_environment": container.host_mpi is None,
            "file": "" if runtime.storage else container.image,
            "copy_to": container.copied_to or "",
            "required_option": runtime.required_option,
        }
        trees = [f"{source}:{target}" for target, source in container.software_trees.items()]
        facts = ("program", "library", "family")
        host = container.host_mpi and {**{name: getattr(container.host_mpi, name) for name in facts}, "trees": trees}
        return {
            "image": copy or container.image,
            "command": container.typed,
            "start": start,
            "host": host,
            "options": container.options,
            "bind": runtime.bind,
            "gpus": "" if container.gpus else runtime.gpus,
            "unpacks": runtime.form == container_runtimes.SIF,
            "observed": self._launcher.ranks if 0 < self._launcher.ranks <= OBSERVED else 0,
            **({"ranks": ranks} if self._launcher.ranks else {}),
        }

    def preparation(self) -> dict[str, str]:
        """Return the commands that the job runs in the container before the rounds, by name."""
        container = self._container
        commands = (
            {contract.UNPACK: self._unpack(container)} if container.runtime.form == container_runtimes.SIF else {}
        )
        if container.runtime.mount_points:
            commands[contract.MOUNT_POINTS] = self._launch("true", container, [container.runtime.mount_points])
        if container.required_program:
            program = shlex.quote(container.required_program)
            look = node_commands.unless_found(program, _lacking(program), 1)
            commands[contract.REQUIRE] = self.words(shlex.join(["sh", "-c", look]))
        if container.host_mpi:
            program = shlex.quote(self._program.mpi or self._program.executable)
            look = f"sh {contract.WORKDIR}/{contract.mpi_lookup_file(self._name)} {program}"
            commands[contract.PREFLIGHT] = self.words(look)
        return commands

    def _unpack(self, container: Container) -> str:
        """Return the command of a remedy that unpacks the image with its own tar: nodes may lack other tools for it."""
        target = f"{contract.WORKDIR}/{launch.TREE}"
        # Shells of images may lack pipefail. A tar that cannot skip unreadable files ends with 1.
        unpack = (
            f"{{ {container_runtimes.ARCHIVE}; echo $? >{target}.status; }} | "
            f"{{ tar -C {target} -xof - && cat >/dev/null; }} && "
            f'[ "$(cat {target}.status)" -le 1 ] && cd {target} && mkdir -p dev proc sys tmp'
        )
        packed = replace(container, copied_to=None, host_mpi=None)
        return self._launch(shlex.join(["sh", "-c", unpack]), packed, [packed.runtime.contain], image=packed.image)

    def _launch(
        self,
        command: str,
        container: Container,
        more: Sequence[str] = (),
        launcher: str = "",
        image: str = launch.IMAGE,
    ) -> str:
        """Return the command that runs a command in a container, with slots for values that only the job knows.

        :param more: further options of the runtime.
        :param launcher: words that start the ranks, or measure the command.
        :param image: the image for the runtime.
        """
        options = [launch.OPTIONS]
        # Containers of a daemon are found by this label.
        options += [container.runtime.label.format(label=f"{contract.RUN}=${contract.RUN}")]
        options += [*container.options, *more]
        options += [launch.MPI_OPTIONS] if container.host_mpi else []
        options += [launch.CHANGES]
        line = container.runtime.command_line(
            command,
            image,
            [(self._stagedir, contract.WORKDIR)],
            contract.WORKDIR,
            filter(None, options),
            container.gpus,
            container.typed,
            self._network,
        )
        start = launch.START
        if not container.runtime.alone:
            return f"{launcher} {start} {line}".strip()
        # The container is an option of the launcher.
        if self._launcher.ranks and launcher:
            return f"{start} {launcher} {line}"
        return f"{launcher} {start} {container.runtime.alone} {line}".strip()

    def _plan_host_mpi(self, site: Site, host: HostMpi) -> str:
        """Return the command that finds the host's MPI in the job."""
        plan = node_commands.in_job(site, "hostmpi", "plan", self._name)
        exports = node_commands.exports(host.environment)
        return f"({'; '.join([*exports, plan])})" if exports else plan

    def _verify_host_mpi(self, site: Site) -> list[str]:
        """Return the commands that check whether the image's program can load the host's MPI."""
        output = contract.preflight_file(self._name)
        return [
            # The next command judges its output, for any status.
            f"{self._enter(site, contract.PREFLIGHT)} >{output} 2>&1 || true",
            node_commands.in_job(site, "hostmpi", "verify", self._name),
        ]


class _Inside:
    """Return the words before commands if the image's own launcher starts the ranks, in one container."""

    stage = contract.WORKDIR

    def __init__(self, container: _InContainer, layout: Layout) -> None:
        self._container, self.words, self.host_mpi = container, container.words, container.host_mpi
        self._launcher = " ".join([f"mpirun -np {layout.ranks}", *layout.bound_by("mpirun")])

    def parallel(self, command: str) -> str:
        """Return the command that starts the ranks of a program."""
        return self.words(f"{self._launcher} {command}")

    def bound(self, neighbour: Neighbour, bind: str, command: str) -> str:
        """Return the command that starts the ranks of a program in one container, each bound by the words ``bind``."""
        words = f"mpirun -np {neighbour.ranks} --bind-to none {bind} {command}"
        return self._container.own(neighbour).words(words)
