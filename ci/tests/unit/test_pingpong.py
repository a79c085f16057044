"""The output of the Ping Pong program."""

import subprocess

import pytest
from pingpong import PingPong
from pingpong_program import MPIRUN, program  # noqa: F401
from saved import figures, problems


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


@pytest.mark.parametrize("options", [("0",), ("-1",), ("one",), ("1", "-1"), ("1", "few")])
def test_a_wrong_option_is_one_line(program, options):
    result = subprocess.run([*MPIRUN, "-np", "1", program, *options], capture_output=True, text=True)
    assert result.returncode != 0
    assert result.stderr.startswith(f"pingpong: error: '{options[0]}'")
