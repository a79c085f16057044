"""A program that runs on each node of a job: which words start it. The cluster's tests run it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import PROGRAMS, write_program


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
    assert done.stderr.startswith("error: only a job of Slurm with srun on the PATH")
