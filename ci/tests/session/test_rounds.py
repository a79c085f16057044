"""The runner inside the job, with real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import TURN, alive, eventually, is_there
from containercheck.job import single_run, this_node
from containercheck.results.row import Record


def read_record(directory):
    return json.loads((directory / "rounds.json").read_text())


@pytest.fixture
def rounds(start_rounds, tmp_path):
    """Run the runner to its end; return its record."""

    def run(*arguments, **facts):
        process = start_rounds(*arguments, **facts)
        process.communicate(timeout=TURN)
        assert process.returncode == 0
        return read_record(tmp_path)

    return run


def test_output_and_status_of_each_run_are_kept_and_nothing_of_the_run_before(rounds, tmp_path, marker):
    script = f"echo said; echo wrong >&2; [ -e again ] || echo 1 >result; touch again; setsid {marker} & exit 3"
    record = rounds(script, None, 2, 10, "--collect=result")
    assert [run["side"] for run in record["runs"]] == ["baseline"] * 2
    assert record["why"] == "exit status of baseline, 2 times"
    for number, run in enumerate(record["runs"]):
        output = tmp_path / run["output"]
        assert (run["status"], run["leftover_processes"]) == (3, ["sleep"])
        assert ((output / "out").read_text(), (output / "err").read_text()) == ("said\n", "wrong\n")
        assert (output / "run.sh").read_text() == f"{script}\n"
        assert (output / "result").exists() == (number == 0)
    assert not alive(marker)


def test_a_hanging_run_is_killed_with_all_its_children_however_they_hide(rounds, marker):
    hiding = f"trap '' TERM; setsid {marker} & ({marker} &) ; nohup {marker} >/dev/null & wait"
    record = rounds("true", hiding, 1, 3)
    assert {(run["side"], run["timed_out"], run["limit"]) for run in record["runs"]} == {
        ("baseline", False, 3),
        ("subject", True, 3),
    }
    assert not alive(marker)


def test_a_job_that_meets_its_limit_keeps_its_complete_rounds(start_rounds, tmp_path, marker):
    process = start_rounds("true", f"echo >>runs; [ $(wc -l <runs) -lt 3 ] || {marker}", 5, 100)
    assert eventually(lambda: alive(marker), TURN, process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=TURN)
    known, record = read_record(tmp_path), Record.read(tmp_path)
    assert (known["complete"], known["ended"], known["why"]) == (False, "SIGTERM", "")
    assert {run["round"] for run in known["runs"]} >= {1, 2}
    assert [run["side"] for run in known["runs"]].count("subject") == 2
    counted = 2 - len(known["replaced"])
    assert (len(known["verdict"]["measured"]), known["verdict"]["problems"]) == (counted, [])
    line = f"the job was ended (SIGTERM) before its last round: judged by the {counted} that are complete"
    assert record.early_end(met_limit=True) == [line] * bool(counted)
    assert record.early_end(met_limit=False) == []


def test_what_takes_a_moment_is_done_once_before_the_rounds(start_rounds, rounds, tmp_path):
    (tmp_path / "prepare.sh").write_text("echo said; echo >>prepared; cd /; false || true; echo")
    record = rounds("wc -l <prepared", None, 2, 10, "--prepare=prepare.sh")
    assert [(tmp_path / run["output"] / "out").read_text() for run in record["runs"]] == ["1\n"] * 2
    (tmp_path / "prepare.sh").write_text("false\ntouch gone-on")
    (tmp_path / "rounds.json").write_text("of another job")
    process = start_rounds("true", None, 2, 10, "--prepare=prepare.sh")
    process.communicate(timeout=TURN)
    assert process.returncode == 1
    assert not (tmp_path / "gone-on").exists()
    assert read_record(tmp_path)["runs"] == []


def test_a_preparation_that_prints_without_end_is_ended(start_rounds, tmp_path):
    (tmp_path / "prepare.sh").write_text("yes 'error: once more' >&2")
    process = start_rounds("true", None, 1, 10, "--prepare=prepare.sh")
    process.communicate(timeout=TURN)
    assert process.returncode == 1 and not (tmp_path / "rounds").exists()
    assert single_run.size(path for path in tmp_path.rglob("*") if path.is_file()) < 3 * single_run.KEPT


def test_a_preparation_that_hangs_is_ended_with_all_that_it_started_and_says_so(start_rounds, tmp_path, marker):
    (tmp_path / "prepare.sh").write_text(f"trap '' TERM; setsid {marker} & echo 'fetching it' >&2; wait; {marker}")
    options = ("--prepare=prepare.sh", "--prepare-limit=2")
    process = start_rounds("true", None, 2, 10, *options, stderr=subprocess.PIPE)
    _, errors = process.communicate(timeout=TURN)
    assert process.returncode == 1
    said = "error: the preparation, prepare.sh, was ended at its limit of 2 s; its last line: fetching it"
    assert errors.splitlines()[-1] == said
    assert not alive(marker)
    assert (read_record(tmp_path)["complete"], read_record(tmp_path)["runs"]) == (False, [])


def test_what_a_preparation_leaves_in_the_background_is_not_waited_for(start_rounds, rounds, tmp_path, marker):
    """It has the job's error stream open, as the helper of a container runtime may."""
    (tmp_path / "prepare.sh").write_text(f"setsid {marker} &\n")
    assert rounds("true", None, 1, 10, "--prepare=prepare.sh", "--prepare-limit=600")["complete"]
    assert not alive(marker)


