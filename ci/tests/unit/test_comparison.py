"""From rounds to verdicts, rows and lines."""

from __future__ import annotations

import math
import statistics
import types
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import facts_of
from containercheck import Answer, Metric
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts
from containercheck.job.stats.pairs import Pairs, Prior
from containercheck.job.verdict import builds as builds_of
from containercheck.job.verdict.comparison import (
    CONFIRMED,
    REFUTED,
    UNCONFIRMED,
    Comparison,
    Confirmed,
    JobOutcome,
    failure_lines,
)
from containercheck.results.row import Row
from containercheck.sides.sides import Program, Side

PROGRAM = Program("true")
BARE = Side("baseline", "bare", PROGRAM)
GENERIC = Side("subject", "generic", PROGRAM, compared_with="baseline")
RATE = Metric("rate", r"(\S+)", "x")


def outcome(
    rounds, metrics=(RATE,), sides=(BARE, GENERIC), expected=None, seconds=0.0, builds=None, confirmed=None, **facts
):
    """Judge rounds: of each round, side, metric and value."""
    told = [{"name": side.name, "label": side.label, "compared_with": side.compared_with} for side in sides]
    evaluation = Evaluation(Facts(facts_of(metrics, sides=told, expected=expected, earlier=rounds, **facts)), Path())
    evaluation.seconds = seconds
    return JobOutcome(metrics, sides, evaluation, expected or {}, builds or {}, confirmed or {})


def judged(baseline, subject, metric=RATE, **facts):
    """Judge the values of any metric, a round each; return the comparison and the outcome."""
    pairs = zip(baseline, subject)
    found = outcome(
        [{"baseline": {metric.name: bare}, "subject": {metric.name: other}} for bare, other in pairs],
        (metric,),
        **facts,
    )
    (comparison,) = found.comparisons
    return comparison, found


def rows_of(found):
    """Return the rows as reports read them."""
    return [Row.from_json(row) for row in found.rows()]


def test_an_expected_overhead_passes_and_its_disappearance_fails():
    expected = {"rate": (80.0, 99.0)}
    comparison, _ = judged([100, 101, 99] * 3, [10, 10.1, 9.9] * 3, expected=expected)
    assert (comparison.verdict, comparison.expected) == ("pass", True)
    gone, found = judged([100, 101, 99] * 4, [100, 101, 99] * 4, expected=expected)
    assert gone.verdict == "fail"
    (line,) = found.failures
    assert "(expected: 80 to 99 %; above it in 0 of 12 rounds)" in line
    assert line.endswith(": better than its reference, which needs a new value")


@pytest.mark.parametrize(
    ("confirmed", "line"),
    [
        (Confirmed(CONFIRMED, 3, 9, 9), "above it in 9 of 9 rounds, confirmed in 3 more)"),
        (Confirmed(UNCONFIRMED, 1, 2, 2), ", not confirmed: the time was used up after 1 more)"),
        (Confirmed(UNCONFIRMED, 0, 2, 2), "above it in 2 of 2 rounds, not confirmed: the time was used up)"),
        (Confirmed(REFUTED, 3, 9, 9), ", and not in 3 more): slow once, not again; run it again, on a quieter machine"),
    ],
)
def test_what_fresh_rounds_said_of_a_failure_is_in_its_line_and_its_row(confirmed, line):
    _, found = judged([100] * 9, [80, 81, 80, 79, 80, 81, 80, 79, 80], confirmed={("subject", "rate"): confirmed})
    is_refuted = confirmed.result == REFUTED
    (told,) = found.doubts if is_refuted else found.failures
    assert told.endswith(line)
    (row,) = rows_of(found)
    assert row.verdict == ("inconclusive" if is_refuted else "fail")
    is_open = ("slower", "slow once, not again") if is_refuted else ("", "")
    assert (row.open_kind, row.answer, row.rounds_needed) == (*is_open, None)


def made(expected=False, metric=RATE, seconds=1.0, **facts):
    """Return a comparison with a verdict that is given, for what is said of it."""
    facts = {"lowest": -math.inf, "highest": 5.0, "prior": None, "is_contradicted": False, **facts}
    facts = {"gain_keeps_open": False, "assumed_spread": None, "may_fail": facts.get("open_kind") == "slower", **facts}
    facts = {"rounds_needed": None, "bound": None, "interval": (-math.inf, math.inf), "open_kind": None, **facts}
    pairs = types.SimpleNamespace(verdict="inconclusive" if facts["open_kind"] else "fail", **facts)
    return Comparison(metric, "bare", "generic", [100.0], [100.0], pairs, expected, seconds, False)


