"""The preparation of a job's rounds: the script that makes what all runs read (standard library only, Python 3.6)."""

import os
import subprocess
import sys
from pathlib import Path

from containercheck.node import contract, texts
from containercheck.node.job import belonging, daemon_containers, print_limit, processes

#: Seconds that it has to end by itself once its time is up.
GRACE = 5.0


def prepare(script: Path, limit: float) -> None:
    """Run the script that makes what all runs read.

    :param limit: seconds after which it is ended, with all that it started.
    :raises SystemExit: it fails, or meets its limit; what it said on standard error is said again. Where it says by its
        status that the check cannot run on this node, the reason is written down for a skip.
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
        late = False
        try:
            status = process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            late = True
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
    if printed.is_too_much():
        printed.cut()
        sys.exit(f"error: {script} was {contract.PRINTED_TOO_MUCH}: see what is left of it, {files[0]} and {files[1]}")
    print(texts.sanitized(texts.tail(files[0])), flush=True)
    said = texts.sanitized(texts.tail(files[1]).strip())
    if said:
        print(said, file=sys.stderr)
    if late:
        last = f"; the last that it said: {said.splitlines()[-1]}" if said else ""
        sys.exit(f"error: the preparation, {script}, was ended at its limit of {limit:g} s{last}")
    if status == contract.UNSUPPORTED:
        reason = said.splitlines()[-1] if said else f"{script} ended with status {contract.UNSUPPORTED}"
        Path(contract.UNSUPPORTED_WHY).write_text(reason)
    if status != 0:
        sys.exit(1 if said else f"error: {script} failed: see what it printed, in the job's output")
