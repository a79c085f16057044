"""Where the known spread of a metric comes from: nights, the check, a default."""

from __future__ import annotations

import json
import math
import random
from types import SimpleNamespace

import pytest
import simulation
from containercheck import Metric
from containercheck.history import spreads
from containercheck.job.stats.pairs import INCONCLUSIVE, Pairs, Prior
from containercheck.results import earlier_sessions
from hypothesis import given
from hypothesis import strategies as st
from made import store
from made_nights import DAY, NOON, raw, report, row, session
from reframe.core.exceptions import ReframeError

NAME = "Fine %variant=generic %num_nodes=1"
RATE = Metric("rate", r"(\S+)", "x", spread=4.0)
START = Metric("start", r"(\S+)", "s", better="lower", compare="difference", tolerance=0.5)


def rounds(spread, count, seed):
    """Return rounds of a rate whose overheads spread by so many percent."""
    source = random.Random(seed)
    return [
        {"baseline": {"rate": 10.0}, "subject": {"rate": 10.0 * math.exp(source.gauss(0, spread / 100))}}
        for _ in range(count)
    ]


def case(spread, count, seed, **more):
    return raw(row(), measured=rounds(spread, count, seed), **more)


def nights(*cases):
    """Return sessions, one a night."""
    return [session(case, began=NOON + number * DAY) for number, case in enumerate(cases)]


# Nights.


def test_the_latest_nights_give_the_spread_with_a_margin_and_no_wild_one_rules():
    old, new = ([case(spread, 5, seed) for seed in range(30)] for spread in (30.0, 2.0))
    calm, wild = (
        spreads.from_nights(nights(*own))["here:one"][NAME]["rate"]
        for own in ([*old, *new], [*old, *new[:-1], case(80.0, 5, 99)])
    )
    assert (calm["source"], calm["unit"]) == ("30 nights", "%")
    assert calm["spread"] == pytest.approx(2.0 * spreads.MARGIN, rel=0.2)
    assert wild["spread"] < 2 * calm["spread"]


def test_the_more_nights_agree_the_more_is_known():
    def degrees(spreads_of_nights, first=0):
        stored = nights(*(case(spread, 6, first + seed) for seed, spread in enumerate(spreads_of_nights)))
        return spreads.from_nights(stored)["here:one"][NAME]["rate"]["degrees"]

    assert degrees([3.0] * 9) == 4
    assert sum(degrees([3.0] * 30, first) == 8 for first in range(0, 300, 30)) >= 5
    # Nights that differ twofold say little of the next one, however many they are.
    source = random.Random(1)
    assert degrees([3.0 * math.exp(source.gauss(0, 0.7)) for _ in range(30)]) == 4
    assert degrees([0.0] * 30) == 4


def test_too_few_nights_say_nothing():
    assert spreads.from_nights(nights(case(3.0, 9, 1), case(3.0, 9, 2))) == {}
    assert spreads.from_nights(nights(*(case(3.0, 2, seed) for seed in range(5)))) == {}
    assert spreads.from_nights(nights(*(case(3.0, 1, seed) for seed in range(30)))) == {}
    # Two sessions of one night are one night.
    both = [session(case(3.0, 9, seed)) for seed in range(2)] + nights(case(3.0, 9, 3), case(3.0, 9, 4))
    assert spreads.from_nights(both) == {}


def test_nights_that_compare_runtimes_and_bare_runs_say_nothing():
    assert spreads.from_nights(nights(*(case(3.0, 9, seed, runtimes="a,b") for seed in range(5)))) == {}
    bare = [raw(row(overhead=None), variant="bare", measured=[{"baseline": {"rate": 1.0}}] * 5) for _ in range(5)]
    assert spreads.from_nights(nights(*bare)) == {}
    # A metric that is always the same has a least spread.
    equal = spreads.from_nights(nights(*(case(0.0, 5, seed) for seed in range(5))))["here:one"][NAME]["rate"]
    assert equal["spread"] == pytest.approx(spreads.MARGIN * spreads.LEAST_PART * 5.0)


def test_ending_with_the_verdict_does_not_make_the_spread_smaller_night_by_night():
    """What the check knows comes from nights that ended when rounds happened to agree, and so on for 60 nights."""
    source, stored, known, degrees = random.Random(3), [], 4.0, 4
    for _ in range(60):
        pairs, measured = Pairs("higher", "ratio", -math.inf, 5.0, 1, prior=Prior(known, "nights", degrees)), []
        while pairs.verdict == INCONCLUSIVE and pairs.rounds < 40:
            subject = 10.0 * math.exp(source.gauss(0, 0.03))
            pairs.add(10.0, subject)
            measured.append({"baseline": {"rate": 10.0}, "subject": {"rate": subject}})
        stored.append(raw(row(), measured=measured))
        told = spreads.from_nights(nights(*stored)).get("here:one", {}).get(NAME, {}).get("rate")
        known, degrees = (told["spread"], told["degrees"]) if told else (known, degrees)
    assert 3.0 < known < 5.0


