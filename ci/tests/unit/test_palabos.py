"""Palabos: the output of the project's own program."""

import pytest
from containercheck.job.outputs.reading import read_answer
from palabos import Palabos
from saved import OUTPUTS, build, metrics, problems

PASSING = OUTPUTS / "palabos" / "passing"


def test_the_metrics_of_a_run():
    """Saved from two ranks and a channel of 128 x 64 x 64 sites."""
    found = metrics(Palabos, "palabos/passing", ranks=2)
    assert set(found) == {"seconds", "MLUPS"}
    # The rate is that of the steps, which take most of the seconds.
    assert 0.5 * found["seconds"] < 60 * 2 * 64**3 / found["MLUPS"] / 1e6 < found["seconds"]


def test_the_answers_of_a_run():
    found = {answer.name: read_answer(answer, PASSING) for answer in Palabos.answers}
    assert (found["sites"], found["steps"]) == (2 * 64**3, 60)
    # The sphere holds the fluid back, and takes the place of 0.4 % of it.
    assert found["drag"] > 0
    assert found["mass"] / found["sites"] == pytest.approx(1, abs=0.02)
    # Of a fluid that flows at 0.05 everywhere it is half the square of that.
    assert found["energy"] == pytest.approx(0.5 * 0.05**2, rel=0.1)


def test_it_says_which_compiler_it_was_built_by():
    assert build(Palabos, "palabos/passing")["version"]


def test_singletons_are_told():
    """Saved from the program alone, without a launcher."""
    (problem,) = problems(Palabos, "palabos/failing", ranks=2)
    assert "ran with 1 ranks instead of 2" in problem
