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


@pytest.mark.parametrize("options", [["--keep-awake"], []])
def test_runs_share_the_processors_with_what_keeps_them_awake_if_it_is_asked_for(start_rounds, tmp_path, options):
    """Of two sessions each would have half of a processor, whatever the class of its processes."""
    text = "ps -o sid= -p $$; ps -o sid= -p $PPID"
    start_rounds(text, text, 1, 100, *options).communicate(timeout=TURN)
    record = json.loads((tmp_path / "rounds.json").read_text())
    is_virtual = this_node.is_virtual(Path("/proc/cpuinfo").read_text())
    assert record["kept_awake"] == (bool(options) and is_virtual)
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
