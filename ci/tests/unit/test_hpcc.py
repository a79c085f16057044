"""HPCC's output."""

import pytest
from hpcc import HPCC
from saved import metrics, problems


def test_every_component_is_read():
    found = metrics(HPCC, "hpcc/passing", ranks=2)
    assert set(found) == {metric.name for metric in HPCC.metrics}
    assert found["HPL"] == pytest.approx(0.021033)
    assert found["SingleSTREAM_Triad"] == pytest.approx(37.4434)
    assert found["RandomRingLatency"] == pytest.approx(0.411766)


def test_a_residual_above_the_threshold_is_a_wrong_answer():
    """Saved from a run with a threshold that no solution can meet."""
    found = problems(HPCC, "hpcc/failing", ranks=2)
    assert any("success is '0', must be '1'" in problem for problem in found)
    assert any("HPL_check is 'FAILED', must be 'PASSED'" in problem for problem in found)


def test_missing_ranks_are_told():
    (problem,) = problems(HPCC, "hpcc/passing", ranks=4)
    assert "ran with 2 ranks instead of 4" in problem
