"""What the runner decides between rounds, with runs that are made up: none takes any time."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import BARE, GENERIC, facts_of, run_of
from containercheck import Figure
from containercheck.node.job import rounds as runner
from containercheck.verdict.record import Record
from hypothesis import given, settings
from hypothesis import strategies as st

TIME = Figure("time", r"^time (\S+)", "s", better="lower")
QUIET, SLOW = {"baseline": 1.0, "subject": 1.01}, {"baseline": 1.0, "subject": 1.2}
DECIDED = "every figure has its verdict, or more would not tell"
#: Somebody else, as a run's record names it.
STRESS = "stress-ng (pid 4711): 48 %"


class Job:
    """A job in the working directory, whose clock goes on when runs say so.

    :ivar values: of each side its figure, or its figures by name; the same in every round, or what a function says.
    :ivar seconds: what a run takes.
    :ivar disturbed: numbers of rounds that somebody disturbs.
    :ivar faults: of round and side, what is wrong with its run.
    :ivar takes: of a side, what its runs take; one that would exceed its limit is ended there.
    """

    def __init__(self, values, figures=(TIME,), sides=(BARE, GENERIC), **facts):
        self.values = values if callable(values) else lambda number: values
        self.figures, self.facts = figures, facts_of(figures, sides=sides, **facts)
        self.seconds, self.disturbed, self.faults = 1.0, (), {}
        self.takes = {}
        self.now, self.limits = 0.0, []

    def run_once(self, script, output, limit, collect, local_ranks):
        """Write what the run prints."""
        number, side = int(output.name.split("-")[0]), output.name.split("-")[1]
        output.mkdir(parents=True)
        value = self.values(number)[side]
        by_name = value if isinstance(value, dict) else {figure.name: value for figure in self.figures}
        (output / "out").write_text("".join(f"{name} {value!r}\n" for name, value in by_name.items()))
        (output / "err").write_text("")
        self.limits.append((number, side, limit))
        wanted = self.takes.get(side, self.seconds)
        seconds = min(limit, wanted) if side in self.takes else wanted
        self.now += seconds
        late = {"timed_out": True, "status": None} if seconds < wanted else {}
        who = STRESS if number in self.disturbed and side == "subject" else ""
        return run_of(
            side,
            str(output),
            number,
            **{"seconds": seconds, "disturbed_by": who, **late, **self.faults.get((number, side), {})},
        )

    def play(self, monkeypatch, *words):
        """Run all rounds; return the record as it is read afterwards."""
        Path("facts.json").write_text(json.dumps(self.facts))
        monkeypatch.setattr(runner, "run_once", self.run_once)
        monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: self.now))
        arguments = runner.parse([*(words or ["--seconds=1000"]), "--limit=600", "--local-ranks=0"])
        rounds = runner.Rounds(arguments, self.now)
        rounds.run()
        rounds.write()
        return Record.read(Path())

    def evaluation(self, record):
        return record.evaluate(self.facts, Path())


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Play a job in a directory of the test's own; return its record, and all that is read of it."""
    monkeypatch.chdir(tmp_path)

    def run(job, *words):
        record = job.play(monkeypatch, *words)
        return record, job.evaluation(record)

    return run


def verdicts(evaluation):
    return {pairs.verdict for pairs in evaluation.pairs.values()}


@pytest.mark.parametrize(("known", "rounds"), [(None, 6), (1.0, 2), (20.0, 6)])
def test_quiet_figures_are_done_with_in_two_rounds_where_that_is_known_of_them(play, known, rounds):
    record, found = play(Job(QUIET, priors={"time": (known, "12 nights")} if known else {}))
    assert (len(found.rounds), verdicts(found), record.why) == (rounds, {"pass"}, DECIDED)


@pytest.mark.parametrize("known", [5.0, 20.0])
@pytest.mark.parametrize("figures", [1, 14])
def test_a_subject_of_four_times_the_time_fails_in_three_rounds_whatever_is_known(play, figures, known):
    declared = [Figure(f"time{number}", rf"^time{number} (\S+)", "s", better="lower") for number in range(figures)]
    priors = {figure.name: (known, "default") for figure in declared}
    record, found = play(Job({"baseline": 1.0, "subject": 4.0}, declared, priors=priors))
    assert len(found.rounds) <= 3 and verdicts(found) == {"fail"} and record.why == DECIDED


