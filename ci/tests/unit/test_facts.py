"""Metrics and answers, read from output."""

from __future__ import annotations

import pytest
from containercheck import Answer, Metric, by_ratio
from containercheck.application import declare
from containercheck.job.outputs.reading import REDUCE, UnreadableError, disagreement, problem, read_answer, read_metric
from hypothesis import given
from hypothesis import strategies as st

RATE = Metric("rate", r"^rate (\S+)", "x")


@pytest.fixture
def saved(tmp_path):
    def save(text, name="out"):
        (tmp_path / name).write_text(text)
        return tmp_path

    return save


def test_metric_takes_the_match_it_is_told_to(saved):
    directory = saved("rate 1.0\nrate 3.0\nrate 8.0\n")
    expected = {"first": 1, "last": 8, "median": 3, "mean": 4, "min": 1, "max": 8, "sum": 12, "product": 24, "span": 7}
    assert {
        take: read_metric(Metric("rate", r"^rate (\S+)", "x", reduce=take), directory) for take in REDUCE
    } == expected


@pytest.mark.parametrize("text", ["", "rate\n", "rate fast\n", "rate nan\n", "rate inf\n", "rate 0\n", "rate -1\n"])
def test_metric_that_is_no_positive_number_is_unreadable(saved, text):
    with pytest.raises(UnreadableError, match="metric rate"):
        read_metric(RATE, saved(text))
    with pytest.raises(UnreadableError, match=r"cannot read .*result\.txt"):
        read_metric(Metric("rate", r"^rate (\S+)", "x", file="result.txt"), saved(text))


def test_metric_that_the_program_says_does_not_apply_is_none(saved):
    metric = Metric("rate", r"^rate (\S+)", "x", not_applicable_if=r"^pairs 0$")
    assert read_metric(metric, saved("pairs 0\n")) is None


@pytest.mark.parametrize(
    "facts",
    [
        {"name": "two words"},
        {"pattern": "no group"},
        {"pattern": "(two) (groups)"},
        {"reduce": "mode"},
        {"better": "bigger"},
        {"compare": "quotient"},
        {"scaling": "linear"},
        # The check's own tolerance is in percent.
        {"compare": "difference"},
        {"factor": float("nan")},
        {"factor": -1},
        {"parts": 2},
        {"of_peak": True},
    ],
)
def test_what_is_declared_with_a_slip_in_it_is_refused_at_once(facts):
    with pytest.raises(ValueError, match=r"."):
        Metric(**{"name": "rate", "pattern": r"(\S+)", "unit": "x", **facts})
    if {*facts} <= {"name", "pattern", "reduce"}:
        with pytest.raises(ValueError, match=r"."):
            Answer(**{"name": "sum", "pattern": r"(\d+)", **facts})


@pytest.mark.parametrize("facts", [{"equals": "PASSED"}, {"equals": ""}, {"words": True}])
def test_an_answer_that_is_a_text_has_no_match_to_take(facts):
    with pytest.raises(ValueError, match=r"answer check: .* leave out reduce"):
        Answer("check", r"^test (\w+)", reduce="max", **facts)
    Answer("check", r"^test (\w+)", **facts)


def test_metrics_by_ratio_leave_the_tolerance_to_the_check():
    short = Metric("rate", r"rate (\S+)", "s", better="lower", compare="difference", tolerance=0.5)
    assert by_ratio([short]) == [Metric("rate", r"rate (\S+)", "s", better="lower")]


@pytest.mark.parametrize(
    ("facts", "good", "bad", "said"),
    [
        # Everywhere.
        ({"equals": "PASSED"}, "test PASSED\n" * 2, "test FAILED\ntest PASSED\n", "is 'FAILED', must be 'PASSED'"),
        ({"at_most": 16.0}, "test 0.5\n", "test 17\n", "is 17, must be at most 16"),
    ],
)
def test_an_answer_that_is_wrong_by_itself_is_a_problem(saved, facts, good, bad, said):
    answer = Answer("check", r"^test (\S+)", **facts)
    assert problem(answer, read_answer(answer, saved(good))) is None
    assert problem(answer, read_answer(answer, saved(bad))) == f"check {said}"


@given(st.floats(-1e6, 1e6), st.floats(0, 0.5), st.floats(0, 10), st.floats(-2, 2))
def test_answers_agree_within_both_tolerances(value, rtol, atol, part):
    allowed = atol + rtol * abs(value)
    other = value + part * allowed
    answer = Answer("energy", r"(\S+)", rtol=rtol, atol=atol)
    if abs(part) < 0.999:
        assert disagreement(answer, value, other, "bare") is None or abs(other - value) > allowed
    if abs(part) > 1.001 and abs(other - value) > allowed:
        assert disagreement(answer, value, other, "bare") is not None


def test_answers_agree_exactly_by_default_and_words_all_of_them(saved):
    assert disagreement(Answer("sum", r"(\d+)"), 1.0, 1.0, "bare") is None
    said = "sum is 2.0, bare 1.0 (differs by 1, accepted 0)"
    assert disagreement(Answer("sum", r"(\d+)"), 1.0, 2.0, "bare") == said
    answer = Answer("nearest", r"^nearest (\w+)", words=True)
    found = read_answer(answer, saved("nearest one\nnearest two\n"))
    assert disagreement(answer, "one two", found, "bare") is None
    assert disagreement(answer, "one three", found, "bare") == "nearest is 'one two', bare 'one three'"
    # Bounded ones need not agree.
    assert disagreement(Answer("residual", r"(\S+)", at_most=16.0), 0.1, 0.2, "bare") is None


@pytest.mark.parametrize(("printed", "seconds"), [("5.6s", 5.6), ("3m 4.05s", 184.05), ("1h 2m", 3720)])
def test_a_long_time_is_read_in_seconds(saved, printed, seconds):
    directory = saved(f"PWSCF : 1.00s CPU {printed} WALL\n")
    assert read_metric(Metric("PWSCF", r"CPU +(\S.*?) WALL", "s"), directory) == pytest.approx(seconds)


def test_numbers_of_several_groups_are_added_and_multiplied(tmp_path):
    (tmp_path / "out").write_text("step 1 of 2.5\nstep 2 of 1m 3s\n")
    metric = Metric("time", r"^step (\d) of (\S+(?: \S+)?)$", "ms", better="lower", reduce="max", parts=2, factor=1000)
    assert read_metric(metric, tmp_path) == 65000
    (tmp_path / "out").write_text("step 1 of nan\n")
    with pytest.raises(UnreadableError, match=r"is not finite: 1 \+ nan"):
        read_metric(metric, tmp_path)


def test_a_metric_in_percent_of_the_peak_needs_operations(tmp_path):
    (tmp_path / "out").write_text("rate 0.5\n")
    rate = Metric("HPL", r"^rate (\S+)", "TFLOPS", of_peak=True, duet=True, spread=5.0)
    (percent,) = declare.of_peak([rate, RATE], 800.0)
    assert read_metric(percent, tmp_path) == pytest.approx(62.5)
    assert (percent.name, percent.unit, percent.of_peak, percent.duet) == ("HPL_of_peak", "%", False, False)
