"""A program whose MPI is linked statically beside the same that loads it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import write_program
from containercheck import ContainerCheck, software
from containercheck.check.variants import StaticMpiSides
from containercheck.job import contract
from containercheck.sides.sides import Launcher, Program, Side
from containercheck.site.sites import Site
from containercheck.software import Unavailable, Wanted, sources
from reframe.core.exceptions import ReframeError

HERE = Site("here:only", is_here=True, architecture="x86_64", cores=2, gpus=0)
WANTED = Wanted("PingPongStatic", "pingpong", source="pingpong/pingpong.c", mpi_family="mpich", static_mpi=True)


def built(directory: Path) -> None:
    """Run the build step of the program, and complain as a session would."""
    command = software.build_command(sources.provide_compiled(WANTED, HERE))
    ended = subprocess.run(["bash", "-c", command], cwd=directory, capture_output=True, text=True)
    (directory / "err").write_text(ended.stderr)
    software.require_built(directory, "err")


@pytest.mark.skipif(not shutil.which("mpicc.mpich"), reason="no mpicc.mpich (ci/setup installs libmpich-dev)")
def test_the_program_is_linked_twice_and_runs_with_either(tmp_path):
    built(tmp_path)
    for name, loads in (("pingpong", True), ("pingpong-static", False)):
        program = tmp_path / "bin" / name
        libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
        assert ("libmpich.so" in libraries) is loads
        start = ["mpiexec.hydra", "-n", "2", program, "0.01"]
        assert "ranks 2\n" in subprocess.run(start, cwd=tmp_path, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "script", ["exit 1", 'cp "$(command -v cat)" bin/pingpong; cp bin/pingpong bin/pingpong-static']
)
def test_a_compiler_that_links_no_mpi_statically_is_a_skip_that_says_what_to_install(tmp_path, monkeypatch, script):
    """It may fail, or not know the option and link the library all the same."""
    compiler = tmp_path / "programs" / "mpicc.mpich"
    write_program(compiler, f'case " $* " in *" -static-mpi "*) ;; *) exit 0;; esac\n{script}')
    write_program(compiler.parent / "ldd", "echo libmpich.so.12")
    monkeypatch.setenv("PATH", str(compiler.parent), prepend=":")
    with pytest.raises(
        Unavailable, match=r"^no software: the compiler's -static-mpi links no MPI: install MPICH's libm"
    ):
        built(tmp_path)


def test_the_one_that_loads_its_mpi_is_judged_and_the_other_is_known_by_no_library():
    program = Program("./bin/pingpong", mpi="./bin/pingpong")
    launcher = Launcher("mpiexec.hydra -n 2", ranks=2)
    check = SimpleNamespace(
        prepared=SimpleNamespace(program="./bin/pingpong"),
        _bare_side=lambda: Side(contract.BASELINE, "bare", program, launcher, environment={"A": "b"}),
    )
    measure, judged = StaticMpiSides.sides(check)
    assert (measure.program.executable, judged.program.executable) == ("./bin/pingpong-static", "./bin/pingpong")
    assert (measure.program.mpi, judged.program.mpi) == (None, "./bin/pingpong")
    assert (measure.name, judged.compared_with) == (contract.BASELINE, contract.BASELINE)
    assert measure.launcher == judged.launcher and measure.environment == judged.environment == {"A": "b"}


def test_the_time_in_mpi_is_refused_as_a_preloaded_library_would_miss_it():
    check = SimpleNamespace(mpi_times=True, rank_count="ranks", static_mpi=True)
    with pytest.raises(ReframeError, match="^mpi_times: no library can be preloaded before the static MPI of "):
        ContainerCheck._add_metrics(check)
