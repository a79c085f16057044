"""Partitions of other architectures in the virtual cluster: Ping Pong there, bare and in both containers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import REPOSITORY, SHARED, STATE, Session, cluster

#: By partition: what ``uname -m`` says there, and how Debian calls the directory of its libraries.
NAMES = {"arm": ("aarch64", "aarch64-linux-gnu"), "power": ("ppc64le", "powerpc64le-linux-gnu")}
#: Where the kernel keeps the programs that start those of other architectures.
FORMATS = Path("/proc/sys/fs/binfmt_misc")
#: Seconds: userlands and images are made the first time, by programs that qemu runs.
PATIENCE = 3600

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="the virtual cluster is started as root"),
    pytest.mark.skipif(not Path("/etc/debian_version").exists(), reason="userlands are of this machine's Debian"),
]


def formats():
    """Return what the kernel starts by other programs."""
    return sorted(path.name for path in FORMATS.glob("*"))


@pytest.fixture(scope="module", autouse=True)
def up():
    if STATE.exists():
        pytest.skip("a virtual cluster is up already: ci/virtual-cluster down")
    before = formats()
    try:
        cluster("up", "--nodes", "1", "--cores-per-node", "2", "--arm", "1", "--power", "1", patience=PATIENCE)
        yield
    finally:
        cluster("down")
    assert formats() == before


def on_node(partition, script):
    """Run a shell script as a job on a node of a partition, and return what it prints."""
    environment = {**os.environ, "SLURM_CONF": str(STATE / "slurm.conf")}
    command = ["srun", "--chdir=/", f"--partition={partition}", "bash", "-c", script]
    done = subprocess.run(command, env=environment, cwd="/", text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("partition", NAMES)
def test_what_runs_there_is_of_that_architecture(partition):
    """Programs, compiler and the packages of MPI; what is the machine's own is its container runtime and Slurm."""
    script = (
        "uname -nm; gcc -dumpmachine; ldd $(command -v hpcc) | grep libmpi.so; apptainer --version; squeue --version"
    )
    said = on_node(partition, script).split("\n")
    machine, triplet = NAMES[partition]
    assert said[0] == f"{partition}1 {machine}"
    assert said[1] == triplet
    assert f"/{triplet}/libmpi.so" in said[2]
    assert said[3].startswith("apptainer version ")
    assert said[4].startswith("slurm")


def test_a_second_up_starts_nothing_and_another_number_needs_down_first():
    assert "starting" not in cluster("up")
    said = cluster("up", "--arm", "2", check=False)
    assert said == (
        "virtual-cluster: error: the cluster has 1 arm nodes. To change that, first run: ci/virtual-cluster down\n"
    )
    said = cluster("up", "--arm", "50", check=False)
    assert said == "virtual-cluster: error: --arm needs a number from 1 to 49. See --help\n"


def test_a_node_that_died_comes_back():
    cluster("kill-node", "arm1")
    assert "starting arm1\n" in cluster("up")
    assert on_node("arm", "uname -m") == "aarch64\n"


@pytest.fixture(scope="module")
def place():
    """Return a directory that the nodes see."""
    directory = Path(tempfile.mkdtemp(dir=SHARED))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def reframe(place, partition, *words, site=REPOSITORY / "config" / "virtual_cluster.py"):
    """Run a session on one partition."""
    report = place / "report.json"
    report.unlink(missing_ok=True)
    command = [Path(sys.executable).parent / "reframe", "-c", REPOSITORY / "checks", "-r", "--keep-stage-files"]
    command += ["--nocolor", f"--report-file={report}", f"--prefix={place}", f"--system=virtual-cluster:{partition}"]
    # Two rounds, one in each order; how fast it is, says nothing under emulation.
    command += [*words, "-S", "rounds=2", "-S", "strict_check=no"]
    environment = {**os.environ, "SLURM_CONF": str(STATE / "slurm.conf"), "RFM_CONFIG_FILES": str(site)}
    result = subprocess.run(
        command, env=environment, timeout=PATIENCE, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    cases = json.loads(report.read_text())["runs"][-1]["testcases"] if report.exists() else []
    return Session(result.returncode, result.stdout, cases, place / "stage")


@pytest.mark.parametrize("partition", NAMES)
def test_ping_pong_runs_in_all_variants(place, partition):
    """The image is of that architecture, and what the integrated one has loaded is the host's library of it."""
    result = reframe(place, partition, "-n", "^PingPong%.*%num_nodes=1%image_release=fitting")
    assert result.status == 0, result.output
    machine, triplet = NAMES[partition]
    for variant in ("bare", "integrated", "generic"):
        case = result.case(variant)
        assert case["result"] == "pass", result.output
        libraries = case["provenance"]["mpi"]
        assert any(f"/{triplet}/libmpi.so.40" in one for one in libraries["baseline"]), libraries
        if variant != "bare":
            assert f"-{machine}-" in case["provenance"]["image"]
            hosts = any(one.startswith("/host/") for one in libraries["subject"])
            assert hosts is (variant == "integrated"), libraries


def test_an_image_of_another_architecture_is_an_error_before_the_run(place):
    """The node would run it: natively, because its kernel is the machine's."""
    header = b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\x0001\x0002\x00"
    (place / "x86.sif").write_bytes(header)
    text = (REPOSITORY / "config" / "virtual_cluster.py").read_text()
    site = place / "site.py"
    site.write_text(text.replace('"python": "/usr/bin/python3",', f'"images": {{"mpi": "{place}/x86.sif"}},'))
    usual = "^StartUp%variant=generic%.*image_in=shared%image_release=fitting%circumstances=usual"
    case = reframe(place, "arm", "-n", usual, site=site).case("generic")
    assert case["result"] == "fail"
    assert re.search(r"x86\.sif is for x86_64, and the partition's nodes are aarch64", case["fail_reason"])
    assert not list(Path(case["stagedir"]).glob("rounds.json"))
