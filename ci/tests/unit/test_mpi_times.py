"""The time in MPI: the library that measures it, in programs of C and Fortran, and the commands that preload it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace

import pytest
from conftest import REPOSITORY
from containercheck.application import mpi_times
from containercheck.node import contract
from containercheck.node.container_runtimes import by_name
from containercheck.node.outputs.reading import read_figure
from containercheck.sides import commands
from containercheck.sides.sides import Container, Launcher, Program, Side
from containercheck.site.layout import Layout
from containercheck.site.sites import Site

SOURCE = REPOSITORY / "checks" / "src" / "mpitimes" / "mpitimes.c"
#: Rank 0 comes half a second later to the barrier than the other, which waits that long in it.
C = """
#include <mpi.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) usleep(500000);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
"""
FORTRAN = """
program late
    use mpi
    integer :: error, rank
    call mpi_init(error)
    call mpi_comm_rank(MPI_COMM_WORLD, rank, error)
    if (rank == 0) call sleep(1)
    call mpi_barrier(MPI_COMM_WORLD, error)
    call mpi_finalize(error)
end program
"""
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def measured(directory, family, compiler, name, text):
    """Return what the library reports of a program on two ranks."""
    compiler, launcher = (f"{word}.{family}" for word in (compiler, "mpirun"))
    if not all(map(shutil.which, (compiler, f"mpicc.{family}", launcher))):
        pytest.skip(f"no {compiler} or {launcher}")
    library = directory / contract.MPI_TIMES_LIBRARY
    build = [f"mpicc.{family}", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"]
    subprocess.run(build, check=True)
    (directory / name).write_text(text)
    subprocess.run([compiler, "-o", directory / "program", directory / name], check=True)
    report = directory / contract.MPI_TIMES
    words = ["env", f"LD_PRELOAD={library}", f"{contract.MPI_TIMES_PATH}={report}", directory / "program"]
    oversubscribe = ["--oversubscribe"] if family == "openmpi" else []
    subprocess.run([launcher, *oversubscribe, "-np", "2", *words], check=True, env={**os.environ, **ROOT}, timeout=60)
    return report.read_text()


@pytest.mark.parametrize("family", ["openmpi", "mpich"])
@pytest.mark.parametrize(
    ("compiler", "name", "text", "late"), [("mpicc", "late.c", C, 0.5), ("mpif90", "late.f90", FORTRAN, 1)]
)
def test_the_rank_that_waits_has_its_time_in_mpi(tmp_path, family, compiler, name, text, late):
    lines = measured(tmp_path, family, compiler, name, text).splitlines()
    assert lines[0] == "ranks 2"
    (barrier,) = (line.split() for line in lines if line.startswith("function MPI_Barrier"))
    # The mean of one that waits and one that does not; called once.
    assert float(barrier[2]) == pytest.approx(late / 2, abs=0.4 * late) and barrier[4] == "1"
    waiting = next(line for line in lines if line.startswith("rank 1:"))
    assert float(waiting.split()[2]) >= 0.6 * late
    values = {figure.name: read_figure(figure, tmp_path) for figure in mpi_times.FIGURES}
    assert values["mpi_share"] == pytest.approx(50, abs=20) and values["mpi_seconds"] > 0


def test_a_report_that_cannot_be_written_is_an_error(tmp_path):
    text = C.replace("MPI_Barrier", 'unsetenv("CONTAINERCHECK_MPI_TIMES"); MPI_Barrier').replace(
        "<unistd.h>", "<unistd.h>\n#include <stdlib.h>"
    )
    with pytest.raises(FileNotFoundError):
        measured(tmp_path, "openmpi", "mpicc", "late.c", text)


def test_both_sides_preload_it_and_name_the_file_of_their_own_directory():
    site = Site("cluster:compute", is_here=False, architecture="x86_64", cores=4, gpus=0)
    program = Program("pw.x", ("-in", "a"), mpi="pw.x", times_mpi=True)
    bare = Side("baseline", "bare", program, Launcher("srun", ranks=4))
    contained = bare.changed(name="subject", container=Container(by_name("Apptainer"), "image.sif"))
    scripts = [commands.side_commands(side, site, Layout(1, 4, 1), "/stage").script for side in (bare, contained)]
    words = "env LD_PRELOAD={0}/mpitimes.so CONTAINERCHECK_MPI_TIMES={0}/mpi-times.txt pw.x -in a"
    assert scripts[0] == f"srun {words.format('$PWD')}"
    assert scripts[1].endswith(f" image.sif {words.format('/rfm_workdir')}")
    without = bare.changed(program=replace(program, times_mpi=False))
    assert commands.side_commands(without, site, Layout(1, 4, 1), "/stage").script == "srun pw.x -in a"
