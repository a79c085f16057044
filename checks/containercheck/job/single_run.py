"""Run a script once, within limits of time and output (standard library only, Python 3.6 or newer; run in the job).

A program that loops on an error prints as fast as it can, until the file system is full for all users. The kernel's
limit (RLIMIT_FSIZE) would also apply to the files of IOzone's measurement. So a thread samples the sizes of the output
files while the script runs, and ends the run when they are too large.

Leftovers of a run are found. Processes and containers are ended. Segments of MPI libraries in /dev/shm take the node's
memory, and may make a later run fail. Runtimes leave unpacked images in /tmp (apptainer#737).
"""

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Sequence, Set

from containercheck.job import contract, counters, disturbance, energy, processes, run_observation, texts
from containercheck.job.build import file_trees
from containercheck.job.verdict import builds

#: Seconds for a run to end after SIGTERM, and for its helpers to end after it.
GRACE, SETTLE = 5.0, 2.0
#: Process for which mpirun does not wait: it ends when the processes of another node have closed its streams.
AGENT = "ssh"
#: Seconds between two samples of time and sizes: a fast program prints about 100 MiB meanwhile.
INTERVAL = 0.1
#: Bytes of too long a file that are kept.
KEPT = 1 << 20
#: Directories for shared memory (shm_overview(7)) and for temporary files, of programs and of container runtimes.
SHARED_MEMORY, TEMPORARY = "/dev/shm", "/tmp"
#: Most files that are named.
MOST_NAMED = 20


class Ended(NamedTuple):
    """Hold the end of a command: its exit status and its seconds.

    :ivar timed_out: whether it was ended at its limit.
    :ivar printed_too_much: whether its files are too large.
    :ivar leftovers: names of processes and containers that ran on; for an ended run only its containers.
    """

    status: int
    seconds: float
    timed_out: bool
    printed_too_much: bool
    leftovers: List[str]


class Watchdog(threading.Thread):
    """End a run when its time is up, or when its files become too large, in a thread.

    :param leader: process group of the run.
    :param files: that the run writes.
    :param limit: seconds.
    :param most: bytes of all files together.
    :ivar containers: descriptions of the run's containers that still ran when it was ended.
    """

    def __init__(self, leader: int, files: Sequence[Path], limit: float, most: int = contract.MOST_PRINTED) -> None:
        """Prepare the thread, which :meth:`start` starts."""
        super().__init__(daemon=True)
        self._leader, self._files, self._limit, self._most = leader, files, limit, most
        self._finished = threading.Event()
        self.timed_out = self.printed_too_much = False
        self.containers: List[str] = []

    def run(self) -> None:
        """Sample until the run has ended, or has to be ended."""
        deadline = time.monotonic() + self._limit
        while not self._finished.wait(INTERVAL):
            if size(self._files) > self._most:
                # Without time to end by itself, as it could go on printing.
                self.printed_too_much = True
                self.end(0.0)
                return
            if time.monotonic() > deadline:
                self.timed_out = True
                self.end(GRACE)
                return

    def end(self, grace: float) -> None:
        """End the run and its containers: SIGTERM first, SIGKILL after ``grace`` seconds."""
        processes.end(self._leader, grace, lambda: self.containers.extend(processes.remove_containers()))

    def stop(self) -> None:
        """Stop sampling, and check the sizes once more: the run may have ended before the first sample."""
        self._finished.set()
        self.join()
        self.printed_too_much = self.printed_too_much or size(self._files) > self._most


