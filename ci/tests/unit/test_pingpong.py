"""The output of the Ping Pong program."""

import subprocess

import pytest
from conftest import REPOSITORY
from pingpong import PingPong
from saved import figures, problems

SOURCE = REPOSITORY / "checks" / "src" / "pingpong" / "pingpong.c"
# More ranks than cores, and by whoever runs the tests.
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]


def test_each_class_of_pair_has_its_figures():
    """Saved from two nodes with two ranks each, all in one socket of the node."""
    assert figures(PingPong, "pingpong/passing", ranks=4) == {
        "latency_within_socket": 6.5674,
        "latency_between_nodes": 30.2695,
        "bandwidth_within_socket": 5498.52,
        "bandwidth_between_nodes": 642.552,
    }


def test_singletons_are_told():
    (problem,) = problems(PingPong, "pingpong/failing", ranks=2)
    assert "ran with 1 ranks instead of 2" in problem


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Compile it."""
    path = tmp_path_factory.mktemp("pingpong") / "pingpong"
    subprocess.run(["mpicc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", path, SOURCE], check=True)
    return path


@pytest.mark.parametrize("options", [("0",), ("-1",), ("one",), ("1", "-1"), ("1", "few")])
def test_a_wrong_option_is_one_line(program, options):
    result = subprocess.run([*MPIRUN, "-np", "1", program, *options], capture_output=True, text=True)
    assert result.returncode != 0
    assert result.stderr.startswith(f"pingpong: error: '{options[0]}'")
