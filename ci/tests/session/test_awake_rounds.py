"""Processors that are kept awake beside real runs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from conftest import TURN, eventually, is_there
from containercheck.job import this_node


def idlers(session):
    """Return the processes of a session that run when nobody else wants to."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        try:
            if os.getsid(pid) == session and os.sched_getscheduler(pid) == os.SCHED_IDLE:
                found.add(pid)
        except OSError:
            continue
    return found


def test_runs_share_the_processors_with_what_keeps_them_awake(start_rounds, tmp_path):
    """Of two sessions each would have half of a processor, whatever the class of its processes."""
    text = "ps -o sid= -p $$; ps -o sid= -p $PPID"
    process = start_rounds(text, text, 1, 100, "--keep-awake")
    process.communicate(timeout=TURN)
    record = json.loads((tmp_path / "rounds.json").read_text())
    assert record["kept_awake"] == this_node.is_virtual(Path("/proc/cpuinfo").read_text())
    for run in record["runs"]:
        assert len(set((tmp_path / run["output"] / "out").read_text().split())) == 1
        assert run["leftover_processes"] == []


@pytest.mark.skipif(not this_node.is_virtual(Path("/proc/cpuinfo").read_text()), reason="no virtual machine")
def test_a_killed_job_leaves_no_processor_awake(start_rounds, tmp_path):
    text = "echo $PPID >pid.new; mv pid.new pid; sleep 1000"
    process = start_rounds(text, text, 1, 100, "--keep-awake")
    assert eventually((tmp_path / "pid").exists, TURN)
    worker = int((tmp_path / "pid").read_text())
    spinning = idlers(os.getsid(worker))
    assert len(spinning) == len(os.sched_getaffinity(0))
    os.kill(worker, signal.SIGKILL)
    process.communicate(timeout=TURN)
    assert eventually(lambda: not any(map(is_there, spinning)), TURN)


def test_without_being_asked_the_runner_keeps_nothing_awake(start_rounds, tmp_path):
    text = "echo $PPID >pid.new; mv pid.new pid; while [ ! -e go ]; do sleep 0.1; done"
    process = start_rounds(text, text, 1, 100)
    assert eventually((tmp_path / "pid").exists, TURN)
    assert idlers(os.getsid(int((tmp_path / "pid").read_text()))) == set()
    (tmp_path / "go").touch()
    process.communicate(timeout=TURN)
    assert json.loads((tmp_path / "rounds.json").read_text())["kept_awake"] is False
