"""Start ranks of an image's MPI by the launchers of this host, to see whether they come up as one job.

A program that is compiled here, without any MPI, loads the image's library (checks/src/ranks/any-mpi-ranks.c). In an
image whose C library is older than this host's it runs with the host's, which is bound into the container with it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from containercheck.job import inventory, runtime_start, start_ranks
from containercheck.job.build.cache import private_directory
from containercheck.job.container_runtimes import Runtime
from containercheck.job.project import CHECKS
from containercheck.job.start_ranks import Seen

#: Ranks on each node.
RANKS = 2
#: Longest wait for ranks, and for nodes of Slurm; seconds.
PATIENCE, QUEUE = start_ranks.PATIENCE, 60
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


class NotStarted(Exception):
    """No rank could be started; the message says why."""


def starts(container: ImageStart, host: Mapping[str, Any]) -> list[Start]:
    """Return what came of starting ranks: by Slurm on one node and on two, or by the launcher of this machine.

    :param host: as ``containercheck.job.inventory.inventory`` returns it.
    :raises NotStarted: there is no compiler, no launcher, or no GNU C library in the image.
    """
    if container.libc is None:
        raise NotStarted("no rank was started: the image has no GNU C library, with which our program is compiled")
    with _program(container, host) as directory, _allowed_for_root():
        trial = _Trial(container, directory)
        by_slurm = list(_by_slurm(trial, host)) if host["pmi"] else []
        if any(start.is_one_job for start in by_slurm):
            return by_slurm
        return [*by_slurm, *trial.on_this_machine()]


@contextmanager
def _allowed_for_root() -> Iterator[None]:
    """Let Open MPI start ranks for root, also where it is only asked for its version."""
    before = {name: os.environ.get(name) for name in _ROOT}
    os.environ.update(_ROOT if os.geteuid() == 0 else {})
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            os.environ.update({name: value} if value is not None else {})


def _by_slurm(trial: _Trial, host: Mapping[str, Any]) -> Iterator[Start]:
    """Yield the starts by srun, on two nodes only where one does it and there are two."""
    wanted = "pmi2" if trial.container.family == "mpich" else "pmix"
    plugin = next((name for name in host["pmi"] if name.startswith(wanted)), None)
    for nodes in (1, 2):
        # A node may have one core.
        size = [f"--nodes={nodes}", f"--ntasks={RANKS * nodes}", "--overcommit"]
        words = ["srun", *size, f"--immediate={QUEUE}", "--time=2"]
        start = trial.start([*words, f"--mpi={plugin}"] if plugin else words, nodes)
        yield start
        if not start.is_one_job or _nodes_of_slurm() < 2:
            return


def _nodes_of_slurm() -> int:
    """Return how many nodes of the default partition run nothing now."""
    _, output = inventory.output_of(["sinfo", "--noheader", "--states=idle", "--format=%P %D"])
    counts = [int(line.split()[1]) for line in output.splitlines() if re.match(r"\S+\* \d+$", line)]
    return sum(counts)


@contextmanager
def _program(container: ImageStart, host: Mapping[str, Any]) -> Iterator[Path]:
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
        if container.libc and container.libc < _libc_of(host):
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


class _Trial:
    """Starts of ranks of one container."""

    def __init__(self, container: ImageStart, directory: Path) -> None:
        """Take the container, and the directory with the program."""
        self.container = container
        runtime, command = container.runtime, container.command
        hidden = runtime_start.hidden(runtime, os.environ, True)
        binds = shlex.split(" ".join(runtime.bind_words([(str(directory), _PLACE)])))
        options = [*runtime_start.options(runtime, command, ranks=0), *binds]
        self._words = ["env", *(f"-u{name}" for name in hidden), command, "exec", *options, container.image]
        program = f"{_PLACE}/ranks {shlex.quote(container.library)}"
        if (directory / "libc").exists():
            program = f'{_PLACE}/libc/loader --library-path "{_PLACE}/libc:${{LD_LIBRARY_PATH:-}}" {program}'
        self._program = ["sh", "-c", f"exec {program}"]

    def start(self, launcher: Sequence[str], nodes: int) -> Start:
        """Return what came of a start by a launcher, as it is, or in another way that is known."""
        ranks = RANKS * nodes
        seen = self._run([*launcher, *self._words, *self._program])
        if start_ranks.is_one_job(seen, ranks):
            return Start(shlex.join(launcher), nodes, ranks, True, _good(seen, nodes, ranks))
        host = start_ranks.ask_host(shlex.join(launcher[:1]))
        why = self._explain(seen, ranks, host)
        for way in start_ranks.ways(seen, host, nodes):
            if way is start_ranks.INSIDE:
                continue
            tried = self._run([*launcher, *shlex.split(way.words), *self._words, *self._program])
            if start_ranks.is_one_job(tried, ranks):
                return Start(shlex.join(launcher), nodes, ranks, True, why, way.label)
        return Start(shlex.join(launcher), nodes, ranks, False, why)

    def _explain(self, seen: Seen, ranks: int, host: start_ranks.Host) -> str:
        """Return why ranks did not come up; PMIx is no reason for MPICH, which is started by PMI."""
        if self.container.family != "mpich" or not seen.library:
            return start_ranks.explain(seen, ranks, host)
        return f"{host.launcher} starts ranks of the image's {seen.library} by PMI: {start_ranks.outcome(seen, ranks)}"

    def on_this_machine(self) -> Iterator[Start]:
        """Yield the starts by this machine's launcher, and by the image's own in one container if that one fails.

        :raises NotStarted: there is no launcher.
        """
        launcher = _launcher(self.container.family)
        plain = self.start([launcher, "-np", str(RANKS)], 1) if launcher else None
        if plain:
            yield plain
        if plain and plain.is_one_job:
            return
        if not self.container.has_launcher:
            if not plain:
                raise NotStarted("no rank was started: there is no mpirun on the PATH here, nor in the image")
            return
        # Open MPI before 4 knows the option only.
        root = ["--allow-run-as-root"] if os.geteuid() == 0 and self.container.family != "mpich" else []
        words = ["mpirun", *root, "-np", str(RANKS)]
        seen = self._run([*self._words, *words, *self._program])
        if start_ranks.is_one_job(seen, RANKS):
            yield Start(shlex.join(words), 1, RANKS, True, _good(seen, 1, RANKS), start_ranks.INSIDE.label)
        else:
            why = start_ranks.explain(seen, RANKS, start_ranks.Host("its own mpirun", seen.own))
            yield Start(shlex.join(words), 1, RANKS, False, why, start_ranks.INSIDE.label)

    def _run(self, words: Sequence[str]) -> Seen:
        environment = {**os.environ, **_OVERSUBSCRIBE}
        try:
            done = subprocess.run(
                list(words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                timeout=PATIENCE + (QUEUE if words[0] == "srun" else 0),
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return start_ranks.read((error.stdout or b"").decode(errors="replace"), None)
        return start_ranks.read(done.stdout.decode(errors="replace"), done.returncode)


def _good(seen: Seen, nodes: int, ranks: int) -> str:
    own = f", PMIx {seen.own}" if seen.own else ""
    where = "on one node" if nodes == 1 else f"on {nodes} nodes"
    return f"{ranks} of {ranks} {where} in one job: {re.sub('^Open MPI v', 'Open MPI ', seen.library)}{own}"


def _launcher(family: str | None) -> str:
    """Return the launcher of a family of MPI on this machine; for an unknown family any; empty without one."""
    for known in [family] if family in _LAUNCHERS else list(_LAUNCHERS):
        for command in _LAUNCHERS[known or ""]:
            _, version = inventory.output_of([command, "--version"]) if shutil.which(command) else (None, "")
            if re.search(_VERSIONS[known or ""], version):
                return command
    return ""
