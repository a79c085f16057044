"""MueLu: the output of the project's own program."""

from containercheck.job.outputs.reading import read_answer
from muelu import MueLu
from saved import OUTPUTS, build, changed, metrics, problems


def test_metrics_and_answers_are_read():
    """Saved from two ranks and a cube of 80 points."""
    assert set(metrics(MueLu, "muelu/passing", ranks=2)) == {"seconds_setup", "seconds_solve"}
    found = {answer.name: read_answer(answer, OUTPUTS / "muelu" / "passing") for answer in MueLu.answers}
    assert found["unknowns"] == 80**3
    # Multigrid: without it there would be some 200.
    assert 5 <= found["iterations"] <= 60
    assert found["residual"] < 1e-8
    assert found["convergence"] == "reached"


def test_it_says_which_trilinos_it_is():
    assert build(MueLu, "muelu/passing")["version"].startswith("1")


def test_a_solution_that_was_not_reached_is_a_wrong_answer(tmp_path):
    """Made from the saved one: what the program prints when the iterations are used up."""
    changed("muelu/passing", tmp_path, "convergence reached", "convergence failed")
    answer = next(answer for answer in MueLu.answers if answer.name == "convergence")
    assert read_answer(answer, tmp_path) == "failed" != answer.equals


def test_singletons_are_told():
    """Saved from the program alone, without a launcher."""
    (problem,) = problems(MueLu, "muelu/failing", ranks=2)
    assert "ran with 1 ranks instead of 2" in problem
