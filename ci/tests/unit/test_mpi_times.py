"""The time in MPI: the library that measures it, in programs of C and Fortran, and the commands that preload it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace

import pytest
from conftest import REPOSITORY
from containercheck import side_by_side
from containercheck.application import declare
from containercheck.job import contract
from containercheck.job.container_runtimes import by_name
from containercheck.job.outputs.reading import read_metric
from containercheck.sides import commands
from containercheck.sides.sides import Container, Launcher, Program, Side
from containercheck.site.layout import Layout
from containercheck.site.sites import Site

SAMPLES = REPOSITORY / "ci" / "tests" / "programs"
SOURCE = REPOSITORY / "checks" / "src" / "mpitimes" / "mpitimes.c"
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def measured(directory, family, compiler, name, tool=None, printed=None):
    """Return what the library reports of a program on two ranks.

    :param tool: another library, which is preloaded after it.
    :param printed: gets what the program prints.
    """
    compiler, launcher = (f"{word}.{family}" for word in (compiler, "mpirun"))
    if not all(map(shutil.which, (compiler, f"mpicc.{family}", launcher))):
        pytest.skip(f"no {compiler} or {launcher}")
    library = directory / contract.MPI_TIMES_LIBRARY
    build = [f"mpicc.{family}", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"]
    subprocess.run(build, check=True)
    subprocess.run([compiler, "-o", directory / "program", SAMPLES / name], check=True)
    report = directory / contract.MPI_TIMES
    preloaded = ":".join(map(str, filter(None, [library, tool])))
    words = ["env", f"LD_PRELOAD={preloaded}", f"{contract.MPI_TIMES_PATH}={report}", directory / "program"]
    oversubscribe = ["--oversubscribe"] if family == "openmpi" else []
    command = [launcher, *oversubscribe, "-np", "2", *words]
    facts = {"check": True, "env": {**os.environ, **ROOT}, "timeout": 60, "stdout": subprocess.PIPE, "text": True}
    output = subprocess.run(command, **facts).stdout
    if printed is not None:
        printed.append(output)
    return report.read_text()


@pytest.mark.parametrize("family", ["openmpi", "mpich"])
@pytest.mark.parametrize(("compiler", "name"), [("mpicc", "late.c"), ("mpif90", "late.f90")])
def test_the_rank_that_waits_has_its_time_in_mpi(tmp_path, family, compiler, name):
    printed = []
    lines = measured(tmp_path, family, compiler, name, printed=printed).splitlines()
    assert lines[0] == "ranks 2"
    # By the program's own clock: on a busy machine one comes later, or waits longer, than it was told.
    own = sorted(line.split()[1:] for line in printed[0].splitlines() if line.startswith("rank "))
    (first, first_all), (second, second_all) = ([float(text) for text in texts[1:]] for texts in own)
    assert second > first + 0.2
    (barrier,) = (line.split() for line in lines if line.startswith("function MPI_Barrier"))
    assert float(barrier[2]) == pytest.approx((first + second) / 2, rel=0.1, abs=0.1) and barrier[4] == "1"
    waiting = next(line for line in lines if line.startswith("rank 1:"))
    assert float(waiting.split()[2]) == pytest.approx(second, rel=0.1, abs=0.1)
    values = {metric.name: read_metric(metric, tmp_path) for metric in declare.mpi_times_metrics([])}
    share = 100 * (first + second) / (first_all + second_all)
    assert values["mpi_share"] == pytest.approx(share, abs=20) and values["mpi_seconds"] > 0


def test_both_sides_preload_it_and_name_the_file_of_their_own_directory():
    site = Site("cluster:compute", is_here=False, architecture="x86_64", cores=4, gpus=0)
    program = Program("pw.x", ("-in", "a"), mpi="pw.x", times_mpi=True)
    bare = Side("baseline", "bare", program, Launcher("srun", ranks=4))
    contained = replace(bare, name="subject", container=Container(by_name("Apptainer"), "image.sif"))
    scripts = [commands.side_commands(side, site, Layout(1, 4, 1), "/stage").script for side in (bare, contained)]
    words = "env LD_PRELOAD={0}/mpitimes.so CONTAINERCHECK_MPI_TIMES={0}/mpi-times.txt pw.x -in a"
    assert scripts[0] == f"srun {words.format('$PWD')}"
    assert scripts[1].endswith(f" {{{{image}}}} {{{{prefix}}}} {words.format('/rfm_workdir')}")
    without = replace(bare, program=replace(program, times_mpi=False))
    assert commands.side_commands(without, site, Layout(1, 4, 1), "/stage").script == "srun pw.x -in a"


@pytest.mark.parametrize("family", ["openmpi", "mpich"])
def test_another_tool_that_is_preloaded_after_it_still_gets_the_calls(tmp_path, family):
    if not shutil.which(f"mpicc.{family}"):
        pytest.skip(f"no mpicc.{family}")
    tool = tmp_path / "tool.so"
    subprocess.run([f"mpicc.{family}", "-shared", "-fPIC", "-o", tool, SAMPLES / "mpi_tool.c"], check=True)
    printed = []
    lines = measured(tmp_path, family, "mpicc", "late.c", tool, printed).splitlines()
    assert printed[0].count("the tool has MPI_Init\n") == printed[0].count("the tool has MPI_Barrier\n") == 2
    assert any(line.startswith("function MPI_Barrier") for line in lines)


def test_programs_beside_each_other_have_a_file_and_metrics_each():
    """Before DLB, which hands no call on to who comes after it."""
    site = Site("cluster:compute", is_here=False, architecture="x86_64", cores=4, gpus=0)
    beside = tuple(replace(program, environment={"LD_PRELOAD": "./dlb.so"}) for program in side_by_side([(1, 1)] * 2))
    side = Side("baseline", "bare", Program("./x", neighbours=beside, mpi="./x", times_mpi=True), Launcher(ranks=2))
    lines = commands.side_commands(side, site, Layout(1, 2, 1), "/stage").script.splitlines()
    for name in ("program1", "program2"):
        (line,) = (line for line in lines if line.startswith(f"beside {name}"))
        assert " LD_PRELOAD=$PWD/mpitimes.so:./dlb.so " in line
        assert f" CONTAINERCHECK_MPI_TIMES=$PWD/mpi-times-{name}.txt ./x" in line
    metrics = declare.mpi_times_metrics(["program1", "program2"])
    assert [metric.name for metric in metrics[:1] + metrics[3:4]] == ["mpi_seconds_program1", "mpi_seconds_program2"]
    assert {metric.file for metric in metrics} == {"mpi-times-program1.txt", "mpi-times-program2.txt"}
