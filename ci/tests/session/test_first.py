"""What every change needs of real sessions: a fault is found, and a check passes bare and in both containers."""

from __future__ import annotations

import re
import shutil

import pytest
from conftest import REPOSITORY

pytestmark = pytest.mark.skipif(
    not (shutil.which("apptainer") or shutil.which("singularity")), reason="no Apptainer or Singularity on the PATH"
)


def test_a_slow_container_fails(session):
    result = session("-n", "^Fault%variant=generic%num_nodes=1%case=slow")
    case = result.case("generic")
    assert (result.status != 0, case["fail_phase"]) == (True, "performance"), result.output
    assert re.search(r"% \(\S+ to \S+ %\) worse than bare in this session \(tolerance 5 %", case["fail_reason"])


def test_start_up_runs_bare_and_in_both_containers(session):
    checks = REPOSITORY / "checks" / "startup.py"
    words = ("-n", "^StartUp", "-S", "rounds=1", "-S", "strict_check=no")
    result = session(*words, checks=checks)
    assert result.status == 0, result.output
    for variant in ("bare", "integrated", "generic"):
        case = result.case(variant)
        assert case["result"] == "pass", result.output
        assert {row["metric"] for row in case["results"]} >= {"start", "memory"}
