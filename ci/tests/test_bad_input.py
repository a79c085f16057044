"""What a site file may have wrong: each is one line that says what, where, and what to do."""

from __future__ import annotations

import re

import pytest
from conftest import REPOSITORY

CHECKS = REPOSITORY / "checks"


def test_an_mpi_that_is_not_there_is_one_line_before_the_rounds(session, site):
    settings = site(extras={"host_mpi": "/nowhere/lib/libmpi.so.40"})
    result = session("-C", settings, "-n", "PingPong%variant=integrated", "-S", "rounds=1", checks=CHECKS)
    reason = result.case("integrated")["fail_reason"]
    assert "no /nowhere/lib/libmpi.so.40 on" in reason and "the site's extras, host_mpi, name it" in reason
    assert not list(result.stage.rglob("rounds.json"))


def test_a_node_with_too_little_memory_is_a_skip_before_the_job(session, site):
    settings = site(extras={"memory_per_node": 1 << 30})
    result = session("-C", settings, "-n", "RAMP%variant=bare%num_nodes=1%image_in=shared", checks=CHECKS)
    assert re.fullmatch(
        r"needs some 1\.\d+ GiB of memory on a node: here:only has 1 GiB", result.case("bare")["skip_reason"]
    )
    assert not list(result.stage.rglob("rfm_job.sh"))


@pytest.mark.parametrize("variant", ["bare", "generic"])
def test_a_partition_whose_jobs_are_too_short_for_a_round_skips_with_the_reason(session, site, variant):
    settings = site(time_limit="0h0m5s")
    result = session("-C", settings, "-n", f"TensorFlowCNN%variant={variant}.*AlexNet.*batch=32", checks=CHECKS)
    assert "a job with one round takes some" in result.case(variant)["skip_reason"]
    assert "the time limit of here:only is 5 s" in result.case(variant)["skip_reason"]
