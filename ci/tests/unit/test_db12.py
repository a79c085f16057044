"""DB12's output."""

from db12 import DB12
from saved import metrics, problems


def test_the_metrics_of_a_run():
    found = metrics(DB12, "db12/passing", ranks=1)
    assert found["DB12_slowest"] <= found["DB12"]


def test_a_run_without_copies_has_no_score():
    assert any("not found" in problem for problem in problems(DB12, "db12/failing", ranks=1))
