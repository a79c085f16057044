"""pw.x's output."""

import pytest
from espresso import QuantumEspresso
from saved import OUTPUTS, figures, read


def test_times_and_energy_are_read():
    assert figures(QuantumEspresso, "espresso/passing", ranks=2) == {"PWSCF": 1.36, "fftw": 0.36}
    energy = QuantumEspresso.answers[0].read(OUTPUTS / "espresso/passing")
    assert energy == pytest.approx(-12.42610614, abs=1e-6)


def test_without_convergence_there_is_no_energy():
    (problem,) = read(QuantumEspresso, "espresso/failing", ranks=2).problems
    assert "answer total_energy not found" in problem
    assert QuantumEspresso.answers[1].read(OUTPUTS / "espresso/failing") == "NOT"
