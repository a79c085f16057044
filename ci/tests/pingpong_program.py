"""The Ping Pong program, compiled, and how it is started."""

from __future__ import annotations

import subprocess

import pytest
from conftest import REPOSITORY

SOURCE = REPOSITORY / "checks" / "src" / "pingpong" / "pingpong.c"
# More ranks than cores, and by whoever runs the tests.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Compile it."""
    path = tmp_path_factory.mktemp("pingpong") / "pingpong"
    subprocess.run(["mpicc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", path, SOURCE], check=True)
    return path
