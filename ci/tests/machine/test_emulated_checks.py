"""Every check on nodes of other architectures: its image is built for these and it runs, or it says truly why not."""

from __future__ import annotations

import re

import pytest
from conftest import shared_directory
from emulated import LACKING, MARKS, PARTITIONS, reframe, up

#: What makes single checks short; GROMACSHybrid has full axes only.
SHORT = ["GROMACSHybrid.full=yes", "GROMACSHybrid.boxes=2", "GROMACSHybrid.timesteps=100"]
SHORT += ["HPL.repeats=1"]
#: A run takes minutes there; a generic case has the bare program beside it.
FEW = [word for assignment in ("rounds=1", "strict_check=no", "run_limit=3000", *SHORT) for word in ("-S", assignment)]


@pytest.fixture(scope="module", params=[pytest.param(name, marks=[*MARKS, pytest.mark.long]) for name in PARTITIONS])
def partition(request):
    """Have a node of each architecture, one after the other."""
    with up(f"--{request.param}", "1"):
        yield request.param


@pytest.mark.parametrize("check", LACKING)
def test_it_runs_there_or_says_why_not(partition, check):
    with shared_directory() as place:
        result = reframe(place, f"virtual-cluster:{partition}", "-n", f"^{check}%variant=generic%num_nodes=1", *FEW)
        assert result.status == 0, result.output
        reason = LACKING[check]
        reason = reason[partition] if isinstance(reason, dict) else reason
        for case in result.cases:
            if case["result"] == "pass":
                assert f"-{PARTITIONS[partition].name}-" in case["provenance"]["image"]
                assert {row["verdict"] for row in case["results"]} == {"emulated"}
        said = [case["skip_reason"] for case in result.cases if case["result"] == "skip"]
        if reason:
            assert len(said) == len(result.cases)
            assert any(re.search(reason.format(check=check, environment=check.lower()), line) for line in said), said
        else:
            assert any(case["result"] == "pass" for case in result.cases), said