NOISY = {"estimate": 1.7, "interval": (-9.0, 12.0), "above_tolerance": 3, "rounds": 8, "spread": 15.0}
WIDE = {"open_kind": "noisy", "bound": -0.4, "lowest": -20.0, "expected": True, "seconds": 30.0}
OLD = {"open_kind": "faster", "expected": True, "lowest": 80.0, "highest": 99.0, "rounds_needed": 9}
MB = Metric("memory", r"(\S+)", "MB", better="lower", compare="difference", tolerance=5.0)
CLOSE = {"open_kind": "close", "metric": MB, "bound": 83.4, "rounds_needed": 9}


@pytest.mark.parametrize(
    ("facts", "accepted", "text"),
    [
        (
            WIDE,
            "expected: -20 to 5 %",
            "at least 0.4 % better; 4 minutes here is too short to show -20 to 5 %; 40 rounds",
        ),
        (CLOSE, "tolerance 5 MB", "close to the tolerance, at most 83 MB worse; about 1 more round would decide"),
        (
            {"open_kind": "slower", "rounds_needed": 10},
            "tolerance 5 %",
            "too slow, not yet certain; about 2 more rounds",
        ),
        ({"open_kind": "faster"}, "tolerance 5 %", "does it compute the same? If it does, add a reference"),
        (OLD, "expected: 80 to 99 %", "better than its reference, not yet certain; about 1 more round would decide"),
    ],
    ids=["noisy", "close", "too slow", "faster", "reference is old"],
)
def test_an_open_verdict_says_what_is_known_and_what_would_close_it(facts, accepted, text):
    comparison = made(**NOISY, **facts)
    what = "memory is 1.7 MB (-9 to 12 MB)" if "metric" in facts else "rate is 1.7 % (-9 to 12 %)"
    said = f"{what} worse than bare in this session ({accepted}; above it in 3 of 8 rounds): {text}"
    assert comparison.doubt.startswith(said)


def slow(name, size, rounds=4, **facts):
    """Return a metric that failed, or is open (``open_kind``)."""
    metric = Metric(name, r"(\S+)", "x")
    facts = {"interval": (size - 4, size + 4), "above_tolerance": rounds, "rounds": rounds, "spread": 9.0, **facts}
    return made(metric=metric, estimate=size, **facts)


def test_a_failure_names_all_metrics_that_failed_in_one_line_and_those_that_may_have_in_others():
    failed = slow("HPL", 76.04), slow("DGEMM", 75.0), slow("STREAM", 74.2)
    uncertain = [slow(name, size, open_kind="slower", rounds_needed=6) for name, size in (("FFT", 20.0), ("DB", 12.3))]
    passed = made(estimate=0.1, above_tolerance=0, rounds=4, spread=1.0)
    passed.pairs.verdict = "pass"
    first = (
        "3 metrics are worse than bare in this session: HPL by 76 % (72 to 80 %), DGEMM by 75 % (71 to 79 %), STREAM "
        "by 74.2 % (70 to 78 %) (tolerance 5 %; above it in 4 of 4 rounds)"
    )
    others = [each.doubt for each in uncertain]
    assert others[0].startswith("FFT is 20 % (16 to 24 %) worse ") and ": too slow, not yet certain; " in others[0]
    assert failure_lines([*failed, passed]) == [first]
    assert failure_lines([uncertain[0], *failed, passed]) == [first, others[0]]
    assert failure_lines([*failed, *uncertain]) == [first, *others]
    assert failure_lines([failed[0], uncertain[0]]) == [failed[0].failure, others[0]]
    assert failure_lines([*uncertain, passed]) == []
    # What is accepted, where that is not the same.
    assert failure_lines([failed[0], slow("latency", 50.0, highest=10.0, rounds=3)]) == [
        "2 metrics are worse than bare in this session: HPL by 76 % (72 to 80 %) (tolerance 5 %; above it in 4 of 4 "
        "rounds), latency by 50 % (46 to 54 %) (tolerance 10 %; above it in 3 of 3 rounds)"
    ]
    # Each that is better than its reference needs a new one.
    facts = {"expected": True, "lowest": 80.0, "highest": 99.0, "above_tolerance": 0}
    better = [slow(name, 0.5, **facts) for name in ("latency", "bandwidth")]
    open_ones = [slow(name, 60.0, open_kind="faster", may_fail=True, **facts) for name in "ab"]
    assert failure_lines([*better, *open_ones]) == [
        *(comparison.failure for comparison in better),
        *(comparison.doubt for comparison in open_ones),
    ]


