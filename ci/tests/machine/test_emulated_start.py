"""Partitions of other architectures, in short: start-up there in three variants, in minutes on a machine that has none.

The userland is a small one, and is itself the image: nothing is built.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from conftest import STATE, shared_directory
from emulated import MARKS, PARTITIONS, START_UP, on_node, reframe, require_run, up_where_possible, with_image

ORDINARY_USER = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")

pytestmark = MARKS


@pytest.fixture(scope="module")
def lacking():
    with up_where_possible("--small") as found:
        yield found


@pytest.fixture(params=PARTITIONS)
def partition(request, lacking):
    """Return each partition; not that of an architecture that the package mirror lacks."""
    if request.param in lacking:
        pytest.skip(lacking[request.param])
    return request.param


def userland(partition):
    """Return the tree of a partition."""
    return Path((STATE / f"userland-{partition}").read_text().strip())


def test_start_up_runs_in_all_variants_and_nothing_is_judged(partition):
    with shared_directory() as place:
        site = with_image(place, userland(partition))
        result = reframe(place, f"virtual-cluster:{partition}", "-n", START_UP, site=site)
        assert result.status == 0, result.output
        for variant in ("bare", "integrated", "generic"):
            case = require_run(result, partition, variant)
            assert case["provenance"]["host"] == f"{partition}1"
            assert all(row["emulated"] for row in case["results"])


def test_an_ordinary_user_has_jobs_and_containers_there(partition):
    script = f"id -un; uname -m; apptainer -s exec {userland(partition)} uname -m"
    name = PARTITIONS[partition].name
    assert on_node(partition, script, user=ORDINARY_USER).split() == ["nobody", name, name]


def test_a_node_for_builds_is_reached_from_the_cluster_only(partition):
    """It has the machine's network, and would listen wherever the machine is reached from."""
    port = {"arm": "6821", "power": "6822"}[partition]
    listening = subprocess.run(["ss", "-Hltn", "sport", "=", port], capture_output=True, text=True, check=True).stdout
    assert [line.split()[3] for line in listening.splitlines()] == [f"198.18.0.253:{port}"]
