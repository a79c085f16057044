"""The line that says how far a session is: what it counts, and how it is shown in a terminal and in a log."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import eventually
from containercheck.session import progress

HERE = "@generic:default+builtin"
KNOWN = {
    f"/1ace5438 {HERE}": progress.Awaited("HPCC bare, 1 node(s)", 10),
    f"/75264ae9 {HERE}": progress.Awaited("HPCC generic, 1 node(s)", 60),
    f"/779234bd {HERE}": progress.Awaited("DB12 bare, 1 node(s)", 30),
}


def ended(result, mark, color="32"):
    return f"[ \x1b[{color}m      {result}\x1b[0m ] ( 3/266) HPCC %variant=bare %num_nodes=1 {mark} {HERE}\n"


@pytest.fixture
def current(tmp_path):
    """Begin to follow a run of the cases that are known."""
    return progress.Progress(KNOWN, tmp_path)


def test_what_ended_is_counted_and_what_was_skipped_is_not(current):
    assert current.line(30) == "0 of 3 done"
    for line in (ended("OK", "/1ace5438"), ended("SKIP", "/00000000"), "P: rate: 3 x\n", ended("FAIL", "/75264ae9")):
        current.read_line(line)
    assert current.line(30).startswith("2 of 3 done, 1 failed; ")


def test_the_rest_is_foreseen_from_what_is_done(current, monkeypatch):
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 100)
    assert "left" not in current.line(30)
    current.read_line(ended("OK", "/1ace5438"))
    # A tenth is done in 100 s.
    assert current.line(30) == "1 of 3 done; some 15 min left"
    current.read_line(ended("OK", "/75264ae9"))
    assert current.line(30) == "2 of 3 done; some 43 s left"
    current.read_line(ended("OK", "/779234bd"))
    assert current.line(30) == "3 of 3 done"


def output_of(stage, job, text, age=0.0, below=""):
    path = Path(stage, below, "system", "partition", "environ", job, "rfm_job.out")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age,) * 2)


def test_the_job_that_printed_last_is_named_with_its_last_line(current, tmp_path):
    output_of(tmp_path, "HPCC_75264ae9", "first\nround 1 baseline: 2.49 s\n\n")
    assert current.line(30) == "0 of 3 done; HPCC generic, 1 node(s): round 1 baseline: 2.49 s"
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
    output_of(tmp_path, "New_2", "building", below="repeat")
    assert progress.sign_of_life(tmp_path, 5) == ("New_2", "building")


def test_nothing_is_said_where_nothing_is_known(tmp_path):
    assert progress.Progress({}, tmp_path).line(30) == ""


SHOWN = """
import sys, time
from containercheck.session import progress
progress.HEARTBEAT = progress.MOVES = 0.1
screen = progress.Screen()
current = progress.Progress({{"/1 @here": progress.Awaited("A check", 10)}}, progress.Path({stage!r}))
with progress.shown(current, screen):
    time.sleep(0.5)
    screen.show(b"what ReFrame printed\\n")
    time.sleep(0.5)
"""


def test_in_a_terminal_the_line_moves_beneath_what_stays(tmp_path):
    script = SHOWN.format(stage=str(tmp_path))
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
    assert b"\r\x1b[K0 of 1 " in seen
    assert b"\r\x1b[Kwhat ReFrame printed\r\n0 of 1 " in seen
    assert seen.endswith(b"\r\x1b[K")
    assert b"0 of 1 done" not in seen


def test_in_a_log_it_is_a_line_now_and_then(tmp_path):
    script = SHOWN.format(stage=str(tmp_path))
    seen = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True).stdout
    assert b"\x1b" not in seen
    assert b"\r" not in seen
    assert {b"[ 0 of 1 done ]", b"what ReFrame printed"} == set(seen.splitlines())