def test_a_verdict_of_the_session_keeps_what_was_known_when_it_fell():
    """A later pass judges all rounds anew: with another known spread the verdict might be another one."""
    facts = {"known_spread": 4.0, "spread_source": "the check"}
    closed, still = row(**facts), row("other", verdict="inconclusive", open_kind="noisy", **facts)
    question = row("third", verdict="inconclusive", open_kind="faster", **facts)
    told = spreads.kept([raw(closed, still, question)])["here:one"][NAME]
    assert told.keys() == {"rate", "third"}
    assert told["rate"] == {"spread": 4.0, "source": "the check", "unit": "%", "degrees": 4}
    # The last run of a case counts, and rows of before there was a known spread say nothing.
    assert spreads.kept([raw(row(verdict="inconclusive", **facts)), raw(closed)])["here:one"][NAME].keys() == {"rate"}
    assert spreads.kept([raw(closed), raw(row(verdict="inconclusive", **facts))]) == {}
    assert spreads.kept([raw(row())]) == {}


# What a check makes of it.


def test_the_order_of_what_is_known():
    told = {"rate": earlier_sessions.KnownSpread(Prior(2.5, "12 nights"), "%")}
    assert earlier_sessions.metric_priors([RATE], told) == {"rate": Prior(2.5, "12 nights")}
    assert earlier_sessions.metric_priors([RATE], {}) == {"rate": Prior(4.0, "the check")}
    # What was compared otherwise then has another unit.
    assert earlier_sessions.metric_priors(
        [RATE], {"rate": earlier_sessions.KnownSpread(Prior(0.1, "12 nights"), "s")}
    ) == {"rate": Prior(4.0, "the check")}
    unknown = Metric("rate", r"(\S+)", "x")
    assert earlier_sessions.metric_priors([unknown, START], {}) == {
        "rate": Prior(earlier_sessions.UNKNOWN_SPREAD, "default"),
        "start": Prior(0.25, "default"),
    }
    exact = Metric("memory", r"(\S+)", "MB", compare="difference", tolerance=0.0)
    assert earlier_sessions.metric_priors([exact], {}) == {}


def test_the_file_of_a_session_is_read_by_case_and_partition(tmp_path):
    path = tmp_path / "known.json"
    path.write_text(
        json.dumps({"here:one": {NAME: {"rate": {"spread": 2.5, "source": "12 nights", "unit": "%", "degrees": 8}}}})
    )
    assert earlier_sessions.known(str(path), NAME, "here:one") == {
        "rate": earlier_sessions.KnownSpread(Prior(2.5, "12 nights", 8), "%")
    }
    assert earlier_sessions.known(str(path), NAME, "here:two") == earlier_sessions.known("", NAME, "here:one") == {}
    with pytest.raises(ReframeError, match="cannot read .*none.json"):
        earlier_sessions.known(str(tmp_path / "none.json"), NAME, "here:one")


def test_the_rounds_that_a_check_is_expected_to_need():
    quiet, noisy = (Metric(f"rate{spread}", r"(\S+)", "x", spread=spread) for spread in (1.0, 12.0))
    assert earlier_sessions.rounds_expected([quiet], 5.0, {}) == 2
    assert earlier_sessions.rounds_expected([quiet, noisy], 5.0, {}) > 20
    assert earlier_sessions.rounds_expected([Metric("rate", r"(\S+)", "x", spread=60.0)], 5.0, {}) == 40
    assert (
        earlier_sessions.rounds_expected(
            [noisy], 5.0, {"rate12.0": earlier_sessions.KnownSpread(Prior(1.0, "9 nights"), "%")}
        )
        == 2
    )


def test_the_simulation_has_the_default_of_the_checks():
    assert pytest.approx(earlier_sessions.UNKNOWN_SPREAD) == 100 * simulation.DEFAULT


# The session.


def test_a_session_hands_on_what_its_database_says(tmp_path, monkeypatch):
    from containercheck.session import reframe_process
    from containercheck.session import session as session_module

    path = tmp_path / "results.db"
    stored = [report(case(3.0, 5, seed), began=session_module.time.time() - DAY * (9 - seed)) for seed in range(5)]
    store(path, stored)
    configured = SimpleNamespace(database=path)
    monkeypatch.setattr(reframe_process, "configuration", lambda arguments, place: configured)
    place = reframe_process.Workplace(tmp_path)

    def options(report):
        current = session_module.Session(session_module.Settings(None, False, ()), place, None)
        current.report = report
        return current._known_spreads()

    (_, option) = options({})
    told = json.loads((place.reports / "known-spreads.json").read_text())["here:one"][NAME]["rate"]
    assert option == f"known_spreads={place.reports / 'known-spreads.json'}"
    assert told["source"] == "5 nights"
    # Nothing is known where nothing was stored, or the file cannot be read.
    path.write_text("no database")
    assert options({}) == []
    closed = raw(row(known_spread=4.0, spread_source="the check"))
    assert options({"runs": [{"testcases": [closed]}]})
    known = json.loads((place.reports / "known-spreads.json").read_text())["here:one"][NAME]["rate"]
    assert known["source"] == "the check"


@given(st.integers(1, 9999), st.integers(1, 9999), st.integers(2, 40), st.sampled_from(["ratio", "difference"]))
def test_rounds_that_agree_in_all_printed_digits_show_no_spread(baseline, subject, rounds, compare):
    """The last bit of a mean of equal numbers must not decide."""
    pairs = Pairs("lower", compare, -math.inf, 5.0, 1, prior=Prior(15.0, "the check"))
    for _ in range(rounds):
        pairs.add(baseline / 100, subject / 100)
    assert pairs.assumed_spread == pytest.approx(15.0)
