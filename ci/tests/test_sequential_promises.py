"""When a check ends, the table of the sequential verdict, and its promises by simulation."""

import json
import math
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
from containercheck.verdict import boundaries, sequential
from containercheck.verdict.sequential import FAIL, HORIZON, INCONCLUSIVE, PASS, Pairs
from hypothesis import given, settings
from hypothesis import strategies as st
from paired import NONE, judged, load, noisy, ratios

TABLE = json.loads(Path(boundaries.__file__).with_suffix(".json").read_text())
made, simulation = load("boundaries"), load("simulation")


# When it ends.


def test_rounds_needed():
    assert judged(noisy(0, 0.02, 3)).rounds_needed == 7
    assert judged(noisy(0, 0.01, 8)).rounds_needed == 7
    assert 10 < judged(noisy(0, 0.07, 9, seed=2)).rounds_needed <= 40
    assert judged(noisy(0, 0.5, 20)).rounds_needed is None


def test_rounds_needed_is_about_right():
    many = []
    for seed in range(100):
        pairs, at_nine = Pairs("lower", "ratio", NONE, 5.0, 1), None
        for number, pair in enumerate(noisy(0, 0.06, seed=seed), 1):
            pairs.add(*pair)
            if number == 9 and pairs.verdict == INCONCLUSIVE and pairs.rounds_needed:
                at_nine = pairs.rounds_needed
        if at_nine and pairs.decided_after:
            many.append(pairs.decided_after / at_nine)
    assert len(many) > 20
    assert 0.6 < np.median(many) < 1.6


WILD = ratios(*[1.0, 4.0, 0.26, 1.1, 5.0, 0.2] * 5)


def test_hopeless_is_what_is_too_wild_for_any_verdict():
    assert judged(WILD[:24]).hopeless
    assert not judged(WILD[:12]).hopeless
    assert not judged(noisy(0, 0.06, 12, seed=3)).hopeless
    assert not judged(noisy(0, 0.01, 12)).hopeless


def test_nothing_is_hopeless_before_round_ten():
    # All of them at the tolerance itself: ties, which no number of rounds would decide.
    rounds = [(100, 105)] * 10
    assert not judged(rounds[:9], compare="difference").hopeless
    assert judged(rounds, compare="difference").hopeless


def test_what_may_still_fail_is_not_hopeless():
    slow = judged(noisy(20, 0.01, 10), figures=100)
    assert slow.verdict == INCONCLUSIVE and not slow.hopeless


def test_a_check_has_the_verdict_of_its_figures():
    passed, failed, young = judged(noisy(0, 0.01, 12)), judged(noisy(30, 0.01, 12)), judged(noisy(0, 0.01, 4))
    assert sequential.outcome([passed]) == PASS
    assert sequential.outcome([passed, failed]) == FAIL
    assert sequential.outcome([failed, young]) == FAIL
    assert sequential.outcome([passed, young]) == INCONCLUSIVE
    assert sequential.outcome([]) == PASS


def test_a_check_ends_when_more_would_not_tell():
    passed, failed, young = judged(noisy(0, 0.01, 12)), judged(noisy(30, 0.01, 12)), judged(noisy(0, 0.01, 4))
    wild = judged(WILD)
    assert not sequential.more_would_tell([], 0)
    assert not sequential.more_would_tell([passed], 12)
    assert not sequential.more_would_tell([passed, failed, young], 12)
    assert not sequential.more_would_tell([passed, wild], 30)
    assert not sequential.more_would_tell([wild, wild], 30)
    assert sequential.more_would_tell([passed, young], 4)
    assert sequential.more_would_tell([young, young], 4)
    assert not sequential.more_would_tell([young], 40)


@pytest.mark.parametrize(("overhead", "figures"), [(0, 2), (20, 100)])
def test_a_figure_that_may_get_its_verdict_is_waited_for_beside_a_hopeless_one(overhead, figures):
    wild, other = judged(WILD[:28], figures=figures), judged(noisy(overhead, 0.06, 10, seed=3), figures=figures)
    assert wild.hopeless and other.verdict == INCONCLUSIVE
    assert sequential.more_would_tell([wild, other], 28)


# The table.


@pytest.mark.parametrize("kind", ["fail", "zero"])
def test_more_figures_need_more(kind):
    rows = [[math.inf if one is None else one for one in TABLE[kind][key]] for key in TABLE[kind]]
    assert [int(key) for key in TABLE[kind]] == sorted(made.FIGURES)
    for row, larger in zip(rows, rows[1:]):
        assert all(one <= other for one, other in zip(row, larger))


def test_the_table_is_sane():
    assert set(range(1, 33)) <= {int(key) for key in TABLE["fail"]}
    every = [("pass", "pass", TABLE["pass"], 0.05)]
    every += [
        (kind, key, row, TABLE["alpha"][kind] / int(key))
        for kind in ("fail", "zero")
        for key, row in TABLE[kind].items()
    ]
    for kind, key, row, alpha in every:
        assert len(row) == HORIZON
        first = next(index for index, one in enumerate(row) if one is not None)
        assert None not in row[first:] and row[first:] == sorted(row[first:]), (kind, key)
        for index in range(first, HORIZON):
            rounds = index + 1
            assert rounds * (rounds + 1) / 4 < row[index] <= rounds * (rounds + 1) / 2
            # A boundary's own tail is no more than what is spent by then.
            assert made.marginal(rounds)[row[index]] <= alpha * math.sqrt(rounds / HORIZON)
    for key, row in TABLE["zero"].items():
        assert all(one is None or one >= other for one, other in zip(row, TABLE["fail"][key]))
    assert TABLE["pass"] == TABLE["fail"]["1"]


