"""Run two sides at the same time, each on half of the node's cores (Linux; standard library only, Python 3.6 or newer).

Each run has a process of its own below the runner, which is bound to its half with all its children, and a working
directory of its own, because two runs that write the same file would spoil it. The directory has the content of the
stage directory: small files as copies, large ones (an input) as hard links, links as they are. The side's script has
the paths of its own directory in it.
"""

import json
import os
import re
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from containercheck.job import contract, disturbance, processes
from containercheck.job.launch import Launch
from containercheck.job.single_run import run_once
from containercheck.job.this_node import cores, listed

#: Largest file that is copied for each side, in bytes: programs change small inputs only.
COPIED = 64 << 20
#: Seconds between two looks whether a run has ended, and that both have to end after SIGTERM.
INTERVAL, PATIENCE = 0.05, 20.0
#: Files of a stage directory that the job itself writes, and the runs do not read.
_NOT_READ = re.compile(
    r"rfm_\w+\.(sh|out|err)|\.rfm_.*|build\.status|variables\.key|(facts|rounds|commands)\.json|.*\.surroundings"
)
#: File in a run's directory with its part of the record. JSON.
RUN = "run.json"


class HalvesError(Exception):
    """The node has no two halves of that size, or a run could not be started; the message says which."""


class Half(NamedTuple):
    """A run on half of the node: of ``side``, by ``script``, on these processors, for ``limit`` seconds at most."""

    side: str
    script: str
    processors: Set[int]
    output: Path
    limit: float


def halves(wanted: int, usable: Set[int], root: Path = Path("/")) -> Tuple[Set[int], Set[int]]:
    """Return the processors of two halves: the same number of whole, neighbouring cores; an odd core is left out.

    :param wanted: cores that each must have.
    :param usable: processors that may be used.
    :param root: of the file system in which Linux lists the threads of cores.
    :raises HalvesError: there are too few.
    """
    ordered = cores(usable, root)
    size = len(ordered) // 2
    if size < wanted:
        raise HalvesError(
            f"{os.uname().nodename} lets this job use {len(ordered)} core(s); each side needs {wanted} to itself: "
            "run them one after the other (-S duet=no)"
        )
    first, second = ordered[:size], ordered[-size:]
    return {cpu for core in first for cpu in core}, {cpu for core in second for cpu in core}


def directory_of(side: str) -> Path:
    """Return a side's working directory, below the stage directory."""
    return Path(contract.DUET, side)


def script_of(side: str, stagedir: str) -> str:
    """Return the text of a run of a side, with the paths of its own directory.

    :param stagedir: the stage directory as the sides' commands name it.
    """
    return Launch(side).run.replace(stagedir, f"{stagedir}/{directory_of(side)}")


def found_by_runs(stage: Path) -> List[Path]:
    """Return the files and directories of a stage directory that runs may read, by name."""
    others = (contract.RUNS, contract.WATCH, contract.TRIALS, contract.DUET, contract.REPRODUCER)
    return sorted(path for path in stage.iterdir() if path.name not in others and not _NOT_READ.fullmatch(path.name))


def make_directories(sides: Sequence[str]) -> None:
    """Make the working directory of each side, in the stage directory, which is the current one."""
    stage = Path.cwd()
    shutil.rmtree(contract.DUET, ignore_errors=True)
    for side in sides:
        directory = stage / directory_of(side)
        directory.mkdir(parents=True)
        for path in found_by_runs(stage):
            if path.is_dir() and not path.is_symlink():
                shutil.copytree(str(path), str(directory / path.name), symlinks=True, copy_function=_copy)
            else:
                _copy(str(path), str(directory / path.name))


def _copy(source: str, target: str) -> None:
    if os.path.islink(source) or os.path.getsize(source) <= COPIED:
        shutil.copy2(source, target, follow_symlinks=False)
    else:
        os.link(source, target)


