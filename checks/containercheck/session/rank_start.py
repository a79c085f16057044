"""Start ranks of an image's MPI by the launchers of this host, as a job does before its rounds (job/start_ranks.py).

A program that is compiled here, without any MPI, loads the image's library (checks/src/ranks/any-mpi-ranks.c). In an
image whose C library is older than this host's it runs with the host's, which is bound into the container with it.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from containercheck.job import contract, inventory, runtime_start, start_ranks
from containercheck.job.build.cache import private_directory
from containercheck.job.container_runtimes import Runtime
from containercheck.job.project import CHECKS

#: Ranks on each node.
RANKS = 2
#: Longest wait for nodes of Slurm; seconds.
QUEUE = 60
#: Label of the start by the image's own launcher; and the name of the only side in the file of commands.
INSIDE, _SIDE = start_ranks.INSIDE.label, "image"
#: Where the program lies in the container: an empty directory of nearly every image (FHS 3.0, section 3.12).
_PLACE = "/mnt"
#: Libraries of the GNU C library, which go together (https://sourceware.org/glibc/wiki/Release).
_LIBC = r"(ld-linux.*|ld64|lib(c|m|mvec|pthread|dl|rt|util|resolv|anl|nss_\w+|BrokenLocale))\.so\.\d+"
#: Other commands of launchers, for hosts with several: of Debian's alternatives and of MPICH's Hydra.
_LAUNCHERS = {"openmpi": ("mpirun", "mpirun.openmpi", "orterun"), "mpich": ("mpiexec.hydra", "mpirun.mpich", "mpirun")}
#: Patterns of their versions.
_VERSIONS = {"openmpi": r"Open MPI|OpenRTE", "mpich": r"HYDRA|MPICH|Intel\(R\) MPI"}
#: And those by which it starts more ranks than a machine has cores (its mpirun(1), "Mapping"; 5 and newer: prterun(1)).
_OVERSUBSCRIBE = {"OMPI_MCA_rmaps_base_oversubscribe": "1", "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}
#: Variables by which Open MPI starts ranks for root (its FAQ, "Can I run as root?").
_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass(frozen=True)
class Start:
    """A start of ranks.

    :ivar launcher: command of the launcher, with its options.
    :ivar nodes: how many there were.
    :ivar ranks: how many ranks were wanted.
    :ivar is_one_job: whether all came up, in one job.
    :ivar text: what came of it, in a line.
    :ivar by: by what the ranks were started: the job's launcher, or another way.
    """

    launcher: str
    nodes: int
    ranks: int
    is_one_job: bool
    text: str
    by: str = start_ranks.PLAIN.label

    @property
    def is_plain(self) -> bool:
        """Whether the launcher did it as it is."""
        return self.is_one_job and self.by == start_ranks.PLAIN.label


@dataclass(frozen=True)
class ImageStart:
    """The parts of the command that starts a container of an image here.

    :ivar command: of the runtime.
    :ivar runtime: its row in the table.
    :ivar image: path or address.
    :ivar library: path of the MPI library in the image.
    :ivar family: of that library; None for an unknown one.
    :ivar libc: version of the image's GNU C library; None for another one.
    :ivar has_launcher: whether the image has an ``mpirun``.
    """

    command: str
    runtime: Runtime
    image: str
    library: str
    family: str | None
    libc: tuple[int, int] | None
    has_launcher: bool = False

    def container_words(self, directory: Path) -> list[str]:
        """Return the command up to the program in the container.

        :param directory: directory of the program, which is bound into the container.
        """
        hidden = runtime_start.hidden(self.runtime, os.environ, True)
        binds = shlex.split(" ".join(self.runtime.bind_words([(str(directory), _PLACE)])))
        options = [*runtime_start.options(self.runtime, self.command, ranks=0), *binds]
        return ["env", *(f"-u{name}" for name in hidden), self.command, "exec", *options, self.image]

    def program_words(self, directory: Path) -> list[str]:
        """Return the command of the program in the container, with the host's C library where that was copied."""
        program = f"{_PLACE}/ranks {shlex.quote(self.library)}"
        if (directory / "libc").exists():
            program = f'{_PLACE}/libc/loader --library-path "{_PLACE}/libc:${{LD_LIBRARY_PATH:-}}" {program}'
        return ["sh", "-c", f"exec {program}"]


class NotStarted(Exception):
    """No rank could be started; the message says why."""


def starts(image: ImageStart, host: Mapping[str, Any]) -> list[Start]:
    """Return the starts of ranks: by Slurm on one node and on two, or by the launcher of this machine.

    :param host: as ``containercheck.job.inventory.inventory`` returns it.
    :raises NotStarted: there is no compiler, no launcher, or no GNU C library in the image.
    """
    if image.libc is None:
        raise NotStarted("no rank was started: the image has no GNU C library, with which our program is compiled")
    with _program(image, host) as directory, _working_in(directory):
        by_slurm = list(_by_slurm(image, host)) if host["pmi"] else []
        if any(start.is_one_job for start in by_slurm):
            return by_slurm
        return [*by_slurm, *_on_this_machine(image)]


@contextmanager
def _working_in(directory: Path) -> Iterator[None]:
    """Work in a directory, and let Open MPI start more ranks than cores, and ranks for root."""
    before, environment = Path.cwd(), dict(os.environ)
    os.chdir(directory)
    os.environ.update(_OVERSUBSCRIBE)
    os.environ.update(_ROOT if os.geteuid() == 0 else {})
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)


