"""What a site file may have wrong: each is one line that says what, where, and what to do."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from conftest import PLANTED, file_of


def test_an_mpi_that_is_not_there_is_one_line_before_the_rounds(session, site):
    settings = site(extras={"host_mpi": "/nowhere/lib/libmpi.so.40"})
    result = session("-C", settings, "-n", "PingPong%variant=integrated", "-S", "rounds=1", checks=file_of("PingPong"))
    reason = result.case("integrated")["fail_reason"]
    assert "no /nowhere/lib/libmpi.so.40 on" in reason and "the site's extras, host_mpi, name it" in reason
    assert [json.loads(path.read_text())["runs"] for path in result.stage.rglob("rounds.json")] == [[]]


#: A scheduler of another name, with which a partition is not this machine, though its jobs run here.
ELSEWHERE = """
from reframe.core.backends import register_scheduler
from reframe.core.schedulers.local import LocalJobScheduler

@register_scheduler("elsewhere")
class Elsewhere(LocalJobScheduler):
    pass

"""


def test_a_node_without_python_is_one_line(session, site):
    settings = Path(site(scheduler="elsewhere", extras={"python": "/nowhere/python3"}))
    settings.write_text(ELSEWHERE + settings.read_text())
    result = session("-C", str(settings), "-n", "Planted%variant=bare", checks=PLANTED)
    (case,) = result.cases
    said = f"no /nowhere/python3 on {os.uname().nodename}: install Python 3.6 or newer there, or name it: "
    assert said in case["fail_reason"], result.output
    assert len(case["fail_reason"].strip().splitlines()) == 1
    assert "Traceback" not in result.output


def test_rounds_get_no_more_time_than_the_limit_of_the_partition(session, site):
    """However long they are wanted to go on."""
    settings = site(time_limit="0h1m0s")
    result = session("--dry-run", "-C", settings, "-n", "Planted%variant=generic", "-S", "seconds=600", checks=PLANTED)
    script = next(result.stage.rglob("rfm_job.sh")).read_text()
    assert 0 < float(re.search(r" rounds --seconds=(\S+)", script)[1]) < 60