def run_both(both: Sequence[Half], collect: List[str], local_ranks: int) -> List[Dict[str, Any]]:
    """Run two sides at the same time, and return their parts of the record, in this order.

    If one fails, the other is ended too: alone, it makes no pair.

    :param collect, local_ranks: as for :func:`run_once`.
    :raises HalvesError: one could not be started.
    """
    others, started = disturbance.Watch(), time.monotonic()
    others.start()
    living: Dict[int, Half] = {}
    runs: Dict[str, Dict[str, Any]] = {}
    failed = ""
    try:
        for half in both:
            living[_start(half, collect, local_ranks)] = half
        while living:
            for pid, half in _ended(living):
                run = _run_of(half)
                if run is None and not failed:
                    raise HalvesError(f"{half.side} could not be begun on processors {listed(half.processors)}")
                runs[half.side] = run or _run_ended_with(half, time.monotonic() - started, failed)
                del living[pid]
                if run and has_failed(run) and not failed:
                    failed = half.side
                    _signal_all(living, signal.SIGTERM)
    finally:
        # Also if the job is to end.
        _end(living)
    others.finish()
    disturbers = "; ".join(others.seen().disturbers)
    return [{**runs[half.side], "disturbed_by": disturbers, "processors": listed(half.processors)} for half in both]


def _start(half: Half, collect: List[str], local_ranks: int) -> int:
    """Start a process that runs one side, and return its id."""
    parent, output = os.getpid(), Path.cwd() / half.output
    sys.stdout.flush()
    # A signal between fork and try would make the child leave this function and go on as the runner.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        return pid
    status = 1
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        processes.die_with_parent(parent, signal.SIGTERM)
        processes.adopt_orphans()
        processes.begin_anew()
        os.sched_setaffinity(0, half.processors)
        os.chdir(str(directory_of(half.side)))
        run = run_once(half.script, output, half.limit, collect, local_ranks, alone=False)
        run["output"] = str(half.output)
        (output / (RUN + ".tmp")).write_text(json.dumps(run))
        (output / (RUN + ".tmp")).replace(output / RUN)
        status = 0
    except processes.Terminated:
        # The runner writes the reason.
        pass
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def _ended(living: Dict[int, Half]) -> List[Tuple[int, Half]]:
    """Wait for a moment, and return the processes that have ended."""
    time.sleep(INTERVAL)
    return [(pid, half) for pid, half in living.items() if os.waitpid(pid, os.WNOHANG)[0]]


def _run_of(half: Half) -> Optional[Dict[str, Any]]:
    """Read and remove the record that a process wrote of its run; None if the process was ended before."""
    path = half.output / RUN
    if not path.exists():
        return None
    run: Dict[str, Any] = json.loads(path.read_text())
    path.unlink()
    return run


def has_failed(run: Dict[str, Any]) -> bool:
    """Tell whether a run did not come to a good end."""
    return run["status"] != 0 or run["timed_out"] or run["printed_too_much"]


def _run_ended_with(half: Half, seconds: float, failed: str) -> Dict[str, Any]:
    """Return the part of the record of a run that was ended because the other one had failed."""
    run: Dict[str, Any] = {"seconds": seconds, "limit": half.limit, "status": 128 + signal.SIGTERM, "timed_out": False}
    run.update({"printed_too_much": False, "leftover_processes": [], "mpi": {}, "bound": []})
    return {**run, "output": str(half.output), "ended_with": failed}


def _signal_all(living: Dict[int, Half], number: signal.Signals) -> None:
    for pid in living:
        os.kill(pid, number)


def _end(living: Dict[int, Half]) -> None:
    """End the processes that still run, with SIGTERM first, then SIGKILL."""
    _signal_all(living, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while living and time.monotonic() < deadline:
        for pid, _ in _ended(living):
            del living[pid]
    _signal_all(living, signal.SIGKILL)
    for pid in living:
        os.waitpid(pid, 0)