def _by_slurm(image: ImageStart, host: Mapping[str, Any]) -> Iterator[Start]:
    """Yield the starts by srun, on two nodes only where one does it and there are two."""
    wanted = "pmi2" if image.family == "mpich" else "pmix"
    plugin = next((name for name in host["pmi"] if name.startswith(wanted)), None)
    for nodes in (1, 2):
        # A node may have one core.
        size = [f"--nodes={nodes}", f"--ntasks={RANKS * nodes}", "--overcommit"]
        words = ["srun", *size, f"--immediate={QUEUE}", "--time=2"]
        start = _start(image, [*words, f"--mpi={plugin}"] if plugin else words, nodes)
        yield start
        if not start.is_one_job or _nodes_of_slurm() < 2:
            return


def _nodes_of_slurm() -> int:
    """Return how many nodes of the default partition run nothing now."""
    _, output = inventory.output_of(["sinfo", "--noheader", "--states=idle", "--format=%P %D"])
    counts = [int(line.split()[1]) for line in output.splitlines() if re.match(r"\S+\* \d+$", line)]
    return sum(counts)


@contextmanager
def _program(image: ImageStart, host: Mapping[str, Any]) -> Iterator[Path]:
    """Give a directory with the program, and with the host's C library where the image's is older.

    It lies where nodes see it too: beside the caches.

    :raises NotStarted: it cannot be compiled.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        raise NotStarted("no rank was started: there is no C compiler here for the program that does it: install gcc")
    parent = private_directory("program_cache").parent
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".ranks-", dir=parent) as name:
        directory = Path(name)
        source, program = CHECKS / "src/ranks/any-mpi-ranks.c", directory / "ranks"
        done = subprocess.run(
            [compiler, "-o", program, source, "-ldl"], capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode != 0:
            why = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise NotStarted(f"no rank was started: {compiler} cannot compile our program: {why}")
        if image.libc and image.libc < _libc_of(host):
            _copy_libc(program, directory / "libc")
        yield directory


def _libc_of(host: Mapping[str, Any]) -> tuple[int, int]:
    match = re.search(r"(\d+)\.(\d+)", host["host"]["libc"])
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _copy_libc(program: Path, target: Path) -> None:
    """Copy the C library that a program of this host loads, with its loader."""
    target.mkdir()
    _, printed = inventory.output_of(["ldd", str(program)])
    loader = re.search(r"^\s*(/\S*/ld\S+)", printed, re.MULTILINE)
    libc = re.search(r"libc\.so\.\d+ => (\S+)", printed)
    if not loader or not libc:
        raise NotStarted("no rank was started: ldd does not say where the host's C library is")
    shutil.copy(loader[1], target / "loader")
    for path in Path(libc[1]).parent.iterdir():
        if re.fullmatch(_LIBC, path.name):
            shutil.copy(path, target / path.name)


def _on_this_machine(image: ImageStart) -> Iterator[Start]:
    """Yield the start by this machine's launcher, and by the image's own in one container where that one fails.

    :raises NotStarted: there is no launcher.
    """
    launcher = _launcher(image.family)
    if launcher:
        start = _start(image, [launcher, "-np", str(RANKS)], 1)
        yield start
        if start.is_one_job:
            return
    elif not image.has_launcher:
        raise NotStarted("no rank was started: there is no mpirun on the PATH here, nor in the image")
    if image.has_launcher:
        yield _start(image, [], 1)


def _start(image: ImageStart, launcher: Sequence[str], nodes: int) -> Start:
    """Start the ranks as they are, then in the other ways that a job knows.

    :param launcher: words of the launcher; empty for the image's own, in one container.
    """
    ranks = RANKS * nodes
    container, program = image.container_words(Path.cwd()), image.program_words(Path.cwd())
    # Open MPI before 4 knows the option only.
    root = ["--allow-run-as-root"] if os.geteuid() == 0 and image.family != "mpich" else []
    own = ["mpirun", *root, "-np", str(ranks)]
    inside = shlex.join([*container, *own, *program])
    commands = {
        contract.LOOK_UP: "true",
        contract.START_RANKS: f"{shlex.join(launcher)} {{{{start}}}} {shlex.join([*container, *program])}",
        contract.START_INSIDE: inside,
    }
    if not launcher:
        commands[contract.START_RANKS] = inside
    words = shlex.join(launcher or own)
    facts = {"ranks": ranks, "nodes": nodes, "launcher": words, "host_mpi": False, "own_network": False}
    Path(contract.COMMANDS).write_text(json.dumps({_SIDE: {"commands": commands, "container": {"ranks": facts}}}))
    Path(contract.launch_file(_SIDE)).unlink(missing_ok=True)
    try:
        # A job has a log for lines about other processes.
        with redirect_stdout(io.StringIO()):
            found = start_ranks.RankStart(_SIDE).find()
    except start_ranks.NotStarted as error:
        # Its advice, the last sentence, is for a job.
        reason = str(error).partition(f" {start_ranks.ADVICE}")[0].rpartition(". ")[0]
        return Start(words, nodes, ranks, False, reason, start_ranks.PLAIN.label if launcher else INSIDE)
    where = "on one node" if nodes == 1 else f"on {nodes} nodes"
    text = found["because"] or f"{ranks} of {ranks} {where} in one job"
    return Start(words, nodes, ranks, True, text, found["started"] if launcher else INSIDE)


def _launcher(family: str | None) -> str:
    """Return the launcher of a family of MPI on this machine; for an unknown family any; empty without one."""
    for known in [family] if family in _LAUNCHERS else list(_LAUNCHERS):
        for command in _LAUNCHERS[known or ""]:
            _, version = inventory.output_of([command, "--version"]) if shutil.which(command) else (None, "")
            if re.search(_VERSIONS[known or ""], version):
                return command
    return ""
