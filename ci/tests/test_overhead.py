"""The overhead, its interval and the verdict."""

from __future__ import annotations

import math

import numpy as np
import pytest
from containercheck.overhead import FAIL, INCONCLUSIVE, PASS, Overhead, overhead, student_quantile
from hypothesis import given
from hypothesis import strategies as st

figures = st.lists(st.floats(0.1, 1e6), min_size=2, max_size=12)


@pytest.mark.parametrize(
    # R: qt(c(.975, .975, .995, .9982), c(1, 4, 9, 4))
    ("probability", "degrees", "expected"),
    [(0.975, 1, 12.70620), (0.975, 4, 2.776445), (0.995, 9, 3.249836), (0.975, 1000, 1.962339)],
)
def test_quantiles_are_those_of_the_tables(probability, degrees, expected):
    assert student_quantile(probability, degrees) == pytest.approx(expected, rel=1e-4)


def test_a_slower_time_is_worse_and_a_lower_rate_is_worse():
    assert overhead([10, 10], [12, 12], "lower").estimate == pytest.approx(20)
    assert overhead([10, 10], [8, 8], "higher").estimate == pytest.approx(20)
    assert overhead([10, 10], [8, 8], "lower").estimate == pytest.approx(-20)


def test_differences_are_in_the_figures_unit():
    result = overhead([0.01, 0.02, 0.01], [0.21, 0.22, 0.24], "lower", "difference")
    assert result.estimate == pytest.approx(0.21)
    assert result.low < 0.21 < result.high


@given(figures, st.floats(0.5, 2), st.sampled_from(["higher", "lower"]))
def test_a_common_factor_is_found_whatever_the_machine_did_meanwhile(baseline, factor, better):
    subject = [value * factor for value in baseline]
    result = overhead(baseline, subject, better)
    expected = (factor - 1) * 100 if better == "lower" else (1 - factor) * 100
    assert result.estimate == pytest.approx(expected, abs=1e-6)
    assert result.half_width == pytest.approx(0, abs=1e-6)


@given(figures, st.integers(0, 2**32))
def test_the_interval_holds_the_estimate_and_turns_with_the_direction(baseline, seed):
    subject = list(np.random.default_rng(seed).permutation(baseline) * 1.1)
    lower, higher = (overhead(baseline, subject, better) for better in ("lower", "higher"))
    assert lower.low <= lower.estimate <= lower.high
    assert higher.low <= higher.estimate <= higher.high
    assert math.copysign(1, round(lower.estimate, 9)) == -math.copysign(1, round(higher.estimate, 9)) or (
        abs(lower.estimate) < 1e-6
    )


def test_the_interval_holds_the_truth_as_often_as_it_says():
    generator = np.random.default_rng(20261121)
    held = 0
    for _ in range(2000):
        drift = np.exp(generator.normal(0, 0.3, 5))
        baseline = 10 * drift * np.exp(generator.normal(0, 0.02, 5))
        subject = 10.5 * drift * np.exp(generator.normal(0, 0.02, 5))
        result = overhead(baseline, subject, "lower")
        held += result.low <= 5.0 <= result.high
    # 95 % of 2000, within four standard deviations of the simulation.
    assert abs(held - 1900) < 4 * math.sqrt(2000 * 0.95 * 0.05)


TOLERANCE = (-math.inf, 5)
EXPECTED = (80, 99)


@pytest.mark.parametrize(
    ("low", "high", "accepted", "verdict"),
    [
        (0, 2, TOLERANCE, PASS),
        (-9, -8, TOLERANCE, PASS),
        (8, 10, TOLERANCE, FAIL),
        (2, 6, TOLERANCE, INCONCLUSIVE),
        (90, 95, EXPECTED, PASS),
        (0, 2, EXPECTED, FAIL),
        (99.5, 99.9, EXPECTED, FAIL),
        (75, 85, EXPECTED, INCONCLUSIVE),
    ],
)
def test_the_three_verdicts(low, high, accepted, verdict):
    assert Overhead((low + high) / 2, low, high, 5).verdict(*accepted) == verdict


def test_one_pair_is_never_conclusive_for_a_small_overhead():
    result = overhead([1.0], [1.01], "lower")
    assert result.verdict(*TOLERANCE) == INCONCLUSIVE
    assert result.rounds_needed(*TOLERANCE) is None


@pytest.mark.parametrize(("baseline", "subject"), [([], []), ([1, 2], [1]), ([1, 0], [1, 1]), ([1, -1], [1, 1])])
def test_what_cannot_be_compared_is_refused(baseline, subject):
    with pytest.raises(ValueError, match=r"pairs|positive"):
        overhead(baseline, subject, "lower")
