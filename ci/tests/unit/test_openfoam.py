"""OpenFOAM's output; what snappyHexMesh says of its iterations, and most time steps, were cut out of it."""

import pytest
from containercheck.job.outputs.reading import read_answer
from openfoam import OpenFOAM
from saved import OUTPUTS, metrics, problems


def test_phases_and_coefficients_are_read():
    expected = {
        "seconds_mesh": 6.655,
        "seconds_decompose": 0.156,
        "seconds_solve": 1.163,
        "solver": pytest.approx(0.62),
    }
    assert metrics(OpenFOAM, "openfoam/passing", ranks=2) == expected
    answers = {answer.name: read_answer(answer, OUTPUTS / "openfoam/passing") for answer in OpenFOAM.answers}
    assert answers["cells"] == 7990
    assert answers["iterations"] == 50
    assert answers["drag_coefficient"] == pytest.approx(0.512896)


def test_a_flow_that_diverges_is_a_wrong_answer():
    (problem,) = problems(OpenFOAM, "openfoam/failing", ranks=2)
    assert "continuity_error is 0.532607, must be at most 0.1" in problem


def test_the_ranks_are_those_of_the_solver():
    (problem,) = problems(OpenFOAM, "openfoam/passing", ranks=4)
    assert "ran with 2 ranks instead of 4" in problem
