"""ReFrame as a process: it ends, and its output is read to the end; a line shows how far it is.

A program of a line stands for ReFrame.
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import made
import pytest
from conftest import eventually, write_program
from containercheck.report.view import CaseView
from containercheck.results.cases import Case
from containercheck.session import progress, reframe_process
from containercheck.session.session import _loading

SESSION = """
import sys
from pathlib import Path
from containercheck.session import progress, reframe_process
from containercheck.session.reframe_process import Relay, Workplace
reframe_process.program = lambda: {program!r}
reframe_process.PATIENCE = reframe_process.GRACE = 0.5
directory = Path({directory!r})
class Shown(progress.View):
    def printed(self, line):
        if {fails!r}:
            raise KeyError(line)
        return line
with Relay() as current:
    place = Workplace(directory, config=directory / "config.py")
    status = reframe_process.reframe([], place, current, [], view=Shown())
print(f"ended with {{status}}")
"""


def session(directory, commands, fails=False):
    """Start a session in which a shell script stands for ReFrame."""
    write_program(directory / "reframe", commands)
    text = SESSION.format(program=str(directory / "reframe"), directory=str(directory), fails=fails)
    return subprocess.Popen([sys.executable, "-c", text], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def ended(process):
    """Return what a session printed, which is killed where it hangs."""
    try:
        return process.communicate(timeout=60)[0]
    finally:
        process.kill()


#: More than a pipe holds (64 KiB, pipe(7)).
MUCH = "seq 100000; exit 3"


def test_a_view_that_fails_does_not_stop_reframe(tmp_path):
    lines = ended(session(tmp_path, MUCH, fails=True)).splitlines()
    assert lines == ["ended with 3"]
    log = (tmp_path / "reports" / "session.log").read_text()
    assert log.count("Traceback") == 1 and "KeyError: '1\\n'" in log
    assert "\n99999\n100000\n" in log


def test_a_log_that_cannot_be_written_does_not_stop_reframe(tmp_path):
    # The file may have eight blocks of 512 bytes, or of 1024.
    lines = ended(session(tmp_path, f"trap '' XFSZ; ulimit -f 8; {MUCH}")).splitlines()
    assert (lines[0], lines[-1], len(lines) < 3000) == ("1", "ended with 3", True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_does_not_end_when_it_is_asked_to_is_killed(tmp_path, number):
    process = session(tmp_path, "trap '' INT; echo ready; for each in $(seq 600); do sleep 0.1; done")
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    lines = ended(process).splitlines()
    assert "run: ReFrame did not end within 0.5 s and was killed: look for jobs that still run or wait" in lines
    assert f"ended with {-signal.SIGKILL}" in lines


def test_what_a_full_disk_cut_hides_no_other_case(tmp_path):
    case = made.case(result="fail")
    view = CaseView(is_terminal=False)
    current = progress.Progress([], tmp_path, tmp_path / "log", tmp_path / "announced", view)
    (tmp_path / "announced").write_text(f'{{"name": "Co\n{json.dumps(case)}\n')
    assert "FAILED: Code" in current.news()


# Progress.


def raw(name, variant, hashcode, seconds):
    """Return a case as the report has it."""
    return made.case(name, variant, hashcode=hashcode, scheduler="local", expected={"expected": seconds})


KNOWN = [
    raw("HPCC", "bare", "1ace5438", 10),
    raw("HPCC", "generic", "75264ae9", 60),
    raw("DB12", "bare", "779234bd", 30),
]


VERBATIM = progress.View()


@pytest.fixture
def current(tmp_path):
    """Begin to follow a run of the cases that are known."""
    known = made.cases(KNOWN)
    return progress.Progress(known, tmp_path, tmp_path / "log", tmp_path / "announced", VERBATIM)


@pytest.fixture
def end(current, tmp_path):
    """Let cases end; return what is shown."""

    def announced(*cases):
        with (tmp_path / "announced").open("a") as file:
            file.write("".join(f"{json.dumps(case)}\n" for case in cases))
        return current.news()

    return announced


def test_what_was_printed_and_what_ended_is_shown_once_when_its_line_is_complete(current, end, tmp_path):
    (tmp_path / "log").write_bytes(b"a line\n\xff, and half")
    assert end(KNOWN[2]) == "a line\n"
    assert current.news() == ""
    with (tmp_path / "log").open("a") as log:
        log.write(" of another\n")
    assert current.news().encode(errors="surrogateescape") == b"\xff, and half of another\n"


def test_ended_cases_are_counted_and_the_time_left_is_foreseen_without_waits_and_builds(current, end, monkeypatch):
    now = time.monotonic()
    # Most of that was a wait and a build.
    monkeypatch.setattr(time, "monotonic", lambda: now + 1000)
    assert current.line() == "0 of 3 done"
    # A tenth of the work, in 10 s and those of a start.
    end({**KNOWN[0], "application_seconds": 10, "time_compile": 300, "waited_seconds": 500})
    assert current.line() == "1 of 3 done; about 3 min left"
    end({**KNOWN[1], "result": "fail", "application_seconds": 60})
    assert current.line() == "2 of 3 done, 1 failed; about 39 s left"
    end(KNOWN[2])
    assert current.line() == "3 of 3 done, 1 failed"


def test_where_jobs_wait_in_a_queue_the_time_left_follows_from_the_time_so_far(tmp_path, monkeypatch):
    known = made.cases([{**case, "scheduler": "slurm"} for case in KNOWN])
    current = progress.Progress(known, tmp_path, tmp_path / "log", tmp_path / "announced", VERBATIM)
    (tmp_path / "announced").write_text(f"{json.dumps(KNOWN[0])}\n")
    current.news()
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 100)
    assert current.line() == "1 of 3 done; about 15 min left"


def output_of(stage, job, text, age=0.0):
    path = Path(stage, "system", "partition", "environ", job, "rfm_job.out")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age,) * 2)


def test_the_job_that_printed_last_is_named_with_its_last_line(current, tmp_path):
    output_of(tmp_path, "HPCC_75264ae9", "first\nround 1 baseline: 2.49 s\n\n")
    assert current.line() == "0 of 3 done; HPCC generic: round 1 baseline: 2.49 s"
    # One that nobody foresaw.
    output_of(tmp_path, "HPCC_75264ae9", "", age=60)
    output_of(tmp_path, "Other_0", "building")
    assert current.line() == "0 of 3 done; Other_0: building"
    output_of(tmp_path, "Other_0", "")
    assert current.line() == "0 of 3 done; Other_0: no output yet"
    output_of(tmp_path, "Other_0", "", age=60)
    assert current.line() == "0 of 3 done"


def test_the_job_of_another_stage_directory_is_not_shown(tmp_path, monkeypatch, capsysbinary):
    monkeypatch.setattr(progress, "HEARTBEAT", 0.0)
    write_program(tmp_path / "reframe", "sleep 0.1")
    monkeypatch.setattr(reframe_process, "program", lambda: str(tmp_path / "reframe"))
    output_of(tmp_path / "own", "GROMACS_1", "installing", age=-1)
    # Of another session in the same checkout.
    output_of(tmp_path / "stage", "HPCC_2", "building", age=-1)
    place = reframe_process.Workplace(tmp_path, config=tmp_path / "config.py", stage_directory=tmp_path / "own")
    with reframe_process.Relay() as relay:
        reframe_process.reframe([], place, relay, [])
    assert capsysbinary.readouterr().out == b"[ GROMACS_1: installing ]\n"


SHOWN = """
import json, sys, time
from pathlib import Path
from containercheck.results.cases import collect
from containercheck.session import progress
progress.HEARTBEAT = 0.1
place = Path({stage!r})
known = collect([json.loads({report!r})])
current = progress.Progress(known, place, place / "log", place / "announced", progress.View())
time.sleep(0.2)
current.show()
(place / "log").write_text("what ReFrame printed\\n")
current.show()
current.show(has_ended=True)
"""
#: A report of one case.
REPORT = json.dumps({"runs": [{"testcases": KNOWN[:1]}]})


def test_in_a_terminal_the_line_moves_beneath_what_stays(tmp_path):
    script = SHOWN.format(stage=str(tmp_path), report=REPORT)
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm", COLUMNS="8")
        os.execv(sys.executable, [sys.executable, "-c", script])
    seen = b""

    def over():
        nonlocal seen
        try:
            seen += os.read(terminal, 65536)
        except OSError:
            return True
        return False

    assert eventually(over)
    os.waitpid(child, 0)
    # Cut to the width, erased before a line that stays, there again after it, and gone in the end.
    assert seen.startswith(b"0 of 1 ")
    assert b"\r\x1b[Kwhat ReFrame printed\r\n0 of 1 " in seen
    assert seen.endswith(b"\r\x1b[K")
    assert b"0 of 1 done" not in seen


def test_in_a_log_it_is_a_line_now_and_then(tmp_path):
    script = SHOWN.format(stage=str(tmp_path), report=REPORT)
    seen = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True).stdout
    assert b"\x1b" not in seen
    assert b"\r" not in seen
    assert {b"[ 0 of 1 done ]", b"what ReFrame printed"} == set(seen.splitlines())


def test_the_files_of_the_shortest_cases_come_first(tmp_path):
    place = reframe_process.Workplace(tmp_path, str(tmp_path))
    files = {name: tmp_path / f"{name}.py" for name in ("a_long", "b_not_selected", "c_short")}
    for path in files.values():
        path.touch()
    cases = [case_of("Long", files["a_long"], 60.0), case_of("Short", files["c_short"], 5.0)]
    words = _loading(place, made.cases(cases))
    assert [Path(word).stem for word in words if word != "-c"] == ["c_short", "a_long", "b_not_selected"]
    # A dry run, or checks of another directory.
    assert _loading(place, ()) == ["-c", str(tmp_path)]


def case_of(name, file, seconds):
    return made.case(name, filename=str(file), expected={"expected": seconds})


# ReFrame's configuration, as a session asks for it


HERE = Case(("Code", "", "", "1"), "Code", {}, "Code", "compute", "generic", 1, "pass", scheduler="local")


@pytest.mark.parametrize(
    ("arguments", "known", "rates"),
    [
        (["--dry-run"], None, "20 20 --dry-run"),
        ([], [HERE], "2 2 -r"),
        ([], [replace(HERE, scheduler="slurm")], "none none -r"),
        # What is not shown.
        (["-c", "check.py"], None, "none none -r"),
    ],
)
def test_reframe_runs_unless_it_is_asked_for_a_dry_run_and_polls_as_often_as_needed(
    tmp_path, monkeypatch, arguments, known, rates
):
    """Between the steps of a dry run it slept for five seconds in all."""
    for name in ("RFM_POLL_RATE_MIN", "RFM_POLL_RATE_MAX"):
        monkeypatch.delenv(name, raising=False)
    write_program(tmp_path / "reframe", "echo ${RFM_POLL_RATE_MIN:-none} ${RFM_POLL_RATE_MAX:-none} $1")
    monkeypatch.setattr(reframe_process, "program", lambda: str(tmp_path / "reframe"))
    place = reframe_process.Workplace(tmp_path, config=tmp_path / "config.py")
    with reframe_process.Relay() as relay:
        assert reframe_process.reframe(arguments, place, relay, known) == 0
    assert place.log.read_text() == f"{rates}\n"