def test_the_first_rounds_of_the_table_are_exact():
    alpha = 0.05 * TABLE["shares"]["ranks"]
    row, crossed = made.exact(alpha, last=12)
    assert row == TABLE["pass"][:12]
    assert 0.4 * alpha < crossed <= alpha * math.sqrt(12 / 40)


def test_the_exact_chain_agrees_with_all_signs_and_orders():
    # All 2^4 signs and 4! orders of the sizes 1 to 4: how many cross 3 after two rounds, or 8 after four.
    crossed = 0
    for order in permutations([1, 2, 3, 4]):
        for signs in product([-1, 1], repeat=4):
            d = [size * sign for size, sign in zip(order, signs)]
            t = [sum(d[i] + d[j] > 0 for j in range(n) for i in range(j + 1)) for n in range(1, 5)]
            crossed += t[1] >= 3 or t[3] >= 8
    bounds = iter([None, 3, None, 8])
    original = made._smallest
    try:
        made._smallest = lambda *_: next(bounds)
        _, probability = made.exact(0.05, last=4)
    finally:
        made._smallest = original
    assert probability == pytest.approx(crossed / (24 * 16))


def test_beyond_the_table_boundaries_go_on_evenly():
    for kind, figures in (("pass", 1), ("fail", 14), ("zero", 128)):
        counts = [boundaries.boundary(kind, rounds, figures) for rounds in range(38, 60)]
        steps = np.diff(counts)
        assert all(steps > 0) and all(abs(np.diff(steps)) <= 3)
    assert boundaries.boundary("fail", 20, 33) == boundaries.boundary("fail", 20, 36)


# The simulation.

NUMBERS = {PASS: 1, FAIL: -1, INCONCLUSIVE: 0}


@pytest.mark.parametrize("figures", [1, 4, 14])
def test_the_simulation_judges_as_the_job_does(figures):
    draw = np.random.default_rng(figures)
    noise = np.concatenate([make(draw, (HORIZON, 20)) for make in simulation.NOISES.values()], axis=1)
    many = noise.shape[1]
    changes = draw.choice([0.0, 0.03, simulation.BOUND, 0.1, 0.2], many) + draw.choice([0.01, 0.05, 0.2], many) * noise
    fast = simulation.judge(changes, figures, give_up=True)
    for one in range(many):
        pairs = Pairs("lower", "ratio", NONE, simulation.TOLERANCE, figures)
        for number, change in enumerate(changes[:, one]):
            pairs.add(1.0, math.exp(change))
            assert pairs.hopeless == fast.hopeless[number, one]
        assert NUMBERS[pairs.verdict] == fast.verdict[one]
        assert (pairs.decided_after or HORIZON + 1) == fast.after[one]


@pytest.mark.parametrize("figures", [1, 4])
def test_the_simulation_ends_checks_as_the_job_does(figures):
    draw = np.random.default_rng(figures)
    changes = draw.choice([0.0, 0.1], 40) + draw.choice([0.03, 0.08, 0.2], 40) * draw.standard_normal((HORIZON, 40))
    checked = simulation.checks(simulation.judge(changes, figures, give_up=True), figures)
    for check in range(40 // figures):
        all_pairs = [Pairs("lower", "ratio", NONE, simulation.TOLERANCE, figures) for _ in range(figures)]
        rounds = 0
        while sequential.more_would_tell(all_pairs, rounds):
            for pairs, change in zip(all_pairs, changes[rounds, check * figures : (check + 1) * figures]):
                pairs.add(1.0, math.exp(change))
            rounds += 1
        assert [NUMBERS[pairs.verdict] for pairs in all_pairs] == list(checked.figures[check])
        assert NUMBERS[sequential.outcome(all_pairs)] == checked.verdict[check]
        assert rounds == checked.rounds[check]


@pytest.mark.parametrize("noise", ["normal", "t3", "two modes", "wild 1 in 20", "drift"])
def test_false_verdicts_are_as_rare_as_promised(noise):
    number = 28_000
    sample = simulation.NOISES[noise](np.random.default_rng(7), (HORIZON, number))
    # Four standard errors above what is promised.
    margin = 4 * math.sqrt(0.05 * 0.95 / number)
    assert np.mean(simulation.judge(simulation.BOUND + 0.015 * sample, 1).verdict > 0) < 0.05 + margin
    assert np.mean(simulation.judge(simulation.BOUND + 0.015 * sample, 1).verdict < 0) < 0.05 + margin
    assert np.mean(simulation.judge(0.5 * sample, 1).verdict < 0) < 0.01 + 4 * math.sqrt(0.01 * 0.99 / number)


@settings(deadline=None)
@given(st.sampled_from([(80.0, 99.0), (-20.0, -10.0), (-5.0, 5.0), (0.0, 400.0)]), st.integers(0, 10**6))
def test_the_middle_of_an_expected_range_does_not_fail_with_clean_figures(accepted, seed):
    middle = sum(accepted) / 2
    assert judged(noisy(middle, 0.003, seed=seed), lowest=accepted[0], highest=accepted[1]).verdict == PASS


def test_expected_ranges_keep_the_promises():
    number, failed, passed = 600, 0, 0
    for seed in range(number):
        failed += judged(noisy(89.5, 0.4, seed=seed), lowest=80, highest=99).verdict == FAIL
        passed += judged(noisy(80, 0.02, seed=seed), lowest=80, highest=99).verdict == PASS
    assert failed <= 0.01 * number + 4 * math.sqrt(0.01 * number)
    assert passed <= 0.05 * number + 4 * math.sqrt(0.05 * number)
