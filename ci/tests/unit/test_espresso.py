"""pw.x's output."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from containercheck.job.outputs.reading import read_answer
from espresso import QuantumEspresso
from espresso_dlb import QuantumEspressoDLB
from saved import OUTPUTS, metrics, problems


def test_times_and_energy_are_read():
    assert metrics(QuantumEspresso, "espresso/passing", ranks=2) == {"PWSCF": 1.36, "fftw": 0.36}
    energy = read_answer(QuantumEspresso.answers[0], OUTPUTS / "espresso/passing")
    assert energy == pytest.approx(-12.42610614, abs=1e-6)


def test_without_convergence_there_is_no_energy():
    (problem,) = problems(QuantumEspresso, "espresso/failing", ranks=2)
    assert "answer total_energy not found" in problem
    assert read_answer(QuantumEspresso.answers[1], OUTPUTS / "espresso/failing") == "NOT"


def test_the_seconds_of_a_run_with_dlb_and_talps_report_are_read():
    """Lines of a program that runs with DLB begin with its name."""
    seconds = QuantumEspressoDLB.time_of(QuantumEspressoDLB, "program1")
    # Of all sides, as the one that was saved is TALP's.
    judged = [replace(metric, sides=()) for metric in [*QuantumEspressoDLB.metrics, seconds]]
    facts = {"metrics": judged, "answers": QuantumEspressoDLB.answers}
    check = SimpleNamespace(**facts, rank_count=QuantumEspressoDLB.rank_count)
    assert metrics(check, "espresso/dlb", ranks=2) == {
        "seconds_whole": 4.779,
        "parallel_efficiency": 0.86,
        "load_balance": 0.95,
        "seconds_program1": 4.22,
    }
    energy = read_answer(QuantumEspressoDLB.answers[0], OUTPUTS / "espresso/dlb")
    assert energy == pytest.approx(-12.42610614, abs=1e-6)
