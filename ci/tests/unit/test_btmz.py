"""BT-MZ's output, of class W on two ranks."""

import pytest
from btmz import BTMZ, CLASSES
from containercheck.job.outputs.reading import read_answer
from saved import OUTPUTS, build, changed, metrics, problems


def test_the_metrics_of_a_run():
    found = metrics(BTMZ, "btmz/passing", ranks=2)
    assert found == {"seconds": 9.46, "rate": 1517.71, "communication": pytest.approx((41.98 + 46.70) / 2)}


def test_the_answers_of_a_run():
    found = {answer.name: read_answer(answer, OUTPUTS / "btmz" / "passing") for answer in BTMZ.answers}
    assert (found["verification"], found["threads"]) == ("SUCCESSFUL", 2)
    # Ten norms, the largest of them 55626 and 45286.
    assert found["norms"] == pytest.approx(137183.0, rel=0.2)


def test_it_says_its_version():
    assert build(BTMZ, "btmz/passing") == {"version": "3.3.1"}


def test_singletons_are_told():
    found = problems(BTMZ, "btmz/singletons", ranks=2)
    assert any("answer ranks not found" in problem for problem in found), found


def test_a_result_that_is_not_verified_is_a_failure(tmp_path):
    """Made from a passing one, in the words of NPB's common/print_results.f."""
    verified, not_verified = (f"Verification    = {word:>24}" for word in ("SUCCESSFUL", "UNSUCCESSFUL"))
    found = problems(BTMZ, changed("btmz/passing", tmp_path, verified, not_verified), ranks=2)
    assert any("verification is 'UNSUCCESSFUL'" in problem for problem in found), found


def test_classes_have_the_zones_that_the_ranks_are_given():
    assert [zones for _, _, zones in CLASSES.values()] == [4, 16, 16, 64, 256, 1024, 4096, 16384]
