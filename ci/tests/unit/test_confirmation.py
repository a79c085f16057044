"""The second phase of a job: what failed is confirmed, and remedies are tried, with runs that are made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import BARE
from conftest import GENERIC as UNCONTAINED
from containercheck import Answer, Metric
from containercheck.job import confirmation, remedies, runner
from containercheck.job.explain import explanation, halving
from containercheck.job.explain.causes import MOST
from containercheck.job.processes import Terminated
from hypothesis import given, settings
from hypothesis import strategies as st
from played import TIME, Job

QUIET, SLOW, FOURFOLD = ({"baseline": 1.0, "subject": value} for value in (1.01, 1.2, 4.0))
GENERIC = {**UNCONTAINED, "contained": True}
KNOWN = {"time": (2.0, "12 nights")}
#: What bare sees, and a container with two variables that can slow it.
SEES = {"host": "node1", "environment": {}, "limits": {"Max processes": "100"}}
DIFFERS = {**SEES, "environment": {"OPENBLAS_CORETYPE": "Prescott", "MALLOC_ARENA_MAX": "1"}}
#: And one with a limit that can end runs.
LIMITED = {**SEES, "limits": {"Max processes": "10"}}
SUM = Answer("sum", r"^sum (\S+)")
FILES = Metric("time", r"^time (\S+)", "s", better="lower", measures=("files",))
#: An image that is read through FUSE.
MOUNTED = {**SEES, "mounts": {"/": ["fuse.squashfuse_ll", "squashfuse_ll", "ro"]}}
ON_DISK = {**SEES, "mounts": {"/": ["ext4", "/dev/vda", "rw"]}}


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Play both phases of a job in a directory of the test's own; return its record.

    A remedy sees what bare sees.
    """

    def run(job, *words, differs=DIFFERS, sees=SEES, directory=tmp_path):
        monkeypatch.chdir(directory)
        for name, seen in (("baseline", sees), ("subject", differs)):
            Path(f"{name}.observed.json").write_text(json.dumps(seen))
        record = lambda name, ranks, patience: Path(f"{name}.observed.json").write_text(json.dumps(sees))  # noqa: E731
        monkeypatch.setattr(remedies.observation, "record", record)
        job.facts.setdefault("remedies", MOST)
        return job.play(monkeypatch, *words, confirms=True)

    return run


def slow(fresh, values=SLOW, metrics=(TIME,), **facts):
    """Return a job whose container is slow in the first rounds."""
    job = Job(values, metrics, **{"sides": [BARE, GENERIC], "priors": KNOWN, **facts})
    job.fresh = fresh
    return job


def with_remedies(*remedies):
    """Return what a slow container's fresh rounds take, and those of its remedies."""
    return {**SLOW, **{f"remedy{number}": value for number, value in enumerate(remedies, 1)}}


def row(record):
    (found,) = record.verdict["rows"]
    return found["verdict"], found["confirmation"]


def test_a_failure_is_none_where_fresh_rounds_pass(play):
    record = play(slow({**QUIET, "remedy1": 1.0, "remedy2": 1.0}))
    assert (row(record), record.verdict["failures"], record.verdict["causes"]) == (("inconclusive", "refuted"), [], [])
    line = record.verdict["doubts"][0]
    assert "above it in 2 of 2 rounds, and not in " in line and ": slow once, not again; " in line


@pytest.mark.parametrize(("fresh", "said"), [(3, "refuted"), (2, "unconfirmed")])
def test_three_fresh_rounds_within_what_is_accepted_speak_against_a_failure_and_fewer_do_not(play, fresh, said):
    """They spread too much to pass."""
    job = slow(lambda number: {"baseline": 1.0, "subject": {3: 1.25, 4: 0.8, 5: 1.0}[number]}, FOURFOLD, remedies=0)
    job.seconds = 10.0
    job.facts["deadline"] = 40.0 + 20.0 * fresh
    record = play(job)
    assert job.confirmation.confirmed["subject", "time"].rounds == fresh
    assert row(record)[1] == said


