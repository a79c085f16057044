"""The runner inside the job: paired rounds of baseline and subject (DESIGN 3; standard library only).

    python3 rounds.py --rounds 5 --limit 300 --collect hpccoutf.txt baseline.sh subject.sh

A round runs each script once; who goes first alternates (A B, B A, A B ...), so that drift of the machine cancels.
With one script there is one run a round. Each run has its own time limit; one that exceeds it is ended with all its
processes, and the next goes on. What the runs printed lies in ``rounds/<round>-<side>/``, and ``rounds.json`` holds
everything that is known about them. It says ``"complete": true`` once all rounds were run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import locks
import processes

RECORD = Path("rounds.json")
DIRECTORY = Path("rounds")
#: Seconds that a run has to end by itself once it was asked to.
GRACE = 5.0


def watch_mpi(wanted: int, finished: threading.Event, found: dict[str, Any]) -> None:
    """Look into the run's processes until ``wanted`` of them have mapped an MPI library, then leave them alone."""
    pause = 0.05
    while not finished.wait(pause):
        libraries = processes.mapped_mpi(processes.processes_of_run())
        if libraries:
            found.clear()
            found.update(libraries)
        if sum(len(entry["pids"]) for entry in libraries.values()) >= wanted:
            return
        pause = min(pause * 1.5, 0.25)


def run_once(script: Path, output: Path, limit: float, collect: list[str], local_ranks: int) -> dict[str, Any]:
    """Run one script once and return its part of the record.

    :param output: directory for what it prints (``out``, ``err``) and for the files named in ``collect``.
    :param limit: seconds after which it is ended.
    :param local_ranks: processes on this node that are expected to load an MPI library; 0 for none.
    """
    output.mkdir(parents=True)
    for name in collect:
        remove(Path(name))
    timed_out = threading.Event()
    finished = threading.Event()
    mpi: dict[str, Any] = {}
    with (output / "out").open("wb") as out, (output / "err").open("wb") as err:
        began = time.time()
        started = time.monotonic()
        process = subprocess.Popen(
            ["bash", str(script)], stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )

        def expire() -> None:
            timed_out.set()
            processes.end(process.pid, GRACE)

        watchdog = threading.Timer(limit, expire)
        watcher = threading.Thread(target=watch_mpi, args=(local_ranks, finished, mpi), daemon=True)
        watchdog.start()
        if local_ranks:
            watcher.start()
        try:
            status = process.wait()
            seconds = time.monotonic() - started
        except BaseException:
            processes.end(process.pid, GRACE)
            raise
        finally:
            finished.set()
            watchdog.cancel()
            watchdog.join()
            leftovers = processes.kill_descendants()
            if timed_out.is_set():
                processes.kill_slurm_steps()
            processes.reap()
            if local_ranks:
                watcher.join()
    for name in collect:
        if Path(name).exists():
            shutil.move(name, output / Path(name).name)
    return {
        "began": began,
        "seconds": seconds,
        "status": status,
        "timed_out": timed_out.is_set(),
        "leftover_processes": leftovers,
        "mpi": mpi,
        "output": str(output),
    }


def remove(path: Path) -> None:
    """Remove a file or a directory, if there is one: what a run leaves must be its own."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def describe(run: dict[str, Any]) -> str:
    """Return the outcome of one run in a few words."""
    if run["timed_out"]:
        return f"killed at its limit after {run['seconds']:.1f} s"
    if run["status"] != 0:
        return f"exit status {run['status']} after {run['seconds']:.1f} s"
    return f"{run['seconds']:.2f} s"


def write_record(record: dict[str, Any]) -> None:
    """Write ``rounds.json`` in one step: no reader ever sees half of it."""
    temporary = RECORD.with_suffix(".tmp")
    temporary.write_text(json.dumps(record, indent=1))
    temporary.replace(RECORD)


def prepare(script: Path) -> None:
    """Run the script that makes what all runs read.

    :raises SystemExit: it fails.
    """
    if subprocess.run(["bash", "-e", str(script)], stdin=subprocess.DEVNULL, check=False).returncode != 0:
        sys.exit(f"error: {script} failed: see what it printed, in the job's output")


def run_rounds(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run all rounds, keep the record up to date after each run, and return it."""
    scripts = {"baseline": arguments.baseline}
    if arguments.subject:
        scripts["subject"] = arguments.subject
    record: dict[str, Any] = {
        "rounds": arguments.rounds,
        "limit": arguments.limit,
        "host": os.uname().nodename,
        "complete": False,
        "runs": [],
    }
    write_record(record)
    for number in range(1, arguments.rounds + 1):
        order = list(scripts) if number % 2 else list(reversed(scripts))
        for side in order:
            run = run_once(
                scripts[side],
                DIRECTORY / f"{number:02d}-{side}",
                arguments.limit,
                arguments.collect,
                arguments.local_ranks,
            )
            record["runs"].append({"round": number, "side": side, **run})
            write_record(record)
            print(f"round {number}/{arguments.rounds} {side}: {describe(run)}", flush=True)
    record["complete"] = True
    write_record(record)
    return record


def terminate(number: int, _frame: object) -> None:
    """Turn the signal of a scheduler that ends the job into an orderly exit, so that the run in progress ends too."""
    sys.exit(128 + number)


def parse(argv: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, required=True, help="how many")
    parser.add_argument("--limit", type=float, required=True, help="seconds that one run may take")
    parser.add_argument(
        "--collect", action="append", default=[], help="a file that each run writes, to be kept with it"
    )
    parser.add_argument("--local-ranks", type=int, default=0, help="MPI processes expected on this node")
    parser.add_argument("--prepare", type=Path, help="script that makes the input, once, before the rounds")
    parser.add_argument("baseline", type=Path)
    parser.add_argument("subject", type=Path, nargs="?")
    return parser.parse_args(argv)


def main() -> None:
    """Run the rounds with the machine to ourselves."""
    arguments = parse(sys.argv[1:])
    signal.signal(signal.SIGTERM, terminate)
    processes.adopt_orphans()
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    RECORD.unlink(missing_ok=True)
    with locks.measuring():
        # Not before: it would disturb somebody else's measurement.
        if arguments.prepare:
            prepare(arguments.prepare)
        run_rounds(arguments)


if __name__ == "__main__":
    main()
