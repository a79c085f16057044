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
from containercheck.job import processes


def identity(pid):
    """Return name and start of a living process, whose number may be given again; None if it has ended."""
    with contextlib.suppress(OSError):
        name, fields = processes.status_of(pid)
        return None if fields[0] == "Z" else (name, fields[19])
    return None


def tree(root):
    """Return a process and its living descendants, each by its number."""
    found = {pid: identity(pid) for pid in {root, *processes.descendants(root)}}
    return {pid: known for pid, known in found.items() if known}


def still_alive(ours):
    """Return those that have not ended."""
    return [known for pid, known in ours.items() if identity(pid) == known]


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
        return "sleep" in {name for name, _ in tree(session.pid).values()}

    try:
        assert eventually(hangs, TURN, session), session.poll() is None or session.stdout.read()
        ours = tree(session.pid)
        assert alive_below(tmp_path)
        assert list((tmp_path / "memory").iterdir())
        yield session, ours
    finally:
        session.kill()
        session.communicate()
        for line in alive_below(tmp_path):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)


def waiting_runner(ours):
    """Return the process of the runner that waits for the one that works."""
    found = [pid for pid in ours if b"rounds" in Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")]
    (waiting,) = [pid for pid in found if int(processes.fields_of(pid)[1]) not in found]
    return waiting


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_session_that_is_ended_leaves_nothing_behind(hanging, tmp_path, number):
    session, ours = hanging
    session.send_signal(number)
    session.communicate(timeout=TURN)
    assert eventually(lambda: not still_alive(ours)), still_alive(ours)
    assert eventually(lambda: not alive_below(tmp_path)), alive_below(tmp_path)
    record = json.loads(next(tmp_path.rglob("rounds.json")).read_text())
    assert (record["complete"], record["ended"]) == (False, "SIGTERM")
    assert eventually(lambda: not list((tmp_path / "memory").iterdir()))


def test_a_runner_that_loses_the_process_that_waits_for_it_leaves_nothing_behind(hanging, tmp_path):
    session, ours = hanging
    os.kill(waiting_runner(ours), signal.SIGKILL)
    # The job ends with it, and the check fails; ReFrame itself goes on to its report.
    output, _ = session.communicate(timeout=TURN)
    assert session.returncode != 0
    # The bare program ran before the container, or did not yet: the order is random.
    ended = r"no rounds were run: .*Killed|the job ended before all rounds were done \(completed runs: 1\): .*Killed"
    assert re.search(ended, output), output
    assert eventually(lambda: not still_alive(ours)), still_alive(ours)
    assert eventually(lambda: not alive_below(tmp_path)), alive_below(tmp_path)