START = {"better": "lower", "compare": "difference", "tolerance": 0.5, "spread": 0.02}


@pytest.mark.parametrize(
    ("metric", "more", "taken", "said"),
    [
        # 0.8 s on a node of which others used 60 % would be 0.32 s.
        (Metric("time", r"^time (\S+)", "s", **START), 0.8, 0.6, ("inconclusive", "busy")),
        (Metric("time", r"^time (\S+)", "s", **START), 0.8, 0.0, ("fail", "confirmed")),
        (Metric("time", r"^time (\S+)", "s", **START), 1.6, 0.6, ("fail", "confirmed")),
        # Both sides of a ratio wait, and memory does not.
        (TIME, 0.8, 0.6, ("fail", "confirmed")),
        (Metric("time", r"^time (\S+)", "MB", **START), 0.8, 0.6, ("fail", "confirmed")),
    ],
)
def test_a_start_that_others_on_the_node_make_long_does_not_fail(play, metric, more, taken, said):
    values = {"baseline": 1.0, **{side: 1.0 + more for side in ("subject", "remedy1", "remedy2")}}
    job = slow(values, values, metrics=(metric,), priors={})
    job.faults = {(number, side): {"taken": taken} for number in range(1, 60) for side in values}
    record = play(job)
    assert row(record) == said
    words = "slow, but others used 60 % of the node; run it again, on a quieter machine"
    assert (words in "".join(record.verdict["doubts"])) == (said[1] == "busy")


@pytest.mark.parametrize(("left", "fresh"), [(-1.0, 0), (10.0, 0), (70.0, 1)])
def test_a_failure_that_there_is_no_time_to_confirm_stays_one(play, left, fresh):
    """As two that were planted, of 73 and 75 %, in 2 of 2 rounds."""
    job = slow(FOURFOLD, FOURFOLD, deadline=120.0 + left)
    job.seconds = 30.0
    record = play(job, "--seconds=120")
    assert row(record) == ("fail", "unconfirmed")
    (line,) = record.verdict["failures"]
    assert "above it in 2 of 2 rounds, not confirmed: the time was used up" + " after 1 more" * fresh in line, line
    assert len(record.verdict["measured"]) == 2 + fresh


def causes(record):
    """Return what experiments showed of each cause."""
    return {cause["about"]: explanation.outcome(cause) for cause in record.verdict["causes"] if cause.get("result")}


def test_the_cause_whose_remedy_takes_all_away_is_proven(play):
    record = play(slow(with_remedies(1.0, 1.2)))
    found = causes(record)
    assert [*found] == ["OPENBLAS_CORETYPE", "MALLOC_ARENA_MAX"]
    assert found["OPENBLAS_CORETYPE"].startswith("proven, ")
    assert record.verdict["explained"][1].startswith("proven: with OPENBLAS_CORETYPE removed the overhead of time is ")
    assert row(record) == ("fail", "confirmed")
    # Remedies are no rounds of the container, and no rows.
    assert {side for round_ in record.verdict["measured"] for side in round_} == {"baseline", "subject"}


def test_after_a_duet_failed_remedies_are_tried_with_the_sides_in_turn(play, monkeypatch):
    job = slow(with_remedies(1.0, 1.2), duet={"cores": 1, "stagedir": "/stage"})

    def run_both(both, collect, ranks):
        return [{**job.run_once("", half.output, 10, collect, ranks), "processors": "0"} for half in both]

    monkeypatch.setattr(runner, "halves", lambda *_: ({0}, {1}))
    monkeypatch.setattr(runner, "make_directories", lambda _: None)
    monkeypatch.setattr(runner, "run_both", run_both)
    record = play(job)
    assert causes(record)["OPENBLAS_CORETYPE"].startswith("proven, ")
    assert row(record) == ("fail", "confirmed")
    at_once = {run["round"] for run in record.runs if "processors" in run}
    assert at_once == {1, 2} and record.runs[-1]["round"] > 2


