"""The site files: those of the documents' machines, and the examples of today."""

from __future__ import annotations

import re

import pytest
from conftest import REPOSITORY
from containercheck.site import sites
from site_files import FILES, sites_of, system_of  # noqa: F401


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_site_file_is_read_and_has_the_digests_of_images(path):
    assert system_of(path)["name"].replace("-", "_") == path.stem
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
