"""Figures and answers, read from output."""

from __future__ import annotations

import pytest
from containercheck import Answer, Figure, by_ratio
from containercheck.facts import TAKE, UnreadableError
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture
def saved(tmp_path):
    def save(text, name="out"):
        (tmp_path / name).write_text(text)
        return tmp_path

    return save


def test_figure_takes_the_match_it_is_told_to(saved):
    directory = saved("rate 1.0\nrate 3.0\nrate 8.0\n")
    expected = {"first": 1, "last": 8, "median": 3, "mean": 4, "min": 1, "max": 8, "sum": 12, "product": 24, "span": 7}
    assert {take: Figure("rate", r"^rate (\S+)", "x", take=take).read(directory) for take in TAKE} == expected


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_figure_comes_back_as_it_was_printed(tmp_path_factory, value):
    directory = tmp_path_factory.mktemp("run")
    (directory / "out").write_text(f"rate {value!r}\n")
    assert Figure("rate", r"^rate (\S+)", "x").read(directory) == value


@pytest.mark.parametrize("text", ["", "rate\n", "rate fast\n", "rate nan\n", "rate inf\n", "rate 0\n", "rate -1\n"])
def test_figure_that_is_no_positive_number_is_unreadable(saved, text):
    with pytest.raises(UnreadableError, match="figure rate"):
        Figure("rate", r"^rate (\S+)", "x").read(saved(text))


def test_figure_of_a_file_that_was_not_written_is_unreadable(tmp_path):
    with pytest.raises(UnreadableError, match=r"cannot read .*result\.txt"):
        Figure("rate", r"^rate (\S+)", "x", file="result.txt").read(tmp_path)


def test_figure_that_the_program_says_does_not_apply_is_none(saved):
    figure = Figure("rate", r"^rate (\S+)", "x", absent=r"^pairs 0$")
    assert figure.read(saved("pairs 0\n")) is None


@pytest.mark.parametrize(
    "facts",
    [
        {"name": "two words"},
        {"pattern": "no group"},
        {"pattern": "(two) (groups)"},
        {"take": "mode"},
        {"better": "bigger"},
        {"compare": "quotient"},
    ],
)
def test_figure_with_a_slip_in_it_is_refused_at_once(facts):
    with pytest.raises(ValueError, match=r"."):
        Figure(**{"name": "rate", "pattern": r"(\S+)", "unit": "x", **facts})


def test_figures_by_ratio_leave_the_tolerance_to_the_check():
    short = Figure("rate", r"rate (\S+)", "s", better="lower", compare="difference", tolerance=0.5)
    assert by_ratio([short]) == [Figure("rate", r"rate (\S+)", "s", better="lower")]


def test_answer_must_equal_its_text_everywhere(saved):
    answer = Answer("check", r"^test (\w+)", equals="PASSED")
    good = answer.read(saved("test PASSED\ntest PASSED\n"))
    assert answer.problem(good) is None
    bad = answer.read(saved("test FAILED\ntest PASSED\n"))
    assert answer.problem(bad) == "check is 'FAILED', must be 'PASSED'"


def test_answer_above_its_bound_is_a_problem(saved):
    answer = Answer("residual", r"^residual (\S+)", at_most=16.0)
    assert answer.problem(answer.read(saved("residual 0.5\n"))) is None
    assert answer.problem(answer.read(saved("residual 17\n"))) == "residual is 17, must be at most 16"


def test_answers_agree_exactly_by_default():
    answer = Answer("sum", r"(\d+)")
    assert answer.disagreement(1.0, 1.0) is None
    assert "differs by 1" in answer.disagreement(1.0, 2.0)


@given(st.floats(-1e6, 1e6), st.floats(0, 0.5), st.floats(0, 10), st.floats(-2, 2))
def test_answers_agree_within_both_tolerances(value, rtol, atol, part):
    allowed = atol + rtol * abs(value)
    other = value + part * allowed
    answer = Answer("energy", r"(\S+)", rtol=rtol, atol=atol)
    if abs(part) < 0.999:
        assert answer.disagreement(value, other) is None or abs(other - value) > allowed
    if abs(part) > 1.001 and abs(other - value) > allowed:
        assert answer.disagreement(value, other) is not None


def test_bounded_answers_need_not_agree():
    assert Answer("residual", r"(\S+)", at_most=16.0).disagreement(0.1, 0.2) is None


@pytest.mark.parametrize(("printed", "seconds"), [("5.6s", 5.6), ("3m 4.05s", 184.05), ("1h 2m", 3720)])
def test_a_long_time_is_read_in_seconds(saved, printed, seconds):
    directory = saved(f"PWSCF : 1.00s CPU {printed} WALL\n")
    assert Figure("PWSCF", r"CPU +(\S.*?) WALL", "s").read(directory) == pytest.approx(seconds)
