"""What the tests share: a runtime of ReFrame's, and real sessions."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from containercheck.job import locks, processes
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts
from containercheck.job.verdict.findings import Findings
from containercheck.results import formatting
from containercheck.site import node_commands
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parents[2]
CHECKS = REPOSITORY / "checks"
#: The programs of the build step and of the job, for Python to run.
PROGRAMS = node_commands.PROGRAMS
PLANTED = Path(__file__).resolve().parent / "planted"
CLUSTER = REPOSITORY / "ci" / "virtual-cluster"
#: Where the virtual cluster keeps its own files, and those of its users.
STATE = Path("/var/lib/virtual-cluster")
SHARED = Path("/srv/virtual-cluster")

# A busy machine is no failure: how long an example takes is not for a unit test to say.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


#: Seconds for what waits until nobody else measures or builds on this machine.
TURN = 900.0


def pytest_configure(config):
    """Initialise ReFrame as its command does, for tests that import checks: a check asks it for the system."""
    # A shell ignores it for what it starts in the background, and so would every session that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # So does nohup with this one.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # Sessions of tests in parallel do not wait for one another's rounds: what measures is marked "alone".
    if "PYTEST_XDIST_WORKER" in os.environ:
        directory = os.environ[locks.OTHER_DIRECTORY] = tempfile.mkdtemp(prefix="containercheck-locks-")
        config.add_cleanup(functools.partial(shutil.rmtree, directory, ignore_errors=True))
    from containercheck.session import preconditions
    from reframe.core import config as configuration
    from reframe.core import runtime

    # The virtual cluster may be up on this machine.
    preconditions.SUBMITTERS = ()
    site = configuration.load_config("<builtin>")
    site.select_subconfig("generic:default")
    runtime.init_runtime(site)


@pytest.fixture(autouse=True)
def speaker() -> None:
    """Let messages begin with ``run``, whatever command an earlier test of this process spoke as."""
    formatting.speak_as("run")


def eventually(condition: Callable[[], Any], patience: float = 120, of: subprocess.Popen[Any] | None = None) -> bool:
    """Wait until the condition holds, on a busy machine too; return whether it came to that within so many seconds.

    :param of: process that brings it about: the wait is over at once if it has ended.
    """
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end or (of and of.poll() is not None):
            return bool(condition())
        time.sleep(0.05)
    return True


@contextlib.contextmanager
def shared_directory() -> Iterator[Path]:
    """Have a directory that the nodes of the virtual cluster see."""
    directory = Path(tempfile.mkdtemp(dir=SHARED))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def is_there(pid: int) -> bool:
    """Tell whether a process still runs."""
    try:
        return processes.fields_of(pid)[0] != "Z"
    except OSError:
        return False


def alive(words: str) -> bool:
    """Tell whether a process with these words in its command line runs on this machine."""
    return subprocess.run(["pgrep", "-f", "--", words], stdout=subprocess.DEVNULL).returncode == 0


def alive_below(directory: Path) -> list[str]:
    """Return the command lines of processes that work in this directory, or below; the same in a container."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        # In a container the working directory has another name; the shell says in which one the run began.
        if f"{directory}".encode() in environment or str(directory) in words:
            found.append(f"{process.name} {words}")
    return found


def log_of(cache: Path, name: str) -> Path:
    """Return where the log of a build by this user on this machine lies, in a cache."""
    return cache / f"{name}-{os.geteuid()}-{os.uname().nodename}.log"


def entry_command(kind: str, **parts: Any) -> list[str]:
    """Return the command that provides an entry of a cache: its program, its parts and the link to it."""
    return [sys.executable, PROGRAMS, kind, node_commands.as_json(parts)]


def entry_of(command: str) -> dict[str, Any]:
    """Return the parts of the entry that a command of a build step or a job provides, and its program as ``kind``."""
    *_, kind, parts = shlex.split(command.removesuffix(" || exit 1"))
    return {"kind": kind, **json.loads(parts)}


