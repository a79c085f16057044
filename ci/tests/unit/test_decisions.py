"""What the runner decides between rounds, with runs that are made up: none takes any time."""

from __future__ import annotations

import pytest
from conftest import findings_of
from containercheck import Metric
from played import STRESS, Job

QUIET, SLOW = {"baseline": 1.0, "subject": 1.01}, {"baseline": 1.0, "subject": 1.2}
DECIDED = "every metric has its verdict, or more would not decide"


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Play a job in a directory of the test's own; return its record, and what it knows of its rounds."""
    monkeypatch.chdir(tmp_path)

    def run(job, *words):
        return job.play(monkeypatch, *words), job.evaluation

    return run


def verdicts(evaluation):
    return {pairs.verdict for pairs in evaluation.pairs.values()}


@pytest.mark.parametrize(("known", "rounds"), [(None, 6), (1.0, 2), (20.0, 6)])
def test_quiet_metrics_are_done_with_in_two_rounds_where_that_is_known_of_them(play, known, rounds):
    record, found = play(Job(QUIET, priors={"time": (known, "12 nights")} if known else {}))
    assert (len(found.rounds), verdicts(found), record.why) == (rounds, {"pass"}, DECIDED)


@pytest.mark.parametrize("known", [5.0, 20.0])
@pytest.mark.parametrize("metrics", [1, 14])
def test_a_subject_of_four_times_the_time_fails_in_three_rounds_whatever_is_known(play, metrics, known):
    declared = [Metric(f"time{number}", rf"^time{number} (\S+)", "s", better="lower") for number in range(metrics)]
    priors = {metric.name: (known, "default") for metric in declared}
    record, found = play(Job({"baseline": 1.0, "subject": 4.0}, declared, priors=priors))
    assert len(found.rounds) <= 3 and verdicts(found) == {"fail"} and record.why == DECIDED


def test_one_metric_that_failed_ends_the_rounds_though_others_are_open(play):
    slow, noisy = (Metric(name, rf"^{name} (\S+)", "s", better="lower") for name in ("slow", "noisy"))
    baseline, high, low = ({"slow": first, "noisy": other} for first, other in ((1.0, 1.0), (1.2, 3.0), (1.2, 0.3)))
    record, found = play(
        Job(lambda number: {"baseline": baseline, "subject": (high, low)[number % 2]}, metrics=[slow, noisy])
    )
    by_name = {name: pairs.verdict for (_, name), pairs in found.pairs.items()}
    assert by_name == {"slow": "fail", "noisy": "inconclusive"}
    assert (len(found.rounds), record.why) == (10, DECIDED)


def test_noise_that_would_never_tell_ends_the_rounds_with_an_open_verdict(play):
    record, found = play(Job(lambda number: {"baseline": 1.0, "subject": 1.05 * (1.5, 1 / 1.5)[number % 2]}))
    assert (verdicts(found), record.why) == ({"inconclusive"}, DECIDED)
    assert 10 <= len(found.rounds) < 40


@pytest.mark.parametrize("number", [1, 20])
def test_a_number_of_rounds_is_kept_whatever_the_verdict(play, number):
    record, found = play(Job(SLOW), f"--rounds={number}")
    assert (len(found.rounds), record.why) == (number, "as many as were asked for")


def test_no_round_begins_that_would_end_after_the_time(play):
    job = Job(lambda number: {"baseline": 1.0, "subject": (1.0, 1.1)[number % 2]})
    job.seconds = 5.0
    record, found = play(job, "--seconds=60")
    assert (len(found.rounds), job.now, record.why) == (6, 60.0, "the time is used up")
    assert verdicts(found) == {"inconclusive"}


@pytest.mark.parametrize(("subject", "verdict"), [(1.0, "inconclusive"), (4.0, "fail")])
def test_two_rounds_are_run_however_short_the_time_as_one_gives_no_verdict(play, subject, verdict):
    job = Job({"baseline": 1.0, "subject": subject}, priors={"time": (10.0, "default")})
    record, found = play(job, "--seconds=0.5")
    assert (len(found.rounds), verdicts(found)) == (2, {verdict})


def test_one_round_counts_where_the_job_would_be_ended_in_another(play):
    record, found = play(Job(QUIET, deadline=3.0), "--seconds=0.5")
    assert (len(found.rounds), record.why) == (1, "the time is used up")


