"""Who else works on a node while a run is measured: what two looks at its processes say."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from conftest import eventually, write_program
from containercheck.job import contract, disturbance, processes, run_observation
from containercheck.job.disturbance import HYPERVISOR, Look, Usage, taken_between, verdict

#: Ticks that all processors have in a second.
SECOND = len(os.sched_getaffinity(0)) * os.sysconf("SC_CLK_TCK")


def look(when, steal=0, **processes):
    """Return a look at a moment: of each process, by its number after a p, name and ticks, and what else is known."""
    usage = {}
    for pid, (name, own, *more) in processes.items():
        children, began = [*more, *(0, "1")[len(more) :]]
        usage[int(pid[1:])] = Usage(name, began, own, children)
    return Look(when, usage, steal)


def taken(before, after, ours=()):
    return taken_between(before, after, set(ours))


FIVE = "another {} (pid 5) of your user"


@pytest.mark.parametrize(
    ("before", "after", "ours", "expected"),
    [
        ({"p7": ("stress", 100)}, {"p7": ("stress", 130)}, (), {"another stress (pid 7) of your user": 30}),
        ({}, {"p7": ("cc1", 12)}, (), {"another cc1 (pid 7) of your user": 12}),
        # Another process with the number of one that has ended.
        ({"p7": ("cc1", 500, 0, "1")}, {"p7": ("ld", 12, 0, "2")}, (), {"another ld (pid 7) of your user": 12}),
        # One that ended is found with the one that waited for it; not its past, before this run.
        ({"p5": ("make", 1, 0), "p7": ("cc1", 10)}, {"p5": ("make", 2, 40)}, (), {FIVE.format("make"): 41}),
        ({"p5": ("bash", 1, 0)}, {"p5": ("bash", 2, SECOND + 1)}, (), {FIVE.format("bash"): 1}),
        # What our ancestors and Slurm wait for is our own work.
        ({"p5": ("bash", 1, 0)}, {"p5": ("bash", 4, 40)}, [5], {FIVE.format("bash"): 3}),
        ({"p5": ("slurmd", 1, 0)}, {"p5": ("slurmd", 4, 40)}, (), {FIVE.format("slurmd"): 3}),
        ({"steal": 100}, {"steal": 130}, (), {HYPERVISOR: 30}),
    ],
)
def test_what_others_took_meanwhile_is_told_by_name(before, after, ours, expected):
    assert taken(look(0, **before), look(1, **after), ours) == {HYPERVISOR: 0, **expected}


@pytest.mark.parametrize(
    ("shares", "said"),
    [
        ({"a (pid 1)": 3}, None),
        ({"a (pid 1)": 3.1}, "a (pid 1) on n2: 3 %"),
        # Together.
        ({"a (pid 1)": 2, "b (pid 2)": 1.5, "c (pid 3)": 1.2}, "a (pid 1) on n2: 2 %; b (pid 2) on n2: 2 %"),
        ({f"a (pid {number})": 0.5 for number in range(10)}, "many small processes on n2"),
        ({HYPERVISOR: 6}, "the hypervisor on n2: 6 %"),
        # One beside the other: neither is too much.
        ({HYPERVISOR: 5, "a (pid 1)": 3}, None),
        ({HYPERVISOR: 6, "a (pid 1)": 2}, "a (pid 1) on n2: 2 %; the hypervisor on n2: 6 %"),
    ],
)
def test_more_than_a_small_share_of_the_node_is_too_much(shares, said):
    assert verdict(shares, 100, " on n2") == said
    assert verdict({who: 7 * ticks for who, ticks in shares.items()}, 700, " on n2") == said


def test_a_tick_or_two_say_nothing_of_a_short_run():
    # A tenth of a second: two ticks are more than 3 % of it, and may be one that ran when they ended.
    for ticks, is_disturbed in (({"init (pid 1)": 2.0}, False), ({HYPERVISOR: 2.0}, False), ({"a (pid 1)": 4.0}, True)):
        assert bool(verdict({HYPERVISOR: 0.0, **ticks}, SECOND / 10)) == is_disturbed
    assert verdict({"a (pid 1)": 1}, 0) is None


def test_who_disturbs_several_rounds_is_named_once():
    said = ["a (pid 1): 48 %; b (pid 2): 3 %", "a (pid 1): 40 %", "the hypervisor: 9 %"]
    assert contract.names(said) == "a (pid 1), b (pid 2), the hypervisor"


def test_kernel_threads_and_our_own_processes_are_not_looked_at():
    own = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    ended = subprocess.Popen(["true"], start_new_session=True)
    try:
        # Nor before somebody has waited for it.
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        seen = disturbance.look().usage
    finally:
        own.kill()
        own.wait()
        ended.wait()
    # Where this is no container, the second process is the parent of all kernel threads.
    kernel = {2} if Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n" else set()
    assert not {os.getpid(), own.pid, ended.pid, *kernel} & seen.keys()
    assert os.getppid() in seen


def test_others_are_told_by_whose_they_are_and_named_in_the_log_only(capsys):
    before = look(0, p5=("x", 0), p6=("x", 0), p7=("x", 0), p8=("x", 0))
    after = look(1, p5=("secret", 10), p6=("project", 5), p7=("sshd: me", 3), p8=("mine;\x1b[2J", 2))
    users = {5: disturbance.ANOTHER_USER, 6: disturbance.ANOTHER_USER, 7: disturbance.SYSTEM}
    usage = {pid: usage._replace(user=users.get(pid, "")) for pid, usage in after.usage.items()}
    after = after._replace(usage=usage)
    assert taken(before, after) == {
        HYPERVISOR: 0,
        "another user": 15,
        "root or the system": 3,
        "another mine_\\x1b[2J (pid 8) of your user": 2,
    }
    disturbance.between(before, after, log=True)
    assert "secret (pid 5): " in capsys.readouterr().out


def test_a_real_process_of_another_user_is_not_named(capsys):
    """As root: the process has the user's id, and a name that would clear the screen."""
    if os.getuid() != 0:
        pytest.skip("needs root, to run a process as somebody else")
    name = "evil\x1b[2J\x1b]0;"
    # The library is for everybody, unlike this user's own Python.
    code = f"import ctypes; ctypes.CDLL(None).prctl(15, {name.encode()!r}, 0, 0, 0)\nwhile True: pass"
    words = ["setpriv", "--reuid=4321", "--clear-groups", "/usr/bin/python3", "-c", code]
    # Adopted by whoever adopts, so that it is no descendant of ours.
    shell = ["bash", "-c", 'setsid "$@" >/dev/null 2>&1 & echo $!; sleep 0.2', "bash", *words]
    pid = int(subprocess.run(shell, check=True, stdout=subprocess.PIPE, text=True).stdout)
    try:
        before = disturbance.look()
        assert eventually(lambda: disturbance.look().usage[pid].own > before.usage[pid].own + 20)
        after = disturbance.look()
        assert after.usage[pid].name.startswith("evil\x1b")
        found = taken_between(before, after, disturbance.ancestors())
        said = verdict({who: ticks for who, ticks in found.items() if who == "another user"}, 100.0)
        disturbance.between(before, after, log=True)
    finally:
        os.kill(pid, 9)
    assert found["another user"] >= 20 and "evil" not in str(found)
    assert said.startswith("another user: ")
    log = capsys.readouterr().out
    # Whoever else works here may have taken more.
    assert "\x1b" not in log


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Write what the watch on a node saw: a line for each second, with who took how many of its 400 ticks."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "watch").mkdir()

    def write(node, *seconds):
        lines = [json.dumps({"when": when, "capacity": 400.0, "taken": taken}) for when, taken in seconds]
        (tmp_path / "watch" / f"{node}.lines").write_text("".join(f"{line}\n" for line in lines))

    return write


