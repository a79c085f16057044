"""Two runs at the same time, each on half of the cores, with real processes."""

from __future__ import annotations

import json
import os
import signal

import pytest
from conftest import TURN, alive, eventually, write_commands
from containercheck import Metric
from containercheck.job import runner, this_node
from containercheck.job.runner import HalvesError

TIME = Metric("time", r"^time (\S+)", "s", better="lower", duet=True)
#: What a run prints: where it may run, where it works, what lies there.
LOOK = "sed -n 's/Cpus_allowed_list:\\t/on /p' /proc/self/status; echo in $PWD; cat input; echo time 1"
TWO = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")


def machine(root, *cores):
    """Write down which processors are hardware threads of one core: of each core its socket and its processors."""
    for socket, siblings in cores:
        for processor in siblings:
            place = root / this_node.TOPOLOGY.format(processor)
            place.mkdir(parents=True)
            (place / "thread_siblings_list").write_text(",".join(map(str, siblings)) + "\n")
            (place / "physical_package_id").write_text(f"{socket}\n")


@pytest.mark.parametrize(
    ("cores", "first", "second"),
    [
        ([(0, [0]), (0, [1])], {0}, {1}),
        # Hardware threads of one core stay together.
        ([(0, [0, 4]), (0, [1, 5]), (0, [2, 6]), (0, [3, 7])], {0, 1, 4, 5}, {2, 3, 6, 7}),
        # Linux numbers the cores of two sockets in turn.
        ([(0, [0]), (1, [1]), (0, [2]), (1, [3])], {0, 2}, {1, 3}),
        # One is left out.
        ([(0, [0]), (0, [1]), (0, [2])], {0}, {2}),
        ([(0, [number]) for number in range(12)], set(range(6)), set(range(6, 12))),
    ],
)
def test_halves_are_whole_cores_that_are_neighbours(tmp_path, cores, first, second):
    machine(tmp_path, *cores)
    usable = {processor for _, siblings in cores for processor in siblings}
    assert runner.halves(1, usable, tmp_path) == (first, second)


def test_a_node_without_two_halves_of_the_size_is_told(tmp_path):
    machine(tmp_path, (0, [0, 1]))
    with pytest.raises(HalvesError, match=r"lets this job use 1 core\(s\); each side needs 1 to itself"):
        runner.halves(1, {0, 1}, tmp_path)
    # Where nothing is known of cores, each processor is one.
    assert runner.halves(1, {0, 1}, tmp_path / "nothing") == ({0}, {1})


@pytest.fixture
def duet(start_rounds, tmp_path):
    """Start the runner on two sides at the same time."""

    def start(baseline, subject, count=1, limit=10, *options, **facts):
        told = {"cores": 1, "stagedir": str(tmp_path)}
        (tmp_path / "input").write_text("made\n")
        return start_rounds(baseline, subject, count, limit, *options, metrics=[TIME], duet=told, **facts)

    return start


def finished(process, directory):
    process.communicate(timeout=TURN)
    assert process.returncode == 0
    return json.loads((directory / "rounds.json").read_text())


@TWO
def test_each_side_has_each_half_once_and_a_directory_of_its_own(duet, tmp_path):
    work = f"{LOOK}; [ -e result ] && echo not mine; echo $RANDOM$RANDOM >result; cp result kept; sleep 0.2"
    record = finished(duet(work, f"{work}; cat {tmp_path}/input", 1, 10, "--collect=result"), tmp_path)
    first, second = record["halves"]
    last = record["runs"][-4:]
    assert {(run["side"], run["processors"]) for run in last} == {
        (side, half) for side in ("baseline", "subject") for half in (first, second)
    }
    # Who has which half first is drawn; then they are swapped.
    assert last[0]["side"] == last[3]["side"] != last[1]["side"] == last[2]["side"]
    assert [run["processors"] for run in last] == [first, second, first, second]
    for run in last:
        lines = (tmp_path / run["output"] / "out").read_text().splitlines()
        assert lines[:4] == [f"on {run['processors']}", f"in {tmp_path}/duet/{run['side']}", "made", "time 1"]
        assert lines[4:] == ["made"] * (run["side"] == "subject")
        assert (tmp_path / run["output"] / "result").read_text().strip()
    assert not (tmp_path / "kept").exists()


@TWO
def test_where_one_fails_the_other_ends_well(duet, tmp_path):
    record = finished(duet("sleep 0.3; echo time 1", "exit 3", 3, 100), tmp_path)
    assert record["why"] == "exit status of subject, 2 times"
    # No time is spent on the swapped halves.
    assert [run["round"] for run in record["runs"]] == [1, 1, 2, 2]
    assert [run["status"] for run in record["runs"] if run["side"] == "baseline"] == [0, 0]


@TWO
def test_what_one_does_at_its_end_is_its_own(duet, tmp_path, marker):
    """It hangs and is killed with all its children, or leaves some behind; nothing of the other is."""
    hiding = f"({marker} &) ; {marker}"
    leaving = f"setsid {marker} & echo time 1; exit 0"
    for subject, limit, left in ((hiding, 1, None), (leaving, 10, ["sleep"])):
        record = finished(duet("sleep 0.5; echo time 1", subject, 1, limit), tmp_path)
        for run in record["runs"]:
            is_subject = run["side"] == "subject"
            assert run["timed_out"] == (is_subject and left is None)
            assert is_subject or (run["status"], run["leftover_processes"]) == (0, [])
            assert not is_subject or left is None or run["leftover_processes"] == left
        assert not alive(marker)


@TWO
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_job_that_is_ended_ends_both(duet, tmp_path, marker, number):
    process = duet(marker, marker, 1, 100)
    assert eventually(lambda: alive(marker), TURN, process)
    process.send_signal(number)
    process.communicate(timeout=TURN)
    assert eventually(lambda: not alive(marker))
    assert eventually(lambda: json.loads((tmp_path / "rounds.json").read_text())["ended"] == "SIGTERM")
    assert json.loads((tmp_path / "rounds.json").read_text())["runs"] == []


@TWO
def test_the_partner_disturbs_nobody(duet, tmp_path):
    (tmp_path / "own-work").write_bytes(b"")
    work = "cp $(command -v bash) own-work; ./own-work -c 'for ((i = 0; i < 100000; i++)); do :; done'; echo time 1"
    record = finished(duet(work, work, 2), tmp_path)
    assert not any("own-work" in run["disturbed_by"] for run in record["runs"])


def test_large_files_are_not_copied_and_small_ones_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runner, "COPIED", 10)
    for name, text in {"small": "small", "large": "large" * 10, "rfm_job.sh": "true"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "away").symlink_to("/etc/hosts")
    (tmp_path / "rounds").mkdir()
    write_commands(tmp_path, baseline=f"cat {tmp_path}/small")
    runner.make_directories(["baseline"])
    own = tmp_path / "duet" / "baseline"
    assert (own / "large").samefile(tmp_path / "large")
    assert not (own / "small").samefile(tmp_path / "small")
    assert (own / "links" / "away").is_symlink()
    assert not [name for name in ("rounds", "rfm_job.sh", "commands.json") if (own / name).exists()]
