"""The metrics of a check together: its verdict, when its rounds end, and which metrics a failure names."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from conftest import BARE, GENERIC, facts_of
from containercheck import Metric
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts
from containercheck.job.stats.pairs import FAIL, HORIZON, INCONCLUSIVE, Prior, more_would_tell
from containercheck.job.verdict.comparison import JobOutcome
from containercheck.sides.sides import Program, Side
from paired import WILD, judged, noisy


@pytest.mark.parametrize(("overhead", "metrics"), [(0, 2), (20, 100)])
def test_a_metric_that_may_get_its_verdict_is_waited_for_beside_a_hopeless_one(overhead, metrics):
    wild, other = judged(WILD[:28], metrics=metrics), judged(noisy(overhead, 0.06, 10, seed=3), metrics=metrics)
    assert wild.is_hopeless and other.verdict == INCONCLUSIVE
    assert more_would_tell([wild, other], 28)


# Where one has failed.


def prior(spread):
    return Prior(spread, "the check")


def test_after_a_failure_a_check_goes_on_to_name_what_else_is_too_slow_and_no_longer():
    failed = judged(noisy(300, 0.03, 2), metrics=14, prior=prior(3.0))
    slow, noise = (judged(noisy(overhead, 0.03, 2), metrics=14, prior=prior(20.0)) for overhead in (60, 0))
    assert (failed.decided_after, slow.may_fail, noise.may_fail) == (2, True, False)
    assert more_would_tell([failed, slow, noise], 2)
    assert more_would_tell([failed, slow, noise], 3)
    assert not more_would_tell([failed, slow, noise], 4)
    assert not more_would_tell([failed, noise], 2)
    # One round more where the first failure came late.
    late = judged(noisy(30, 0.01, 9))
    assert late.decided_after == 9
    assert more_would_tell([late, slow], 9)
    assert not more_would_tell([late, slow], 10)


def test_what_may_fail_is_outside_of_what_is_accepted_and_open():
    quiet = prior(6.0)
    assert judged(noisy(30, 0.06, 2), metrics=14, prior=quiet).may_fail
    assert not judged(noisy(300, 0.06, 2), metrics=14, prior=quiet).may_fail
    # Below what a reference expects, which fails too; a gain where none is expected only is a question.
    assert judged(noisy(0, 0.06, 2), lowest=80, highest=99, metrics=14, prior=prior(20.0)).may_fail
    assert not judged(noisy(-47, 0.03, 2), prior=prior(20.0)).may_fail


#: As many as HPCC has; three of them four times slower.
METRICS = [Metric(f"metric{number}", r"(\S+)", "x") for number in range(14)]
SLOW = ("metric0", "metric1", "metric2")
#: As HPCC's file states them, in percent.
OF_HPCC = (15, 20, 15, 20, 20, 15, 20, 40, 30, 15, 10, 10, 10, 10)


def check_of(spreads, known, seed, most=HORIZON):
    """Return a check's evaluation, and its outcome, after as many rounds as the job runs."""
    source = random.Random(seed)
    facts = facts_of(METRICS, priors={metric.name: (spread, "the check") for metric, spread in zip(METRICS, known)})
    evaluation = Evaluation(Facts(facts), Path())
    while evaluation.more_would_tell() and len(evaluation.rounds) < most:
        values = {"baseline": {}, "subject": {}}
        for metric, spread in zip(METRICS, spreads):
            factor = 4 if metric.name in SLOW else 1
            values["baseline"][metric.name] = 100.0
            values["subject"][metric.name] = 100.0 / factor * math.exp(source.gauss(0, spread / 100))
        evaluation.count(values)
    program = Program("true")
    sides = [Side(BARE["name"], "bare", program), Side(GENERIC["name"], "generic", program, compared_with=BARE["name"])]
    return evaluation, JobOutcome(METRICS, sides, evaluation, (), {}, {})


def failed_in(outcome):
    return tuple(comparison.metric.name for comparison in outcome.comparisons if comparison.verdict == FAIL)


@pytest.mark.parametrize("known", [[3] * 14, [20] * 14, [1] * 14], ids=["known", "default", "too small"])
def test_three_metrics_that_are_four_times_slower_are_all_named_within_four_rounds(known):
    for seed in range(30):
        evaluation, outcome = check_of([3] * 14, known, seed)
        assert len(evaluation.rounds) <= 4
        assert failed_in(outcome) == SLOW
        (line,) = outcome.failures
        assert line.startswith("3 metrics are worse than bare in this session: metric0 by 7")
        assert all(f"{name} by 7" in line for name in SLOW)


def test_with_spreads_like_those_of_hpcc_all_are_named_that_are_too_slow():
    """Those that have not failed by then are named as too slow, and not yet certain."""
    every = 0
    for seed in range(40):
        evaluation, outcome = check_of(OF_HPCC, OF_HPCC, seed)
        assert len(evaluation.rounds) <= 4
        assert outcome.failures and all(name in "\n".join(outcome.failures) for name in SLOW)
        assert len(outcome.failures) <= len(SLOW)
        every += failed_in(outcome) == SLOW
    assert every >= 30