@pytest.mark.parametrize(("figures", "rounds"), [(1, 9), (2, 10), (14, 12)])
def test_a_slow_subject_fails_as_early_as_its_figures_allow(play, figures, rounds):
    declared = [Figure(f"time{number}", rf"^time{number} (\S+)", "s", better="lower") for number in range(figures)]
    record, found = play(Job(SLOW, declared))
    assert (len(found.rounds), verdicts(found), record.why) == (rounds, {"fail"}, DECIDED)


def test_one_figure_that_failed_ends_the_rounds_though_others_are_open(play):
    slow, noisy = (Figure(name, rf"^{name} (\S+)", "s", better="lower") for name in ("slow", "noisy"))
    baseline, high, low = ({"slow": first, "noisy": other} for first, other in ((1.0, 1.0), (1.2, 3.0), (1.2, 0.3)))
    record, found = play(
        Job(lambda number: {"baseline": baseline, "subject": (high, low)[number % 2]}, figures=[slow, noisy])
    )
    by_name = {name: pairs.verdict for (_, name), pairs in found.pairs.items()}
    assert by_name == {"slow": "fail", "noisy": "inconclusive"}
    assert (len(found.rounds), record.why) == (10, DECIDED)


def test_noise_that_would_never_tell_ends_the_rounds_with_an_open_verdict(play):
    record, found = play(Job(lambda number: {"baseline": 1.0, "subject": 1.05 * (1.5, 1 / 1.5)[number % 2]}))
    assert (verdicts(found), record.why) == ({"inconclusive"}, DECIDED)
    assert 10 <= len(found.rounds) < 40


@pytest.mark.parametrize("number", [1, 4, 20])
def test_a_number_of_rounds_is_kept_whatever_the_verdict(play, number):
    record, found = play(Job(SLOW), f"--rounds={number}")
    assert (len(found.rounds), record.why) == (number, "as many as were asked for")


def test_no_round_begins_that_would_end_after_the_time(play):
    job = Job(lambda number: {"baseline": 1.0, "subject": (1.0, 1.1)[number % 2]})
    job.seconds = 5.0
    record, found = play(job, "--seconds=60")
    assert (len(found.rounds), job.now, record.why) == (6, 60.0, "the time is used up")
    assert verdicts(found) == {"inconclusive"}


def test_one_round_counts_however_short_the_time(play):
    record, found = play(Job(QUIET), "--seconds=0.5")
    assert (len(found.rounds), record.why) == (1, "the time is used up")


def test_a_round_that_is_not_valid_is_not_the_one_that_counts(play):
    job = Job(QUIET)
    job.faults = {(1, "subject"): {"status": 3}}
    record, found = play(job, "--seconds=0.5")
    assert ([run["round"] for run in record.runs], len(found.rounds)) == ([1, 1, 2, 2], 1)


def test_a_disturbed_round_is_replaced_while_there_is_time_for_another(play):
    job = Job(QUIET)
    job.disturbed = (1,)
    record, found = play(job, "--seconds=5")
    assert (record.replaced, len(found.rounds)) == ({1: STRESS}, 1)


def test_a_disturbed_round_counts_where_there_is_no_time_for_another(play):
    job = Job(QUIET)
    job.disturbed = (1,)
    record, found = play(job, "--seconds=3")
    assert ([run["round"] for run in record.runs], len(found.rounds), record.replaced) == ([1, 1], 1, {})
    assert record.busy == "stress-ng (pid 4711)"


def test_a_side_by_itself_runs_once(play):
    record, found = play(Job(QUIET, sides=[BARE]))
    assert ([run["side"] for run in record.runs], record.why) == (["baseline"], DECIDED)


def test_the_order_is_drawn_anew_by_every_job_and_fair(play, tmp_path, monkeypatch):
    first = []
    for number in range(40):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        record, _ = play(Job(QUIET), "--rounds=10")
        coin, drawn = random.Random(json.loads(Path("rounds.json").read_text())["seed"]), []
        for _ in range(10):
            sides = ["baseline", "subject"]
            coin.shuffle(sides)
            drawn += sides
        assert [run["side"] for run in record.runs] == drawn
        first += drawn[::2]
    # Of 400 coins; six standard deviations.
    assert 140 < first.count("baseline") < 260


def test_disturbed_rounds_are_replaced(play):
    job = Job(lambda number: SLOW if number in (2, 4) else QUIET)
    job.disturbed = (2, 4)
    record, found = play(job)
    assert record.replaced == {2: STRESS, 4: STRESS}
    assert (len(found.rounds), len(record.runs), record.busy) == (6, 16, "")
    assert found.values()["time"]["subject"] == [1.01] * 6
    assert record.disturbances == ["2 of 8 rounds disturbed by stress-ng (pid 4711) and replaced"]


