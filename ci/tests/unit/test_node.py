"""What is written down of a job's node, from what Linux tells on three architectures."""

from __future__ import annotations

import os

import pytest
from containercheck.job import this_node

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
