"""The site files: those of the documents' machines, and the examples of today."""

from __future__ import annotations

import re
import runpy

import pytest
from conftest import REPOSITORY
from containercheck.site import sites
from site_files import FILES, sites_of, system_of  # noqa: F401

CLUSTER = runpy.run_path(str(REPOSITORY / "config" / "virtual_cluster.py"))

#: Family of each partition's MPI, and where its document says so.
FAMILIES = {
    # D12.6 section 4.3: openmpi/2.1.6.
    "aris": {"fat": "openmpi", "gpu": "openmpi"},
    # D12.6 section 9 has no MPI: what is taken where nothing is said.
    "cc_in2p3": {"cpu": "openmpi", "k80": "openmpi", "v100": "openmpi"},
    # CHPCE, "DGEMM": MPIDI_CH3I_Progress, MPID_nem_tcp_connpoll.
    "chpce": {"x86": "mpich", "openpower": "mpich"},
    # Of no document; cray-mpich.
    "cray_ex": {"cpu": "mpich"},
    # D12.6 section 6.3: the image that loads the host's MPI has Open MPI 1.10.4; section 6.9.1.
    "cte_power": {"main": "openmpi"},
    # SANDIA section IV.B: the image has Intel MPI.
    "ec2": {"c3-8xlarge": "mpich"},
    # Of no document; foss has Open MPI.
    "eessi": {"zen4": "openmpi"},
    # D12.6 section 8.1.7: openmpi/4.0.1-gnu-9.2.0-ib.
    "excess": {"ivybridge": "openmpi", "haswell": "openmpi"},
    # D12.6 sections 5.4 and 5.5: OpenMPI of foss-2018b.
    "kay": {"compute": "openmpi"},
    # D12.6 section 6.1: Open MPI 1.10.4.
    "lenox": {"nodes": "openmpi"},
    # D12.6 section 7.4.1, test case 1: Intel MPI.
    "marconi": {"skylake": "mpich"},
    # D12.5 section 2.4.1: Open MPI.
    "marenostrum4": {"main": "openmpi"},
    # MIPT section 3: /usr/lib64/mpich/bin/mpirun.
    "mipt": {"pair": "mpich"},
    # D12.6 section 6.3, as CTE-POWER.
    "thunderx": {"main": "openmpi"},
    # Ours; a cluster may be up that is like a Cray, or has nodes of other architectures.
    "virtual_cluster": {
        "compute": "mpich" if CLUSTER["like"] == "cray" else "openmpi",
        **dict.fromkeys(CLUSTER["emulated"], "mpich" if CLUSTER["like"] == "chpce" else "openmpi"),
    },
    # SANDIA section V: Cray's MPI, of the ABI of MPICH.
    "volta": {"compute": "mpich"},
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_site_file_is_read_and_has_the_mpi_of_its_document_and_digests_of_images(path):
    assert system_of(path)["name"].replace("-", "_") == path.stem
    assert {name: site.mpi_family for name, (_, site) in sites_of(path).items()} == FAMILIES[path.stem]
    for partition, site in sites_of(path).values():
        assert site.architecture in ("x86_64", "aarch64", "ppc64le")
        assert site.cores and partition.container_runtime
        (runtime, *_) = partition.container_environs
        named = [*(site.images or {}).values(), *(own.image for own in (site.software or {}).values() if own.image)]
        for name in (name for name in named if "://" in name or runtime in ("Docker", "Sarus", "Shifter")):
            # Without it the job that is to pull it fails.
            assert re.search("@sha256:[0-9a-f]{64}$", name), name


@pytest.mark.parametrize(
    ("name", "partition", "nodes"),
    [
        # SANDIA figures 4 and 5; D12.6 section 4.2, and figures 7.3 to 7.5.
        ("ec2", "c3-8xlarge", {48}),
        ("aris", "fat", {3}),
        ("marconi", "skylake", {3, 10}),
    ],
)
def test_the_node_counts_of_a_document_are_generated(monkeypatch, name, partition, nodes):
    (_, site) = sites_of(REPOSITORY / "config" / f"{name}.py")[partition]
    monkeypatch.setattr(sites, "current", lambda: (site,))
    assert nodes <= set(sites.node_counts())
    assert all(sites.partitions_with(count) == [f"{name}:{partition}"] for count in nodes)


@pytest.mark.parametrize("partition", ["x86", "openpower"])
def test_all_processes_of_chpces_metrics_are_reached(monkeypatch, partition):
    (_, site) = sites_of(REPOSITORY / "config" / "chpce.py")[partition]
    monkeypatch.setattr(sites, "current", lambda: (site,))
    ranks = [*sites.core_counts(), site.cores]
    reached = {nodes * count for nodes in sites.node_counts() for count in ranks}
    assert {4, 8, 16, 24, 32, 48, 56, 64} <= reached
