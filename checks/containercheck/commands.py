"""The commands of a side, as a person would type them, and what they need in the job. Changes nothing."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from containercheck import contract, programs
from containercheck.sides import Container, Needs, Side
from containercheck.sites import Layout, Site
from containercheck.software import runtimes

#: Makes a program in the container load the host's MPI.
LIBRARY_PATH = f"env LD_LIBRARY_PATH={contract.WORKDIR}/{contract.MPI_LINKS}"
#: Shell function that prints the wall-clock seconds of each step.
PHASE = r"""phase() {
    now=$(date +%s.%N)
    [ -z "${name:-}" ] || awk -v name="$name" -v t0="$began" -v t1="$now" \
        'BEGIN { printf "seconds %s %.3f\n", name, t1 - t0 }'
    name=$1
    began=$now
}"""


@dataclass(frozen=True)
class Commands:
    """What a job needs of one side.

    :ivar script: what one run of it is.
    :ivar needs: what the job does before, loads, sets, and removes.
    """

    script: str
    needs: Needs


def of_side(side: Side, site: Site, layout: Layout, stagedir: str) -> Commands:
    """Return the commands of a side on a partition.

    :param stagedir: the check's stage directory, which a container has as its working directory.
    """
    container = _InContainer(side, stagedir) if side.container else None
    needs = side.launcher.needs
    if container:
        needs = needs + side.container.needs + container.needs(site, layout)
    return Commands(_script(side, container), needs)


def _script(side: Side, container: _InContainer | None) -> str:
    program = side.program
    contain = container.words if container else (lambda command: command)
    lines = [f"export {name}={shlex.quote(value)}" for name, value in side.environment.items()]
    if not program.steps:
        command = contain(shlex.join([program.executable, *program.options]))
        return "\n".join([*lines, *program.reset, f"{side.launcher.words} {command}".strip()])
    lines = ["set -e", PHASE, *lines, *program.reset]
    for step in program.steps:
        command = contain(step.command)
        lines += [f"phase {step.name}", f"{side.launcher.words} {command}".strip() if step.parallel else command]
    return "\n".join([*lines, "phase end"])


class _InContainer:
    """A side's container: what is typed before its commands, and what has to be there first."""

    def __init__(self, side: Side, stagedir: str) -> None:
        self._name, self._program, self._stagedir = side.name, side.program, stagedir
        self._container: Container = side.container
        self._command = self._container.command or runtimes.command_of(self._container.runtime)

    def words(self, command: str) -> str:
        """Return what runs a command in the image."""
        if self._container.host_mpi:
            command = f"{LIBRARY_PATH} {command}"
        return self._launch(command)

    def needs(self, site: Site, layout: Layout) -> Needs:
        """Return what the job does before the rounds."""
        container = self._container
        files: tuple[str, ...] = ()
        ranks = layout.ranks_per_node if self._program.mpi else 0
        ask = programs.in_job(site, "runtime", f"--command={self._command}", f"--ranks={ranks}", self._name)
        prepare = [ask]
        if container.copied_to:
            files = (container.copied_to,)
            prepare.append(shlex.join(["cp", "-L", container.image, container.copied_to]))
        if container.host_mpi:
            prepare += self._bring_host_mpi(site)
        # PMIx's shared-memory store does not work from inside an image, and complains.
        return Needs(prepare=tuple(prepare), variables={"PMIX_MCA_gds": "hash"}, files=files)

    def _launch(self, command: str) -> str:
        container = self._container
        platform = runtimes.create(container.runtime, self._command)
        platform.image = container.copied_to or container.image
        platform.with_cuda = container.gpus
        platform.command = command
        platform.mount_points = []
        # What the node's runtime needs is known there: see job/runtime.py and job/hostmpi.py.
        platform.options = [f"$(cat {contract.options_file(self._name)})", *container.options]
        if container.host_mpi:
            platform.options.append(f"$(cat {contract.mpi_options_file(self._name)})")
        return platform.launch_command(self._stagedir)

    def _bring_host_mpi(self, site: Site) -> list[str]:
        """Find the host's MPI in the job, and check that the image's program can load it."""
        host = self._container.host_mpi
        options = [f"--bind={runtimes.bind_option(self._container.runtime)}", f"--side={self._name}"]
        options += [f"--libmpi={host.library}"] if host.library else []
        trace = f"sh -c 'LD_TRACE_LOADED_OBJECTS=1 LD_WARN=yes exec $(command -v {self._program.mpi})'"
        said = contract.preflight_file(self._name)
        return [
            programs.in_job(site, "hostmpi", "plan", *options, host.program),
            # Whatever it says, and however it ends, is for the next one to judge.
            f"{self.words(trace)} >{said} 2>&1 || true",
            programs.in_job(site, "hostmpi", "verify", said),
        ]


@dataclass(frozen=True)
class Rounds:
    """How the sides are run.

    :ivar amount: so many rounds, whatever the verdict; 0 to let the verdict decide.
    :ivar seconds: for all rounds.
    :ivar limit: seconds that one run may take.
    :ivar local_ranks: ranks of MPI on a node, which is as much as one process can look into; 0 without MPI.
    :ivar collect: files that every run writes.
    :ivar prepare: whether there is a script that makes the input.
    :ivar keep_awake: whether the processors are kept awake, where they are a virtual machine's.
    """

    amount: int
    seconds: float
    limit: float
    local_ranks: int
    collect: tuple[str, ...]
    prepare: bool
    keep_awake: bool

    def command(self, site: Site) -> str:
        """Return the command that runs all sides in rounds."""
        words = [f"--rounds={self.amount}" if self.amount else f"--seconds={self.seconds:g}", f"--limit={self.limit:g}"]
        words += [f"--local-ranks={self.local_ranks}", *(f"--collect={name}" for name in self.collect)]
        words += [f"--prepare={contract.PREPARE}"] if self.prepare else []
        words += ["--keep-awake"] if self.keep_awake else []
        return programs.in_job(site, "rounds", *words)
