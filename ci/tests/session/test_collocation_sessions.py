"""Collocation with the real DLB, where ``DLB_HOME`` names it: that it is loaded, and that idle cores work."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from conftest import REPOSITORY

#: Two ranks, of which the second works three times as much as the first.
CASE = "^Collocation%variant=bare%num_nodes=1%use_case=one$"

#: Metric and side of the row that shows it.
SHARING = ("busiest_core", "full sharing")

pytestmark = [
    # It counts what the cores of the whole machine do.
    pytest.mark.alone,
    pytest.mark.skipif(not os.environ.get("DLB_HOME"), reason="DLB_HOME names no DLB"),
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a single core has nobody to borrow from"),
]


def test_dlb_is_loaded_and_the_busiest_core_has_less_to_do(session):
    options = ["-S", "full=yes", "-S", "rounds=2", "-S", "strict_check=no", "-S", "policies=no_dlb,sharing,talp"]
    times = ["-S", "Collocation.mpi_times=yes"]
    result = session("-n", CASE, *options, *times, checks=REPOSITORY / "checks" / "collocation.py")
    case = result.case("bare")
    assert case["result"] == "pass", case["fail_reason"] or case["skip_reason"] or result.output
    outputs = {
        side: (Path(case["stagedir"]) / "rounds" / f"01-{side}" / "out").read_text()
        for side in ("baseline", "sharing", "talp")
    }
    loaded = {side: set(re.findall(r"^program1: dlb (\w+)$", text, re.MULTILINE)) for side, text in outputs.items()}
    assert loaded == {"baseline": {"no"}, "sharing": {"yes"}, "talp": {"yes"}}
    # A program does three quarters of its work on the core of its heavier rank, unless that is shared: time of the
    # processor, which no other load on the machine changes.
    (busiest,) = (row for row in case["results"] if (row["metric"], row.get("subject_label")) == SHARING)
    assert busiest["subject"] < 0.9 * busiest["baseline"], busiest
    # TALP reports at the end of a program, and it measures those calls that the library before it hands on.
    assert "Parallel efficiency" in outputs["talp"]
    for side in outputs:
        report = (Path(case["stagedir"]) / "rounds" / f"01-{side}" / "mpi-times-program1.txt").read_text()
        assert re.search(r"^function MPI_Allreduce \S+ s \d+$", report, re.MULTILINE), report
