"""Whether ranks in a container have the cores that they have bare."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from conftest import eventually, findings_of, record_of, run_of
from containercheck.job import run_observation
from containercheck.job.container_runtimes import by_name
from containercheck.job.verdict import findings
from containercheck.sides.sides import Container, Program, Side


def problems(sides, *runs):
    return findings_of(record_of(*runs), sides).binding_problems()


def run(side, *bound):
    """Return a run with ranks that are bound so."""
    return run_of(side, "", bound=list(bound))


@pytest.mark.parametrize(
    ("bare", "container", "said"),
    [
        (["0", "1"], ["1", "2"], None),
        # Better than bare.
        (["0-1", "0-1"], ["0", "1"], None),
        # Hardware threads of one core.
        (["0,4", "1,5"], ["2,6", "3,7"], None),
        # Not all of them were seen.
        (["0", "1"], ["0"], None),
        ([], ["0", "0"], None),
        (["0", "1"], ["0", "0"], "share cores: they are bound to 0 | 0, those of baseline to 0 | 1"),
        (["0-1", "2-3"], ["0-2", "2-3"], "share cores: they are bound to 0-2 | 2-3, those of baseline to 0-1 | 2-3"),
        (["0-3", "4-7"], ["0", "1"], "have fewer cores: they are bound to 0 | 1, those of baseline to 0-3 | 4-7"),
    ],
)
def test_fewer_cores_than_bare_or_shared_ones_are_a_problem(bare, container, said):
    problem = findings.cores_problem(run("subject", *container), run("baseline", *bare))
    assert problem == (said and f"round 1, subject: its ranks {said}")


def test_a_record_compares_each_side_with_its_measure():
    container = Container(by_name("Apptainer"), "image")
    bare = Side("baseline", "bare", Program("program"))
    sides = [bare, replace(bare, name="subject", label="generic", container=container, compared_with="baseline")]
    assert problems(sides, run("baseline", "0", "1"), run("subject", "1", "0")) == []
    # In one run they were looked at too early.
    runs = [run("baseline", "0", "0"), run("baseline", "0", "1"), run("subject", "1", "1"), run("subject", "0", "1")]
    assert problems(sides, *runs) == findings_of(record_of(*runs), sides).remarks() == []
    (problem,) = problems(sides, *runs[:3], run("subject", "0", "0"))
    assert "share cores" in problem


@pytest.mark.parametrize(("bare", "container"), [(["0", "1"], ["0"]), ([], ["0", "0"]), ([], [])])
def test_ranks_that_were_not_all_seen_are_told(bare, container):
    mpi = [
        Side("baseline", "bare", Program("program", mpi="program")),
        Side("subject", "generic", Program("program", mpi="program"), compared_with="baseline"),
    ]
    record = record_of(run("baseline", *bare), run("subject", *container))
    assert findings_of(record, mpi).binding_problems() == []
    (line,) = findings_of(record, mpi).remarks()
    seen = f"of generic {len(container)} were seen while they ran, of bare {len(bare)}"
    assert line == f"the cores of ranks were not compared: {seen}"
    assert findings_of(record, mpi[:1]).remarks() == []
    serial = [replace(side, program=Program("serial")) for side in mpi]
    assert findings_of(record, serial).remarks() == []
    # Nor are there ranks where the host's library is only loaded into a program, as StartUp does it.
    loads = [replace(side, program=Program("cat", mpi="program", preloads_mpi=True)) for side in mpi]
    assert findings_of(record, loads).remarks() == []
    # A program with its MPI linked statically is in no process known by a library.
    static = [replace(mpi[0], program=Program("program-static")), mpi[1]]
    assert findings_of(record, static).remarks() == []


#: Maps a file that is called as an MPI library is.
RANK = """
import mmap, sys, time
with open(sys.argv[1], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ):
    time.sleep(60)
"""


@pytest.fixture
def ranks(tmp_path, monkeypatch):
    """Return a function that starts two ranks in the place of those before, which may run anywhere."""
    library = tmp_path / "libmpi.so.40"
    library.write_text("of a made program")
    living = []
    monkeypatch.setattr(run_observation.processes, "processes_of_run", lambda: {process.pid for process in living})

    def end():
        for process in living:
            process.kill()
            process.wait()

    def start():
        end()
        living[:] = [subprocess.Popen([sys.executable, "-c", RANK, str(library)]) for _ in range(2)]
        return living

    yield start
    end()


@pytest.mark.parametrize("digests", [True, False])
def test_the_libraries_of_a_rank_are_read_only_for_an_image_with_the_tree_of_bare(ranks, digests):
    watch = run_observation.RankWatch(2, digests)
    ranks()
    watch.start()
    try:
        assert eventually(lambda: watch.executable and len(watch.bound) == 2)
    finally:
        watch.finish()
    # Those of MPI are not of a tree, and those of the operating system have no digest.
    assert watch.libraries.get("libc.so.6") == ("" if digests else None)
    assert "libmpi.so.40" not in watch.libraries


def test_ranks_of_all_steps_are_seen_as_they_are_bound_in_the_end(ranks):
    """Those of the first step end too early, those of the second bind themselves late, and one of them ends first."""
    watch = run_observation.RankWatch(2)
    ranks()
    watch.start()
    try:
        assert eventually(lambda: sum(len(entry["pids"]) for entry in watch.mpi.values()) == 2)
        assert eventually(lambda: len(watch.bound) == 2)
        started = ranks()
        pids = sorted(process.pid for process in started)
        assert eventually(lambda: [entry["pids"] for entry in watch.mpi.values()] == [pids])
        first = min(os.sched_getaffinity(0))
        for pid in pids:
            os.sched_setaffinity(pid, {first})
        assert eventually(lambda: watch.bound == [str(first)] * 2)
        started[0].kill()
        started[0].wait()
        watch.finished.wait(1)
    finally:
        watch.finish()
    assert watch.bound == [str(first)] * 2
