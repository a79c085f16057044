"""The runner inside the job, with real processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest
from conftest import REPOSITORY

JOB = REPOSITORY / "checks" / "containercheck" / "job"


@pytest.fixture
def rounds(tmp_path):
    def run(baseline, subject=None, count=2, limit=10, *options):
        scripts = []
        for name, text in (("baseline.sh", baseline), ("subject.sh", subject)):
            if text is not None:
                (tmp_path / name).write_text(text)
                scripts.append(name)
        command = [sys.executable, str(JOB / "rounds.py"), f"--rounds={count}", f"--limit={limit}", *options, *scripts]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, result.stderr
        return json.loads((tmp_path / "rounds.json").read_text())

    return run


def test_who_goes_first_alternates(rounds):
    record = rounds("true", "true", 4)
    assert "".join(run["side"][0] for run in record["runs"]) == "bssbbssb"
    assert record["complete"]


def test_one_script_is_run_once_a_round(rounds):
    assert [run["side"] for run in rounds("true", None, 3)["runs"]] == ["baseline"] * 3


def test_output_and_status_of_each_run_are_kept(rounds, tmp_path):
    record = rounds("echo said; echo wrong >&2; echo 1 >result; exit 3", None, 1, 10, "--collect=result")
    (run,) = record["runs"]
    output = tmp_path / run["output"]
    assert (run["status"], (output / "out").read_text(), (output / "err").read_text()) == (3, "said\n", "wrong\n")
    assert (output / "result").read_text() == "1\n"


def test_a_file_of_the_run_before_is_not_taken_for_this_ones(rounds, tmp_path):
    record = rounds("[ -e again ] || echo 1 >result; touch again", None, 2, 10, "--collect=result")
    kept = [(tmp_path / run["output"] / "result").exists() for run in record["runs"]]
    assert kept == [True, False]


def test_a_hanging_run_is_killed_with_all_its_children_however_they_hide(rounds):
    marker = "4711.25"
    hiding = f"trap '' TERM; setsid sleep {marker} & (sleep {marker} &) ; nohup sleep {marker} >/dev/null & wait"
    record = rounds("true", hiding, 1, 3)
    assert [run["timed_out"] for run in record["runs"]] == [False, True]
    assert subprocess.run(["pgrep", "-f", f"sleep {marker}"]).returncode == 1


def test_what_a_run_leaves_behind_does_not_disturb_the_next(rounds):
    record = rounds("setsid sleep 4712.25 & exit 0", None, 1)
    assert record["runs"][0]["leftover_processes"] == 1
    assert subprocess.run(["pgrep", "-f", "sleep 4712.25"]).returncode == 1


def test_a_job_that_is_ended_ends_its_run_and_says_that_it_is_incomplete(tmp_path):
    (tmp_path / "baseline.sh").write_text("sleep 4713.25")
    command = [sys.executable, str(JOB / "rounds.py"), "--rounds=2", "--limit=100", "baseline.sh"]
    process = subprocess.Popen(command, cwd=tmp_path)
    while subprocess.run(["pgrep", "-f", "sleep 4713.25"], stdout=subprocess.DEVNULL).returncode:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=120) == 128 + signal.SIGTERM
    assert json.loads((tmp_path / "rounds.json").read_text())["complete"] is False
    assert subprocess.run(["pgrep", "-f", "sleep 4713.25"]).returncode == 1


def test_two_sessions_at_once_do_not_measure_at_the_same_time(tmp_path):
    processes = []
    for name in ("one", "other"):
        directory = tmp_path / name
        directory.mkdir()
        (directory / "baseline.sh").write_text("sleep 0.2")
        command = [sys.executable, str(JOB / "rounds.py"), "--rounds=3", "--limit=10", "baseline.sh"]
        processes.append(subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL))
    assert [process.wait(timeout=300) for process in processes] == [0, 0]
    spans = []
    for name in ("one", "other"):
        runs = json.loads((tmp_path / name / "rounds.json").read_text())["runs"]
        spans.append((runs[0]["began"], runs[-1]["began"] + runs[-1]["seconds"]))
    first, second = sorted(spans)
    assert first[1] <= second[0]
