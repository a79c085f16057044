"""The line that says how far a session is: what it counts, and how it is shown in a terminal and in a log."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import eventually
from containercheck.results.cases import collect
from containercheck.session import progress


def raw(name, variant, hashcode, seconds, result="pass"):
    """Return a case as the report has it."""
    head = {"name": name, "unique_name": f"{name}_{variant}", "system": "here", "partition": "only"}
    expected = {"expected": seconds}
    return {
        **head,
        "environ": "builtin",
        "variant": variant,
        "hashcode": hashcode,
        "result": result,
        "expected": expected,
    }


KNOWN = [
    raw("HPCC", "bare", "1ace5438", 10),
    raw("HPCC", "generic", "75264ae9", 60),
    raw("DB12", "bare", "779234bd", 30),
]


VERBATIM = progress.Verbatim()


@pytest.fixture
def current(tmp_path):
    """Begin to follow a run of the cases that are known."""
    known = collect([{"runs": [{"testcases": KNOWN}]}])
    return progress.Progress(known, tmp_path, tmp_path / "log", tmp_path / "announced", VERBATIM)


@pytest.fixture
def end(current, tmp_path):
    """Let cases end; return what is shown."""

    def announced(*cases):
        with (tmp_path / "announced").open("a") as file:
            file.write("".join(f"{json.dumps(case)}\n" for case in cases))
        return current.news()

    return announced


def test_what_ended_is_counted(current, end):
    assert current.line(30) == "0 of 3 done"
    end(KNOWN[0], {**KNOWN[1], "result": "fail"})
    assert current.line(30).startswith("2 of 3 done, 1 failed; ")


def test_what_was_printed_and_what_ended_is_shown_once_when_its_line_is_complete(current, end, tmp_path):
    (tmp_path / "log").write_bytes(b"a line\n\xff, and half")
    assert end(KNOWN[2]) == "a line\n"
    assert current.news() == ""
    with (tmp_path / "log").open("a") as log:
        log.write(" of another\n")
    assert current.news().encode(errors="surrogateescape") == b"\xff, and half of another\n"


def test_the_rest_is_foreseen_from_what_is_done(current, end, monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 100)
    assert "left" not in current.line(30)
    end(KNOWN[0])
    # A tenth is done in 100 s.
    assert current.line(30) == "1 of 3 done; about 15 min left"
    end(KNOWN[1])
    assert current.line(30) == "2 of 3 done; about 43 s left"
    end(KNOWN[2])
    assert current.line(30) == "3 of 3 done"


def output_of(stage, job, text, age=0.0):
    path = Path(stage, "system", "partition", "environ", job, "rfm_job.out")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age,) * 2)


def test_the_job_that_printed_last_is_named_with_its_last_line(current, tmp_path):
    output_of(tmp_path, "HPCC_75264ae9", "first\nround 1 baseline: 2.49 s\n\n")
    assert current.line(30) == "0 of 3 done; HPCC generic: round 1 baseline: 2.49 s"
    # One that nobody foresaw.
    output_of(tmp_path, "HPCC_75264ae9", "", age=60)
    output_of(tmp_path, "Other_0", "building")
    assert current.line(30) == "0 of 3 done; Other_0: building"
    output_of(tmp_path, "Other_0", "")
    assert current.line(30) == "0 of 3 done; Other_0: no output yet"


def test_a_sign_of_life_is_the_last_line_of_the_newest_output(tmp_path):
    assert progress.sign_of_life(tmp_path, 30) == ("", "")
    for name, age in (("Old_1", 60), ("New_2", 10), ("Newest_3", 0)):
        output_of(tmp_path, name, f"first\nround 1 of {name}\n\n", age)
    assert progress.sign_of_life(tmp_path, 30) == ("Newest_3", "round 1 of Newest_3")
    output_of(tmp_path, "Newest_3", "", age=60)
    assert progress.sign_of_life(tmp_path, 30) == ("New_2", "round 1 of New_2")
    assert progress.sign_of_life(tmp_path, 5) == ("", "")


def test_nothing_is_said_where_nothing_is_known(tmp_path):
    assert progress.Progress([], tmp_path, tmp_path / "log", tmp_path / "announced", VERBATIM).line(30) == ""


SHOWN = """
import json, sys, time
from pathlib import Path
from containercheck.results.cases import collect
from containercheck.session import progress
progress.HEARTBEAT = 0.1
place = Path({stage!r})
known = collect([json.loads({report!r})])
current = progress.Progress(known, place, place / "log", place / "announced", progress.Verbatim())
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
