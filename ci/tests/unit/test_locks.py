"""Measurements and builds on one machine."""

import errno
import fcntl
import os
import re
import threading
from pathlib import Path

import pytest
from conftest import eventually
from containercheck.job import locks, rounds


@pytest.fixture(autouse=True)
def own_locks(tmp_path, monkeypatch):
    """Keep away from the machine's own locks, which a session may hold."""
    monkeypatch.setattr(locks, "MACHINE_LOCK", tmp_path / "machine.lock")


def test_the_locks_lie_where_a_job_with_a_tmp_of_its_own_finds_them(monkeypatch):
    monkeypatch.undo()
    place = "/var/tmp" if os.access("/var/tmp", os.W_OK) else "/tmp"
    assert str(locks.MACHINE_LOCK.parent) == place


@pytest.fixture
def printed(monkeypatch):
    """Return the lines that those who wait print."""
    lines = []
    monkeypatch.setattr(locks, "print", lambda line, flush: lines.append(line), raising=False)
    return lines


@pytest.fixture
def start(printed):
    """Return a function that holds a lock in a thread until ``go_on`` is set, once it is held, or waited for."""

    def started(kind, name, log, go_on):
        def hold():
            with kind():
                log.append(name)
                go_on.wait(120)

        before = len(printed)
        thread = threading.Thread(target=hold)
        thread.start()
        assert eventually(lambda: name in log or len(printed) > before)
        return thread

    return started


def test_a_job_that_has_its_nodes_to_itself_needs_no_lock(tmp_path, monkeypatch):
    """Whatever is in the place of the machine's."""
    (tmp_path / "machine.lock").mkdir()
    monkeypatch.chdir(tmp_path)
    Path("facts.json").write_text("none")
    words = ["rounds", "--rounds=1", "--limit=1", "--local-ranks=0"]
    for more, told in (([], "is not a regular file"), (["--alone"], "Expecting value")):
        monkeypatch.setattr("sys.argv", [*words, *more])
        monkeypatch.setattr("containercheck.job.processes.supervise", lambda: None)
        monkeypatch.setattr("containercheck.job.disturbance.watch_other_nodes", lambda: None)
        with pytest.raises((SystemExit, ValueError), match=told):
            rounds.main()


def test_builds_share_the_machine_and_measurements_exclude_each_other_and_builds(start):
    with locks.building():
        log, go_on = [], threading.Event()
        build = start(locks.building, "another", log, go_on)
        assert log == ["another"]
        go_on.set()
        build.join()
    kinds = [(locks.building, locks.measuring), (locks.measuring, locks.building), (locks.measuring, locks.measuring)]
    for pair in kinds:
        log, ends = [], [threading.Event(), threading.Event()]
        threads = [start(kind, number, log, end) for number, (kind, end) in enumerate(zip(pair, ends))]
        assert log == [0]
        ends[0].set()
        assert eventually(lambda log=log: log == [0, 1])
        ends[1].set()
        [thread.join() for thread in threads]


def test_a_wait_is_announced_again_as_long_as_it_lasts(tmp_path, monkeypatch, printed):
    monkeypatch.setattr(locks, "AGAIN", 0.05)
    holder = re.escape(f"process {os.getpid()} of {locks.user_name(os.geteuid())}")
    with locks.flocked(tmp_path / "lock", shared=False, waiting=""):
        told = f"waited 1 s for the lock {tmp_path}/lock, held by {holder}: have"
        second = locks.flocked(tmp_path / "lock", shared=True, waiting="waiting", patience=1)
        with pytest.raises(locks.LockError, match=told), second:
            pass
    assert re.fullmatch(rf"waiting \({holder}\), for 0 s", printed[0])
    assert re.fullmatch(rf"waiting \({holder}\), for [01] s", printed[1])


def test_a_file_system_without_locks_is_told_and_locks_nothing(tmp_path, monkeypatch, printed):
    def flock(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with locks.flocked(tmp_path / "lock", shared=False, waiting=""):
        assert printed == [f"{tmp_path}/lock: its file system has no locks, and nothing keeps two processes apart"]
