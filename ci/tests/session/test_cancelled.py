"""A session that is cancelled, or killed, in the middle of a container's run leaves no process behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from conftest import TURN, alive_below, eventually


def fields_of(pid):
    """Return name, parent and start time of a living process, or None."""
    try:
        text = Path("/proc", str(pid), "stat").read_text(errors="replace")
    except OSError:
        return None
    # The name may hold anything; the fields follow its bracket.
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return None if fields[0] == "Z" else (name, int(fields[1]), int(fields[19]))


def tree(root):
    """Return the living descendants of a process: start time and name, by pid."""
    known = {int(path.name): fields_of(path.name) for path in Path("/proc").glob("[0-9]*")}
    found = {root}
    for _ in range(len(known)):
        more = {pid for pid, fields in known.items() if fields and fields[1] in found} - found
        if not more:
            break
        found |= more
    return {pid: (known[pid][2], known[pid][0]) for pid in found if known.get(pid)}


def still_alive(processes):
    """Return the names of those that have not ended, whoever has their numbers by now."""
    now = {pid: fields_of(pid) for pid in processes}
    return [name for pid, (began, name) in processes.items() if now[pid] and now[pid][2] == began]


@pytest.fixture
def hanging(reframe, tmp_path):
    """Start a session whose container hangs; return it, and all its processes.

    Among them is what unpacks the image where the kernel may not mount it: a process with a group of its own, in a
    namespace of its own, which nobody tells of the end.
    """
    (tmp_path / "memory").mkdir()
    options = ("-S", "fault=hangs", "-S", "rounds=2", "-S", f"image_directory={tmp_path / 'memory'}")
    command, facts = reframe("-n", "Planted%variant=generic", *options)
    session = subprocess.Popen(command, **facts)

    def hangs():
        assert session.poll() is None, session.stdout.read()
        return "sleep" in [name for _, name in tree(session.pid).values()]

    try:
        assert eventually(hangs, TURN)
        processes = tree(session.pid)
        assert alive_below(tmp_path)
        assert list((tmp_path / "memory").iterdir())
        yield session, processes
    finally:
        session.kill()
        session.communicate()
        for line in alive_below(tmp_path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)


def runner_of(processes):
    """Return the two processes of the runner: the one that waits, and the one that works."""
    found = []
    for pid in processes:
        words = Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
        if b"rounds" in words:
            found.append(pid)
    (worker,) = [pid for pid in found if fields_of(pid)[1] in found]
    (waiting,) = [pid for pid in found if pid != worker]
    return waiting, worker


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_session_that_is_ended_leaves_nothing_behind(hanging, tmp_path, number):
    session, processes = hanging
    session.send_signal(number)
    session.communicate(timeout=TURN)
    assert eventually(lambda: not still_alive(processes)), still_alive(processes)
    assert eventually(lambda: not alive_below(tmp_path)), alive_below(tmp_path)
    record = json.loads(next(tmp_path.rglob("rounds.json")).read_text())
    assert (record["complete"], record["ended"]) == (False, "SIGTERM")
    assert eventually(lambda: not list((tmp_path / "memory").iterdir()))


def test_a_runner_that_loses_the_process_that_waits_for_it_leaves_nothing_behind(hanging, tmp_path):
    session, processes = hanging
    waiting, _ = runner_of(processes)
    os.kill(waiting, signal.SIGKILL)
    # The job ends with it, and the check fails; ReFrame itself goes on to its report.
    output, _ = session.communicate(timeout=TURN)
    assert session.returncode != 0
    # The bare program ran before the container, or did not yet: the order is random.
    ended = r"no rounds were run: .*Killed|the job ended before all rounds were done \(completed runs: 1\): .*Killed"
    assert re.search(ended, output), output
    assert eventually(lambda: not still_alive(processes)), still_alive(processes)
    assert eventually(lambda: not alive_below(tmp_path)), alive_below(tmp_path)
