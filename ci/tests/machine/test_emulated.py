"""Partitions of other architectures in the virtual cluster, at length: programs and images are built there."""

from __future__ import annotations

import pytest
from conftest import STATE, cluster, shared_directory
from emulated import MARKS, PARTITIONS, PING_PONG, on_node, reframe, require_run, up

pytestmark = [*MARKS, pytest.mark.long]


@pytest.fixture(scope="module", autouse=True)
def nodes():
    with up("--arm", "2", "--power", "2"):
        yield


@pytest.fixture(scope="module")
def place():
    """Return a directory that the nodes see."""
    with shared_directory() as directory:
        yield directory


@pytest.mark.parametrize("partition", PARTITIONS)
def test_what_runs_there_is_of_that_architecture(partition):
    """Programs, compiler and the packages of MPI; what is the machine's own is its container runtime and Slurm."""
    script = "uname -nm; gcc -dumpmachine; ldd $(command -v hpcc) | grep libmpi.so; apptainer --version"
    said, known = on_node(partition, script).split("\n"), PARTITIONS[partition]
    assert said[:2] == [f"{partition}1 {known.name}", known.triplet]
    assert f"/{known.triplet}/libmpi.so" in said[2] and said[3].startswith("apptainer version ")


def test_a_power_node_says_how_fast_its_clock_counts():
    """Without it UCX of MPICH opens no TCP connection there; Open MPI reads it as an int."""
    assert 1e6 < float(on_node("power", r"sed -n 's/^timebase\t: //p' /proc/cpuinfo")) < 2**31


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_build_node_has_nothing_over_its_proc(partition):
    """Else the kernel refuses Apptainer the one that it mounts where it builds."""
    tree = (STATE / f"userland-{partition}").read_text().strip()
    said = on_node(f"{partition}-build", f"apptainer -s exec --userns --pid {tree} uname -m")
    assert said == f"{PARTITIONS[partition].name}\n"


def test_a_node_that_died_comes_back_and_another_number_needs_down_first():
    assert "starting" not in cluster("up")
    said = cluster("up", "--arm", "1", check=False)
    assert said == (
        "virtual-cluster: error: the cluster has 2 arm nodes. To change that, first run: ci/virtual-cluster down\n"
    )
    cluster("kill-node", "arm1")
    assert "starting arm1\n" in cluster("up")
    assert on_node("arm", "uname -m", "--nodelist=arm1") == "aarch64\n"


@pytest.mark.parametrize("partition", PARTITIONS)
def test_ping_pong_runs_over_two_nodes_in_all_variants(place, partition):
    result = reframe(place, f"virtual-cluster:{partition}", "-n", PING_PONG.format(nodes=2))
    assert result.status == 0, result.output
    for variant in ("bare", "integrated", "generic"):
        case = require_run(result, partition, variant)
        assert case["num_nodes"] == 2
        assert variant == "bare" or f"-{PARTITIONS[partition].name}-" in case["provenance"]["image"]
