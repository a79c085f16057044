"""Programs beside each other: their sides, their scripts, and the program that binds them and reports."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace

import pytest
from conftest import entry_of, findings_of, record_of, run_of
from containercheck import side_by_side
from containercheck.check.collocation import FIVE, mixes
from containercheck.job import contract, neighbours
from containercheck.job.neighbours import Ended, NeighboursError
from containercheck.sides import commands
from containercheck.sides.sides import Launcher, Program, Side
from containercheck.site import node_commands
from containercheck.site.layout import Layout
from containercheck.site.sites import Site
from containercheck.software import Provision, Unavailable, Wanted, managers

SITE = Site("cluster:compute", is_here=False, architecture="x86_64", cores=4, gpus=0)
PROGRAMS = tuple(
    replace(program, launcher=f"mpirun -np {program.ranks} --bind-to none", environment={"DLB_ARGS": '"--lewi"'})
    for program in side_by_side([(2, 1), (1, 2)])
)
BARE = Side("baseline", "bare", Program("./bt-mz", neighbours=PROGRAMS), Launcher("mpirun -np 3", ranks=3))


def script(side):
    return commands.side_commands(side, SITE, Layout(1, 3, 1), "/stage").script.splitlines()


def test_programs_of_a_use_case_follow_each_other_on_the_cores_and_have_to_fit():
    programs = side_by_side(FIVE)
    assert [program.first_core for program in programs] == [0, 6, 24, 28, 38]
    assert sum(program.cores for program in programs) == 48
    assert mixes("two", 5) == [(2, 1), (2, 1)]
    assert mixes("two", 1) == mixes("five", 47) == mixes("2 of 8x3", 47) == []
    assert mixes("five", 48) == [*FIVE] and mixes("2 of 8x3", 48) == [(8, 3), (8, 3)]


def test_bare_programs_are_started_beside_each_other_each_rank_on_its_own_cores():
    *_, first, second, wait, report = script(BARE)
    bind, variables = "mpirun -np {} --bind-to none sh bind.sh", 'env OMP_NUM_THREADS={} DLB_ARGS="--lewi"'
    assert first == f"beside program1 {bind.format(2)} 0 1 {variables.format(1)} ./bt-mz"
    assert second == f"beside program2 {bind.format(1)} 2 2 {variables.format(2)} ./bt-mz"
    assert (wait, report.split(" ", 2)[2]) == ("wait", "neighbours report program1=2x1 program2=1x2")


def bound(tmp_path, monkeypatch, *words, **variables):
    """Run a command as a rank on the first processor that it may use."""
    monkeypatch.chdir(tmp_path)
    processor = min(os.sched_getaffinity(0))
    neighbours.write_cores(4, [[processor]] * 4)
    command = ["sh", contract.BIND, "0", "2", *words]
    environment = {"PATH": os.environ["PATH"], **variables}
    return processor, subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("variable", ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_RANK", "SLURM_LOCALID"])
def test_a_rank_is_bound_to_its_cores(tmp_path, monkeypatch, variable):
    words = ("sh", "-c", "grep Cpus_allowed_list /proc/self/status")
    processor, done = bound(tmp_path, monkeypatch, *words, **{variable: "1"})
    assert done.stdout.split() == ["Cpus_allowed_list:", str(processor)], done.stderr


def test_a_launcher_that_numbers_no_ranks_and_too_few_cores_are_errors(tmp_path, monkeypatch):
    _, done = bound(tmp_path, monkeypatch, "true")
    assert (done.returncode, done.stderr) == (1, "error: the launcher does not give ranks their number on the node\n")
    with pytest.raises(NeighboursError, match=r"2 core\(s\) of the 3 needed"):
        neighbours.write_cores(3, [[0, 2], [1, 3]])


def test_programs_really_run_at_the_same_time_and_the_first_failure_counts(tmp_path, monkeypatch):
    """Each waits for a file of the other, so that one after the other they would never end."""
    monkeypatch.chdir(tmp_path)
    meet = "touch {0}; for i in $(seq 200); do [ -e {1} ] && break; sleep 0.05; done; [ -e {1} ] && echo useful 0 s"
    lines = [
        node_commands.BESIDE,
        *(f"beside {a} sh -c '{meet.format(a, b)}'" for a, b in (("one", "two"), ("two", "one"))),
    ]
    subprocess.run(["bash", "-c", "\n".join([*lines, "beside three false", "wait"])], check=True, timeout=60)
    ended = [neighbours.read(f"{name}=1x1") for name in ("one", "two")]
    assert [program.status for program in ended] == [0, 0]
    assert neighbours.report([*ended, neighbours.read("three=1x1")]) == 1
    with pytest.raises(NeighboursError, match="four was not run to its end"):
        neighbours.read("four=1x1")


def test_the_report_has_seconds_of_each_and_of_the_whole_and_the_idle_time(capsys):
    first = Ended("one", 2, 1, 100.0, 110.0, 0, "useful 12.0 s\ncore 0 3.0 s\n")
    second = Ended("two", 1, 2, 101.0, 106.0, 0, "useful 4.0 s\ncore 0 2.5 s\ncore 2 1.5 s\n")
    assert neighbours.report([first, second]) == 0
    told = capsys.readouterr().out.splitlines()
    seconds = ["seconds one 10.000", "seconds two 5.000", "seconds whole 10.000"]
    assert told[-5:] == [*seconds, "idle 60.00 %", "busiest 5.5000 s"]
    others = [program._replace(output="done\n") for program in (first, second)]
    assert neighbours.report(others) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["idle unknown", "busiest unknown"]
    # A library that was not loaded is a failure.
    line = "ERROR: ld.so: object './dlb/libdlb_mpi.so' from LD_PRELOAD cannot be preloaded: ignored.\n"
    assert neighbours.report([Ended("one", 1, 1, 0.0, 1.0, 0, line)]) == 1
    assert capsys.readouterr().err == f"one: {line}"


def test_without_dlb_the_reason_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NeighboursError, match="no DLB on .*: DLB_HOME is not set"):
        neighbours.copy_dlb("")
    with pytest.raises(NeighboursError, match="has no lib/libdlb_mpi.so"):
        neighbours.copy_dlb(str(tmp_path))
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libdlb_mpi.so").write_text("library")
    monkeypatch.setattr(neighbours, "_openmp_runtime", str)
    with pytest.raises(NeighboursError, match="has no OpenMP runtime"):
        neighbours.copy_dlb(str(tmp_path))


def test_cores_that_are_shared_by_intent_are_no_defect_and_others_are():
    """The same cores of a side that says nothing of sharing are a failure."""
    bound = {"baseline": ["0", "1"], "sharing": ["0-1", "0-1"]}
    record = record_of(*(run_of(side, "", bound=cores) for side, cores in bound.items()))
    sharing = Side("sharing", "full sharing", Program("x", mpi="x"), compared_with="baseline", shares_cores=True)
    assert findings_of(record, [BARE, sharing]).binding_problems() == []
    (problem,) = findings_of(record, [BARE, replace(sharing, shares_cores=False)]).binding_problems()
    assert "share cores" in problem


def wanted(**facts):
    return Wanted("Collocation", "imbalanced", library="dlb", **facts)


def test_dlb_comes_from_the_site_the_session_or_spack(monkeypatch):
    here = replace(SITE, is_here=True)
    monkeypatch.delenv("DLB_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    assert managers.provide_library(wanted(environ={"DLB_HOME": "/apps/dlb"}), here) == Provision()
    assert managers.provide_library(wanted(own_modules=("dlb",)), here) == Provision()
    with pytest.raises(Unavailable, match="needs DLB: set DLB_HOME to the directory"):
        managers.provide_library(wanted(), here)
    monkeypatch.setenv("DLB_HOME", "/opt/d l b")
    assert managers.provide_library(wanted(), here).activate == ("export DLB_HOME='/opt/d l b'",)
    # A variable of this machine says nothing of nodes elsewhere.
    found = managers.provide_library(wanted(), replace(SITE, build_on_node=True, arch="haswell"))
    assert found.activate == ('export DLB_HOME="$PWD/spack-dlb/.spack-env/view"',)
    entry = entry_of(found.build[0])
    assert (entry["environment"].rpartition("/")[2], entry["link"]) == ("dlb", "spack-dlb")