def test_a_round_that_is_not_valid_is_not_the_one_that_counts(play):
    job = Job(QUIET)
    job.faults = {(1, "subject"): {"status": 3}}
    record, found = play(job, "--seconds=0.5")
    assert ([run["round"] for run in record.runs], len(found.rounds)) == ([1, 1, 2, 2, 3, 3], 2)


def test_the_order_is_drawn_anew_by_every_job_and_fair(play, tmp_path, monkeypatch):
    first = []
    for number in range(40):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        record, _ = play(Job(QUIET), "--rounds=10")
        first += [run["side"] for run in record.runs][::2]
    # Of 400 coins; six standard deviations.
    assert 140 < first.count("baseline") < 260


def test_a_round_that_was_disturbed_and_lies_far_off_is_replaced(play):
    job = Job(lambda number: SLOW if number == 2 else QUIET, priors={"time": (1.0, "12 nights")})
    job.disturbed = (2, 4)
    record, found = play(job)
    assert (record.replaced, record.busy) == ({"2": STRESS}, "")
    assert found.values()["time"]["subject"] == [1.01] * len(found.rounds)
    assert verdicts(found) == {"pass"}
    assert findings_of(vars(record), []).disturbances() == [
        f"1 of {len(found.rounds) + 1} rounds disturbed by stress-ng (pid 4711) and replaced"
    ]


def test_a_machine_is_busy_where_most_rounds_are_disturbed_and_they_count(play):
    job = Job(QUIET)
    job.disturbed = (1, 2, 4, 5)
    record, found = play(job)
    assert (record.replaced, record.busy, len(found.rounds)) == ({}, "stress-ng (pid 4711)", 6)


def test_a_single_round_is_not_replaced(play):
    """It shows that a case runs; a verdict it cannot give."""
    job = Job(QUIET)
    job.disturbed = (1,)
    record, found = play(job, "--rounds=1")
    assert (len(found.rounds), len(record.runs), record.replaced) == (1, 2, {})
    assert record.busy == "stress-ng (pid 4711)"


def test_a_number_of_rounds_is_of_those_that_count(play):
    job = Job(lambda number: SLOW if number == 2 else QUIET, priors={"time": (1.0, "12 nights")})
    job.disturbed = (2,)
    record, found = play(job, "--rounds=8")
    assert (list(record.replaced), len(found.rounds), len(record.runs)) == (["2"], 8, 18)


def limit_of(job, play, number=2, side="subject"):
    play(job, "--rounds=2")
    (limit,) = [limit for number_, name, limit in job.limits if (number_, name) == (number, side)]
    return limit


@pytest.mark.parametrize(("baseline", "limit"), [(3.0, 60), (4.0, 80), (31.0, 600)])
def test_a_subject_may_take_twenty_times_as_long_as_its_baseline_and_a_minute_in_any_case(play, baseline, limit):
    job = Job(QUIET)
    job.seconds = baseline
    assert limit_of(job, play) == limit


def test_the_baseline_has_the_limit_of_the_check(play):
    assert limit_of(Job(QUIET), play, side="baseline") == 600


def test_a_baseline_that_failed_is_no_measure_of_the_subject(play, tmp_path, monkeypatch):
    # As often as it takes for the baseline to be the first of its round.
    for number in range(12):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        job = Job(QUIET)
        job.seconds = 20.0
        # It fails at once, in the second round.
        job.faults = {(2, "baseline"): {"status": 3, "seconds": 0.1}}
        assert limit_of(job, play) == 400


EARLIER = [{side: {"time": value} for side, value in QUIET.items()}]


def test_a_job_goes_on_from_earlier_rounds(play):
    record, found = play(Job(QUIET, earlier=4 * EARLIER))
    assert (len(record.runs), len(found.rounds), verdicts(found)) == (4, 6, {"pass"})


def test_where_earlier_rounds_say_it_all_one_more_is_run(play):
    record, found = play(Job(QUIET, earlier=7 * EARLIER))
    assert (len(record.runs), verdicts(found), record.why) == (2, {"pass"}, DECIDED)
    assert found.pairs["subject", "time"].decided_after == 6


def test_a_verdict_of_earlier_rounds_stays(play):
    record, found = play(Job(lambda number: SLOW, earlier=7 * EARLIER), "--rounds=20")
    assert (len(found.rounds), verdicts(found)) == (27, {"pass"})
