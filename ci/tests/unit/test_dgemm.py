"""The matrix product in blocks: the program and its output."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from conftest import REPOSITORY
from dgemm import DGEMM
from saved import metrics, problems

SOURCE = REPOSITORY / "checks" / "src" / "dgemm" / "dgemm.c"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Compile it as the check does."""
    path = tmp_path_factory.mktemp("dgemm") / "dgemm"
    strict = ["-O2", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["mpicc", *strict, "-o", path, SOURCE, *DGEMM.compile_options], check=True)
    return path


def run(program, *arguments, threads=1):
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, env=environment)


def answers(program, *arguments, threads=1):
    printed = run(program, *arguments, threads=threads)
    assert printed.returncode == 0, printed.stderr
    return dict(re.findall(r"^(\w+) (\S+)$", printed.stdout, re.MULTILINE))


def test_the_metric_is_read():
    assert list(metrics(DGEMM, "dgemm/passing", ranks=1)) == ["GFLOPS"]


def test_a_wrong_product_is_a_wrong_answer():
    """Saved from a program that left a row out of its first blocks."""
    (problem,) = problems(DGEMM, "dgemm/failing", ranks=1)
    assert "residual is " in problem and "must be at most 16" in problem


@pytest.mark.parametrize("block", [1, 16, 50, 64, 101, 4096])
def test_the_product_is_right_for_any_block_and_the_same(program, block):
    """Also where the last block is smaller than the others, and where there is only one."""
    found = answers(program, 101, block)
    assert float(found["residual"]) < 16
    assert float(found["norm"]) == pytest.approx(float(answers(program, 101, 101)["norm"]), rel=1e-9)
    assert found["block"] == str(min(block, 101))


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_share_the_rows(program, threads):
    alone, shared = answers(program, 5, 2), answers(program, 5, 2, threads=threads)
    assert shared["threads"] == str(threads) and shared["norm"] == alone["norm"]


@pytest.mark.parametrize("arguments", [(), (64,), (0, 8), (64, -1), ("64x", 8), (64, ""), (64, 8, 1)])
def test_a_wrong_option_is_one_line(program, arguments):
    result = run(program, *arguments)
    assert result.returncode == 2
    assert result.stderr == "dgemm: error: usage: dgemm ORDER BLOCK, both from 1 on\n"


def test_it_needs_no_mpi(program):
    loaded = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    assert "libgomp" in loaded and "libmpi" not in loaded
