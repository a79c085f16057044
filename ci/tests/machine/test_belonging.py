"""Which processes belong to a run: what a daemon starts for it too, and nothing of a stranger's."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BARE, PROGRAMS, REPOSITORY, TURN, alive, eventually, facts_of, write_commands
from containercheck.job import disturbance, processes

#: A program of two ranks or one.
PROGRAM = REPOSITORY / "ci" / "tests" / "programs" / "rank.c"
#: A daemon such as PALS's, Flux's or Docker's: the launcher tells it what to start, and it starts that, twice forked,
#: in a session of its own.
DAEMON = """\
import json, os, socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
while True:
    connection, _ = listening.accept()
    wanted = json.loads(connection.makefile().readline())
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.chdir(wanted["directory"])
        os.execvpe(wanted["words"][0], wanted["words"], wanted["environment"])
    os.wait()
    connection.close()
"""
LAUNCHER = """\
import json, os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
wanted = {"words": sys.argv[2:], "directory": os.getcwd(), "environment": dict(os.environ)}
connection.sendall((json.dumps(wanted) + "\\n").encode())
connection.recv(1)
"""


@pytest.fixture
def launcher(tmp_path):
    """Start a daemon that is no descendant of a runner, and return the words of its launcher."""
    for name, text in (("daemon.py", DAEMON), ("launcher.py", LAUNCHER)):
        (tmp_path / name).write_text(text)
    socket = tmp_path / "socket"
    daemon = subprocess.Popen([sys.executable, str(tmp_path / "daemon.py"), str(socket)], start_new_session=True)
    assert eventually(socket.exists)
    yield f"{sys.executable} {tmp_path}/launcher.py {socket}"
    daemon.kill()
    daemon.wait()


@pytest.fixture
def rank(tmp_path):
    """Compile a program with MPI."""
    if shutil.which("mpicc") is None:
        pytest.skip("no MPI on this machine")
    subprocess.run(["mpicc", "-O1", "-o", tmp_path / "rank", PROGRAM], check=True)
    return str(tmp_path / "rank")


def run_rounds(directory, script, *words):
    (directory / "facts.json").write_text(json.dumps(facts_of(sides=[BARE])))
    write_commands(directory, baseline=script)
    program = [sys.executable, PROGRAMS, "rounds", "--rounds=1", *words]
    done = subprocess.run(program, cwd=directory, text=True, capture_output=True, timeout=TURN)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = json.loads((directory / "rounds.json").read_text())["runs"]
    return run


#: As root, Open MPI starts a rank only where it is told to.
AS_ROOT = "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"


def test_ranks_that_a_daemon_started_are_seen_and_do_not_disturb_their_own_run(launcher, rank, tmp_path):
    # It works for some seconds, and the run waits for its end, as a launcher does.
    script = f"{AS_ROOT}\n{launcher} {rank} {tmp_path}/go {tmp_path}/began\nuntil [ -e began ]; do sleep 0.1; done\n"
    script += f"sleep 5; touch go\nwhile pgrep -f '^{rank} ' >/dev/null; do sleep 0.1; done\n"
    run = run_rounds(tmp_path, script, "--limit=60", "--local-ranks=1")
    (library,) = run["mpi"]
    assert "libmpi" in library
    assert len(run["bound"]) == 1
    assert "rank (pid" not in run["disturbed_by"]
    assert run["leftover_processes"] == []


def test_what_a_daemon_started_is_ended_with_its_run(launcher, rank, tmp_path):
    run = run_rounds(tmp_path, f"{AS_ROOT}\n{launcher} {rank} {tmp_path}/never\n", "--limit=60", "--local-ranks=0")
    # And what Open MPI starts for a rank that nobody launched.
    assert "rank" in run["leftover_processes"]
    assert not alive(f"{rank} {tmp_path}/never")
    run = run_rounds(
        tmp_path, f"{AS_ROOT}\n{launcher} {rank} {tmp_path}/never\nsleep 1000\n", "--limit=3", "--local-ranks=0"
    )
    assert run["timed_out"]
    assert not alive(f"{rank} {tmp_path}/never")


@contextlib.contextmanager
def stranger(environment, words=("sleep", "1000"), **facts):
    """Have a process that is no descendant of this one, and yield its number."""
    program = (
        "import os, subprocess, sys; "
        "print(subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, start_new_session=True).pid, flush=True); "
        "os._exit(0)"
    )
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, env={**os.environ, **environment}, text=True, stdout=subprocess.PIPE, **facts)
    pid = int(done.stdout)
    try:
        # It has the environment once exec has been called.
        assert eventually(lambda: Path(f"/proc/{pid}/comm").read_text() == words[0] + "\n")
        yield pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


NAME, _, OURS = processes.MARK.partition("=")


def test_a_strangers_process_is_not_taken_for_ours_and_lives_on():
    with stranger({}) as plain, stranger({NAME: "0" * 32}) as other:
        assert not {plain, other} & processes.processes_of_run()
        assert not {plain, other} & processes.marked()
        assert {plain, other} <= disturbance.look().usage.keys()
        with stranger({NAME: OURS}) as ours:
            assert ours in processes.processes_of_run()
            assert ours not in disturbance.look().usage
            assert "sleep" in processes.kill_all()
            assert eventually(
                lambda: not Path(f"/proc/{ours}").exists() or "Z" in Path(f"/proc/{ours}/stat").read_text()
            )
        assert all(Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (plain, other))


def test_what_has_the_number_of_the_job_is_the_jobs_and_is_not_killed(monkeypatch):
    variable = "PBS_JOBID"
    monkeypatch.setenv(variable, "4711.server")
    with stranger({variable: "4711.server"}) as ours, stranger({variable: "4712.server"}) as other:
        found = processes.processes_of_run()
        assert ours in found
        assert other not in found
        assert ours not in processes.marked()