def test_who_disturbs_other_nodes_during_a_run_is_named_with_the_node(watched, tmp_path):
    busy, quiet = {"stress (pid 9)": 400.0, HYPERVISOR: 0.0}, {HYPERVISOR: 0.0}
    # A line is about the second before it. What was before or after the run disturbs nobody.
    watched("node2", (102, busy), (103.5, busy), (104.5, quiet), (109.5, quiet), (110.5, busy))
    watched("node3", (104.5, quiet), (105.5, {"stress (pid 9)": 40.0}))
    watched("node4")
    with (tmp_path / "watch" / "node3.lines").open("a") as lines:
        # It is being written.
        lines.write('{"when": 106, "capa')
    assert disturbance.on_other_nodes(103, 110).disturbers == ["stress (pid 9) on node3: 5 %"]


def test_what_ranks_use_on_other_nodes_is_added_to_what_was_seen_here(watched, tmp_path):
    def line(when, **used):
        return json.dumps({"when": when, "capacity": 400.0, "taken": {}, **({"used": used} if used else {})}) + "\n"

    lines = [line(105, interfaces=["eth0"], libraries=["/a/libmpi.so.40"]), line(106), line(111, interfaces=["ib0"])]
    (tmp_path / "watch" / "node2.lines").write_text("".join(lines))
    (tmp_path / "watch" / "node3.lines").write_text(line(104.5, interfaces=["eth1"]))
    elsewhere = disturbance.on_other_nodes(103, 110).used
    assert elsewhere == {"interfaces": {"eth0", "eth1"}, "libraries": {"/a/libmpi.so.40"}}
    here = {"user": 1.0, "interfaces": ["lo"], "libraries": []}
    both = {"user": 1.0, "interfaces": ["eth0", "eth1", "lo"], "libraries": ["/a/libmpi.so.40"]}
    assert run_observation.together(here, elsewhere) == both
    assert run_observation.together({}, elsewhere) == {}