@pytest.mark.parametrize(
    ("rounds", "source", "remedy"),
    [
        (2, "default", "too few rounds to tell how many more it takes: 2"),
        (2, "12 nights", "about 17 more rounds would decide"),
        (6, "default", "about 13 more rounds would decide"),
    ],
)
def test_no_number_of_rounds_is_forecast_from_few_with_an_unknown_spread(rounds, source, remedy):
    facts = {**NOISY, "open_kind": "noisy", "rounds": rounds, "rounds_needed": 19, "prior": Prior(20.0, source)}
    assert made(**facts).remedy == remedy


def test_a_gain_that_may_be_a_question_is_not_called_close_to_the_tolerance():
    pairs = Pairs(RATE.better, RATE.compare, -math.inf, 5.0, 1)
    comparison = Comparison(RATE, "bare", "generic", [], [], pairs, False, 1.0, False)
    for subject in (100, 100, 100, 100, 200, 200):
        comparison.baseline.append(100.0)
        comparison.subject.append(float(subject))
        comparison.pairs.add(100.0, subject)
    assert comparison.pairs.interval[1] < 5
    assert comparison.answer == "41.4 % better than bare, not yet certain"
    assert comparison.remedy == "about 6 more rounds would decide"


def test_the_columns_do_not_contradict_the_overhead():
    """The medians of the sides say better where the pairs say worse."""
    rounds = [(100, 97), (50, 48), (99, 96), (70, 68), (105, 101), (49, 52)]
    comparison, found = judged(*zip(*rounds))
    baseline, subject = (statistics.median(values) for values in zip(*rounds))
    (row,) = rows_of(found)
    assert row.overhead > 0
    assert row.subject < row.baseline
    assert row.baseline == baseline
    assert row.subject == pytest.approx(baseline * (1 - row.overhead / 100))
    later = Metric("start", r"(\S+)", "s", better="lower", compare="difference", tolerance=1.0)
    comparison, _ = judged([1.0, 2.0, 4.0], [1.5, 2.4, 4.6], later)
    assert comparison.centre == pytest.approx(2.0 + comparison.pairs.estimate)


def test_different_builds_are_named_in_every_line_and_change_no_verdict():
    builds = {
        "baseline": {"version": "2024.1", "instruction set": "AVX_512"},
        "subject": {"version": "2022.5", "instruction set": "SSE4.1"},
    }
    said = "not the same build: 2024.1 AVX_512 against 2022.5 SSE4.1"
    comparison, found = judged([100] * 7, [99] * 7, builds=builds)
    assert (comparison.verdict, found.doubts) == ("pass", [f"generic: {said}"])
    assert rows_of(found)[0].difference == said
    comparison, found = judged([100] * 10, [80, 81] * 5, builds=builds)
    assert comparison.verdict == "fail"
    assert found.failures[0].endswith(f"(tolerance 5 %; above it in 10 of 10 rounds; {said})")
    _, found = judged([100] * 4, [99, 101, 99, 100], builds=builds)
    (line,) = found.doubts
    assert f"; {said}): 1 s here is too short to show 5 %; " in line
    _, found = judged([100] * 7, [99] * 7, builds={**builds, "subject": builds["baseline"]})
    assert (found.doubts, bool(rows_of(found)[0].difference)) == ([], False)


def test_what_only_one_of_two_builds_tells_is_not_compared():
    told = {"version": "2022.5", "instruction set": "SSE4.1"}
    assert builds_of.difference(told, {"version": "2022.5"}) == builds_of.difference(told, {}) == ""
    assert builds_of.difference(told, {"version": "7"}) == "not the same build: 2022.5 against 7"


def test_one_round_tells_nothing_of_the_spread():
    comparison, found = judged([100], [80])
    assert (comparison.verdict, comparison.interval) == ("inconclusive", None)
    assert found.doubts[0].endswith(": 1 s here is too short to show 5 %; one round does not show the spread")
    (row,) = rows_of(found)
    assert row.baseline_error is row.subject_error is row.baseline_spread is row.subject_spread is None
    assert row.low is row.high is row.interval is row.spread is None


