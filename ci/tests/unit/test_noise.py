"""Programs against themselves: the check files written, the report of a session, the arithmetic of the noise."""

from __future__ import annotations

import doctest
import importlib
import math
import os
import random
import subprocess

import noise
import pytest
import twice
from conftest import REPOSITORY
from containercheck.results.row import Row
from hypothesis import assume, given
from hypothesis import strategies as st
from noise import Cost


@pytest.mark.parametrize("check", noise.LENGTHS)
def test_a_length_is_a_variable_of_its_check_and_longer_than_the_short_one(check):
    length = noise.LENGTHS[check]
    application = getattr(importlib.import_module(twice.applications()[check]), check)
    assert all(hasattr(application, name) for name in (length.variable, *length.also))
    assert 0 < length.short < length.long


def test_an_unknown_check_is_refused():
    with pytest.raises(SystemExit, match="no check Nothing: there are .*DB12, "):
        noise.parse(["Nothing"])


def test_checks_that_belong_to_the_full_axes_are_left_out():
    assert "GROMACS" in twice.applications()
    assert "GROMACSThreads" not in twice.applications()


# The report of a session.


def rows_of(**verdicts):
    """Return rows, by metric with its verdict."""
    common = {"accepted": (None, 5.0), "overhead_unit": "%", "overhead": 1.0, "rounds": 8, "spread": 2.0}
    return [Row(metric, verdict=verdict, **common) for metric, verdict in verdicts.items()]


def read_one(result, **facts):
    raw = {"display_name": "HPL %variant=bare", "partition": "one", "result": result, **facts}
    (case,) = twice.read({"runs": [{"testcases": [raw]}]})
    return case


def test_a_case_says_what_went_wrong():
    failed = read_one("fail", fail_phase="sanity", fail_reason="round 1,\n subject: hangs")
    assert failed.broken == "sanity: round 1, subject: hangs"
    assert read_one("skip", skip_reason="no software").skipped == "no software"
    slow = [row.to_json() for row in rows_of(a="fail", b="pass")]
    assert not read_one("fail", fail_phase="performance", results=slow).broken
    # A reference of the site's own that is not met is no verdict.
    assert read_one("fail", fail_phase="performance", results=slow[1:]).broken


def test_where_nothing_is_judged_a_case_is_skipped():
    rows = [row.to_json() for row in rows_of(a="emulated", b="emulated")]
    assert read_one("pass", results=rows).skipped == "the processors are emulated, and nothing is judged there"


# Arithmetic.

amounts = st.floats(0.01, 100)


def test_the_examples_of_the_docstrings_hold():
    assert doctest.testmod(noise) == (0, 3)


@given(amounts, amounts, st.integers(1, 1000), st.integers(2, 10))
def test_costs_and_variances_come_back(fixed, each, short, factor):
    long = short * factor
    costs = noise.cost(short, long, fixed + each * short, fixed + each * long)
    assert (costs.start, costs.iteration) == pytest.approx((fixed, each), rel=1e-6, abs=1e-6 * each * long)
    parts = noise.parts(short, long, fixed + each / short, fixed + each / long)
    assert parts == pytest.approx((fixed, each), rel=1e-6, abs=1e-6 * fixed * long)


@given(amounts, amounts, amounts, amounts, st.floats(0.1, 10))
def test_no_other_length_closes_sooner(start, iteration, between, within, factor):
    assume(abs(math.log(factor)) > 1e-3)

    def seconds_to_close(length):
        """Rounds grow with the variance of a run, and each costs a run."""
        return (start + iteration * length) * (between + within / length)

    best = noise.soonest(Cost(start, iteration), between, within)
    assert seconds_to_close(best) < seconds_to_close(best * factor)


def test_noise_that_does_not_fit_the_model_has_no_negative_part():
    assert noise.cost(1, 4, 3.0, 2.0) == Cost(3.0, 0.0)
    assert noise.cost(1, 4, 1.0, 8.0).start == 0
    assert noise.parts(1, 4, 1.0, 3.0) == (2.0, 0.0)
    assert noise.parts(1, 4, 4.0, 0.5) == (0.0, 3.0)
    assert noise.soonest(Cost(1.0, 1.0), 1.0, 0.0) == 0
    assert noise.soonest(Cost(1.0, 1.0), 0.0, 1.0) == math.inf
    lengths = [noise.of_length(seconds, noise.LENGTHS["HPL"]) for seconds in (0, math.inf, 3.21)]
    assert lengths == ["shortest", "longest", "3.2 solutions"]


def test_the_variance_of_a_run_is_half_that_of_pairs():
    source = random.Random(1)
    changes = [source.gauss(0, 0.03) - source.gauss(0, 0.03) for _ in range(4000)]
    assert noise.variance(changes, True) == pytest.approx(9, rel=0.1)
    assert noise.variance([2.0, -2.0], False) == 2


def test_the_table_of_a_check_with_two_lengths_and_of_one_without():
    rows = rows_of(a="pass", b="pass")
    case = twice.Case("HPL", rows, {"changes": {"a": [0.01, -0.01]}, "seconds": [2.0, 3.0, 2.5]})
    lines = noise.compared(noise.LENGTHS["HPL"], case, case)
    assert lines[0] == (
        "HPL: a start costs 2.5 s, each of the solutions (repeats) 0 s: runs of 2 and 8 take 2.5 and 2.5 s; "
        "8 and 8 rounds"
    )
    assert lines[2].split() == ["a", "5", "%", "2", "0.71", "0", "shortest", "*"]
    lines = noise.of_one_length(case)
    assert lines[0] == "HPL: no variable sets its length; a run takes 2.5 s (8 rounds)"
    assert lines[2].split() == ["a", "5", "%", "2", "-", "-", "*"]


def test_the_command_is_reached_by_its_name():
    command = [str(REPOSITORY / "ci" / "benchmark"), "nothing"]
    assert "boundaries|noise" in subprocess.run(command, text=True, capture_output=True, env=dict(os.environ)).stderr
