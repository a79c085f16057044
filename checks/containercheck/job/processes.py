"""The processes of one run: finding them, ending them, and what they have mapped (Linux, standard library only)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_MPI_LIBRARY = re.compile(r"/lib(mpi|mpich|mpi_cray)\.so(\.[0-9.]+)?$")


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent dies, so that none is lost sight of."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _parents() -> dict[int, int]:
    """Every process of the machine and its parent."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                status = Path("/proc", entry, "stat").read_text(errors="replace")
            except OSError:
                continue
            # The command may hold anything, brackets too: the fields follow the last one.
            fields = status[status.rindex(")") + 2 :].split()
            if fields[0] != "Z":
                parents[int(entry)] = int(fields[1])
    return parents


def descendants(root: int) -> set[int]:
    """Return all living descendants of the process ``root``, without itself."""
    children: dict[int, list[int]] = {}
    for pid, parent in _parents().items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    todo = [root]
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found


def _of_slurm_job(job: str) -> set[int]:
    """Processes of this Slurm job on this node: srun's ranks are children of Slurm's daemon, not of ours."""
    wanted = f"SLURM_JOB_ID={job}".encode()
    found = set()
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if wanted in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                    found.add(int(entry))
            except OSError:
                continue
    return found


def processes_of_run() -> set[int]:
    """Return the processes on this node that belong to the run in progress."""
    pids = descendants(os.getpid())
    if job := os.environ.get("SLURM_JOB_ID"):
        pids |= _of_slurm_job(job)
    return pids


def mapped_mpi(pids: set[int]) -> dict[str, dict[str, object]]:
    """Return the MPI libraries that these processes have mapped, from ``/proc/<pid>/maps``.

    Keys are the paths as the processes see them; values hold ``device`` and ``inode`` (which tell a host's file from
    an image's, whatever it is called inside) and ``pids``, sorted.
    """
    libraries: dict[str, dict[str, object]] = {}
    for pid in sorted(pids):
        try:
            maps = Path("/proc", str(pid), "maps").read_text(errors="replace")
        except OSError:
            continue
        seen = set()
        for line in maps.splitlines():
            fields = line.split(None, 5)
            if len(fields) == 6 and _MPI_LIBRARY.search(fields[5]) and fields[5] not in seen:
                seen.add(fields[5])
                entry = libraries.setdefault(fields[5], {"device": fields[3], "inode": int(fields[4]), "pids": []})
                entry["pids"].append(pid)
    return libraries


def end(leader: int, grace: float) -> None:
    """End the process group ``leader`` and every descendant of ours: asked first, killed after ``grace`` seconds."""
    _signal_group(leader, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and descendants(os.getpid()):
        time.sleep(0.05)
    _signal_group(leader, signal.SIGKILL)
    kill_descendants()


def kill_descendants() -> int:
    """Kill every descendant of this process and return how many there were."""
    killed: set[int] = set()
    # Again and again, because a process can fork while the others are being killed.
    for _ in range(100):
        living = descendants(os.getpid())
        if not living:
            break
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            except ProcessLookupError:
                pass
        time.sleep(0.01)
    return len(killed)


def kill_slurm_steps(patience: float = 60.0) -> None:
    """Kill the job steps that a killed srun leaves on the nodes, and wait until Slurm has their cores back.

    The next srun of the job would wait for them, and look like a hang itself.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if not job or not shutil.which("scancel"):
        return
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        listing = subprocess.run(
            ["squeue", "--steps", "--noheader", "--format=%i", f"--jobs={job}"], capture_output=True, text=True
        ).stdout
        # Steps that srun started have numbers; the script's own is called batch.
        steps = re.findall(rf"^\s*({re.escape(job)}\.\d+)\s*$", listing, re.MULTILINE)
        if not steps:
            return
        subprocess.run(["scancel", "--signal=KILL", *steps], capture_output=True)
        time.sleep(1)


def reap() -> None:
    """Collect the adopted processes that have ended."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def _signal_group(leader: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)