def execute(command: Sequence[str], files: Sequence[Path], limit: float, watchers: Sequence[Any] = ()) -> Ended:
    """Run a command to its end, or to a limit, and end all processes that it started.

    :param files: for standard output and standard error; then the files that the command writes.
    :param limit: seconds after which it is ended.
    :param watchers: objects that look at the run, with methods ``start`` and ``finish``.
    """
    with processes.none_left_behind(), files[0].open("wb") as out, files[1].open("wb") as err:
        for watcher in watchers:
            watcher.start()
        started = time.monotonic()
        # A process group, to end it by; not a session, as the kernel gives sessions their own share (autogroup).
        process = subprocess.Popen(
            command,
            env=processes.environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            preexec_fn=os.setpgrp,
        )
        watchdog = Watchdog(process.pid, files, limit)
        watchdog.start()
        leftovers: List[str] = []
        try:
            status = process.wait()
            seconds = time.monotonic() - started
            watchdog.stop()
            if status in (-signal.SIGTERM, 128 + signal.SIGTERM):
                # If the whole job is ended, this process gets its signal a moment later; the run has not failed then.
                time.sleep(SETTLE)
        except BaseException:
            # The scheduler kills soon.
            watchdog.end(SETTLE)
            raise
        finally:
            for watcher in watchers:
                watcher.finish()
            watchdog.stop()
            if watchdog.timed_out or watchdog.printed_too_much:
                processes.kill_slurm_steps()
            else:
                # A runtime's helpers take a moment to unmount an image.
                processes.wait_for_all(SETTLE)
                containers = processes.remove_containers()
                if containers:
                    processes.wait_for_all(SETTLE)
                leftovers = [*(name for name in processes.kill_all() if name != AGENT), *containers]
            processes.reap()
    if watchdog.printed_too_much:
        cut(files)
    is_late = watchdog.timed_out and not watchdog.printed_too_much
    return Ended(status, seconds, is_late, watchdog.printed_too_much, [*leftovers, *watchdog.containers])


def run_once(
    script: str, output: Path, limit: float, collect: List[str], local_ranks: int, alone: bool = True
) -> Dict[str, Any]:
    """Run one script once and return its part of the record.

    :param script: its text, kept next to its output.
    :param output: directory for its output (``out``, ``err``) and for the files named in ``collect``.
    :param limit: seconds after which it is ended.
    :param local_ranks: processes on this node that are expected to load an MPI library; 0 for none.
    :param alone: whether no other run is in progress; for two runs, the caller looks for disturbance.
    """
    output.mkdir(parents=True)
    path = output / contract.SCRIPT
    path.write_text(script + "\n")
    for name in collect:
        file_trees.remove(Path(name))
    shared, temporary = entries(SHARED_MEMORY), entries(TEMPORARY)
    others, observer = disturbance.Watch(), run_observation.Observer()
    ranks = run_observation.RankWatch(local_ranks, digests=bool(builds.tree(Path())))
    meters = [energy.Meter()] if contract.ENERGY in collect else []
    counted = counters.Counters()
    # The counters begin last: they do not count the threads of the others.
    watchers = [*([others] if alone else []), *meters, observer, *([ranks] if local_ranks else []), counted]
    files = [output / contract.OUT, output / contract.ERR, *map(Path, collect)]
    ended = execute(["bash", str(path)], files, limit, watchers)
    for meter in meters:
        Path(contract.ENERGY).write_text(f"{meter}\n")
    for name in collect:
        if Path(name).exists():
            shutil.move(name, str(output / Path(name).name))
    # Two simultaneous runs are disturbed, and leave files, at the same time.
    elsewhere = others.seen() if alone else disturbance.Seen([], {})
    used = run_observation.together(observer.result(), elsewhere.used)
    if used:
        used.update(counted.result(used["user"] + used["system"]))
    return {
        "seconds": ended.seconds,
        "limit": limit,
        "status": ended.status,
        "timed_out": ended.timed_out,
        "printed_too_much": ended.printed_too_much,
        "leftover_processes": ended.leftovers,
        "left_files": left(shared, SHARED_MEMORY) if alone else {},
        "left_temporary": left(temporary, TEMPORARY) if alone else {},
        "disturbed_by": "; ".join(elsewhere.disturbers),
        "taken": elsewhere.taken,
        "mpi": ranks.mpi,
        "bound": ranks.bound,
        "executable": ranks.executable,
        "libraries": ranks.libraries,
        "used": used,
        "output": str(output),
    }


