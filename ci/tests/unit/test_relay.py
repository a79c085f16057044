"""ReFrame ends, and its output is read to the end, whatever fails on our side; a program of a line stands for it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from conftest import write_program
from containercheck.report.view import CaseView
from containercheck.session import progress

SESSION = """
import sys
from pathlib import Path
from containercheck.session import progress, reframe_process, relay
from containercheck.session.reframe_process import Relay, Workplace
reframe_process.program = lambda: {program!r}
relay.PATIENCE = relay.GRACE = 0.5
directory = Path({directory!r})
class View(progress.Verbatim):
    def printed(self, line):
        if {fails!r}:
            raise KeyError(line)
        return line
problems = []
with Relay() as current:
    place = Workplace(directory, config=directory / "config.py")
    status = reframe_process.reframe([], place, current, [], view=View(), problems=problems)
print(f"ended with {{status}}", *problems, sep="\\n")
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
    assert lines == ["ended with 3", "some of ReFrame's output was not shown: KeyError: '1\\n'"]
    log = (tmp_path / "reports" / "session.log").read_text()
    assert log.count("Traceback") == 1
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
    case = {"name": "Code", "unique_name": "Code", "partition": "one", "environ": "builtin", "result": "fail"}
    view = CaseView(is_terminal=False)
    current = progress.Progress([], tmp_path, tmp_path / "log", tmp_path / "announced", view)
    (tmp_path / "announced").write_text(f'{{"name": "Co\n{json.dumps(case)}\n')
    assert "FAILED: Code" in current.news()