def run_command(
    *words: Any, cwd: Path = REPOSITORY, patience: float = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of the library without the user's settings of ReFrame; return its status and its output."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RFM_")}
    command = [sys.executable, "-m", "containercheck", *map(str, words)]
    facts = {"cwd": cwd, "env": {**inherited, **environment}, "timeout": patience}
    return subprocess.run(command, capture_output=True, text=True, **facts)


def write_program(path: Path, commands: str) -> None:
    """Write a shell script that can be run, in a directory that need not be there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{commands}\n")
    path.chmod(0o755)


def cluster(*words: str, check: bool = True, patience: float = 120) -> str:
    """Run ci/virtual-cluster, and return what it prints.

    :param check: whether it has to succeed.
    :param patience: seconds.
    """
    done = subprocess.run([CLUSTER, *words], cwd="/", text=True, capture_output=True, timeout=patience)
    assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@contextlib.contextmanager
def cluster_up(*words: str, patience: float = 120) -> Iterator[None]:
    """Have a virtual cluster of the test's own, with these words of ``up``; skip where one is up already."""
    if STATE.exists():
        pytest.skip("a virtual cluster is up already: ci/virtual-cluster down")
    try:
        cluster("up", *words, patience=patience)
        yield
    finally:
        cluster("down")


#: Variables of a session on the virtual cluster.
SLURM = {
    "SLURM_CONF": str(STATE / "slurm.conf"),
    "RFM_CONFIG_FILES": str(REPOSITORY / "config" / "virtual_cluster.py"),
    "RFM_SYSTEM": "virtual-cluster",
}


@pytest.fixture
def marker():
    """Give the words of a sleep that no other test, of whoever else, runs at the same time."""
    return f"sleep {4_000_000 + os.getpid()}.25"


#: Sides as they stand in facts.json.
BARE = {"name": "baseline", "label": "bare", "compared_with": None}
GENERIC = {"name": "subject", "label": "generic", "compared_with": "baseline"}


def facts_of(
    metrics: Iterable[Any] = (),
    answers: Iterable[Any] = (),
    rank_count: Any = None,
    ranks: int = 1,
    sides: Iterable[dict[str, Any]] = (BARE, GENERIC),
    expected: Mapping[str, tuple[float, float]] | None = None,
    earlier: Iterable[dict[str, dict[str, float]]] = (),
    emulated: bool = False,
    priors: Mapping[str, tuple[float, str]] | None = None,
    duet: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return what a check with a tolerance of 5 % writes into facts.json.

    :param expected: the range of a metric's overhead, where a reference gives one.
    :param duet: what the job is told of sides that run at the same time.
    :param priors: of metrics whose spread is known: that, and from where.
    """
    expected = expected or {}

    def accepted(metric: Any) -> tuple[float, float]:
        return expected.get(metric.name, (-math.inf, 5.0 if metric.tolerance is None else metric.tolerance))

    return {
        "metrics": [{**asdict(metric), "accepted": accepted(metric)} for metric in metrics],
        "answers": [asdict(answer) for answer in answers],
        "rank_count": asdict(rank_count) if rank_count else None,
        "ranks": ranks,
        "emulated": emulated,
        "priors": dict(priors or {}),
        "sides": list(sides),
        "earlier": list(earlier),
        "duet": duet,
        **more,
    }


def run_of(side: str, output: str, number: int = 1, **facts: Any) -> dict[str, Any]:
    """Return one run of the record, without fault where the facts do not say otherwise."""
    run = {"round": number, "side": side, "seconds": 1.0, "limit": 10.0, "status": 0, "timed_out": False}
    return {
        **run,
        "leftover_processes": [],
        "printed_too_much": False,
        "disturbed_by": "",
        "mpi": {},
        "output": output,
        **facts,
    }


def record_of(*runs: dict[str, Any], **facts: Any) -> dict[str, Any]:
    """Return a record of these runs, of a job that came to its end where the facts do not say otherwise."""
    known = {"complete": True, "ended": None, "host": "here", "replaced": {}, "busy": "", "halves": [], "why": ""}
    return {**known, "machine": {"kernel": "6.1.0"}, "kept_awake": False, "took": 1.0, "runs": [*runs], **facts}


def evaluation_of(record: Mapping[str, Any], facts: dict[str, Any], stagedir: Path) -> Evaluation:
    """Return the rounds of a record, read from the output of its runs as the job reads them.

    :param facts: of facts.json.
    """
    evaluation = Evaluation(Facts(facts), stagedir)
    for _, runs in itertools.groupby(record["runs"], lambda run: run["round"]):
        disturbers = []
        for run in runs:
            evaluation.add(run)
            disturbers.append(run["disturbed_by"])
        evaluation.end_round("; ".join(filter(None, disturbers)))
    return evaluation


def findings_of(record: Mapping[str, Any], sides: Iterable[Any], stagedir: Path = Path()) -> Findings:
    """Return what the runs of a record prove.

    :param sides: of the check.
    """
    return Findings(record, Facts(facts_of(sides=[side.facts({}) for side in sides])).sides, stagedir)


def write_commands(directory: Path, **sides: str | Mapping[str, str]) -> None:
    """Write ``commands.json``, with the commands of sides by their names; a text is that of a run."""
    named = {name: {"run": text} if isinstance(text, str) else text for name, text in sides.items()}
    stored = {name: {"commands": commands, "container": {}} for name, commands in named.items()}
    (directory / "commands.json").write_text(json.dumps(stored))


def write_site(path: Path, partitions: Mapping[str, Mapping[str, Any]]) -> str:
    """Write a site file with these partitions of this machine, and return its path."""
    usual = {"scheduler": "local", "launcher": "mpirun", "environs": ["builtin"]}
    described = [{**usual, "name": name, **facts} for name, facts in partitions.items()]
    system = {"name": "here", "hostnames": [".*"], "partitions": described}
    path.write_text(f"site_configuration = {{'systems': [{system!r}]}}\n")
    return str(path)


@pytest.fixture
def site(tmp_path):
    """Write a site file with one partition for this machine, and return its path. Its extras are ours."""

    def write(extras: Mapping[str, Any] = MappingProxyType({}), **facts: Any) -> str:
        return write_site(tmp_path / "site.py", {"only": {**facts, "extras": {"containercheck": dict(extras)}}})

    return write


def words(name: str) -> list[str]:
    """Return the words of a case's name: the check's, and each parameter with its value."""
    return name.replace("%", "").split()


@dataclass
class Session:
    """A finished session of ReFrame."""

    status: int
    output: str
    cases: list[dict[str, Any]] = field(default_factory=list)
    stage: Path = Path()

    def case(self, variant: str, name: str = "") -> dict[str, Any]:
        """Return the one case of this variant.

        :param name: a word of its name, whole: the check's, or a parameter with its value.
        """
        (found,) = [
            case for case in self.cases if case["variant"] == variant and (not name or name in words(case["name"]))
        ]
        return found


def reframe_command(
    directory: Path, *arguments: str, checks: Path = PLANTED, **environment: str
) -> tuple[list[str], dict[str, Any]]:
    """Return the command of a session of ReFrame in this directory, and what it is to be started with."""
    words = [str(Path(sys.executable).parent / "reframe"), "-c", str(checks)]
    # No session waits for a quiet machine: others run beside it.
    words += ["-r", "-S", "quiet=0"] if "--dry-run" not in arguments else []
    words += ["--keep-stage-files", "--nocolor", f"--report-file={directory / 'report.json'}"]
    facts = {
        "env": {**os.environ, "PYTHONPATH": str(REPOSITORY / "checks"), **environment},
        "cwd": directory,
        "text": True,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
    }
    return [*words, f"--prefix={directory}", *arguments], facts


def file_of(case: str) -> Path:
    """Return the application file with a check, so that a session need not load the others.

    :param case: name of the check, or a pattern that begins with it.
    """
    check = f"class {re.match(r'[^A-Za-z]*([A-Za-z0-9]+)', case)[1]}("  # type: ignore[index]
    (path,) = (path for path in (REPOSITORY / "checks").glob("*.py") if check in path.read_text())
    return path


def run_session(
    directory: Path, *arguments: str, checks: Path = PLANTED, patience: float = 900, node: str = "", **environment: str
) -> Session:
    """Run ReFrame for real, in this directory.

    :param patience: seconds.
    :param node: node of the virtual cluster; empty for this machine.
    """
    report = directory / "report.json"
    report.unlink(missing_ok=True)
    command, facts = reframe_command(directory, *arguments, checks=checks, **environment)
    result = subprocess.run([*([CLUSTER, "exec", node] if node else []), *command], timeout=patience, **facts)
    cases = json.loads(report.read_text())["runs"][-1]["testcases"] if report.exists() else []
    return Session(result.returncode, result.stdout, cases, directory / "stage")


@pytest.fixture
def reframe(tmp_path):
    """Make the command of a session of ReFrame in a directory of the test's own, and what it is to be started with."""
    return functools.partial(reframe_command, tmp_path)


@pytest.fixture
def session(tmp_path):
    """Run ReFrame for real, in a directory of the test's own."""
    return functools.partial(run_session, tmp_path)


@pytest.fixture
def start_rounds(tmp_path):
    """Start the runner on the commands of one side or two."""

    def start(baseline, subject=None, count=2, limit=10, *options, directory=tmp_path, stderr=None, **facts):
        directory.mkdir(exist_ok=True)
        sides = [BARE] if subject is None else [BARE, GENERIC]
        (directory / "facts.json").write_text(json.dumps(facts_of(**{"sides": sides, **facts})))
        write_commands(directory, baseline=baseline, **({} if subject is None else {"subject": subject}))
        # No number leaves it to the verdict.
        words = [f"--rounds={count}" if count else "--seconds=600", f"--limit={limit}", "--local-ranks=0"]
        # No test waits for a quiet machine, unless that is what it is about.
        words += ["--quiet=0", *options]
        command = [sys.executable, PROGRAMS, "rounds", *words]
        return subprocess.Popen(command, cwd=directory, text=True, stdout=subprocess.PIPE, stderr=stderr)

    return start


def start_made(script: str, place: Any, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start a script on checks that a test made, without the person's own settings of ReFrame.

    :param script: with ``directory`` and ``config`` to be filled in.
    :param place: a ``Workplace``.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RFM_")}
    text = script.format(directory=str(place.directory), config=str(place.config))
    # The virtual cluster may be up on this machine.
    text = f"from containercheck.session import preconditions\npreconditions.SUBMITTERS = ()\n{text}"
    return subprocess.Popen(
        [sys.executable, "-c", text, "--nocolor", *arguments],
        env={**inherited, **environment},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
