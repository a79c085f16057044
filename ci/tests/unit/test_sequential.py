"""The sequential verdict on a metric: symmetries, first verdicts, what is accepted, and what is shown."""

import math

import pytest
from containercheck.job.stats.pairs import FAIL, HORIZON, INCONCLUSIVE, PASS, Pairs, Prior, more_would_tell
from hypothesis import example, given
from hypothesis import strategies as st
from paired import NONE, judged, noisy, ratios

metric_values = st.floats(0.5, 2.0).map(lambda value: round(value, 6))
some_rounds = st.lists(st.tuples(metric_values, metric_values), min_size=1, max_size=20)
designs = st.tuples(st.sampled_from(["higher", "lower"]), st.sampled_from(["ratio", "difference"]))


# Symmetries.


@given(some_rounds)
def test_swapping_the_sides_mirrors_the_estimate_in_log_scale(rounds):
    forward = judged(rounds)
    backward = judged([(subject, baseline) for baseline, subject in rounds])
    assert math.log1p(forward.estimate / 100) == pytest.approx(-math.log1p(backward.estimate / 100), abs=1e-12)
    assert forward.changes == [-change for change in backward.changes]


@given(some_rounds, st.floats(1e-6, 1e6))
def test_units_do_not_matter_to_a_ratio(rounds, unit):
    plain, other = judged(rounds), judged([(a * unit, b * unit) for a, b in rounds])
    assert other.estimate == pytest.approx(plain.estimate, abs=1e-9)
    assert (other.verdict, other.decided_after) == (plain.verdict, plain.decided_after)


@given(some_rounds)
def test_a_rate_and_its_time_have_the_same_verdict_at_bounds_that_are_the_same(rounds):
    time = judged(rounds, "lower", highest=25.0)
    rate = judged([(1 / a, 1 / b) for a, b in rounds], "higher", highest=20.0)
    assert (rate.verdict, rate.decided_after) == (time.verdict, time.decided_after)
    assert 1 - rate.estimate / 100 == pytest.approx(1 / (1 + time.estimate / 100))


@given(some_rounds, designs, st.randoms(use_true_random=False))
def test_the_order_of_rounds_does_not_matter_to_estimate_and_interval(rounds, design, source):
    shuffled = list(rounds)
    source.shuffle(shuffled)
    plain, other = judged(rounds, *design), judged(shuffled, *design)
    assert other.estimate == pytest.approx(plain.estimate, abs=1e-9)
    assert other.interval == pytest.approx(plain.interval, abs=1e-9)
    assert other.spread == pytest.approx(plain.spread, abs=1e-9)
    assert other.above_tolerance == plain.above_tolerance


# The verdict.


def test_the_overhead_is_positive_where_the_subject_is_worse():
    assert judged([(100, 110)], "lower").estimate == pytest.approx(10)
    assert judged([(100, 90)], "higher").estimate == pytest.approx(10)
    assert judged([(1.0, 1.5)], "lower", "difference").estimate == pytest.approx(0.5)
    assert judged([(1.0, 1.5)], "higher", "difference").estimate == pytest.approx(-0.5)


def test_by_ranks_alone_the_first_pass_is_after_six_rounds():
    pairs = judged(noisy(0, 0.01, 5))
    assert (pairs.verdict, pairs.decided_after) == (INCONCLUSIVE, None)
    pairs.add(100, 100)
    assert (pairs.verdict, pairs.decided_after) == (PASS, 6)


@pytest.mark.parametrize(("metrics", "rounds"), [(1, 9), (4, 10), (14, 12)])
def test_the_first_failure_by_ranks_alone(metrics, rounds):
    pairs = judged(noisy(30, 0.01), metrics=metrics)
    assert (pairs.verdict, pairs.decided_after) == (FAIL, rounds)


@given(some_rounds, designs)
def test_verdicts_of_fewer_rounds_stand(rounds, design):
    pairs, before = Pairs(*design, NONE, 5.0, 1), INCONCLUSIVE
    for baseline, subject in rounds:
        pairs.add(baseline, subject)
        assert before in (INCONCLUSIVE, pairs.verdict)
        before = pairs.verdict


