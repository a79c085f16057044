"""pw.x's output."""

import pytest
from containercheck.node.outputs.reading import read_answer
from espresso import QuantumEspresso
from saved import OUTPUTS, figures, problems


def test_times_and_energy_are_read():
    assert figures(QuantumEspresso, "espresso/passing", ranks=2) == {"PWSCF": 1.36, "fftw": 0.36}
    energy = read_answer(QuantumEspresso.answers[0], OUTPUTS / "espresso/passing")
    assert energy == pytest.approx(-12.42610614, abs=1e-6)


def test_without_convergence_there_is_no_energy():
    (problem,) = problems(QuantumEspresso, "espresso/failing", ranks=2)
    assert "answer total_energy not found" in problem
    assert read_answer(QuantumEspresso.answers[1], OUTPUTS / "espresso/failing") == "NOT"
