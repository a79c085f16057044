"""Run the script that makes the input of all runs, before the rounds (standard library only, Python 3.6 or newer)."""

import os
import subprocess
import sys
from pathlib import Path

from containercheck.node import contract, texts
from containercheck.node.job import belonging, daemon_containers, print_limit, processes

#: Seconds from SIGTERM to SIGKILL when its time is up.
GRACE = 5.0


def prepare(script: Path, limit: float) -> None:
    """Run the script that makes the input of all runs.

    :param limit: seconds after which it is ended, with all that it started.
    :raises SystemExit: it fails, or exceeds its limit; its standard error is printed again. If its status says that the
        check cannot run on this node, the reason is written to a file, for a skip; else a file says that it failed.
    """
    files = [script.with_suffix(".out"), script.with_suffix(".err")]
    with files[0].open("wb") as out, files[1].open("wb") as err:
        process = subprocess.Popen(
            ["bash", "-e", str(script)],
            env=belonging.environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            preexec_fn=os.setpgrp,
        )
        printed = print_limit.Watch(files, lambda: processes.end(process.pid, 0.0))
        printed.start()
        is_late = False
        try:
            status = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            is_late = True
            processes.end(process.pid, GRACE)
            belonging.kill_all()
            status = process.wait()
        except BaseException:
            processes.end(process.pid, GRACE)
            belonging.kill_all()
            raise
        finally:
            printed.stop()
            daemon_containers.remove([])
    # What somebody else killed has not failed by itself.
    if is_late or printed.is_too_much() or status > 0 and status != contract.UNSUPPORTED:
        Path(contract.UNPREPARED).touch()
    if printed.is_too_much():
        printed.cut()
        sys.exit(f"error: {script} was {contract.PRINTED_TOO_MUCH}: see what is left of it, {files[0]} and {files[1]}")
    print(texts.sanitized(texts.tail(files[0])), flush=True)
    errors = texts.sanitized(texts.tail(files[1]).strip())
    if errors:
        print(errors, file=sys.stderr)
    if is_late:
        last = f"; the last that it said: {errors.splitlines()[-1]}" if errors else ""
        sys.exit(f"error: the preparation, {script}, was ended at its limit of {limit:g} s{last}")
    if status == contract.UNSUPPORTED:
        reason = errors.splitlines()[-1] if errors else f"{script} ended with status {contract.UNSUPPORTED}"
        Path(contract.UNSUPPORTED_WHY).write_text(reason)
    if status != 0:
        sys.exit(1 if errors else f"error: {script} failed: see what it printed, in the job's output")