def test_beyond_the_horizon_the_verdict_stays_open():
    pairs = judged(ratios(*[1.0, 1.11] * 20))
    assert pairs.verdict == INCONCLUSIVE
    for _ in range(60):
        pairs.add(100, 100)
    assert (pairs.verdict, pairs.decided_after, pairs.rounds) == (INCONCLUSIVE, None, 100)
    low, high = pairs.interval
    assert low <= pairs.estimate <= high
    assert not more_would_tell([pairs], 100)
    # Nor of one that would close in a few rounds.
    assert not more_would_tell([judged(noisy(0, 0.01, 4))], HORIZON)
    assert pairs.is_hopeless and pairs.rounds_needed is None


ACCEPTED = st.sampled_from([(NONE, 5.0), (-10.0, 5.0), (2.0, 30.0)])


@given(some_rounds, designs, st.integers(1, 20), ACCEPTED, st.sampled_from([None, Prior(5.0, "the check")]))
# A gain that is a question, or may become one, stays open below what is accepted.
@example([(1.0, 1.0)] * 4 + [(1.0, 0.5)] * 2, ("lower", "ratio"), 1, (NONE, 5.0), None)
def test_the_interval_lies_on_the_side_of_the_verdict(rounds, design, metrics, accepted, prior):
    pairs = Pairs(*design, *accepted, metrics, prior=prior)
    for baseline, subject in rounds:
        pairs.add(baseline, subject)
        if pairs.verdict != INCONCLUSIVE:
            break
    low, high = pairs.interval
    assert low <= pairs.estimate + 1e-9 and pairs.estimate <= high + 1e-9
    if pairs.verdict == PASS:
        assert accepted[0] <= low + 1e-6 and high <= accepted[1] + 1e-6
    elif pairs.verdict == FAIL:
        assert low > accepted[1] - 1e-9 or high < accepted[0] + 1e-9
    elif accepted[0] == NONE and not pairs.gain_keeps_open and prior is None:
        assert low <= accepted[1] + 1e-6 and high >= accepted[1] - 1e-6


def test_ties_count_for_neither_side():
    # 105 of 100 is the tolerance, whatever the logarithm's last digit.
    pairs = judged([(100, 105)] * 40)
    assert (pairs.verdict, pairs.above_tolerance) == (INCONCLUSIVE, 0)
    pairs = judged([(0.3, 0.4)] * 40, compare="difference", highest=0.1)
    assert (pairs.verdict, pairs.above_tolerance) == (INCONCLUSIVE, 0)
    assert judged([(100, 100)] * 7).verdict == PASS
    assert judged([(100, 106)] * 9).verdict == FAIL


# What is accepted.


@pytest.mark.parametrize(
    ("lowest", "highest", "verdicts"),
    [
        # An expected overhead must be there.
        (80, 99, {90: PASS, 0: FAIL, 150: FAIL}),
        (NONE, -5, {5: FAIL, -15: PASS}),
        (NONE, 0, {10: FAIL, -10: PASS}),
        (10, math.inf, {0: FAIL, 30: PASS}),
        (NONE, math.inf, {500: PASS}),
    ],
)
def test_an_overhead_passes_within_its_bounds_only(lowest, highest, verdicts):
    """Two rounds do where the spread is known."""
    for overhead, verdict in verdicts.items():
        for rounds, prior in ((12, None), (2, known(1.0))):
            found = judged(noisy(overhead, 0.01, rounds), lowest=lowest, highest=highest, prior=prior)
            assert found.verdict == verdict


@pytest.mark.parametrize("metric", [0.0, -1.0, math.nan, math.inf])
def test_a_ratio_needs_positive_metrics(metric):
    for pair in ((metric, 1.0), (1.0, metric)):
        pairs = judged([(1.0, 1.0)])
        with pytest.raises(ValueError, match="metrics"):
            pairs.add(*pair)
        assert pairs.rounds == 1


