"""Changes: what is proposed, what a confirmation makes of it, and how often that is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import simulated_nights
from containercheck.history import shifts
from containercheck.history.change_points import standing
from containercheck.history.series import BARE
from hypothesis import given, settings
from hypothesis import strategies as st
from made_nights import made_series, noisy_series

#: Nights without a change, of which each series has its own scatter.
QUIET = noisy_series(30, 12, 0.5, seed=1)


def with_shift(shift, since, nights=12, number=0, again=None, seed=7, **more):
    """Return a series of noisy nights that is shifted from one night on."""
    own = 0.5 * np.random.default_rng(seed).standard_normal(nights)
    own[since:] += shift
    if more.get("kind") == BARE:
        own = 100 * np.exp(own / 100)
    return made_series(own, 0.25, metric=f"shifted{number}", again=again, **more)


def told(found):
    return [(change.series.metric, change.at, change.worse, change.confirmed) for change in found]


def test_a_change_is_proposed_in_its_first_night_after_three():
    others = [replace(metric, points=metric.points[:4]) for metric in QUIET]
    found = standing([*others, with_shift(10, 3, 4)])
    assert told(found) == [("shifted0", 3, True, False)]
    assert found[0].size == pytest.approx(10, abs=2)
    assert found[0].p < shifts.PROPOSED
    assert found[0].first.night.name == "night 3"


def test_with_fewer_nights_or_one_check_alone_nothing_is_guessed():
    for nights in (1, 2, 3):
        few = [replace(metric, points=metric.points[:nights]) for metric in QUIET]
        assert standing([*few, with_shift(50, nights - 1, nights)]) == []
    assert standing([made_series([1.0, 1.3, 0.9, 4.0], None)]) == []
    assert standing([made_series([1.0, 1.3, 0.9, 4.0], 0.5)]) == []
    assert standing([]) == []


@pytest.mark.parametrize(
    ("better", "shift", "worse"), [("higher", -10, True), ("lower", 10, True), ("higher", 10, False)]
)
def test_bare_is_worse_by_its_own_direction_and_in_percent(better, shift, worse):
    bare = [with_shift(0, 9, seed=seed, number=seed, kind=BARE) for seed in range(10, 30)]
    (change,) = standing([*bare, with_shift(shift, 9, kind=BARE, better=better)])
    assert (change.at, change.worse) == (9, worse)
    assert change.size == pytest.approx(shift, abs=1.5)


def test_a_change_that_is_too_small_is_not_proposed():
    quiet = [made_series(list(0.01 * np.arange(12) % 0.03), 0.005, metric=f"{n}") for n in range(20)]
    small = made_series([0.0] * 8 + [1.5] * 4, 0.005)
    assert standing([*quiet, small]) == []
    assert told(standing([*quiet, replace(small, least=1.0)])) == [("rate", 8, True, False)]
    # Bare values that are not above 0 have no relative change.
    assert standing([*QUIET, made_series([0.0] * 8 + [5.0] * 4, kind=BARE)]) == []


#: StartUp on a virtual machine of two cores in four nights: overheads, and in the last one a start that takes 0.15 s
#: more, by a wrapper of the runtime; with their standard errors, and the least change worth telling.
START_UP = {
    "start": ([0.163759, 0.176901, 0.161595, 0.337565], [0.006141, 0.00752, 0.003993, 0.020998], 0.05),
    "end": ([0.004467, 0.005089, 0.004613, 0.00785], [0.000147, 0.000314, 0.000137, 0.001581], 0.005),
    "memory": ([26.91, 26.65825, 26.79675, 26.7915], [0.048749, 0.055825, 0.061067, 0.043769], 4.8),
    "start_several": ([0.16776, 0.182142, 0.155019, 0.337027], [0.007238, 0.010958, 0.003926, 0.012237], 0.05),
    "end_several": ([0.004774, 0.005713, 0.004763, 0.011463], [0.000209, 9.6e-05, 9.5e-05, 0.003649], 0.005),
    "memory_several": ([26.8665, 26.71925, 26.7715, 26.7635], [0.062377, 0.106408, 0.061067, 0.063426], 3.6),
}


def test_a_start_that_doubled_is_proposed_in_its_first_night():
    found = standing(
        [
            made_series(values, errors, metric=metric, unit="s", better="lower", least=least)
            for metric, (values, errors, least) in START_UP.items()
        ]
    )
    assert told(found) == [(metric, 3, True, False) for metric in ("start", "start_several")]


def test_a_night_of_few_rounds_proposes_less():
    shifted = with_shift(5, 11)
    assert standing([*QUIET, shifted])
    unsure = replace(shifted.points[-1], error=4.0)
    assert standing([*QUIET, replace(shifted, points=(*shifted.points[:-1], unsure))]) == []


def test_a_confirmation_that_says_the_same_makes_it_an_alarm_and_one_that_does_not_ends_it():
    assert told(standing([*QUIET, with_shift(10, 11, again={11: 9.0})])) == [("shifted0", 11, True, True)]
    assert standing([*QUIET, with_shift(10, 11, again={11: 0.3})]) == []
    # In the other direction is not the same.
    assert standing([*QUIET, with_shift(10, 11, again={11: -9.0})]) == []


def test_what_is_run_again_because_of_another_metric_is_no_alarm():
    again = [made_series([point.value for point in metric.points], 0.25, again={11: 9.0}) for metric in QUIET]
    assert standing(again) == []


def test_an_alarm_stands_as_long_as_its_level_does():
    confirmed = {8: 10.0}
    for nights in (9, 10, 12):
        few = [replace(metric, points=metric.points[:nights]) for metric in QUIET]
        found = standing([*few, with_shift(10, 8, nights, again=confirmed)])
        assert told(found) == [("shifted0", 8, True, True)]
    # One night that was off, and no more.
    values = [0.3, -0.2, 0.4, 0.1, -0.5, 0.2, 0.0, -0.1, 10.0, 0.2, -0.3, 0.1]
    assert standing([*QUIET, made_series(values, 0.25, again=confirmed)]) == []


def test_a_return_to_the_old_level_is_a_change_of_its_own():
    values = [0.3, -0.2, 0.4, 0.1, 10.2, 9.8, 10.1, 9.9, 0.2, 0.1, -0.3, 0.1]
    found = standing([*QUIET, made_series(values, 0.25, again={4: 10.0, 8: 0.0})])
    assert told(found) == [("rate", 8, False, True)]
    # Of a second step in the same direction both stand.
    values[8:] = [20.2, 19.9, 20.1, 20.0]
    found = standing([*QUIET, made_series(values, 0.25, again={4: 10.0, 8: 20.0})])
    assert told(found) == [("rate", 4, True, True), ("rate", 8, True, True)]


def test_a_series_without_a_value_tonight_keeps_its_alarm_and_proposes_nothing():
    alarm = with_shift(10, 8, 11, again={8: 10.0})
    assert told(standing([*QUIET, alarm])) == [("shifted0", 8, True, True)]
    assert standing([*QUIET, with_shift(10, 8, 11)]) == []


# Properties.

SHIFTS = st.lists(st.sampled_from([0.0, 0.0, 3.0, -3.0, 8.0, -20.0]), min_size=3, max_size=6)


def some(shifts, seed, kind="overhead"):
    """Return twenty series without a change, and some with one, at different nights."""
    quiet = [with_shift(0, 6, seed=100 * seed + n, number=f"quiet{n}", kind=kind) for n in range(20)]
    return quiet + [
        with_shift(shift, 4 + n, seed=100 * seed + 50 + n, number=n, kind=kind) for n, shift in enumerate(shifts)
    ]


def scaled(metric, factor, least=None):
    points = tuple(
        replace(point, value=factor * point.value, error=abs(factor) * point.error) for point in metric.points
    )
    return replace(metric, points=points, least=abs(factor) * metric.least if least is None else least)


@settings(max_examples=15)
@given(SHIFTS, st.integers(0, 50), st.sampled_from([1e-6, 0.3, 1024.0]))
def test_units_do_not_matter(shifts, seed, factor):
    found = standing(some(shifts, seed))
    other = standing([scaled(metric, factor) for metric in some(shifts, seed)])
    assert told(other) == told(found)
    assert [change.size for change in other] == pytest.approx([factor * change.size for change in found])
    bare = some(shifts, seed, BARE)
    assert told(standing([scaled(metric, factor, metric.least) for metric in bare])) == told(standing(bare))


@settings(max_examples=15)
@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=20), st.integers(1, 30))
def test_a_constant_series_never_alarms(values, nights):
    constant = [made_series([value] * nights, None, metric=f"{n}") for n, value in enumerate(values)]
    assert standing(constant) == []
    assert standing([*QUIET, *constant]) == []


def test_what_slows_all_series_in_one_night_is_proposed_for_most_of_them():
    """The scatter of all series is that within their levels: a common step does not widen it."""
    found = standing([with_shift(10, 10, number=n, seed=n) for n in range(30)])
    assert len(found) == 30
    assert {change.at for change in found} == {10}


# Simulations. The promise: fewer than 0.1 false alarms per 100 series and night; 0.2 where nights resemble the night
# before, and only three of them are known.


def alarms(noise, history, spread=3.0, sites=2):
    """Return the mean rate of false alarms."""
    measured = [simulated_nights.site(noise, history, spread, seed=seed) for seed in range(sites)]
    return np.mean([simulated_nights.false_alarms(each, simulated_nights.followed(each)[0]) for each in measured])


@pytest.mark.parametrize("noise", simulated_nights.NOISES.values(), ids=simulated_nights.NOISES.keys())
@pytest.mark.parametrize("history", [3, 30])
def test_false_alarms_are_rare(noise, history):
    most = 0.2 if noise is simulated_nights.wandering and history == 3 else 0.1
    assert alarms(noise, history) < most


def test_what_is_large_is_found_at_once_and_what_is_small_later():
    measured = simulated_nights.site(simulated_nights.normal, 10, 1.0, [5.0] * 10 + [10.0] * 10 + [20.0] * 10)
    found = simulated_nights.followed(measured)[0][:30, 10:].reshape(3, 10, -1) > 0
    in_nights = [found[..., :nights].any(-1).mean(-1) for nights in (1, 3, simulated_nights.FOLLOWED)]
    assert in_nights[0][2] == 1.0
    assert in_nights[1][1] > 0.9
    assert in_nights[2][0] > 0.9