def test_a_remedy_that_does_nothing_is_refuted_and_one_that_does_a_part_helps(play):
    found = causes(play(slow(with_remedies(1.08, 1.2))))
    assert found["OPENBLAS_CORETYPE"].startswith("it helps, ")
    assert found["MALLOC_ARENA_MAX"].startswith("not the cause, ")


def test_a_remedy_that_fails_or_hangs_is_left_out_and_keeps_nothing_from_its_verdict(play):
    job = slow(with_remedies(1.0, 1.0))
    job.faults = {(number, "remedy1"): {"status": 3} for number in range(1, 60)}
    job.takes = {"remedy2": 1000.0}
    record = play(job)
    assert (row(record), record.verdict["problems"]) == (("fail", "confirmed"), [])
    assert "proven" not in str(causes(record))
    assert [run["timed_out"] for run in record.runs if run["side"] == "remedy2"] == [True]


def test_no_more_remedies_are_tried_than_the_time_is_enough_for(play):
    job = slow(with_remedies(1.2, 1.2))
    job.seconds = 10.0
    # Three runs in each of three rounds, with some to spare; the first phase took 40 s.
    job.facts["deadline"] = 40.0 + 110.0
    record = play(job)
    sides = {run["side"] for run in record.runs if not run["side"].startswith(confirmation.TIMED)}
    assert sides == {"baseline", "subject", "remedy1"}


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [(1.0, 1.2, ("OPENBLAS_CORETYPE", "proven")), (1.2, 1.0, ("MALLOC_ARENA_MAX", "proven"))],
)
def test_what_a_rule_names_but_had_no_time_to_try_is_tried_before_differences_are_halved(play, first, second, said):
    """The confirmation has time for its own rounds only. If the first remedy is in vain, halving goes on."""
    job = slow(with_remedies(first, second, second))
    job.seconds = 10.0
    record = play(job, "--seconds=20")
    proven = {about: outcome.partition(",")[0] for about, outcome in causes(record).items()}
    assert said in proven.items()
    in_vain = sum(run["side"] == "remedy1" for run in record.runs) == 1
    assert in_vain == (first > 1)