def test_a_difference_may_be_of_zero_but_not_of_nothing():
    assert judged([(0, -1)] * 7, compare="difference").verdict == PASS
    with pytest.raises(ValueError, match="finite"):
        judged([(0, math.nan)], compare="difference")


@pytest.mark.parametrize(
    "arguments",
    [
        ("lower", "ratio", 5, 5, 1),
        ("lower", "ratio", 10, 5, 1),
        ("lower", "ratio", NONE, math.nan, 1),
        ("lower", "ratio", NONE, -100, 1),
        ("higher", "ratio", 100, math.inf, 1),
        ("lower", "ratio", NONE, 5, 0),
        ("lower", "ratio", NONE, 5, 1000),
        ("lower", "ratio", 0, 5, 1, 7),
    ],
)
def test_what_makes_no_sense_is_refused(arguments):
    with pytest.raises(ValueError):
        Pairs(*arguments)


def test_extreme_metrics_do_no_harm():
    pairs = judged([(1e-300, 1e300)] * 9)
    assert (pairs.verdict, pairs.estimate) == (FAIL, math.inf)


# What is shown.


def test_nothing_is_said_of_nothing():
    pairs = judged([])
    assert (pairs.verdict, pairs.estimate, pairs.interval) == (INCONCLUSIVE, None, (-math.inf, math.inf))
    assert (pairs.spread, pairs.rounds_needed, pairs.is_hopeless) == (None, None, False)


def test_the_estimate_is_that_of_hodges_and_lehmann():
    assert judged([(0, 1), (0, 2), (0, 30)], compare="difference").estimate == pytest.approx(8.75)


def test_the_spread_is_a_standard_deviation_and_no_wild_round_matters():
    assert judged(noisy(0, 0.1, 120)).spread == pytest.approx(10, rel=0.2)
    assert judged(noisy(0, 0.1, 120) + ratios(1000)).spread == pytest.approx(10, rel=0.2)


# Why it is open.


@pytest.mark.parametrize(
    ("rounds", "kind"),
    [
        (noisy(300, 0.03, 3), "slower"),
        (noisy(0, 0.03, 3), "noisy"),
        (noisy(5, 0.02, 20), "close"),
        (ratios(1.0, 4.0, 0.26, 1.1, 5.0, 0.2), "noisy"),
        ([], "noisy"),
        (noisy(0, 0.01, 12), None),
        (noisy(30, 0.01, 12), None),
    ],
)
def test_the_kind_of_an_open_verdict(rounds, kind):
    assert judged(rounds).open_kind == kind


def test_an_open_verdict_below_an_expected_range_is_faster():
    assert judged(noisy(0, 0.01, 5), lowest=80, highest=99).open_kind == "faster"
    assert judged(noisy(-47, 0.03, 2), prior=known(20.0, "default")).open_kind == "faster"


@pytest.mark.parametrize(("spread", "known"), [(0.5, None), (0.2, Prior(20.0, "default"))])
def test_noise_alone_is_rarely_called_slower(spread, known):
    kinds = [judged(noisy(0, spread, 8, seed=seed), prior=known).open_kind for seed in range(300)]
    assert kinds.count("slower") < 0.1 * len(kinds)


# A known spread.


def known(spread, source="the check"):
    return Prior(spread, source)


def test_a_known_spread_says_something_of_one_round():
    pairs = judged(ratios(4), prior=known(5.0))
    assert (pairs.verdict, pairs.open_kind, pairs.bound) == (INCONCLUSIVE, "slower", None)
    assert judged(ratios(1), prior=known(1.0)).rounds_needed == 2
    assert judged(noisy(0, 0.05, 2), prior=known(5.0)).bound < 40


