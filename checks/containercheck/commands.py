"""The commands of a check's job: baseline and subject, each as a person would type it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING

from reframe.core.backends import getlauncher

from containercheck import placement, runtimes, software

if TYPE_CHECKING:
    from containercheck.check import ContainerCheck

#: Where ReFrame mounts the stage directory in a container.
WORKDIR = "/rfm_workdir"
#: Makes a program in the container load the host's MPI.
LIBRARY_PATH = f"env LD_LIBRARY_PATH={WORKDIR}/host-mpi"
#: Name of the script that makes the input.
PREPARE = "prepare.sh"
#: Shell function that prints the wall-clock seconds of each step.
PHASE = r"""phase() {
    now=$(date +%s.%N)
    [ -z "${name:-}" ] || awk -v name="$name" -v t0="$began" -v t1="$now" \
        'BEGIN { printf "seconds %s %.3f\n", name, t1 - t0 }'
    name=$1
    began=$now
}"""

Contain = Callable[[str], str]


def scripts(check: ContainerCheck) -> dict[str, str]:
    """Return the scripts by file name: of the input, baseline and, for the container variants, subject.

    What they need beforehand goes into the check's ``prerun_cmds``, ``modules`` and ``env_vars``.
    """
    check.env_vars.setdefault("OMP_NUM_THREADS", str(check.threads))
    launch = _launch(check)
    texts = {PREPARE: "\n".join(check.input_commands)} if check.input_commands else {}
    texts["baseline.sh"] = _script(check, launch, lambda command: command, check.bare_command)
    if check.contained:
        texts["subject.sh"] = _script(check, launch, _contain(check), check.executable)
    if check.own_files:
        # The job has one trap for all, and needs it before it makes any of them.
        check.prerun_cmds.insert(0, f"trap {shlex.quote(shlex.join(['rm', '-f', *check.own_files]))} EXIT")
    return texts


def runner(check: ContainerCheck, names: list[str]) -> list[str]:
    """Return the words that run the scripts ``names`` in alternating rounds."""
    rounds = check.rounds if check.contained else 1
    return [
        shlex.quote(str(software.JOB / "rounds.py")),
        f"--rounds {rounds} --limit {check.run_limit:g} --local-ranks {_local_ranks(check)}",
        *(f"--collect {shlex.quote(name)}" for name in check.output_files),
        *(f"--prepare {name}" if name == PREPARE else name for name in names),
    ]


def _local_ranks(check: ContainerCheck) -> int:
    """Return the ranks of MPI on a node, which is as much as one process can look into; 0 without MPI."""
    return check.num_tasks_per_node if check.uses_mpi else 0


def _script(check: ContainerCheck, launch: str, contain: Contain, program: str) -> str:
    lines = list(check.reset_commands)
    if not check.steps:
        command = contain(shlex.join([program, *check.executable_opts]))
        return "\n".join([*lines, f"{launch} {command}".strip()])
    lines = ["set -e", PHASE, *lines]
    for step in check.steps:
        command = contain(step.command)
        lines += [f"phase {step.name}", f"{launch} {command}" if step.parallel else command]
    return "\n".join([*lines, "phase end"])


def _launch(check: ContainerCheck) -> str:
    if check.started_by:
        return check.started_by
    if check.rank_count is None:
        return ""
    if check.mpi_family:
        _use_family(check)
    job = check.job
    options = check.current_partition.extras.get(f"{check.mpi_family}_launcher_options")
    if check.mpi_family and options is None:
        # Hydra, which starts MPICH and its relatives, finds the nodes of the job by itself under most schedulers.
        return f"mpiexec.hydra -n {check.num_tasks} -ppn {check.num_tasks_per_node}"
    job.launcher.options = [*job.launcher.options, *(options or [])]
    if job.launcher.registered_name == "local":
        # ReFrame's built-in system has no MPI launcher.
        job.launcher = getlauncher("mpirun")()
    if os.geteuid() == 0:
        check.env_vars.update({"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
    for name in ("num_tasks", "num_tasks_per_node", "num_cpus_per_task"):
        # The launcher reads them from the job, where ReFrame puts them only later.
        setattr(job, name, getattr(check, name))
    return job.launcher.run_command(job)


def _use_family(check: ContainerCheck) -> None:
    """Let the bare program load the host's MPI of its family, whatever that is called there."""
    libmpi = check.current_partition.extras.get(f"host_{check.mpi_family}")
    given = f" --libmpi={shlex.quote(libmpi)}" if libmpi else ""
    check.prerun_cmds += [
        f"{_hostmpi(check)} lend{given} {check.mpi_family} || exit 1",
        "export LD_LIBRARY_PATH=$PWD/bare-mpi${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}",
    ]


def _hostmpi(check: ContainerCheck) -> str:
    return shlex.join([check.python, str(software.JOB / "hostmpi.py")])


def _contain(check: ContainerCheck) -> Contain:
    """Return what puts a command into the container; the integrated variant gets the host's MPI brought in."""
    environ = check.current_partition.container_environs.get(check.runtime)
    if environ:
        # ReFrame loads these by itself only for its own container_platform.
        check.modules += [module for module in environ.modules if module not in check.modules]
        check.env_vars.update(environ.env_vars)
    # PMIx's shared-memory store does not work from inside an image, and complains.
    check.env_vars.setdefault("PMIX_MCA_gds", "hash")
    if check.image_directory:
        copy = _image_copy(check)
        check.own_files = [*check.own_files, copy]
        check.prerun_cmds += [f"{shlex.join(['cp', '-L', str(check.image), copy])} || exit 1"]
    if check.variant == "generic":
        return lambda command: in_container(check, command)
    _bring_host_mpi(check)
    return lambda command: in_container(check, f"{LIBRARY_PATH} {command}")


def _bring_host_mpi(check: ContainerCheck) -> None:
    """Find the host's MPI in the job, and check that the image's program can load it, before the rounds."""
    hostmpi = _hostmpi(check)
    bind = f"--bind={shlex.quote(runtimes.bind_option(check.runtime))}"
    # Of another family, the bare program tells: see _use_family.
    libmpi = None if check.mpi_family else check.current_partition.extras.get("host_mpi")
    options = f"{bind} --libmpi={shlex.quote(libmpi)}" if libmpi else bind
    program = check.mpi_program or check.executable
    trace = f"{LIBRARY_PATH} sh -c 'LD_TRACE_LOADED_OBJECTS=1 LD_WARN=yes exec $(command -v {program})'"
    check.prerun_cmds += [
        f"{hostmpi} plan {options} {shlex.quote(check.mpi_program or check.bare_command)} || exit 1",
        f"{in_container(check, trace)} >preflight.out 2>&1",
        f"{hostmpi} verify preflight.out || exit 1",
    ]


def _image_copy(check: ContainerCheck) -> str:
    return placement.own_path(check.image_directory, check.stagedir, ".sif")


def in_container(check: ContainerCheck, command: str) -> str:
    """Return what runs a command in the check's image."""
    platform = runtimes.create(check.runtime)
    platform.image = _image_copy(check) if check.image_directory else str(check.image)
    platform.with_cuda = check.gpu and bool(check.current_partition.select_devices("gpu"))
    platform.command = command
    platform.mount_points = []
    platform.options = [*runtimes.options(check.runtime, _local_ranks(check)), *check.container_options]
    if check.variant == "integrated":
        platform.options.append("$(cat host-mpi.options)")
    return platform.launch_command(check.stagedir)
