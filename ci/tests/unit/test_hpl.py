"""HPL's output, and its input."""

import pytest
from containercheck.site.layout import Layout
from hpl import HPL
from saved import metrics, problems


def test_the_median_of_the_solutions_counts():
    assert metrics(HPL, "hpl/passing", ranks=2) == pytest.approx({"HPL": 20.245})


def test_a_residual_above_the_threshold_is_a_wrong_answer():
    (problem,) = problems(HPL, "hpl/failing", ranks=2)
    assert "check is 'FAILED', must be 'PASSED'" in problem


def test_singletons_are_told_by_their_grid():
    (problem,) = problems(HPL, "hpl/singletons", ranks=2)
    assert "ran with 1 ranks instead of 2" in problem


@pytest.mark.parametrize(("ranks", "expected"), [(1, (1, 1)), (2, (2, 1)), (12, (4, 3)), (48, (8, 6)), (7, (7, 1))])
def test_the_grid_is_as_near_to_a_square_as_can_be(ranks, expected):
    assert Layout(1, ranks, 1).grid == expected
