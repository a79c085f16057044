"""Run a side once, in the job (standard library only, Python 3.6 or newer)."""

import os
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, Set, Tuple

from containercheck.node import contract
from containercheck.node.job import (
    belonging,
    daemon_containers,
    disturbance,
    left_files,
    node_watch,
    print_limit,
    processes,
    run_observation,
)

#: Seconds that a run has to end after SIGTERM, and that its helpers have after its end.
GRACE, SETTLE = 5.0, 2.0
#: Seconds until ranks are looked for first, between two looks at their processors, and factor by which that grows.
FIRST, CALM, LONGER = 0.05, 0.25, 1.25


def watch_mpi(wanted: int, finished: threading.Event, seen: Dict[str, Any]) -> None:
    """Watch the run's processes until ``wanted`` of them have mapped an MPI library; then watch their binding.

    And once more when these have ended: several steps of a run may have ranks, and the first ones may end before they
    are seen (OpenFOAM's solver comes after a program of less than a second).

    :param seen: takes the result: ``mpi`` and ``bound`` of the run's part of the record.
    """
    pause, were_all_seen = FIRST, False
    while not finished.wait(pause):
        libraries = processes.mapped_mpi(belonging.processes_of_run())
        are_all = sum(len(entry["pids"]) for entry in libraries.values()) >= wanted
        if libraries and (are_all or not were_all_seen):
            seen["mpi"] = libraries
        if are_all:
            watch_binding(libraries, finished, seen)
            pause, were_all_seen = FIRST, True
        pause = min(pause * 1.5, CALM)


def watch_binding(libraries: Dict[str, Any], finished: threading.Event, seen: Dict[str, Any]) -> None:
    """Look at the processors that the ranks may use, at growing intervals; a binding counts if two looks agree.

    In MPI_Init hwloc binds a process to one processor after the other, to query each; GROMACS binds itself after it has
    read its input. Returns when all ranks have ended, or the run has.
    """
    pause = CALM
    before: List[str] = []
    while not finished.wait(pause):
        now = processes.bound(libraries)
        if not now:
            return
        # At the end, ranks exit one by one.
        if now == before and len(now) >= len(seen["bound"]):
            seen["bound"] = now
        pause = pause * LONGER if now == before else CALM
        before = now


def run_once(
    script: str, output: Path, limit: float, collect: List[str], local_ranks: int, alone: bool = True
) -> Dict[str, Any]:
    """Run one script once and return its part of the record.

    :param script: its text; it is kept beside its output.
    :param output: directory for its output (``out``, ``err``) and for the files named in ``collect``.
    :param limit: seconds after which it is ended.
    :param local_ranks: processes on this node that are expected to load an MPI library; 0 for none.
    :param alone: whether no other run goes on at the same time; for two runs, the caller looks for disturbance.
    """
    output.mkdir(parents=True)
    path = output / contract.SCRIPT
    path.write_text(script + "\n")
    for name in collect:
        remove(Path(name))
    timed_out = threading.Event()
    finished = threading.Event()
    seen: Dict[str, Any] = {"mpi": {}, "bound": []}
    leftovers: List[str] = []
    left: List[str] = []
    began, before = time.time(), disturbance.look()
    shared, temporary = left_files.files(), left_files.entries()
    out_path, err_path = Path(output, contract.OUT), Path(output, contract.ERR)
    with belonging.none_left_behind(), out_path.open("wb") as out, err_path.open("wb") as err:
        started = time.monotonic()
        # A process group, to end it by; not a session, to which the kernel gives a share of its own (autogroup).
        process = subprocess.Popen(
            ["bash", str(path)],
            env=belonging.environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            preexec_fn=os.setpgrp,
        )

        def end(grace: float) -> None:
            processes.end(process.pid, grace, lambda: daemon_containers.remove(left))
            belonging.kill_all()

        def expire() -> None:
            timed_out.set()
            end(GRACE)

        watchdog = threading.Timer(limit, expire)
        watcher = threading.Thread(target=watch_mpi, args=(local_ranks, finished, seen), daemon=True)
        observer = run_observation.Observer(finished)
        files = [out_path, err_path, *map(Path, collect)]
        # No time to end by itself: it could go on printing.
        printed = print_limit.Watch(files, lambda: end(0.0))
        printed.start()
        watchdog.start()
        observer.start()
        if local_ranks:
            watcher.start()
        try:
            status = process.wait()
            seconds = time.monotonic() - started
            if status in (-signal.SIGTERM, 128 + signal.SIGTERM):
                # If the whole job is ended, this process gets its signal a moment later: the run has not failed.
                time.sleep(SETTLE)
        except BaseException:
            # The scheduler kills soon.
            end(SETTLE)
            raise
        finally:
            finished.set()
            after = disturbance.look()
            watchdog.cancel()
            watchdog.join()
            printed.stop()
            if timed_out.is_set() or printed.has_ended:
                processes.kill_slurm_steps()
            else:
                # A runtime's helpers take a moment to unmount an image.
                belonging.wait_for_all(SETTLE)
                daemon_containers.remove(left)
                if left:
                    belonging.wait_for_all(SETTLE)
                leftovers = belonging.kill_all()
            processes.reap()
            if local_ranks:
                watcher.join()
            used = observer.result()
    too_much = printed.is_too_much()
    if too_much:
        printed.cut()
    for name in collect:
        if Path(name).exists():
            shutil.move(name, str(output / Path(name).name))
    disturbers, elsewhere = "", {}  # type: str, Dict[str, Set[str]]
    if alone:
        disturbers, elsewhere = disturbed_by(began, before, after)
    return {
        "seconds": seconds,
        "limit": limit,
        "status": status,
        "timed_out": timed_out.is_set() and not too_much,
        "printed_too_much": too_much,
        # Of a run that was ended only its containers: its processes were killed with it.
        "leftover_processes": [*leftovers, *left],
        # Two runs at once have theirs at the same time.
        "left_files": left_files.left(shared) if alone else {},
        "left_temporary": left_files.left_entries(temporary) if alone else {},
        "disturbed_by": disturbers,
        **seen,
        "used": run_observation.together(used, elsewhere),
        "output": str(output),
    }


def disturbed_by(began: float, before: disturbance.Look, after: disturbance.Look) -> Tuple[str, Dict[str, Set[str]]]:
    """Return who disturbed the job's nodes between two looks at this one, and what ranks used on the others.

    :param began: time of the first look, in seconds since 1970.
    """
    here = filter(None, [disturbance.between(before, after, log=True)])
    others = node_watch.seen(began, time.time())
    return "; ".join([*here, *others.disturbers]), others.used


def remove(path: Path) -> None:
    """Remove a file or a directory, if there is one, so that no run finds another's output."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(str(path))
    elif path.is_symlink() or path.exists():
        path.unlink()


def describe(run: Dict[str, Any]) -> str:
    """Return the outcome of one run in a few words."""
    if run.get("ended_with"):
        return "ended after {:.1f} s, because {} had failed".format(run["seconds"], run["ended_with"])
    if run["printed_too_much"]:
        return "{} after {:.1f} s".format(contract.PRINTED_TOO_MUCH, run["seconds"])
    if run["timed_out"]:
        return "killed at its limit after {:.1f} s".format(run["seconds"])
    if run["status"] != 0:
        return "exit status {} after {:.1f} s".format(run["status"], run["seconds"])
    return "{:.2f} s".format(run["seconds"])