def test_a_row_has_the_errors_spreads_and_seconds_of_its_rounds():
    comparison, found = judged(
        [100, 102, 101, 100, 102, 101, 100, 102, 101], [80, 82, 81, 82, 80, 81, 80, 82, 81], seconds=4.004
    )
    (row,) = rows_of(found)
    assert (row.baseline, row.baseline_label, row.subject_label, row.accepted) == (101, "bare", "generic", (None, 5.0))
    assert (row.baseline_error, row.subject_error) == pytest.approx((0.2887, 0.2887), rel=1e-3)
    assert (row.baseline_spread, row.subject_spread) == pytest.approx((0.866, 0.866), rel=1e-3)
    low, high = comparison.pairs.interval
    assert (row.low, row.high, row.interval, row.spread) == (low, high, (high - low) / 2, comparison.pairs.spread)
    assert (row.rounds, row.round_seconds) == (9, 4.0)
    # What an open one needs.
    assert rows_of(judged([100] * 4, [99, 101, 99, 100])[1])[0].rounds_needed == 6


@pytest.mark.parametrize(
    ("answers", "compared"),
    # The last one is of one side only: there is nothing to compare it with.
    [([], False), ([Answer("sum", r"(\d+)")], True), ([Answer("sum", r"(\d+)", side="subject")], False)],
)
def test_a_row_says_that_answers_are_not_compared(answers, compared):
    (row,) = rows_of(judged([100] * 7, [99] * 7, answers=answers)[1])
    assert row.answers_compared is compared


def test_where_processors_are_emulated_nothing_is_judged_in_one_line():
    slower = ([100] * 9, [80, 81, 80, 79, 80, 81, 80, 79, 80])
    assert judged(*slower)[1].failures
    comparison, found = judged(*slower, emulated=True)
    assert (comparison.verdict, found.failures) == ("emulated", [])
    assert found.doubts == ["emulated: overheads are reported, not judged"]
    (row,) = rows_of(found)
    assert (row.verdict, row.emulated, row.overhead) == ("emulated", True, pytest.approx(20, abs=0.5))
    # Of a side by itself, too, reports have to know.
    (row,) = rows_of(outcome([{"baseline": {"rate": 1.0}}], sides=[BARE], emulated=True))
    assert row.emulated


def test_a_side_by_itself_has_a_row_without_comparison():
    rounds = [{"baseline": {"rate": value}} for value in (1.0, 2.0, 4.0)]
    (row,) = rows_of(outcome(rounds, [replace(RATE, scaling="weak")], sides=[BARE]))
    assert (row.baseline, row.baseline_label, row.scaling, row.is_comparison) == (2.0, "bare", "weak", False)
    assert (row.baseline_error, row.baseline_spread) == pytest.approx((math.sqrt(7 / 3 / 3), math.sqrt(7 / 3)))


def names(found):
    return {name: value for name, value, _ in found.performance()}


def test_the_log_has_the_subject_by_its_own_name_and_the_baseline_beside_it():
    found = names(judged([100] * 9, [80] * 9)[1])
    assert list(found) == ["rate", "rate_baseline", "rate_overhead", "rate_interval"]
    assert [*found.values()][:3] == pytest.approx([80, 100, 20])
    # Too few rounds for an interval.
    assert "rate_interval" not in names(judged([100, 100], [80, 80])[1])
    assert names(outcome([{"baseline": {"rate": 7.0}}], sides=[BARE])) == {"rate": 7.0}


def test_several_subjects_are_each_compared_with_the_side_that_they_name():
    old = Side("old", "apptainer 1.3.6", PROGRAM, compared_with="baseline")
    new = Side("new", "apptainer 1.4.5", PROGRAM, compared_with="old")
    rounds = [{"baseline": {"rate": 100.0}, "old": {"rate": 50.0}, "new": {"rate": 50.0}}] * 11
    found = outcome(rounds, sides=[BARE, old, new])
    assert [(row.baseline_label, row.subject_label, row.verdict) for row in rows_of(found)] == [
        ("bare", "apptainer 1.3.6", "fail"),
        ("apptainer 1.3.6", "apptainer 1.4.5", "pass"),
    ]
    assert list(names(found))[::4] == ["rate_apptainer_1_3_6", "rate_apptainer_1_4_5"]
