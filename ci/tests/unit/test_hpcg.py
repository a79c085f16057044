"""HPCG's output: what it writes into its file, which the check prints."""

from argparse import Namespace

import pytest
from containercheck.job.outputs.reading import read_answer, read_metric
from hpcg import HPCG
from saved import OUTPUTS, build, changed, metrics, problems


def test_the_metrics_of_a_run():
    found = metrics(HPCG, "hpcg/passing", ranks=2)
    assert set(found) == {"HPCG", "bandwidth"}
    # Its own arithmetic: some 7.6 bytes are moved for each operation.
    assert found["bandwidth"] / found["HPCG"] == pytest.approx(7.65, rel=0.05)


def test_the_answers_of_a_run():
    found = {answer.name: read_answer(answer, OUTPUTS / "hpcg" / "passing") for answer in HPCG.answers}
    assert (found["result"], found["unknowns"]) == ("VALID", 2 * 32**3)
    assert 0 < found["residual"] < 1e-9


def test_it_says_its_version():
    assert build(HPCG, "hpcg/passing") == {"version": "3.1"}


def test_singletons_are_told():
    (problem,) = problems(HPCG, "hpcg/singletons", ranks=2)
    assert "ran with 1 ranks instead of 2" in problem


def test_a_result_that_is_not_valid_is_no_metric(tmp_path):
    """Made from a passing one, in the words of HPCG's source, ReportResults.cpp."""
    rating = "HPCG result is VALID with a GFLOP/s rating of="
    found = problems(HPCG, changed("hpcg/passing", tmp_path, rating, "HPCG result is=INVALID. "), ranks=2)
    assert any(problem.startswith("round 1, baseline: metric HPCG not found") for problem in found), found


def test_the_problem_of_the_document_has_the_rates_of_its_kernels():
    check = Namespace(ranks="all", metrics=[])
    HPCG.add_kernels(check)
    found = {metric.name: read_metric(metric, OUTPUTS / "hpcg" / "passing") for metric in check.metrics}
    assert found == {"DDOT": 0.831759, "WAXPBY": 3.56196, "SpMV": 1.44062, "MG": 1.28408}
    check = Namespace(ranks="plain", metrics=[])
    HPCG.add_kernels(check)
    assert check.metrics == []
