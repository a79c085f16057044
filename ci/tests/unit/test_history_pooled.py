"""What all series say together of the scatter of nights: against what was drawn, and against scipy's distributions."""

from __future__ import annotations

import numpy as np
import pytest
from containercheck.history import corrections, pooled
from scipy import stats


@pytest.mark.parametrize("freedom", [4.0, 10.0])
def test_the_prior_is_the_one_that_the_variances_were_drawn_from(freedom):
    draw = np.random.default_rng(1)
    true = 3.0 * freedom / draw.chisquare(freedom, (20, 400))
    own = np.full(true.shape, 6.0)
    variance, worth = pooled.prior(true * draw.chisquare(6, true.shape) / 6, own)
    assert np.median(variance) == pytest.approx(3.0, rel=0.05)
    assert np.median(worth) == pytest.approx(freedom, rel=0.2)


def test_series_that_are_all_alike_have_a_prior_that_is_worth_most():
    draw = np.random.default_rng(1)
    _, worth = pooled.prior(draw.chisquare(6, (20, 400)) / 6, np.full((20, 400), 6.0))
    assert np.median(worth) == pytest.approx(pooled.MOST_DEGREES)


def test_few_series_have_no_prior():
    variances = np.ones(pooled.FEWEST)
    variances[0] = np.nan
    assert pooled.prior(variances, np.full(pooled.FEWEST, 3.0))[1] == 0


@pytest.mark.parametrize("degrees", [3.0, 5.0, 10.0, 30.0])
def test_normal_scores_are_those_of_students_t(degrees):
    values = np.linspace(-8, 8, 33)
    exact = stats.norm.isf(stats.t.sf(values, degrees))
    assert pooled.normal_scores(values, degrees) == pytest.approx(exact, rel=0.03, abs=1e-9)


@pytest.mark.parametrize(("degrees", "least", "most"), [(3, 3, 4), (6, 4.5, 9), (np.inf, 25, 100)])
def test_tails_are_those_that_were_drawn(degrees, least, most):
    draw = np.random.default_rng(1)
    values = draw.standard_t(degrees, (10, 100, 20)) if np.isfinite(degrees) else draw.standard_normal((10, 100, 20))
    found = pooled.tails(values / values.std(), np.ones(values.shape, dtype=bool))
    assert least <= np.median(found) <= most


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("nights", [4, 30])
def test_likeness_is_that_of_what_neighboring_nights_share(rho, nights):
    draw = np.random.default_rng(2)
    shared, own = draw.standard_normal((2, 20, 100, nights))
    for place in range(1, nights):
        shared[..., place] = rho * shared[..., place - 1] + np.sqrt(1 - rho**2) * shared[..., place]
    values = np.sqrt(rho) * shared + np.sqrt(1 - rho) * own
    residuals = values - values.mean(-1, keepdims=True)
    found = pooled.likeness(residuals, np.zeros(values.shape, dtype=int))
    # Of four nights the mean takes much of it away, and what may be chance is more.
    assert rho - (0.1 if nights == 30 else 0.4) <= np.mean(found) <= rho + 0.05


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_inflation_is_the_variance_of_a_mean_of_such_nights(rho, count):
    apart = abs(np.subtract.outer(np.arange(count), np.arange(count)))
    exact = (rho**apart).sum() / count
    assert pooled.inflation(np.array(count), rho) == pytest.approx(exact)


def test_corrections_are_those_of_benjamini_and_hochberg_and_of_holm():
    p = np.array([0.01, 0.04, 0.03, 0.005])
    assert corrections.false_discoveries(p) == pytest.approx(stats.false_discovery_control(p))
    assert corrections.any_false(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert corrections.any_false(np.array([np.nan, 0.004])) == pytest.approx([np.nan, 0.004], nan_ok=True)
