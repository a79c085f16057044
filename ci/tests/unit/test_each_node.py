"""A program that runs on each node of a job: which words start it. The cluster's tests run it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import PROGRAMS, write_program
from containercheck.job import contract


@pytest.fixture
def srun(tmp_path, monkeypatch):
    """Have a srun that prints its words, and fails as the commands of a job may."""
    (tmp_path / "bin").mkdir()
    write_program(tmp_path / "bin" / "srun", 'echo "$@"; exit 3')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "3")


def test_what_fails_on_a_node_fails(srun, monkeypatch):
    command = [sys.executable, PROGRAMS, "each-node", "load", "image.oci", "podman"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stdout.endswith(f"--mpi=none --mem=0 {sys.executable} {PROGRAMS} load image.oci podman\n")
    monkeypatch.delenv("SLURM_JOB_NUM_NODES")
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: only srun in a job of Slurm, or mpirun over ssh,")


def test_mpirun_starts_it_where_a_site_lists_the_nodes_and_hands_the_environment_on(tmp_path, monkeypatch):
    """The reason is the last line: a launcher explains itself at length, and ends with a ruler."""
    denied = "echo 'node2: Permission denied (publickey).' >&2; echo ---- >&2; exit 3"
    write_program(tmp_path / "mpirun", f'echo "$OMPI_MCA_mca_base_env_list" "$@"; {denied}')
    monkeypatch.setenv(contract.EACH_NODE, f"{tmp_path}/mpirun -np 2 --map-by ppr:1:node")
    done = subprocess.run([sys.executable, PROGRAMS, "each-node", "load", "x"], capture_output=True, text=True)
    names, _, words = done.stdout.partition(" ")
    assert {"PATH", contract.EACH_NODE} <= {*names.split(";")}
    assert words == f"-np 2 --map-by ppr:1:node {sys.executable} {PROGRAMS} load x\n"
    assert done.returncode == 3
    assert done.stderr.endswith("----\nerror: load failed on a node: node2: Permission denied (publickey).\n")
