"""Amber's pmemd, which nobody here has: a made ``mdout``, line by line in the form that pmemd of Amber 16 writes."""

from __future__ import annotations

import types

import pytest
from amber import MDOUT, Amber
from amber_output import made  # noqa: F401
from containercheck.job.outputs.reading import UnreadableError, read_answer
from saved import build, metrics, problems


@pytest.fixture
def output(tmp_path):
    """Write the output of a run; return where."""

    def write(text):
        (tmp_path / "out").touch()
        (tmp_path / MDOUT).write_text(text)
        return str(tmp_path)

    return write


def test_rate_and_times_are_read(output):
    """The rate of all steps: that of the last ones stands before it."""
    assert metrics(Amber, output(made()), ranks=48) == {"rate": 3.4, "total": 257, "setup": 3, "exchange": 28.44}


def test_a_pmemd_that_says_nothing_of_what_its_ranks_exchange_has_the_other_metrics(output):
    text = made().replace("|     DataDistrib      28.44   11.19\n", "")
    assert metrics(Amber, output(text), ranks=48) == {"rate": 3.4, "total": 257, "setup": 3}


def test_energies_are_of_the_first_step_and_of_all_on_average(output, tmp_path):
    output(made())
    assert [read_answer(answer, tmp_path) for answer in Amber.answers] == [5000, -12301.55, -12276.8499]


def test_it_says_its_version(output):
    assert build(Amber, output(made())) == {"version": "16"}


@pytest.mark.parametrize("told", ["nodes", "MPI task"])
def test_fewer_ranks_are_noticed(output, told):
    """As older ones say it, and newer ones."""
    (problem,) = problems(Amber, output(made(ranks=1).replace("MPI task\n", f"{told}\n")), ranks=48)
    assert "ran with 1 ranks instead of 48" in problem


@pytest.mark.parametrize(("energy", "said"), [("NaN", "is not finite"), ("*" * 14, "could not convert")])
def test_a_system_that_explodes_has_no_energy(output, energy, said):
    (problem,) = problems(Amber, output(made(average=energy)), ranks=48)
    assert "answer potential_energy_" in problem
    assert said in problem


def test_a_run_that_ended_early_has_no_rate(output):
    (problem,) = problems(Amber, output(made().partition("      A V E R A G E S")[0]), ranks=48)
    assert "metric rate not found" in problem


def answers_of(threads):
    """Return the answers of a case with so many threads, as ReFrame makes it."""
    case = types.SimpleNamespace(openmp=threads, answers=list(Amber.answers))
    Amber.choose_threads(case)
    return case.answers


def test_threads_are_confirmed_where_there_is_more_than_one(output, tmp_path):
    assert [answer.name for answer in answers_of(1)] == [answer.name for answer in Amber.answers]
    confirmed = answers_of(6)[-1]
    output(made(ranks=8, threads=6))
    assert read_answer(confirmed, tmp_path) == "6"
    output(made(ranks=8))
    with pytest.raises(UnreadableError, match="answer threads not found"):
        read_answer(confirmed, tmp_path)
