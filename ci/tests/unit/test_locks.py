"""Measurements and builds on one machine."""

import os
import re
import threading
from pathlib import Path

import pytest
from conftest import eventually
from containercheck.node import locks
from containercheck.node.job import rounds


@pytest.fixture(autouse=True)
def own_locks(tmp_path, monkeypatch):
    """Keep away from the machine's own locks, which a session may hold."""
    monkeypatch.setattr(locks, "MACHINE_LOCK", tmp_path / "machine.lock")
    monkeypatch.setattr(locks, "TURN_LOCK", tmp_path / "turn.lock")


def test_the_locks_lie_where_a_job_with_a_tmp_of_its_own_finds_them(monkeypatch):
    monkeypatch.undo()
    place = "/var/tmp" if os.access("/var/tmp", os.W_OK) else "/tmp"
    assert {str(path.parent) for path in (locks.MACHINE_LOCK, locks.TURN_LOCK)} == {place}


def waiting():
    """Return how many threads wait for one of the locks, as the kernel tells it."""
    inodes = {str(path.stat().st_ino) for path in (locks.MACHINE_LOCK, locks.TURN_LOCK) if path.exists()}
    blocked = (line.split() for line in Path("/proc/locks").read_text().splitlines() if " -> " in line)
    return sum(words[6].rpartition(":")[2] in inodes for words in blocked)


def start(kind, name, log, go_on):
    """Hold a lock in a thread until ``go_on`` is set, and write down when it was got; return once it is, or waits."""

    def hold():
        with kind():
            log.append(name)
            go_on.wait(120)

    others = waiting()
    thread = threading.Thread(target=hold)
    thread.start()
    assert eventually(lambda: name in log or waiting() > others)
    return thread


def test_a_job_that_has_its_nodes_to_itself_needs_no_lock(tmp_path, monkeypatch):
    """Whatever is in the place of the machine's."""
    (tmp_path / "machine.lock").mkdir()
    monkeypatch.chdir(tmp_path)
    Path("facts.json").write_text("none")
    words = ["rounds", "--rounds=1", "--limit=1", "--local-ranks=0"]
    for more, told in (([], "is not a regular file"), (["--alone"], "Expecting value")):
        monkeypatch.setattr("sys.argv", [*words, *more])
        monkeypatch.setattr("containercheck.node.job.processes.supervise", lambda: None)
        monkeypatch.setattr("containercheck.node.job.disturbance.watch_other_nodes", lambda: None)
        with pytest.raises((SystemExit, ValueError), match=told):
            rounds.main()


def test_builds_do_not_exclude_each_other():
    log, go_on = [], threading.Event()
    threads = [start(locks.building, name, log, go_on) for name in "ab"]
    assert log == ["a", "b"]
    go_on.set()
    [thread.join() for thread in threads]


def test_a_build_and_two_measurements_exclude_each_other():
    log, ends = [], [threading.Event() for _ in range(3)]
    kinds = [locks.building, locks.measuring, locks.measuring]
    threads = [start(kind, number, log, end) for number, (kind, end) in enumerate(zip(kinds, ends))]
    for number, (thread, end) in enumerate(zip(threads, ends)):
        assert eventually(lambda held=number + 1: len(log) >= held)
        assert log == list(range(number + 1))
        end.set()
        thread.join()


def test_a_measurement_does_not_wait_for_builds_that_come_after_it():
    log, first, others = [], threading.Event(), threading.Event()
    others.set()
    threads = [start(locks.building, "build", log, first)]
    threads.append(start(locks.measuring, "measurement", log, others))
    threads.append(start(locks.building, "later build", log, others))
    first.set()
    [thread.join() for thread in threads]
    assert log == ["build", "measurement", "later build"]


def test_a_wait_is_told_again_as_long_as_it_lasts(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(locks, "AGAIN", 0.05)
    path, end, printed = tmp_path / "lock", threading.Event(), []

    def hold():
        with locks.flocked(path, shared=False, waiting=""):
            printed.append("held")
            end.wait(60)

    def told_again():
        printed.append(capsys.readouterr().out)
        return any(re.search(r"^waiting \(.*\), for 0 s$", text, re.MULTILINE) for text in printed)

    threads = [threading.Thread(target=hold)]
    threads[0].start()
    assert eventually(lambda: printed)

    def wait():
        with locks.flocked(path, shared=False, waiting="waiting"):
            printed.append("held too")

    threads.append(threading.Thread(target=wait))
    threads[1].start()
    assert eventually(told_again)
    assert "held too" not in printed
    end.set()
    [thread.join() for thread in threads]
    assert "held too" in printed
