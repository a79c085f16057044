"""From runs to metrics and problems, in the job after every run; and what the record says of them."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from conftest import BARE, GENERIC, evaluation_of, facts_of, findings_of, record_of, run_of
from containercheck import Answer, Metric
from containercheck.job import contract
from containercheck.job.container_runtimes import by_name
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts
from containercheck.job.outputs.reading import DIFFER, HANG, RANKS, STATUS, UNREADABLE, WRONG
from containercheck.job.verdict.builds import provenance
from containercheck.sides.sides import Container, HostMpi, Program, Side
from saved import OUTPUTS

RATE = Metric("rate", r"^rate (\S+)", "x")
RANK_COUNT = Answer("ranks", r"^ranks (\d+)")
CHECK = Answer("check", r"^check (\w+)", equals="PASSED")
SUM = Answer("sum", r"^sum (\d+)")
HOST = {"/usr/lib/libmpi.so.40": {"device": "fe:00", "inode": 7, "pids": [1]}}
IMAGE = {"/usr/lib/libmpi.so.40": {"device": "00:31", "inode": 9, "pids": [2]}}
MOVED = {"/host/usr/lib/libmpi.so.40": HOST["/usr/lib/libmpi.so.40"]}
SIDES = ("baseline", "subject")
OTHER = {"name": "other", "label": "other image", "compared_with": "baseline"}


@pytest.fixture
def run(tmp_path):
    """Write what a run printed, and return the run."""
    outputs = itertools.count()

    def make(number, side, text="rate 1\n", err="", **facts):
        output = tmp_path / f"{next(outputs)}-{side}"
        output.mkdir()
        (output / "out").write_text(text)
        (output / "err").write_text(err)
        return run_of(side, output.name, number, **facts)

    return make


@pytest.fixture
def evaluated(tmp_path):
    """Evaluate runs, one after the other."""

    def make(*runs, metrics=(RATE,), **facts):
        return evaluation_of(record_of(*runs), facts_of(metrics, **facts), tmp_path)

    return make


def kinds(evaluation):
    return [(problem.kind, problem.side) for problem in evaluation.problems]


@pytest.mark.parametrize("lost", [{(2, "subject")}, {(1, "baseline"), (1, "subject")}])
def test_a_metric_that_only_some_runs_have_is_a_problem_even_if_the_program_says_it_does_not_apply(
    run, evaluated, lost
):
    metric = Metric("rate", r"^rate (\S+)", "x", not_applicable_if="^none$")
    runs = [run(*each, "none\n" if each in lost else "rate 1\n") for each in itertools.product((1, 2, 3), SIDES)]
    (problem,) = evaluated(*runs, metrics=[metric]).final_problems()
    assert problem.startswith("metric rate is missing in some runs of 3 rounds: {'baseline': ")


def test_a_metric_that_no_run_has_is_said_not_to_be_judged(run, evaluated):
    none, other = (Metric(name, rf"^{name} (\S+)", "x", not_applicable_if="^no ") for name in ("rate", "speed"))
    runs = [run(1, side, "no disk here\n", "no counter here\n") for side in SIDES]
    # Such as the counter of energy, in a file of the job's.
    result = evaluated(*runs, metrics=[none, replace(other, file="err")])
    assert result.final_problems() == []
    said = "not judged, as the program says that it does not apply here: rate, speed (no counter here)"
    assert result.not_applicable == [said]
    result = evaluated(*(run(1, side) for side in SIDES))
    assert result.not_applicable == []


@pytest.mark.parametrize("value", ["-3599.7", "nan", "inf", "-inf", "1e999", "1e308 1e308"])
@pytest.mark.parametrize("compare", ["difference", "ratio"])
def test_a_time_that_is_negative_or_not_finite_is_no_gain(run, evaluated, value, compare):
    """A clock that is set back during a run."""
    facts = {"better": "lower", "compare": compare, "tolerance": 1.0, "reduce": "sum"}
    metric = Metric("start", r"(?:^time|\b) ([-+.\w]+)", "s", **facts)
    result = evaluated(run(1, "baseline", "time 0.3\n"), run(1, "subject", f"time {value}\n"), metrics=[metric])
    assert kinds(result) == [(UNREADABLE, "subject")]
    assert "metric start" in result.final_problems()[0]


@pytest.mark.parametrize(
    ("text", "facts", "kind"),
    [
        ("rate 1\n", {"timed_out": True, "status": -9}, HANG),
        ("rate 1\n", {"status": 3}, STATUS),
        ("check PASSED\nsum 1\nranks 1\n", {}, UNREADABLE),
        ("rate 1\ncheck FAILED\nsum 1\nranks 1\n", {}, WRONG),
        ("rate 1\ncheck PASSED\nsum 2\nranks 1\n", {}, DIFFER),
        ("rate 1\ncheck PASSED\nsum 1\nranks 2\n", {}, RANKS),
    ],
)
def test_the_second_failure_of_the_same_kind_is_enough(run, evaluated, text, facts, kind):
    good = "rate 1\ncheck PASSED\nsum 1\nranks 1\n"
    read = {"answers": [CHECK, SUM], "rank_count": RANK_COUNT}
    first = [run(1, "baseline", good), run(1, "subject", text, **facts)]
    once = evaluated(*first, **read)
    assert (kinds(once), once.repeated()) == ([(kind, "subject")], None)
    other_side = [run(2, "baseline", text, **facts), run(2, "subject", text, **facts)]
    if kind != DIFFER:
        assert evaluated(*first, other_side[0], **read).repeated() is None
        assert evaluated(*first, *other_side, **read).repeated() == f"{kind} of subject, 2 times"
    again = [run(3, "subject", text, **facts), run(3, "baseline", good)]
    assert evaluated(*first, *again, **read).repeated() == f"{kind} of subject, 2 times"


def test_failures_of_different_kinds_or_sides_or_of_one_run_do_not_end_the_rounds(run, evaluated):
    runs = [run(1, "baseline", status=3), run(1, "subject", status=3)]
    runs += [run(2, "subject", timed_out=True), run(2, "baseline", "")]
    result = evaluated(*runs)
    assert kinds(result) == [(STATUS, "baseline"), (STATUS, "subject"), (HANG, "subject"), (UNREADABLE, "baseline")]
    assert result.repeated() is None
    twice_wrong = [run(1, side, f"rate 1\ncheck {check}\nsum 9\n") for side, check in zip(SIDES, ("PASSED", "FAILED"))]
    bound = Answer("bound", r"^sum (\d+)", at_most=5)
    assert evaluated(*twice_wrong, answers=[CHECK, bound]).repeated() is None


CANDIDATES = (
    BARE,
    *({"name": name, "label": name, "compared_with": "baseline", "may_fail": True} for name in ("one", "two")),
)


def of_round(run, number, *failing, names=("baseline", "one", "two")):
    return [run(number, name, f"rate {number}\n", status=3 * (name in failing)) for name in names]


def test_the_others_go_on_without_a_candidate_that_fails_twice_up_to_the_last_one(run, evaluated):
    runs = [*of_round(run, 1), *of_round(run, 2, "one"), *of_round(run, 3, "one")]
    result = evaluated(*runs, *of_round(run, 4, names=("baseline", "two")), sides=CANDIDATES)
    assert (result.lost, result.repeated()) == ({"one": "exit status of one, 2 times"}, None)
    assert [*result.pairs] == [("two", "rate")]
    # Nothing is lost with the round in which it was given up.
    assert [sorted(values) for values in result.rounds] == [["baseline", "one", "two"], *[["baseline", "two"]] * 2]
    assert result.final_problems()[0].startswith("rounds 2 and 3, one: ")
    for failing in (["one", "two"], ["baseline"]):
        result = evaluated(*(made for number in (1, 2) for made in of_round(run, number, *failing)), sides=CANDIDATES)
        assert ([*result.lost], result.repeated()) == (failing[:-1], f"exit status of {failing[-1]}, 2 times")


def test_a_candidate_that_cannot_be_prepared_is_named_and_the_others_are_judged(run, evaluated, tmp_path):
    (tmp_path / contract.lost_file("one")).write_text("hello\nerror: podman is not on the PATH of node1\n")
    # And rounds of an earlier job in which it had been there count without it; those that lack another do not.
    earlier = [{name: {"rate": 1.0} for name in names} for names in (("baseline", "one", "two"), ("baseline", "one"))]
    result = evaluated(*of_round(run, 1, names=("baseline", "two")), sides=CANDIDATES, earlier=earlier)
    assert [*result.pairs] == [("two", "rate")]
    assert len(result.rounds) == 2
    assert result.final_problems() == ["one: it cannot be prepared: error: podman is not on the PATH of node1"]


def test_a_metric_of_one_side_is_read_there_only_and_compared_with_nothing(run, evaluated):
    own = Metric("report", r"^report (\S+)", "of 1", sides=("subject",))
    runs = [run(1, "baseline", "rate 2\n"), run(1, "subject", "rate 1\nreport 0.67\n")]
    result = evaluated(*runs, metrics=[RATE, own])
    assert (result.final_problems(), result.values()["report"]) == ([], {"subject": [0.67]})
    assert list(result.pairs) == [("subject", "rate")]
    result = evaluated(runs[0], run(1, "subject", "rate 1\n"), metrics=[RATE, own])
    assert "metric report not found" in result.final_problems()[0]


def test_answers_are_compared_with_the_side_that_a_side_is_meant_for(run, evaluated):
    runs = [run(1, "other", "sum 2\n"), run(1, "subject", "sum 1\n"), run(1, "baseline", "sum 1\n")]
    result = evaluated(*runs, metrics=(), answers=[SUM], sides=[BARE, GENERIC, OTHER])
    (problem,) = result.final_problems()
    assert problem == "round 1: answers differ: sum is 2.0, bare 1.0 (differs by 1, accepted 0)"
    assert kinds(result) == [(DIFFER, "other")]


def test_an_answer_of_one_side_is_asked_of_that_side(run, evaluated):
    """As the kernels of an image that was built for a processor."""
    native = Answer("kernels", r"^kernels (\w+)", equals="AVX_512", side="subject")
    runs = [run(1, "baseline", "kernels SSE4\n"), run(1, "subject", "kernels AVX2\n")]
    result = evaluated(*runs, metrics=(), answers=[native])
    assert kinds(result) == [(WRONG, "subject")]
    assert result.problems[0].text == "wrong answer: kernels is 'AVX2', must be 'AVX_512'"


LEFT = {"leftover_processes": ["sleep", "cat"]}


def test_processes_left_behind_are_a_problem_of_the_container_only(run, evaluated):
    said = "subject leaves processes behind when it ends, which bare does not: cat, sleep"
    for baseline, subject, problems in (({}, LEFT, [said]), (LEFT, LEFT, []), (LEFT, {}, [])):
        assert evaluated(run(1, "baseline", **baseline), run(1, "subject", **subject)).final_problems() == problems
    assert evaluated(run(1, "baseline", **LEFT), sides=[BARE]).final_problems() == []


def planted(case):
    """Return what a program printed on standard error that ended with this, on standard output beside it."""
    return {name: (OUTPUTS / "reasons" / case / name).read_text() for name in ("err", "out")}


def failed(run, tmp_path, number, case, text=None, **facts):
    """Return a run that ended with what is saved of another."""
    saved = planted(case)
    made = run(number, "subject", saved["out"] if text is None else text, **facts)
    (tmp_path / made["output"] / "err").write_text(saved["err"])
    return made


TEARDOWN = "ERROR: container cleanup failed: no instance found with name sharens_instance_18241"
COMPLETE = " after the program had ended and its metrics were complete"
RATE_LAST = Metric("rate", r"^rate (\S+)", "x", not_applicable_if="^no rate$")


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("rate 1\ncheck PASSED\nranks 2\n", COMPLETE),
        # A metric, an answer or a rank is not there; an answer is wrong; the metric does not apply.
        ("check PASSED\nranks 2\n", ""),
        ("rate 1\nranks 2\n", ""),
        ("rate 1\ncheck PASSED\n", ""),
        ("rate 1\ncheck PASSED\nranks 1\n", ""),
        ("rate 1\ncheck FAILED\nranks 2\n", ""),
        ("no rate\ncheck PASSED\nranks 2\n", ""),
    ],
)
def test_a_tear_down_that_fails_after_complete_metrics_is_said_to_be_that(run, evaluated, tmp_path, text, when):
    read = {"metrics": [RATE_LAST], "answers": [CHECK], "rank_count": RANK_COUNT, "ranks": 2}
    good = run(1, "subject", "rate 1\ncheck PASSED\nranks 2\n")
    bad = failed(run, tmp_path, 2, "apptainer/teardown", text, status=148)
    (problem,) = evaluated(good, bad, **read).final_problems()
    place = tmp_path / bad["output"]
    assert problem == f"round 2, subject: exit status 148{when}: {TEARDOWN} (1 of 2 runs; its output: {place})"


HUNG = {"timed_out": True, "status": -9}
LIMIT = "hangs: killed at its limit of 10 s; "
UNREAD = "metric rate not found in "
PATTERN = r"(pattern: ^rate (\S+))"


@pytest.mark.parametrize(
    ("case", "text", "facts", "start", "end"),
    [
        (None, "well\n", {"status": 3}, "exit status 3: it printed no error; its last line is: well (its output: ", ""),
        (None, "", {"status": 3}, "exit status 3: it printed nothing (its output: ", ""),
        ("openmpi4/unreachable", "", HUNG, f"{LIMIT}it had printed: [vm:24514] PMIX ERROR: BAD-PARAM in", ""),
        (None, "rate 1\n", HUNG, f"{LIMIT}its metrics were complete (its output: ", ""),
        ("python/segv", "", {}, UNREAD, f"{PATTERN}; it printed: Fatal Python error: Segmentation fault"),
        (None, "", {}, UNREAD, PATTERN),
    ],
)
def test_what_a_run_that_is_not_valid_had_printed_is_in_its_problem(
    run, evaluated, tmp_path, case, text, facts, start, end
):
    made = failed(run, tmp_path, 1, case, text, **facts) if case else run(1, "subject", text, **facts)
    (problem,) = evaluated(made).final_problems()
    assert problem.startswith(f"round 1, subject: {start}") and problem.endswith(end)


@pytest.mark.parametrize("case", ["openmpi4/bare_kill", "openmpi5/kill", "mpich4/kill"])
@pytest.mark.parametrize("text", ["", "rate 1\n"])
def test_a_launcher_that_ends_with_0_though_a_rank_was_killed_is_no_success(run, evaluated, tmp_path, case, text):
    """MPICH, issue 7057: before its metric and after."""
    failed_run = failed(run, tmp_path, 1, case, planted(case)["out"] + text)
    result = evaluated(run(1, "baseline"), failed_run)
    (problem,) = result.final_problems()
    assert re.match(r"round 1, subject: exit status 0, though a rank died: .*[ (]9[)]|.*\(Killed\)", problem)
    assert (kinds(result), result.rounds) == ([(STATUS, "subject")], [])


def test_the_same_reason_is_told_once_with_how_many_runs_had_it(run, evaluated, tmp_path):
    runs = [failed(run, tmp_path, number, "openmpi4/trunc", status=15) for number in (1, 2)]
    err = tmp_path / runs[-1]["output"] / "err"
    err.write_text(err.read_text().replace("25106", "4711"))
    (line,) = evaluated(*runs).final_problems()
    assert line == (
        "rounds 1 and 2, subject: exit status 15: [vm:25106] *** An error occurred in MPI_Recv *** MPI_ERR_TRUNCATE: "
        f"message truncated (2 of 2 runs; the first one's output: {tmp_path / runs[0]['output']})"
    )


def test_what_the_processes_did_at_last_does_not_make_two_hangs_of_one(run, evaluated):
    seen = [{"waiting in do_wait": ["1"]}, {}, {"waiting in do_wait": ["1"], "stopped": ["0"]}]
    runs = [run(number, "subject", "", **HUNG, used={"states": states}) for number, states in enumerate(seen, 1)]
    (line,) = evaluated(*runs).final_problems()
    assert line.startswith(f"rounds 1, 2 and 3, subject: {LIMIT}at last it had rank 1 waiting in do_wait (3 of 3")


def test_reasons_that_differ_are_told_each(run, evaluated):
    runs = [run(number, "subject", "", status=status) for number, status in ((1, 3), (2, 4), (3, 3))]
    said = [line.split(" (")[0] for line in evaluated(*runs).final_problems()]
    assert said == [
        "rounds 1 and 3, subject: exit status 3: it printed nothing",
        "round 2, subject: exit status 4: it printed nothing",
    ]
    # Of numbers that are wrong, each counts.
    runs = [run(number, "subject", f"rate 1\nsum {number}\n") for number in (8, 9)]
    bound = Answer("sum", r"^sum (\d+)", at_most=5)
    assert evaluated(*runs, answers=[bound]).final_problems() == [
        "round 8, subject: wrong answer: sum is 8, must be at most 5 (1 of 2 runs)",
        "round 9, subject: wrong answer: sum is 9, must be at most 5 (1 of 2 runs)",
    ]


def test_each_side_is_asked_for_the_mpi_that_it_is_meant_to_load(tmp_path):
    """Known by what is mapped: the paths may be the same."""
    (path,) = HOST
    (tmp_path / "other.host-mpi.json").write_text(json.dumps({"path": path}))
    image = Container(by_name("Apptainer"), "a.sif")
    bare = Side("baseline", "bare", Program("hpcc", mpi="hpcc"))
    generic = replace(bare, name="subject", label="generic", container=image)
    integrated = replace(generic, name="other", label="integrated", container=replace(image, host_mpi=HostMpi("hpcc")))
    runs = [run_of("baseline", "1", mpi=HOST), run_of("subject", "2", mpi=IMAGE), run_of("other", "3", mpi=MOVED)]

    def problem(bares, subject, other, *sides):
        record = record_of(*({**run, "mpi": mpi} for run, mpi in zip(runs, (bares, subject, other)) if mpi is not None))
        return "".join(findings_of(record, sides or [bare, generic, integrated], tmp_path).start_problems())

    assert problem(HOST, IMAGE, MOVED) == ""
    assert problem(HOST, IMAGE, IMAGE).startswith(f"round 1, other: loaded {path} of the image, not the host's")
    assert "the host's /host/usr/lib/libmpi.so.40, though the generic variant must bring" in problem(HOST, MOVED, MOVED)
    # What was not seen is not proven.
    assert "no process with an MPI library was seen" in problem(HOST, {}, MOVED)
    assert problem({}, IMAGE, MOVED) == "baseline: no process with an MPI library was seen on here"
    # Nothing to prove: no container, or no MPI; or the node was gone before the bare program had its turn.
    no_mpi = replace(generic, program=Program("cat"))
    assert problem(HOST, HOST, MOVED, bare) == problem(HOST, HOST, MOVED, bare, no_mpi) == ""
    assert problem(None, IMAGE, MOVED) == ""
    # The host's, in a tree that the site binds in, counts as the image's own.
    for trees, is_own in (([str(Path(path).parent), "/apps"], True), (["/apps", path[:-3]], False)):
        bound = replace(generic, container=replace(image, software_trees={tree: tree for tree in trees}))
        assert (problem(HOST, HOST, None, bare, bound) == "") == is_own


def test_the_record_and_the_files_of_the_job_say_what_ran(tmp_path):
    runs = record_of(run_of("baseline", "1", mpi=HOST), run_of("subject", "2", mpi=IMAGE, bound=["0", "1"]))
    found = provenance(runs, {}, tmp_path)
    assert (found["mpi"], found["bound"]) == (dict.fromkeys(SIDES, [*HOST]), {"subject": ["0", "1"]})
    tree = {"specs": ["hpcg@3.1/abcdefg"], "target": "x86_64", "lock": "def"}
    facts = {"path": "/images/hpcg.sif", "sha256": "abc", "bytes": 3}
    for name, more in (("", {"tree": tree}), ("old.", {})):
        (tmp_path / f"{name}image.json").write_text(json.dumps({**facts, **more}))
    found = provenance(runs, {}, tmp_path)
    assert (found["image"], found["image_sha256"], found["image_tree"]) == ("/images/hpcg.sif", "abc", tree)
    (old,) = found["images"].values()
    assert old["image_bytes"] == 3


@pytest.mark.parametrize(
    ("subjects", "disturbed", "replaced"),
    [
        ((99, 50, 101, 100), (2, 3), ["2"]),
        # It must be disturbed, and lie far off the others; and they must be at least three.
        ((99, 50, 101, 100), (3,), []),
        ((99, 97, 101, 100), (2, 3), []),
        ((99, 50, 101), (2,), []),
        # At most one in four.
        ((99, 50, 101, 100, 60, 98, 102), (2, 5), ["2"]),
        ((99, 50, 101, 100, 60, 98, 102, 100), (2, 5), ["2", "5"]),
    ],
)
def test_a_round_is_replaced_where_it_was_disturbed_and_lies_far_off(run, evaluated, subjects, disturbed, replaced):
    runs = []
    for number, value in enumerate(subjects, 1):
        who = "stress-ng" if number in disturbed else ""
        runs += [run(number, "baseline", "rate 100\n"), run(number, "subject", f"rate {value}\n", disturbed_by=who)]
    result = evaluated(*runs, priors={"rate": [2.0, "12 nights"]})
    assert list(result.replaced) == replaced
    left = [value for number, value in enumerate(subjects, 1) if str(number) not in replaced]
    assert result.values()["rate"]["subject"] == left
    assert result.pairs["subject", "rate"].rounds == len(left)
    # It took its time all the same.
    assert result.round_seconds == 2.0


def test_a_verdict_that_has_fallen_stays_when_a_round_is_replaced(run, evaluated):
    metrics = [RATE, Metric("latency", r"^latency (\S+)", "us")]
    values = [(100, 100), (100, 50), (100, 99), (100, 101)]
    runs = []
    for number, (rate, latency) in enumerate(values, 1):
        runs.append(run(number, "baseline", "rate 100\nlatency 100\n"))
        runs.append(
            run(number, "subject", f"rate {rate}\nlatency {latency}\n", disturbed_by="x" if number == 2 else "")
        )
    result = evaluated(*runs, metrics=metrics, priors={"rate": [1.0, "1"], "latency": [2.0, "1"]})
    assert [pairs.decided_after for pairs in result.pairs.values()] == [2, None]
    assert [pairs.rounds for pairs in result.pairs.values()] == [4, 3]


def test_sides_and_metrics_are_judged_together(run, evaluated):
    metrics = [
        RATE,
        Metric("latency", r"^latency (\S+)", "us"),
        Metric("none", r"^none (\S+)", "s", not_applicable_if="^rate"),
    ]
    runs = [run(1, side, "rate 1\nlatency 1\n") for side in ("baseline", "subject", "other")]
    result = evaluated(*runs, metrics=metrics, sides=[BARE, GENERIC, OTHER])
    assert list(result.pairs) == [(side, name) for side in ("subject", "other") for name in ("rate", "latency")]
    assert {pairs._accepted.metrics for pairs in result.pairs.values()} == {4}


@pytest.mark.parametrize(("expected", "verdict"), [(20.0, "inconclusive"), (None, "fail")])
def test_a_range_is_judged_about_the_overhead_that_its_reference_expects(run, tmp_path, expected, verdict):
    """A failure has to be clear of 20 %, which is expected, and not of the middle of -80 to 25 %."""
    metric = {**asdict(replace(RATE, better="lower")), "accepted": (-80.0, 25.0), "expected": expected}
    evaluation = Evaluation(Facts({**facts_of([RATE]), "metrics": [metric]}), tmp_path)
    for number, overhead in enumerate((40, 35, 40, 40, 35, 35, 18, 18, 35, 40, 40)):
        evaluation.add(run(number, "baseline", "rate 100\n"))
        evaluation.add(run(number, "subject", f"rate {100 + overhead}\n"))
        evaluation.end_round()
    assert evaluation.pairs["subject", "rate"].verdict == verdict


def test_what_a_reference_expects_is_against_the_host_and_not_against_another_container(run, tmp_path):
    new = {"name": "new", "label": "new", "compared_with": "subject", "accepted": {"rate": (-math.inf, 5.0)}}
    metric = {**asdict(RATE), "accepted": (40.0, 60.0), "expected": 45.0}
    evaluation = Evaluation(Facts({**facts_of([RATE], sides=(BARE, GENERIC, new)), "metrics": [metric]}), tmp_path)
    for side, rate in (("baseline", 2), ("subject", 1), ("new", 1)):
        evaluation.add(run(0, side, f"rate {rate}\n"))
    evaluation.end_round()
    ranges = {side: (pairs.lowest, pairs.highest) for (side, _), pairs in evaluation.pairs.items()}
    assert ranges == {"subject": (40.0, 60.0), "new": (-math.inf, 5.0)}