def test_a_number_of_rounds_is_of_those_that_count(play):
    job = Job(QUIET)
    job.disturbed = (1, 3)
    record, found = play(job, "--rounds=2")
    assert (len(found.rounds), len(record.runs)) == (2, 8)


def test_a_single_round_is_not_replaced(play):
    """It shows that a case runs; a verdict it cannot give."""
    job = Job(QUIET)
    job.disturbed = (1,)
    record, found = play(job, "--rounds=1")
    assert (len(found.rounds), len(record.runs), record.replaced) == (1, 2, {})
    assert record.busy == "stress-ng (pid 4711)"


def test_after_three_in_a_row_they_count_until_it_is_quiet_again(play):
    job = Job(QUIET)
    job.disturbed = (1, 2, 3, 4, 5, 7)
    record, found = play(job)
    assert list(record.replaced) == [1, 2, 3, 7]
    assert len(found.rounds) == 6
    assert record.busy == "stress-ng (pid 4711)"


def test_no_more_than_ten_are_replaced(play):
    job = Job(lambda number: {"baseline": 1.0, "subject": (1.0, 1.1)[number % 2]})
    job.disturbed = range(1, 200, 2)
    record, found = play(job, "--rounds=20")
    assert list(record.replaced) == list(range(1, 21, 2))
    assert (len(found.rounds), record.busy) == (20, "stress-ng (pid 4711)")


def test_a_replaced_round_counts_among_the_failures(play):
    job = Job(QUIET)
    job.disturbed = (1,)
    job.faults = {(1, "subject"): {"status": 3}, (3, "subject"): {"status": 4}}
    record, found = play(job)
    assert record.why == "exit status of subject, 2 times"
    assert [problem.round for problem in found.problems] == [1, 3]
    assert max(run["round"] for run in record.runs) == 3


def test_a_side_by_itself_is_not_run_again_because_somebody_disturbs_it(play):
    job = Job(QUIET, sides=[BARE])
    job.run_once = lambda *words, made=job.run_once: {**made(*words), "disturbed_by": STRESS}
    record, _ = play(job)
    assert (len(record.runs), record.replaced, record.busy) == (1, {}, "")


def limit_of(job, play, number=2, side="subject"):
    play(job, "--rounds=2")
    (limit,) = [limit for number_, name, limit in job.limits if (number_, name) == (number, side)]
    return limit


@pytest.mark.parametrize(("baseline", "limit"), [(0.1, 60), (3.0, 60), (4.0, 80), (29.0, 580), (31.0, 600), (900, 600)])
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


PLAYED = st.fixed_dictionaries(
    {
        "overhead": st.sampled_from([-0.1, 0.0, 0.03, 0.05, 0.1, 0.3]),
        "spread": st.sampled_from([0.0, 0.01, 0.03, 0.1]),
        "seed": st.integers(0, 2**32),
        "disturbed": st.sets(st.integers(1, 40)),
        "faults": st.dictionaries(
            st.tuples(st.integers(1, 12), st.sampled_from(["baseline", "subject"])),
            st.sampled_from([{"status": 3}, {"timed_out": True}]),
            max_size=2,
        ),
        "earlier": st.integers(0, 3),
        "known": st.sampled_from([None, 1.0, 10.0]),
        "words": st.sampled_from(["--seconds=1000", "--seconds=12", "--rounds=7"]),
    }
)


@given(PLAYED)
@settings(max_examples=40)
def test_what_is_read_afterwards_has_the_jobs_verdict_and_its_reason_to_end(tmp_path_factory, facts):
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(tmp_path_factory.mktemp("job"))
        source = random.Random(facts["seed"])
        noise = [
            {side: math.exp(facts["spread"] * source.gauss(0, 1)) for side in ("baseline", "subject")}
            for _ in range(80)
        ]
        size = {"baseline": 1.0, "subject": 1 + facts["overhead"]}
        job = Job(
            lambda number: {side: value * size[side] for side, value in noise[number].items()},
            earlier=facts["earlier"] * EARLIER,
            priors={"time": (facts["known"], "12 nights")} if facts["known"] else {},
        )
        job.disturbed, job.faults = facts["disturbed"], facts["faults"]
        kept = []
        monkeypatch.setattr(
            runner, "Evaluation", lambda *words, made=runner.Evaluation: kept.append(made(*words)) or kept[-1]
        )
        record = job.play(monkeypatch, facts["words"])
        (in_job,), found = kept, job.evaluation(record)
        assert found.rounds == in_job.rounds
        assert found.problems == in_job.problems
        assert list(found.pairs) == list(in_job.pairs)
        for name, pairs in found.pairs.items():
            assert (pairs.verdict, pairs.changes) == (in_job.pairs[name].verdict, in_job.pairs[name].changes)
        assert (found.replaced, found.round_seconds) == (in_job.replaced, in_job.round_seconds)
        if found.repeated():
            assert record.why == found.repeated()
        elif record.why == DECIDED:
            assert not found.more_would_tell()
        else:
            assert record.why in ("as many as were asked for", "the time is used up")
            assert found.more_would_tell() or "--rounds=7" in facts["words"]


