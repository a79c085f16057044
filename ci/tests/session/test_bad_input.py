"""What a site file may have wrong: each is one line that says what, where, and what to do."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from conftest import PLANTED, file_of


def test_an_mpi_that_is_not_there_is_one_line_before_the_rounds(session, site):
    settings = site(extras={"host_mpi": "/nowhere/lib/libmpi.so.40"})
    result = session("-C", settings, "-n", "PingPong%variant=integrated", "-S", "rounds=1", checks=file_of("PingPong"))
    reason = result.case("integrated")["fail_reason"]
    assert "no /nowhere/lib/libmpi.so.40 on" in reason and "the site's extras, host_mpi, name it" in reason
    assert [json.loads(path.read_text())["runs"] for path in result.stage.rglob("rounds.json")] == [[]]


def test_a_node_with_too_little_memory_is_a_skip_before_the_job(session, site):
    settings = site(extras={"memory_per_node": 1 << 30})
    result = session("-C", settings, "-n", "RAMP%variant=bare%num_nodes=1%image_in=shared", checks=file_of("RAMP"))
    assert re.fullmatch(
        r"needs about 1\.\d+ GiB of memory on a node: here:only has 1 GiB", result.case("bare")["skip_reason"]
    )
    assert not list(result.stage.rglob("rfm_job.sh"))


@pytest.mark.parametrize("variant", ["bare", "generic"])
def test_a_partition_whose_jobs_are_too_short_for_a_round_skips_with_the_reason(session, site, variant):
    settings = site(time_limit="0h0m5s")
    result = session(
        "-C", settings, "-n", f"TensorFlowCNN%variant={variant}.*AlexNet.*batch=32", checks=file_of("TensorFlowCNN")
    )
    assert "a job with one round takes about" in result.case(variant)["skip_reason"]
    assert "the time limit of here:only is 5 s" in result.case(variant)["skip_reason"]


#: A scheduler of another name, with which a partition is not this machine, though its jobs run here.
ELSEWHERE = """
from reframe.core.backends import register_scheduler
from reframe.core.schedulers.local import LocalJobScheduler

@register_scheduler("elsewhere")
class Elsewhere(LocalJobScheduler):
    pass

"""


@pytest.mark.parametrize("scheduler", ["local", "elsewhere"])
def test_a_node_without_python_is_one_line(session, site, scheduler):
    settings = Path(site(scheduler=scheduler, extras={"python": "/nowhere/python3"}))
    settings.write_text(ELSEWHERE + settings.read_text())
    result = session("-C", str(settings), "-n", "Planted%variant=bare", checks=PLANTED)
    (case,) = result.cases
    said = f"no /nowhere/python3 on {os.uname().nodename}: install Python 3.6 or newer there, or name it: "
    assert said in case["fail_reason"], result.output
    assert len(case["fail_reason"].strip().splitlines()) == 1
    assert "Traceback" not in result.output


def test_rounds_end_before_the_time_limit_of_the_partition_and_count(session, site):
    """One minute is enough for a few of ten seconds, too few for a verdict, however long they are wanted to go on."""
    settings = site(time_limit="0h1m0s")
    options = ("-S", "seconds=600", "-S", "lasts=5", "-S", "run_limit=60")
    result = session("-C", settings, "-n", "Planted%variant=generic", *options, checks=PLANTED)
    case = result.case("generic")
    assert case["result"] == "pass", result.output
    record = json.loads(next(result.stage.rglob("rounds.json")).read_text())
    assert (record["complete"], record["ended"], record["why"]) == (True, None, "the time is used up")
    assert 1 <= len(case["measured"]) == len(record["runs"]) // 2 - len(record["replaced"])
    (row,) = case["results"]
    assert row["verdict"] in ("pass", "inconclusive")