def test_where_rounds_contradict_the_known_spread_three_times_as_much_is_assumed():
    quiet, wild = known(1.0), ratios(1.0, 1.03, 0.97, 1.03)
    pairs = judged(wild, prior=quiet)
    assert (pairs.is_contradicted, pairs.assumed_spread) == (True, pytest.approx(3.0))
    wider = judged(wild, prior=known(3.0))
    assert (wider.is_contradicted, wider.assumed_spread) == (False, pytest.approx(3.0))
    assert (pairs.verdict, pairs.rounds_needed) == (wider.verdict, wider.rounds_needed)
    assert pairs.interval == pytest.approx(wider.interval)
    # And so on.
    assert judged(ratios(1.0, 1.3, 0.8, 1.25), prior=quiet).assumed_spread == pytest.approx(27.0)
    assert not judged(ratios(1.0, 1.3, 0.8, 1.25), prior=known(25.0)).is_contradicted
    assert judged(wild).assumed_spread is None
    # Far closer rounds make it a part of the known spread, without a remark.
    closer = judged(noisy(0, 0.001, 12), prior=known(20.0))
    assert (closer.is_contradicted, closer.assumed_spread) == (False, pytest.approx(20 / 243))
    assert judged(noisy(0, 0.1, 12), prior=known(20.0)).assumed_spread == pytest.approx(20.0)
    # Rounds that are equal, as a rounded metric's are, have no spread.
    assert judged(ratios(1, 1, 1, 1), prior=known(20.0)).assumed_spread == pytest.approx(20.0)


def test_a_slowdown_is_found_early_although_far_wilder_rounds_are_known():
    """As a start that took 0.3 s longer in 5 of 5 rounds, where the check stated far too wide a spread."""
    late = judged(noisy(40, 0.01, 5), metrics=6, prior=known(20.0))
    assert late.verdict == FAIL and late.decided_after <= 5


def test_no_rounds_are_too_wild_to_be_judged():
    pairs = judged([(1.0, 1e300), (1.0, -1e300), (1.0, 1e300)], compare="difference", prior=known(1e-200))
    assert pairs.verdict == INCONCLUSIVE and pairs.interval[1] > pairs.interval[0]


@pytest.mark.parametrize("spread", [0.0, -1.0, math.nan, math.inf])
def test_a_known_spread_is_a_positive_number(spread):
    with pytest.raises(ValueError, match="known spread"):
        judged([], prior=known(spread))


def test_a_wide_default_does_not_spoil_the_forecast_of_quiet_rounds():
    wide = known(20.0, "default")
    assert judged(noisy(0, 0.005, 4), prior=wide).rounds_needed <= 6
    assert judged(noisy(12, 0.005, 6), prior=wide).verdict == FAIL


# A gain that is too good.


@pytest.mark.parametrize("prior", [known(3.0), known(20.0, "default"), None])
def test_a_gain_that_is_too_good_is_a_question_and_no_pass(prior):
    half_the_work = noisy(-47, 0.03, 12)
    pairs = judged(half_the_work, prior=prior)
    assert (pairs.verdict, pairs.open_kind, pairs.rounds_needed) == (INCONCLUSIVE, "faster", None)
    assert pairs.bound < -20
    # More rounds would not answer it.
    assert not more_would_tell([pairs], 12)
    assert pairs.decided_after <= (5 if prior else 12)


@pytest.mark.parametrize(("may_gain", "kind"), [(False, "faster"), (True, "noisy")])
def test_a_large_gain_is_a_question_unless_any_gain_is_accepted(may_gain, kind):
    pairs = Pairs("lower", "ratio", -math.inf, 5.0, 1, may_gain=may_gain)
    for subject in (50.0, 57.0, 47.0):
        pairs.add(100.0, subject)
    assert (pairs.verdict, pairs.open_kind) == (INCONCLUSIVE, kind)


def test_a_gain_that_is_expected_or_ordinary_passes():
    assert judged(noisy(-47, 0.03, 12), lowest=-60, highest=-30, prior=known(3.0)).verdict == PASS
    for prior in (known(3.0), known(20.0, "default"), None):
        assert judged(noisy(-15, 0.03, 12), prior=prior).verdict == PASS
    assert judged([(5.0, 3.0)] * 7, compare="difference", highest=1.0).verdict == PASS
    assert judged([(9.0, 1.0)] * 12, compare="difference", highest=1.0).open_kind == "faster"