def with_remedies(budget, count=2, **takes):
    """Return a job whose container is slow, and that tries remedies that do nothing, with so many seconds for them."""
    names = [f"remedy{number}" for number in range(1, count + 1)]
    coin = random.Random(3)
    noise = [1 + coin.gauss(0, 0.02) for _ in range(200)]
    values = {**SLOW, **dict.fromkeys(names, 1.2)}
    job = Job(lambda number: {side: value * noise[number] for side, value in values.items()})
    remedies = [{"name": name, "of": "subject", "figures": {"time": 20.0}} for name in names]
    job.facts.update(remedies=remedies, remedy_seconds=1.0, remedy_budget=budget)
    job.takes = {**dict.fromkeys(names, 1.0), **takes}
    return job


def spent_on_remedies(record, alone):
    """Return the seconds of a record's remedies, and of the rounds that ran for them after ``alone`` rounds."""
    of_remedies = [run for run in record.runs if run["side"].startswith("remedy")]
    others = [run for run in record.runs if run not in of_remedies and run["round"] > alone]
    return sum(run["seconds"] for run in (*of_remedies, *others))


@given(budget=st.floats(0, 40), count=st.integers(1, 3), slow=st.floats(0.5, 30))
@settings(max_examples=15)
def test_remedies_never_take_more_than_their_budget(tmp_path_factory, budget, count, slow):
    """Whatever their runs take: one that hangs is ended where nothing is left for it."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(tmp_path_factory.mktemp("job"))
        record = with_remedies(0, count).play(monkeypatch)
        monkeypatch.chdir(tmp_path_factory.mktemp("job"))
        tried = with_remedies(budget, count, remedy1=slow).play(monkeypatch)
        alone = max(run["round"] for run in record.runs)
        assert spent_on_remedies(tried, alone) <= budget + 1e-6


def test_without_a_budget_no_remedy_runs(play):
    record, _ = play(with_remedies(0))
    assert {run["side"] for run in record.runs} == {"baseline", "subject"}


def test_a_remedy_runs_as_often_as_its_budget_allows(play):
    record, _ = play(with_remedies(5.0))
    sides = [run["side"] for run in record.runs]
    # Of the fifth, one that takes a little longer would exceed it.
    assert sides.count("remedy1") + sides.count("remedy2") == 4


def ends_in_container(budget=60.0, **faults):
    """Return a job whose container ends with an error in each run, and its remedy, which has to end well four times."""
    job = with_remedies(budget, 1)
    job.facts.update(remedy_runs=4, remedies=[{"name": "remedy1", "of": "subject", "figures": {}}])
    job.faults = {(number, "subject"): {"status": 3} for number in range(1, 9)}
    job.faults.update({(number, "remedy1"): {"status": 3} for number in faults.get("remedy", ())})
    return job


@pytest.mark.parametrize(
    ("budget", "remedy", "runs"), [(60.0, (), 4), (60.0, (1,), 1), (60.0, (3,), 3), (2.5, (), 2), (0.5, (), 0)]
)
def test_a_remedy_for_what_ends_has_to_end_well_several_times(play, budget, remedy, runs):
    """The container ends once more, in the only round; no remedy takes more than its budget."""
    record, found = play(ends_in_container(budget, remedy=remedy), "--rounds=1")
    sides = [run["side"] for run in record.runs]
    # The first run of a remedy is not known to take any time.
    assert (sides.count("subject"), sides.count("baseline"), sides.count("remedy1")) == (1, 1, runs)
    assert found.experiments.ended_well["remedy1"] == runs - len(remedy)
    assert [problem.side for problem in found.problems] == ["subject"]


def test_a_remedy_that_hangs_ends_with_its_budget_and_the_rounds_go_on(play):
    job = with_remedies(10.0, remedy1=1000.0)
    record, found = play(job)
    hung = [run for run in record.runs if run["side"] == "remedy1"]
    assert [run["timed_out"] for run in hung] == [True]
    assert hung[0]["seconds"] <= 10.0
    assert found.experiments.failed["remedy1"] == "it did not end in time"
    assert verdicts(found) == {"fail"}
