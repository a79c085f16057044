"""Keeping the processors of a virtual machine awake, with real processes."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from conftest import TURN, eventually
from containercheck.node.job import awake, disturbance, processes

VIRTUAL = "processor\t: 0\nflags\t\t: fpu vme sse2 ht syscall hypervisor lahf_lm\n"


def test_a_virtual_machine_is_known_by_its_processors():
    assert awake.is_virtual(VIRTUAL)
    assert not awake.is_virtual(VIRTUAL.replace(" hypervisor", ""))
    # Arm and POWER have no such flag; a name is none.
    assert not awake.is_virtual("processor\t: 0\nFeatures\t: fp asimd\nplatform\t: pSeries hypervisor\n")


@pytest.fixture
def virtual(monkeypatch):
    """Have any machine taken for a virtual one."""
    monkeypatch.setattr(awake, "is_virtual", lambda _text: True)


def is_there(pid):
    """Tell whether a process still runs."""
    try:
        return processes.fields_of(pid)[0] != "Z"
    except OSError:
        return False


def test_each_processor_has_a_process_that_runs_when_nobody_else_wants_to(virtual):
    before = processes.descendants(os.getpid())
    with awake.kept(True) as done:
        assert done
        spinning = sorted(processes.HELPERS)
        assert eventually(lambda: all(os.sched_getscheduler(pid) == os.SCHED_IDLE for pid in spinning), TURN)
        one_each = [[cpu] for cpu in sorted(os.sched_getaffinity(0))]
        assert eventually(lambda: sorted(sorted(os.sched_getaffinity(pid)) for pid in spinning) == one_each, TURN)
        # It is seen as what it is, and belongs to no run, and disturbs none.
        shown = (Path(f"/proc/{pid}/cmdline") for pid in spinning)
        assert all(
            eventually(lambda path=path: b"keeps a processor awake" in path.read_bytes(), TURN) for path in shown
        )
        assert processes.descendants(os.getpid()) == before
        assert not set(spinning) & set(disturbance.look().usage)
    assert not any(map(is_there, spinning))
    assert not processes.HELPERS


def test_nothing_is_kept_awake_that_need_not_be(monkeypatch):
    monkeypatch.setattr(awake, "_spin", lambda _cpu: pytest.fail("a process was started"))
    monkeypatch.setattr(awake, "is_virtual", lambda _text: False)
    with awake.kept(True) as done:
        assert not done
    monkeypatch.setattr(awake, "is_virtual", lambda _text: True)
    with awake.kept(False) as done:
        assert not done


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
    assert record["kept_awake"] == awake.is_virtual(Path("/proc/cpuinfo").read_text())
    for run in record["runs"]:
        assert len(set((tmp_path / run["output"] / "out").read_text().split())) == 1
        assert run["leftover_processes"] == []


@pytest.mark.skipif(not awake.is_virtual(Path("/proc/cpuinfo").read_text()), reason="no virtual machine")
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


def test_what_kept_a_processor_awake_and_died_ends_nothing_and_kills_no_stranger(virtual, monkeypatch, capfd):
    """Its number stays its own until it is waited for, whatever else is collected meanwhile."""
    killed = []
    with awake.kept(True):
        first = min(processes.HELPERS)
        os.kill(first, signal.SIGKILL)
        assert eventually(lambda: not is_there(first), TURN)
        # As after every run.
        processes.reap()
        assert Path(f"/proc/{first}").exists()
        end = os.kill
        monkeypatch.setattr(awake.os, "kill", lambda pid, number: (killed.append(pid), end(pid, number)))
    assert first not in killed
    assert not Path(f"/proc/{first}").exists()
    assert not processes.HELPERS
    assert "a process that kept a processor awake ended before the rounds did" in capfd.readouterr().out