@pytest.fixture
def busy(tmp_path):
    """Start a program that keeps a processor busy and that nobody waits for; return its name with its number."""
    program = tmp_path / "other-work"
    shutil.copy(shutil.which("bash"), program)
    process = subprocess.Popen([str(program), "-c", "while :; do :; done"], start_new_session=True)
    yield f"other-work (pid {process.pid})"
    process.kill()
    process.wait()


#: Runs that do what a container's do: work, of a child that nobody waits for too, and files.
OWN_WORK = """cp "$(command -v bash)" own-work
./own-work -c 'for ((i = 0; i < 100000; i++)); do :; done'
setsid ./own-work -c 'for ((i = 0; i < 100000; i++)); do :; done' &
sleep 0.3"""


@pytest.mark.alone
def test_who_works_beside_it_is_named_and_rounds_count(start_rounds, busy, tmp_path):
    process = start_rounds(OWN_WORK, OWN_WORK, 2)
    process.communicate(timeout=TURN)
    record = SimpleNamespace(**read_record(tmp_path))
    # Both sides are as slow beside it.
    assert (record.replaced, len(record.runs)) == ({}, 2 * 2)
    assert busy in record.busy
    # Nothing of the runs themselves is among them.
    assert "own-work" not in " ".join(run["disturbed_by"] for run in record.runs)
    assert record.verdict["notes"][0].startswith(f"the machine is busy: {record.busy}. ")


# Processors that are kept awake beside real runs


def idlers(session):
    """Return the processes of a session that run when nobody else wants to."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        try:
            if os.getsid(pid) == session and os.sched_getscheduler(pid) == os.SCHED_IDLE:
                found.add(pid)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("options", [["--keep-awake"], []])
def test_runs_share_the_processors_with_what_keeps_them_awake_if_it_is_asked_for(start_rounds, tmp_path, options):
    """Each of two sessions would have half of a processor, with any class of its processes."""
    text = "ps -o sid= -p $$; ps -o sid= -p $PPID"
    start_rounds(text, text, 1, 100, *options).communicate(timeout=TURN)
    record = json.loads((tmp_path / "rounds.json").read_text())
    is_virtual = this_node.is_virtual(Path("/proc/cpuinfo").read_text())
    assert record["kept_awake"] == (bool(options) and is_virtual)
    for run in record["runs"]:
        assert len(set((tmp_path / run["output"] / "out").read_text().split())) == 1
        assert run["leftover_processes"] == []


@pytest.mark.skipif(not this_node.is_virtual(Path("/proc/cpuinfo").read_text()), reason="no virtual machine")
def test_a_killed_job_leaves_no_processor_awake(start_rounds, tmp_path):
    text = "echo $PPID >pid.new; mv pid.new pid; sleep 1000"
    process = start_rounds(text, text, 1, 100, "--keep-awake")
    assert eventually((tmp_path / "pid").exists, TURN, process)
    worker = int((tmp_path / "pid").read_text())
    spinning = idlers(os.getsid(worker))
    assert len(spinning) == len(os.sched_getaffinity(0))
    os.kill(worker, signal.SIGKILL)
    process.communicate(timeout=TURN)
    assert eventually(lambda: not any(map(is_there, spinning)), TURN)