def test_a_watch_is_started_on_every_other_node_and_writes_a_line_a_second(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    srun = tmp_path / "bin" / "srun"
    # On this one, in the place of all.
    write_program(srun, 'echo "$@" >words\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "3")
    started = []
    monkeypatch.setattr(
        disturbance.subprocess,
        "Popen",
        lambda *words, made=subprocess.Popen, **facts: started.append(made(*words, **facts)),
    )
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch" / "old.lines").touch()
    began = time.time()
    disturbance.watch_other_nodes()
    lines = tmp_path / "watch" / f"{os.uname().nodename}.lines"
    try:
        assert eventually(lambda: lines.exists() and lines.read_text().count("\n") >= 2)
    finally:
        started[0].kill()
        started[0].wait()
    assert {"--overlap", "--relative=1", "--ntasks=2", "--ntasks-per-node=1"} <= set(
        (tmp_path / "words").read_text().split()
    )
    assert not (tmp_path / "watch" / "old.lines").exists()
    first = json.loads(lines.read_text().splitlines()[0])
    assert first["when"] > began
    assert first["capacity"] > 0
    assert HYPERVISOR in first["taken"]


@pytest.mark.parametrize(("busy", "looks"), [([], 2), ([30], 4), ([30] * 50, None)])
def test_the_first_round_waits_until_the_job_before_is_done_with_but_not_for_ever(monkeypatch, busy, looks):
    clock, ticks, waiting = [0.0], [0], [*busy]
    seen = []

    def sleep(seconds):
        clock[0] += seconds
        ticks[0] += waiting.pop() if waiting else 0

    def look_once():
        seen.append(clock[0])
        return look(clock[0], p7=("reframe", ticks[0]))

    monkeypatch.setattr(disturbance.time, "sleep", sleep)
    monkeypatch.setattr(disturbance.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(disturbance, "look", look_once)
    disturbance.settle(2.0, 12.0)
    assert clock[0] <= 12.0
    assert looks is None or len(seen) == looks


@pytest.mark.parametrize(
    ("command", "version", "is_ours"), [("docker", "Docker version 27.1", True), ("apptainer", "1", False)]
)
def test_the_daemon_of_a_runtime_of_the_job_is_no_stranger(tmp_path, monkeypatch, command, version, is_ours):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(processes, "processes_of_run", set)
    processes.daemons.cache_clear()
    Path(contract.runtime_file("subject")).write_text(json.dumps({"command": command, "version": version}))
    programs = [tmp_path / name for name in ("dockerd", "containerd-shim-runc-v2", "cc1")]
    for program in programs:
        write_program(program, "read -r line")
    running = [subprocess.Popen([program], stdin=subprocess.PIPE) for program in programs]
    try:
        names = [program.name[:15] for program in programs]
        assert eventually(lambda: [processes.status_of(process.pid)[0] for process in running] == names)
        seen = [process.pid in disturbance.look().usage for process in running]
        assert seen == [not is_ours, not is_ours, True]
    finally:
        processes.daemons.cache_clear()
        for process in running:
            process.communicate()
