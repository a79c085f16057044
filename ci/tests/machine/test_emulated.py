"""Partitions of other architectures in the virtual cluster, at length: programs and images are built there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import STATE, cluster, shared_directory
from emulated import MARKS, PARTITIONS, PING_PONG, START_UP, on_node, reframe, up, with_image

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
    script = (
        "uname -nm; gcc -dumpmachine; ldd $(command -v hpcc) | grep libmpi.so; apptainer --version; squeue --version"
    )
    said = on_node(partition, script).split("\n")
    known = PARTITIONS[partition]
    assert said[0] == f"{partition}1 {known.name}"
    assert said[1] == known.triplet
    assert f"/{known.triplet}/libmpi.so" in said[2]
    assert said[3].startswith("apptainer version ")
    assert said[4].startswith("slurm")


def test_a_power_node_says_how_fast_its_clock_counts():
    """Without it UCX of MPICH opens no TCP connection there; Open MPI reads it as an int."""
    assert 1e6 < float(on_node("power", r"sed -n 's/^timebase\t: //p' /proc/cpuinfo")) < 2**31


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_build_node_has_nothing_over_its_proc(partition):
    """Else the kernel refuses Apptainer the one that it mounts where it builds."""
    tree = (STATE / f"userland-{partition}").read_text().strip()
    said = on_node(f"{partition}-build", f"apptainer -s exec --userns --pid {tree} uname -m")
    assert said == f"{PARTITIONS[partition].name}\n"


def test_a_second_up_starts_nothing_and_another_number_needs_down_first():
    assert "starting" not in cluster("up")
    said = cluster("up", "--arm", "1", check=False)
    assert said == (
        "virtual-cluster: error: the cluster has 2 arm nodes. To change that, first run: ci/virtual-cluster down\n"
    )
    said = cluster("up", "--arm", "50", check=False)
    assert said == "virtual-cluster: error: --arm needs a number from 1 to 49. See --help\n"


def test_a_node_that_died_comes_back():
    cluster("kill-node", "arm1")
    assert "starting arm1\n" in cluster("up")
    assert on_node("arm", "uname -m", "--nodelist=arm1") == "aarch64\n"


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("partition", PARTITIONS)
def test_ping_pong_runs_in_all_variants(place, partition, count):
    """The image is of that architecture, and what the integrated one has loaded is the host's library of it."""
    result = reframe(place, f"virtual-cluster:{partition}", "-n", PING_PONG.format(nodes=count))
    assert result.status == 0, result.output
    known = PARTITIONS[partition]
    for variant in ("bare", "integrated", "generic"):
        case = result.case(variant)
        assert case["result"] == "pass", result.output
        assert case["num_nodes"] == count
        libraries = case["provenance"]["mpi"]
        assert any(f"/{known.triplet}/libmpi.so.40" in library for library in libraries["baseline"]), libraries
        if variant != "bare":
            assert {row["verdict"] for row in case["results"]} == {"emulated"}
            assert f"-{known.name}-" in case["provenance"]["image"]
            hosts = any(library.startswith("/host/") for library in libraries["subject"])
            assert hosts is (variant == "integrated"), libraries


def test_an_image_of_another_architecture_is_an_error_before_the_run(place):
    """The node would run it: natively, because its kernel is the machine's."""
    header = b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\x0001\x0002\x00"
    (place / "x86.sif").write_bytes(header)
    site = with_image(place, place / "x86.sif")
    case = reframe(place, "virtual-cluster:arm", "-n", START_UP, site=site).case("generic")
    assert case["result"] == "fail"
    assert re.search(r"x86\.sif is for x86_64, and the partition's nodes are aarch64", case["fail_reason"])
    assert not list(Path(case["stagedir"]).glob("rounds.json"))