@given(
    seconds=st.floats(0.5, 40),
    slowness=st.floats(0.5, 200),
    deadline=st.floats(0, 400),
    words=st.sampled_from([["--seconds=100"], ["--seconds=10"], ["--rounds=4"]]),
)
@settings(max_examples=30)
def test_the_second_phase_takes_no_more_than_its_budget_and_one_round(
    tmp_path_factory, seconds, slowness, deadline, words
):
    """Whatever remedies take."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(tmp_path_factory.mktemp("job"))
        Path("baseline.observed.json").write_text(json.dumps(SEES))
        Path("subject.observed.json").write_text(json.dumps(DIFFERS))
        monkeypatch.setattr(remedies.observation, "record", lambda name, ranks, patience: None)
        job = slow({**with_remedies(*[1.0] * 9), "subject": 1.2}, remedies=MOST, deadline=deadline)
        job.seconds, job.takes = seconds, {f"remedy{number}": slowness for number in range(1, 10)}
        job.play(monkeypatch, *words, confirms=True)
        took = job.confirmation.seconds
        first = job.now - took
        # And then differences are halved.
        budget = min(max(20.0, 3 * first) + max(halving.LEAST, 2 * first), max(0.0, deadline - first))
        assert took <= budget + 2 * seconds + 2 + 1e-3


def test_an_unpacked_image_is_there_for_its_remedy_and_removed_with_it(play):
    job = slow(with_remedies(1.2, 1.0), metrics=[FILES])
    kept = []
    job.run_once = lambda *words, made=job.run_once: kept.append([*Path().glob("image.unpacked.remedy*/file")]) or made(
        *words
    )
    record = play(job, differs=MOUNTED, sees=ON_DISK)
    (proven,) = (cause for cause in record.verdict["causes"] if explanation.is_proven(cause))
    assert proven["experiment"]["kind"] == "unpack" and kept[-1]
    job.confirmation.clean_up()
    assert [*Path().glob("image.unpacked*")] == []


def test_a_job_that_is_ended_while_it_confirms_keeps_its_verdict_as_not_confirmed(play):
    job = slow(with_remedies(1.0, 1.0))

    def run_once(*words, made=job.run_once):
        if int(words[1].name.split("-")[0]) > 3:
            raise Terminated(143)
        return made(*words)

    job.run_once = run_once
    with pytest.raises(Terminated):
        play(job)
    assert row(job.record) == ("fail", "unconfirmed")
    line = job.record.verdict["failures"][0]
    assert "above it in 2 of 2 rounds, not confirmed: the job was ended after 1 more)" in line, line


def test_nothing_is_confirmed_where_nothing_is_judged(play):
    """The processors are emulated."""
    record = play(slow(FOURFOLD, FOURFOLD, emulated=True))
    assert (row(record), len(record.verdict["measured"])) == (("emulated", ""), 2)


def test_of_several_containers_only_what_failed_is_run_again(play):
    """As in an acceptance; the metrics of the others are not missing."""
    sides = [BARE, GENERIC, {**GENERIC, "name": "other", "label": "other"}]
    job = slow(SLOW, {**SLOW, "other": 1.0}, sides=sides, remedies=0)
    record = play(job)
    assert record.verdict["problems"] == []
    assert [row["confirmation"] for row in record.verdict["rows"]] == ["confirmed", ""]
    assert {run["side"] for run in record.runs if run["round"] == 3} == {"baseline", "subject"}


def ends(remedy=(), container=(), **facts):
    """Return a job whose container ends with an error in each run, and whose remedy ends well.

    :param remedy, container: runs of either that end otherwise than that, by their number.
    """
    job = Job({**QUIET, "remedy1": 1.0, "remedy2": 1.0}, sides=[BARE, GENERIC], **facts)
    seen = {"subject": 0, "remedy1": 0}

    def run_once(*words, made=job.run_once):
        side = words[1].name.split("-")[1]
        run = made(*words)
        if side in seen:
            seen[side] += 1
            failed = seen[side] in remedy if side == "remedy1" else seen[side] not in container
            run["status"] = 3 if failed else 0
        return run

    job.run_once = run_once
    return job


def ending(record):
    """Return how many runs of the remedy there were, whether the cause is proven, and how runs without it ended."""
    (cause,) = record.verdict["causes"]
    return sum(run["side"] == "remedy1" for run in record.runs), explanation.is_proven(cause), cause["ended"]


def test_what_ends_runs_is_proven_by_five_good_runs_with_and_three_bad_ones_without(play):
    record = play(ends(), differs=LIMITED)
    assert ending(record) == (5, True, [3, 3])
    assert record.verdict["explained"][1] == (
        "proven: with the limit of processes at 100 all of 5 runs ended well, and 0 of 3 without"
    )
    assert record.verdict["problems"]


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        # The container ended well once, or the remedy did not.
        ({"container": (3,)}, (5, False, [2, 3])),
        ({"remedy": (1,)}, (1, False, [3, 3])),
        ({"remedy": (4,)}, (4, False, [3, 3])),
        ({"remedies": 0}, (0, False, [2, 2])),
    ],
)
def test_fewer_runs_prove_no_cause_of_an_end(play, facts, expected):
    job = ends(**{name: value for name, value in facts.items() if name != "remedies"})
    job.facts["remedies"] = facts.get("remedies", MOST)
    assert ending(play(job, differs=LIMITED)) == expected


def test_runs_that_prove_the_cause_of_an_end_have_a_budget(play):
    job = ends(deadline=4.0 + 4.0)
    runs, is_proven, _ = ending(play(job, differs=LIMITED))
    # Who goes first is drawn: the first phase may end with the container's second run.
    assert runs in (2, 3) and not is_proven


@pytest.mark.parametrize("faults", [{"container": (2, 3, 4, 5, 6, 7, 8, 9)}, {}])
def test_what_ended_once_or_what_bare_does_too_is_not_tried(play, faults):
    job = ends(**faults)
    job.faults = {} if faults else {(number, "baseline"): {"status": 3} for number in (1, 2)}
    assert "remedy1" not in {run["side"] for run in play(job, differs=LIMITED).runs}


#: What no rule knows.
UNKNOWN = {**SEES, "environment": {"NOBODY_KNOWS": "hidden:1"}}


def test_a_cause_that_no_rule_knows_is_found_by_halving_and_proven(play):
    """A group of differences is taken back first; then the one that remains of it, in rounds of its own."""
    record = play(slow(with_remedies(1.0, 1.0)), differs=UNKNOWN)
    assert record.verdict["explained"][0] == ("the cause: NOBODY_KNOWS is set in the container, and not on the host")
    assert record.verdict["explained"][1].startswith("proven: with NOBODY_KNOWS removed the overhead of time is ")
    assert sum(run["side"] == "remedy1" for run in record.runs) == halving.ROUNDS_OF_STEP
    assert sum(run["side"] == "remedy2" for run in record.runs) >= confirmation.FEWEST - 1
    assert row(record) == ("fail", "confirmed")


@pytest.mark.parametrize(
    ("fresh", "facts", "remark"),
    [
        (with_remedies(1.2), {}, True),
        # What helped in the steps does not when it is to prove it.
        (with_remedies(1.0, 1.2), {}, False),
        # Two rounds would not tell.
        (with_remedies(1.0, 1.0), {"priors": {"time": (6.0, "12 nights")}}, False),
        (with_remedies(1.0, 1.0), {"remedies": 0}, False),
    ],
)
def test_halving_in_vain_proves_nothing(play, fresh, facts, remark):
    record = play(slow(fresh, **facts), differs=UNKNOWN)
    assert "proven" not in str(record.verdict["explained"])
    assert any("were taken back in vain" in note for note in record.verdict["explained"]) is remark


@pytest.mark.parametrize("job", [slow(SLOW), ends(), slow(FOURFOLD, FOURFOLD, remedies=0)])
def test_a_failure_without_a_difference_says_so(play, job):
    assert play(job, differs=SEES).verdict["explained"] == [explanation.UNSEEN]


@pytest.mark.parametrize("job", [slow(QUIET), slow(QUIET, QUIET)])
def test_what_is_no_failure_is_not_called_unexplained(play, job):
    assert play(job, differs=SEES).verdict["explained"] == []


def run_of(values, *answers):
    """Return a job of bare and a container that have these values, as bare has them with each remedy."""
    return Job(
        {**values, "remedy1": values["baseline"], "remedy2": values["baseline"]}, sides=[BARE, GENERIC], answers=answers
    )


@pytest.mark.parametrize(
    ("job", "problem"),
    [
        (ends(), "exit status 3"),
        (
            run_of({"baseline": {"time": 1, "sum": 42}, "subject": {"time": 1, "sum": 43}}, SUM),
            "answers differ: sum is 43",
        ),
        # A launcher may end with 0 though its ranks were killed.
        (run_of({"baseline": {"time": 1.0}, "subject": {}}), "metric time not found"),
    ],
)
def test_halving_finds_what_ends_runs_or_changes_answers_too(play, job, problem):
    """One run with all differences taken back; the proof is five good runs, and one more without."""
    record = play(job, differs=UNKNOWN)
    assert record.verdict["explained"][:2] == [
        "the cause: NOBODY_KNOWS is set in the container, and not on the host",
        "proven: with NOBODY_KNOWS removed all of 5 runs ended well, and 0 of 3 without",
    ]
    assert problem in record.verdict["problems"][0]
