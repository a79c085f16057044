"""What prints without end, or in one endless line, is ended or cut, and said in a line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import BARE, facts_of, run_of
from containercheck import Metric
from containercheck.job import contract, single_run, texts
from containercheck.job.outputs import reading
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts
from containercheck.job.outputs.reading import UnreadableError

#: Runs a script once, with limits of its own, in a process of its own: what it leaves is killed by descent.
ONCE = """
import json
from pathlib import Path
from containercheck.job import processes, single_run
single_run.Watchdog.__init__.__defaults__ = (4 << 20,)
single_run.SETTLE = 0.2
processes.adopt_orphans()
print(json.dumps(single_run.run_once(Path("script.sh").read_text(), Path("output"), 60.0, ["md.log"], 0)))
"""
METRIC = Metric("rate", r"^rate (\S+)", "s")


@pytest.mark.parametrize(
    "script",
    [
        "trap '' TERM; while :; do echo error: cannot open the file; done",
        "yes >md.log",
        # Below the script, and in a session of its own.
        "setsid sh -c 'yes' & sleep 50",
    ],
)
def test_a_program_that_prints_without_end_is_ended(script, tmp_path):
    (tmp_path / "script.sh").write_text(script)
    done = subprocess.run([sys.executable, "-c", ONCE], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    run = json.loads(done.stdout.splitlines()[-1])
    assert run["printed_too_much"] and not run["timed_out"]
    assert run["seconds"] < 45
    # Nothing of that size is left behind.
    assert single_run.size((tmp_path / "output").iterdir()) < 3 * single_run.KEPT
    judged = Evaluation(Facts(facts_of([METRIC], sides=[BARE])), tmp_path)
    judged.add({**run, "round": 1, "side": "baseline"})
    (problem,) = judged.final_problems()
    assert problem.startswith(f"round 1, baseline: {contract.PRINTED_TOO_MUCH} (its output: ")


def test_more_than_is_read_is_an_error_that_says_so(tmp_path, monkeypatch):
    (tmp_path / "out").write_text("rate 1\n" * 1000)
    assert reading.read_metric(METRIC, tmp_path) == 1.0
    monkeypatch.setattr(texts.read, "__defaults__", (1000,))
    with pytest.raises(UnreadableError, match=r"^rate: cannot read .*/out: it has more than 0 MiB$"):
        reading.read_metric(METRIC, tmp_path)


def test_a_pipe_in_the_place_of_an_output_is_an_error_and_no_wait(tmp_path):
    (tmp_path / "out").symlink_to("/dev/zero")
    with pytest.raises(UnreadableError, match="it is not a regular file"):
        reading.read_metric(METRIC, tmp_path)


def test_one_endless_line_is_a_short_reason(tmp_path):
    output = tmp_path / "1-baseline"
    output.mkdir()
    (output / "err").write_bytes(b"error: " + b"x" * (100 << 20))
    assert len(texts.ends(output / "err")) < 3 * texts.TAIL
    judged = Evaluation(Facts(facts_of([METRIC], sides=[BARE])), tmp_path)
    judged.add(run_of("baseline", output.name, status=1))
    (problem,) = judged.final_problems()
    assert problem.startswith("round 1, baseline: exit status 1: error: xxx") and len(problem) < 2 * texts.LINE
    assert "xxx... (" in problem
