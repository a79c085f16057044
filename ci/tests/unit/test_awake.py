"""Keeping the processors of a virtual machine awake, with real processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from conftest import TURN, eventually, is_there
from containercheck.job import disturbance, processes, this_node

VIRTUAL = "processor\t: 0\nflags\t\t: fpu vme sse2 ht syscall hypervisor lahf_lm\n"


def test_a_virtual_machine_is_known_by_its_processors():
    assert this_node.is_virtual(VIRTUAL)
    assert not this_node.is_virtual(VIRTUAL.replace(" hypervisor", ""))
    # Arm and POWER have no such flag; a name is none.
    assert not this_node.is_virtual("processor\t: 0\nFeatures\t: fp asimd\nplatform\t: pSeries hypervisor\n")


@pytest.fixture
def virtual(monkeypatch):
    """Have any machine taken for a virtual one."""
    monkeypatch.setattr(this_node, "is_virtual", lambda _text: True)


def test_each_processor_has_a_process_that_runs_when_nobody_else_wants_to(virtual):
    before = processes.descendants(os.getpid())
    with this_node.kept_awake(True) as done:
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


def test_what_kept_a_processor_awake_and_died_ends_nothing_and_kills_no_stranger(virtual, monkeypatch, capfd):
    """Its number stays its own until it is waited for, whatever else is collected meanwhile."""
    killed = []
    with this_node.kept_awake(True):
        first = min(processes.HELPERS)
        os.kill(first, signal.SIGKILL)
        assert eventually(lambda: not is_there(first), TURN)
        # As after every run.
        processes.reap()
        assert Path(f"/proc/{first}").exists()
        end = os.kill
        monkeypatch.setattr(this_node.os, "kill", lambda pid, number: (killed.append(pid), end(pid, number)))
    assert first not in killed
    assert not Path(f"/proc/{first}").exists()
    assert not processes.HELPERS
    assert "a process that kept a processor awake ended before the rounds did" in capfd.readouterr().out
