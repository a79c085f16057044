"""The output of the Ping Pong program."""

import csv
import subprocess
from types import SimpleNamespace

import pytest
from pingpong import CLASSES, PingPong, dispersion
from pingpong_program import MPIRUN, program  # noqa: F401
from saved import metrics, problems


def test_each_class_of_pair_has_its_metrics():
    """Saved from two nodes with two ranks each, all in one socket of the node."""
    assert metrics(PingPong, "pingpong/passing", ranks=4) == {
        "latency_within_socket": 6.5674,
        "latency_between_nodes": 30.2695,
        "bandwidth_within_socket": 5498.52,
        "bandwidth_between_nodes": 642.552,
    }


def test_each_class_of_pair_has_its_dispersion():
    """Of the same output; D12.6 compares it in figures 8.4 and 8.5."""
    measured = (("latency", "us"), ("bandwidth", "MB/s"))
    judged = [dispersion(*name, pair) for name in measured for pair in CLASSES]
    found = metrics(
        SimpleNamespace(metrics=judged, answers=[], rank_count=PingPong.rank_count), "pingpong/passing", ranks=4
    )
    assert found == {
        "latency_dispersion_within_socket": 25.0,
        "latency_dispersion_between_nodes": 31.7,
        "bandwidth_dispersion_within_socket": 87.7,
        "bandwidth_dispersion_between_nodes": 69.2,
    }


def test_the_map_has_each_pair_once_with_its_medians(program, tmp_path):
    options = [*MPIRUN, "-np", "3", "--wdir", tmp_path, program, "0.01"]
    printed = subprocess.run(options, capture_output=True, text=True, check=True).stdout
    with (tmp_path / "pairs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["first"], row["second"]) for row in rows] == [("0", "1"), ("0", "2"), ("1", "2")]
    classes = [row["class"] for row in rows]
    assert all(f"measured {pair} {classes.count(pair)}" in printed for pair in CLASSES)
    assert all(float(row[value]) > 0 for row in rows for value in ("latency_us", "bandwidth_MB_s"))


def test_a_map_that_cannot_be_written_is_an_error(program, tmp_path):
    (tmp_path / "pairs.csv").mkdir()
    options = [*MPIRUN, "-np", "2", "--wdir", tmp_path, program, "0.01"]
    result = subprocess.run(options, capture_output=True, text=True)
    assert result.returncode != 0 and "pingpong: error: pairs.csv: Is a directory" in result.stderr


def test_singletons_are_told():
    (problem,) = problems(PingPong, "pingpong/failing", ranks=2)
    assert "ran with 1 ranks instead of 2" in problem


@pytest.mark.parametrize("options", [("0",), ("-1",), ("one",), ("1", "-1"), ("1", "few")])
def test_a_wrong_option_is_one_line(program, options):
    result = subprocess.run([*MPIRUN, "-np", "1", program, *options], capture_output=True, text=True)
    assert result.returncode != 0
    assert result.stderr.startswith(f"pingpong: error: '{options[0]}'")