def describe(run: Dict[str, Any]) -> str:
    """Return the outcome of one run in a few words."""
    end = f"exit status {run['status']}" if run["status"] else ""
    end = "killed at its limit" if run["timed_out"] else end
    end = contract.PRINTED_TOO_MUCH if run["printed_too_much"] else end
    return "{} after {:.1f} s".format(end, run["seconds"]) if end else "{:.2f} s".format(run["seconds"])


def prepare(script: Path, limit: float) -> None:
    """Run the script that makes the input of all runs.

    :param limit: seconds after which it is ended, with all processes that it started.
    :raises SystemExit: it fails, or exceeds its limit; its standard error is printed again. If its status means that
        the check cannot run on this node, the reason is written to a file, for a skip; else a file records the failure.
    """
    files = [script.with_suffix(".out"), script.with_suffix(".err")]
    status, _, timed_out, printed_too_much, _ = execute(["bash", "-e", str(script)], files, limit)
    # A script that another process killed has not failed by itself.
    if timed_out or printed_too_much or status > 0 and status != contract.UNSUPPORTED:
        Path(contract.UNPREPARED).touch()
    if printed_too_much:
        sys.exit(f"error: {script} was {contract.PRINTED_TOO_MUCH}: see {files[0]} and {files[1]}")
    print(texts.sanitized(texts.tail(files[0])), flush=True)
    errors = texts.sanitized(texts.tail(files[1]).strip())
    if errors:
        print(errors, file=sys.stderr)
    last = errors.splitlines()[-1] if errors else f"it printed no error, and ended with status {status}"
    if timed_out:
        sys.exit(f"error: the preparation, {script}, was ended at its limit of {limit:g} s; its last line: {last}")
    if status == contract.UNSUPPORTED:
        Path(contract.UNSUPPORTED_WHY).write_text(last)
    if status != 0:
        sys.exit(1 if errors else f"error: the preparation, {script}, failed: {last}")


def size(paths: Iterable[Path]) -> int:
    """Return the bytes of these files together; a missing file has none."""
    total = 0
    for path in paths:
        with contextlib.suppress(OSError):
            total += os.lstat(str(path)).st_size
    return total


def cut(paths: Iterable[Path]) -> None:
    """Keep only the beginning of files that are too long."""
    for path in paths:
        if size([path]) > KEPT and path.is_file() and not path.is_symlink():
            os.truncate(str(path), KEPT)


def entries(place: str) -> Dict[str, int]:
    """Return the bytes of this user's files in a directory, and 0 for each of its subdirectories, by name.

    The content of subdirectories does not count. A directory that is not readable has no entries.
    """
    sizes = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(place):
            # A file that disappears meanwhile was not left.
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                is_file = stat.S_ISREG(status.st_mode)
                if status.st_uid == os.geteuid() and (is_file or stat.S_ISDIR(status.st_mode)):
                    sizes[entry.name] = status.st_size if is_file else 0
    return sizes


def left(before: Dict[str, int], place: str) -> Dict[str, Any]:
    """Return ``count``, ``bytes`` and the first ``names`` of the new entries; empty for none.

    An entry that a living process uses belongs to another session: the processes of the run have ended.

    :param before: see :func:`entries`.
    """
    after = entries(place)
    new = after.keys() - before.keys()
    new -= _in_use(place) if new else set()
    size_of_all = sum(after[name] for name in new)
    return {"count": len(new), "bytes": size_of_all, "names": sorted(new)[:MOST_NAMED]} if new else {}


def _in_use(place: str) -> Set[str]:
    """Return the entries of a directory with a file, at any depth, that a readable process has mapped or opened."""
    names = set()
    start = place.rstrip("/") + "/"
    for process in filter(str.isdigit, os.listdir("/proc")):
        paths: List[str] = []
        with contextlib.suppress(OSError):
            paths += [words[5] for words in processes.mapped_files(Path("/proc", process))]
            paths += processes.open_files(Path("/proc", process))
        names |= {path[len(start) :].split("/", 1)[0] for path in paths if path.startswith(start)}
    return names
