"""A job's node: what is written down of it on three architectures, and what keeps its processors awake."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from conftest import TURN, eventually, is_there
from containercheck.job import disturbance, processes, this_node

X86 = "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Platinum 8160 CPU @ 2.10GHz\n"
ARM = "processor\t: 0\nBogoMIPS\t: 200.00\nCPU implementer\t: 0x43\nCPU part\t: 0x0a1\n"
POWER = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800.000000MHz\n"


@pytest.fixture
def told(tmp_path, monkeypatch):
    """Have a node tell this."""

    def tell(cpuinfo, release="", governor=""):
        for name, text in (("CPUINFO", cpuinfo), ("RELEASE", release), ("GOVERNOR", governor)):
            path = tmp_path / name
            path.write_text(text) if text else path.unlink(missing_ok=True)
            monkeypatch.setattr(this_node, name, path)
        return this_node.facts()

    return tell


@pytest.mark.parametrize(
    ("cpuinfo", "processor"),
    [
        (X86, "Intel(R) Xeon(R) Platinum 8160 CPU @ 2.10GHz"),
        (ARM, "ThunderX"),
        # One that is not known by a name.
        (ARM.replace("0x0a1", "0xfff"), "0x43 0xfff"),
        (POWER, "POWER9, altivec supported"),
    ],
    ids=["x86", "arm", "unknown", "power"],
)
def test_the_processor_is_told_on_each_architecture(told, cpuinfo, processor):
    assert told(cpuinfo)["processor"] == processor


def test_system_kernel_and_governor_are_told_and_what_a_node_lacks_is_left_out(told):
    found = told(X86, 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n', "performance\n")
    assert (found["system"], found["governor"]) == ("Debian GNU/Linux 12 (bookworm)", "performance")
    assert told("") == {"kernel": os.uname().release}


# Keeping the processors of a virtual machine awake, with real processes


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


def test_what_kept_a_processor_awake_and_died_ends_nothing(virtual):
    """Its number stays its own until it is waited for, whatever else is collected meanwhile."""
    with this_node.kept_awake(True):
        first = min(processes.HELPERS)
        os.kill(first, signal.SIGKILL)
        assert eventually(lambda: not is_there(first), TURN)
        # As after every run.
        processes.reap()
        assert Path(f"/proc/{first}").exists()
    assert not Path(f"/proc/{first}").exists()
    assert not processes.HELPERS
