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
from containercheck.job import contract, processes, start_ranks
from containercheck.job.container_runtimes import by_name
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts
from containercheck.job.outputs.run_results import DIFFER, HANG, RANKS, STATUS, UNREADABLE, WRONG
from containercheck.job.verdict.builds import provenance
from containercheck.job.verdict.findings import mpi_problem
from containercheck.results.row import Record
from containercheck.sides.sides import Container, HostMpi, Program, Side
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
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

    def make(number, side, text="rate 1\n", **facts):
        output = tmp_path / f"{next(outputs)}-{side}"
        output.mkdir()
        (output / "out").write_text(text)
        (output / "err").write_text("")
        return run_of(side, output.name, number, **facts)

    return make


@pytest.fixture
def evaluated(tmp_path):
    """Evaluate runs, one after the other; the record says which rounds are replaced."""

    def make(*runs, metrics=(RATE,), replaced=(), **facts):
        record = record_of(*runs, replaced={str(number): "somebody" for number in replaced})
        return evaluation_of(record, facts_of(metrics, **facts), tmp_path)

    return make


def kinds(evaluation):
    return [(problem.kind, problem.side) for problem in evaluation.problems]


def test_metrics_are_collected_in_the_order_of_the_rounds(run, evaluated):
    runs = [run(1, "baseline", "rate 1\n"), run(1, "subject", "rate 2\n")]
    result = evaluated(*runs, run(2, "subject", "rate 4\n"), run(2, "baseline", "rate 3\n"))
    assert result.final_problems() == []
    assert result.values() == {"rate": {"baseline": [1, 3], "subject": [2, 4]}}
    assert result.seconds == 4.0


def test_a_round_that_is_not_complete_does_not_count(run, evaluated):
    runs = [run(1, "baseline", "rate 1\n"), run(1, "subject", "rate 2\n"), run(2, "subject", "rate 4\n")]
    result = evaluated(*runs)
    assert result.rounds == [{"baseline": {"rate": 1}, "subject": {"rate": 2}}]
    assert result.values() == {"rate": {"baseline": [1], "subject": [2]}}


def test_a_lost_metric_is_a_problem_even_if_the_program_says_it_does_not_apply(run, evaluated):
    metric = Metric("rate", r"^rate (\S+)", "x", not_applicable_if="^none$")
    runs = [run(1, "baseline"), run(1, "subject"), run(2, "subject", "none\n"), run(2, "baseline")]
    expected = "metric rate is missing in some runs of 2 rounds: {'baseline': 2, 'subject': 1}"
    assert evaluated(*runs, metrics=[metric]).final_problems() == [expected]


def test_a_metric_that_the_first_round_lacks_is_a_problem(run, evaluated):
    """Later rounds have it, and it has no verdict."""
    metric = Metric("rate", r"^rate (\S+)", "x", not_applicable_if="^none$")
    runs = [run(number, side, "none\n" if number == 1 else "rate 1\n") for number in (1, 2, 3) for side in SIDES]
    expected = "metric rate is missing in some runs of 3 rounds: {'baseline': 2, 'subject': 2}"
    assert evaluated(*runs, metrics=[metric]).final_problems() == [expected]


def test_a_metric_that_no_run_has_is_said_not_to_be_judged(run, evaluated):
    none, other = (Metric(name, rf"^{name} (\S+)", "x", not_applicable_if="^none$") for name in ("rate", "speed"))
    runs = [run(1, side, "none\n") for side in SIDES]
    result = evaluated(*runs, metrics=[none, other])
    assert result.final_problems() == []
    assert result.not_applicable == ["not judged, as the program says that it does not apply here: rate, speed"]
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


@given(st.binary(max_size=300), st.binary(max_size=300), st.booleans())
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read(tmp_path, out, err, is_valid):
    """A program may print what it likes, also beside what is looked for; the record of it can be written."""
    (tmp_path / "run").mkdir(exist_ok=True)
    metrics = b"\nrate 1\ncheck PASSED\nsum 1\nranks 1\n" if is_valid else b""
    (tmp_path / "run/out").write_bytes(out + metrics)
    (tmp_path / "run/err").write_bytes(err)
    runs = [run_of(side, "run", status=status) for status in (0, 3) for side in SIDES]
    facts = facts_of([RATE], [CHECK, SUM], RANK_COUNT)
    result = evaluation_of(record_of(*runs), facts, tmp_path)
    json.dumps([result.final_problems(), result.values()]).encode()
    seen = start_ranks.read((out + err).decode(errors="replace"), 1)
    start_ranks.explain(seen, 2, start_ranks.Host("Open MPI 4.1.4", "")).encode()
    assert processes.output_of(["cat", str(tmp_path / "run/out")]) == (out + metrics).decode(errors="replace")


def test_a_missing_rank_is_a_problem(run, evaluated):
    runs = [run(1, "baseline", "ranks 4\nrate 1\n"), run(1, "subject", "ranks 3\nrate 1\n")]
    result = evaluated(*runs, rank_count=RANK_COUNT, ranks=4)
    (problem,) = result.final_problems()
    assert "round 1, subject: ran with 3 ranks instead of 4" in problem
    assert result.rounds == []


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


def test_failures_of_different_kinds_or_sides_do_not_end_the_rounds(run, evaluated):
    runs = [run(1, "baseline", status=3), run(1, "subject", status=3)]
    runs += [run(2, "subject", timed_out=True), run(2, "baseline", "")]
    result = evaluated(*runs)
    assert kinds(result) == [(STATUS, "baseline"), (STATUS, "subject"), (HANG, "subject"), (UNREADABLE, "baseline")]
    assert result.repeated() is None


CANDIDATES = (
    {"name": "baseline", "label": "bare", "compared_with": None},
    *({"name": name, "label": name, "compared_with": "baseline", "may_fail": True} for name in ("one", "two")),
)


def of_round(run, number, *failing, names=("baseline", "one", "two")):
    return [run(number, name, f"rate {number}\n", status=3 * (name in failing)) for name in names]


def test_the_others_go_on_without_a_candidate_that_fails_twice(run, evaluated):
    runs = [*of_round(run, 1), *of_round(run, 2, "one"), *of_round(run, 3, "one")]
    result = evaluated(*runs, *of_round(run, 4, names=("baseline", "two")), sides=CANDIDATES)
    assert result.repeated() is None
    assert result.lost == {"one": "exit status of one, 2 times"}
    assert [*result.pairs] == [("two", "rate")]
    # Nothing is lost with the round in which it was given up.
    assert [sorted(values) for values in result.rounds] == [["baseline", "one", "two"], *[["baseline", "two"]] * 2]
    (line,) = result.final_problems()
    assert line.startswith("rounds 2 and 3, one: ")


def test_the_last_candidate_and_bare_end_the_rounds(run, evaluated):
    runs = [*of_round(run, 1, "one", "two"), *of_round(run, 2, "one", "two")]
    result = evaluated(*runs, sides=CANDIDATES)
    assert (result.lost, result.repeated()) == (
        {"one": "exit status of one, 2 times"},
        "exit status of two, 2 times",
    )
    bare = evaluated(*of_round(run, 1, "baseline"), *of_round(run, 2, "baseline"), sides=CANDIDATES)
    assert (bare.lost, bare.repeated()) == ({}, "exit status of baseline, 2 times")


def test_a_candidate_that_cannot_be_prepared_is_named_and_the_others_are_judged(run, evaluated, tmp_path):
    (tmp_path / contract.lost_file("one")).write_text("hello\nerror: podman is not on the PATH of node1\n")
    # And rounds of an earlier job in which it had been there count without it; those that lack another do not.
    earlier = [{name: {"rate": 1.0} for name in names} for names in (("baseline", "one", "two"), ("baseline", "one"))]
    result = evaluated(*of_round(run, 1, names=("baseline", "two")), sides=CANDIDATES, earlier=earlier)
    assert [*result.pairs] == [("two", "rate")]
    assert len(result.rounds) == 2
    assert result.final_problems() == ["one: it cannot be prepared: error: podman is not on the PATH of node1"]


def test_two_wrong_answers_of_one_run_are_one_failure(run, evaluated):
    runs = [run(1, "baseline", "rate 1\ncheck PASSED\nsum 1\n"), run(1, "subject", "rate 1\ncheck FAILED\nsum 9\n")]
    bound = Answer("bound", r"^sum (\d+)", at_most=5)
    assert evaluated(*runs, answers=[CHECK, bound]).repeated() is None


def test_answers_are_compared_with_the_side_that_a_side_is_meant_for(run, evaluated):
    runs = [run(1, "other", "sum 2\n"), run(1, "subject", "sum 1\n"), run(1, "baseline", "sum 1\n")]
    result = evaluated(*runs, metrics=(), answers=[SUM], sides=[BARE, GENERIC, OTHER])
    (problem,) = result.final_problems()
    assert problem == "round 1: answers differ: sum is 2.0, bare 1.0 (differs by 1, accepted 0)"
    assert kinds(result) == [(DIFFER, "other")]


LEFT = {"leftover_processes": ["sleep", "cat"]}


@pytest.mark.parametrize(
    ("baseline", "subject", "problems"),
    [
        ({}, LEFT, ["subject leaves processes behind when it ends, which bare does not: cat, sleep"]),
        (LEFT, LEFT, []),
        (LEFT, {}, []),
    ],
)
def test_processes_left_behind_are_a_problem_of_the_container_only(run, evaluated, baseline, subject, problems):
    assert evaluated(run(1, "baseline", **baseline), run(1, "subject", **subject)).final_problems() == problems


def test_a_bare_program_by_itself_may_leave_processes(run, evaluated):
    assert evaluated(run(1, "baseline", **LEFT), sides=[BARE]).final_problems() == []


def test_what_a_failed_run_said_is_in_its_problem(run, evaluated, tmp_path):
    failed_run = run(1, "subject", "all is well\n", status=3)
    (tmp_path / failed_run["output"] / "err").write_text("FATAL: it broke\n-----\n")
    output = tmp_path / failed_run["output"]
    (problem,) = evaluated(failed_run).final_problems()
    assert problem == f"round 1, subject: exit status 3: FATAL: it broke (its output: {output})"
    (output / "err").write_text("-----\n")
    said = "it printed no error; its last line is: all is well"
    assert f"exit status 3: {said} (" in evaluated(failed_run).final_problems()[0]
    (output / "out").write_text("")
    said = f"round 1, subject: exit status 3: it printed nothing (its output: {output})"
    assert evaluated(failed_run).final_problems() == [said]
    (output / "err").unlink()
    assert evaluated(failed_run).final_problems() == [said]


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
COMPLETE = "after the program had ended and its metrics were complete"
RATE_LAST = Metric("rate", r"^rate (\S+)", "x", not_applicable_if="^no rate$")


def test_a_tear_down_that_fails_after_complete_metrics_is_said_to_be_that(run, evaluated, tmp_path):
    good = [made for number in (1, 2, 4, 5) for made in (run(number, "baseline"), run(number, "subject"))]
    bad = failed(run, tmp_path, 3, "apptainer/teardown", status=148)
    (problem,) = evaluated(*good[:4], run(3, "baseline"), bad, *good[4:]).final_problems()
    place = tmp_path / bad["output"]
    assert problem == f"round 3, subject: exit status 148 {COMPLETE}: {TEARDOWN} (1 of 5 runs; its output: {place})"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        # A metric, an answer or a rank is not there; an answer is wrong; the metric does not apply.
        ("check PASSED\nranks 2\n", {}),
        ("rate 1\nranks 2\n", {}),
        ("rate 1\ncheck PASSED\n", {}),
        ("rate 1\ncheck PASSED\nranks 1\n", {}),
        ("rate 1\ncheck FAILED\nranks 2\n", {}),
        ("no rate\ncheck PASSED\nranks 2\n", {}),
    ],
)
def test_what_is_not_complete_is_no_tear_down(run, evaluated, tmp_path, text, facts):
    read = {"metrics": [RATE_LAST], "answers": [CHECK], "rank_count": RANK_COUNT, "ranks": 2}
    complete = failed(run, tmp_path, 1, "apptainer/teardown", "rate 1\ncheck PASSED\nranks 2\n", status=148)
    assert COMPLETE in evaluated(complete, **read).final_problems()[0]
    (problem,) = evaluated(failed(run, tmp_path, 1, "apptainer/teardown", text, status=148), **read).final_problems()
    assert problem.startswith(f"round 1, subject: exit status 148: {TEARDOWN} (")


def test_a_run_that_hangs_says_what_it_had_printed(run, evaluated, tmp_path):
    facts = {"timed_out": True, "status": -9}
    failed_run = failed(run, tmp_path, 1, "openmpi4/unreachable", "", **facts)
    said = "round 1, subject: hangs: killed at its limit of 10 s; it had printed: [vm:24514] PMIX ERROR: BAD-PARAM in"
    assert evaluated(failed_run).final_problems()[0].startswith(said)
    assert (
        evaluated(run(1, "subject", **facts))
        .final_problems()[0]
        .startswith("round 1, subject: hangs: killed at its limit of 10 s; its metrics were complete (its output: ")
    )


def test_an_unreadable_run_says_what_it_had_printed(run, evaluated, tmp_path):
    failed_run = failed(run, tmp_path, 1, "python/segv", "")
    (problem,) = evaluated(failed_run).final_problems()
    assert problem.endswith("(pattern: ^rate (\\S+)); it printed: Fatal Python error: Segmentation fault")
    assert "; it printed" not in evaluated(run(1, "subject", "")).final_problems()[0]


@pytest.mark.parametrize("case", ["openmpi4/bare_kill", "openmpi5/kill", "mpich4/kill"])
@pytest.mark.parametrize("text", ["", "rate 1\n"])
def test_a_launcher_that_ends_with_0_though_a_rank_was_killed_is_no_success(run, evaluated, tmp_path, case, text):
    """MPICH, issue 7057: before its metric and after."""
    failed_run = failed(run, tmp_path, 1, case, planted(case)["out"] + text)
    result = evaluated(run(1, "baseline"), failed_run)
    (problem,) = result.final_problems()
    assert re.match(r"round 1, subject: exit status 0, though a rank died: .*[ (]9[)]|.*\(Killed\)", problem)
    assert (kinds(result), result.rounds) == ([(STATUS, "subject")], [])


def test_a_pattern_is_told_as_it_was_written(run, evaluated):
    runs = [run(1, "baseline", "sum\n"), run(1, "subject", "rate 1\n")]
    words = Answer("words", r"^words: (\w+)\s*\\$", words=True)
    problems = evaluated(*runs, answers=[words]).final_problems()
    assert problems[0].endswith("/out (pattern: ^rate (\\S+))")
    assert problems[1].endswith(r"/out (pattern: ^words: (\w+)\s*\\$)")


def test_the_same_reason_is_told_once_with_how_many_runs_had_it(run, evaluated, tmp_path):
    runs = [run(1, "baseline", ""), failed(run, tmp_path, 1, "openmpi4/trunc", status=15)]
    runs += [run(2, "baseline", ""), failed(run, tmp_path, 2, "openmpi4/trunc", status=15)]
    err = tmp_path / runs[-1]["output"] / "err"
    err.write_text(err.read_text().replace("25106", "4711"))
    first, second = evaluated(*runs).final_problems()
    assert first.startswith("rounds 1 and 2, baseline: metric rate not found in ")
    assert first.endswith("/out (pattern: ^rate (\\S+)) (2 of 2 runs)")
    place = tmp_path / runs[1]["output"]
    assert second == (
        "rounds 1 and 2, subject: exit status 15: [vm:25106] *** An error occurred in MPI_Recv *** MPI_ERR_TRUNCATE: "
        f"message truncated (2 of 2 runs; the first one's output: {place})"
    )


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


def test_the_hosts_library_is_told_from_the_images_by_what_is_mapped():
    path = "/usr/lib/libmpi.so.40"
    cases = [
        (MOVED, path, None),
        (IMAGE, path, "not the host's"),
        (IMAGE, None, None),
        (MOVED, None, "the host's /host"),
    ]
    for subject, wanted, said in cases:
        runs = record_of(run_of("baseline", "1", mpi=HOST), run_of("subject", "2", mpi=subject))
        problem = mpi_problem(runs, "baseline", {"subject": wanted}, {})
        assert problem is None if said is None else said in problem


def test_what_was_not_seen_is_not_proven():
    unseen = record_of(run_of("baseline", "1", mpi=HOST), run_of("subject", "2"))
    assert "no process with an MPI library was seen" in mpi_problem(unseen, "baseline", {"subject": None}, {})
    unseen = record_of(run_of("baseline", "1"), run_of("subject", "2", mpi=IMAGE))
    problem = mpi_problem(unseen, "baseline", {"subject": None}, {})
    assert problem == "baseline: no process with an MPI library was seen on here"


def test_each_side_is_asked_for_the_mpi_that_it_is_meant_to_load(tmp_path):
    (tmp_path / "other.host-mpi.json").write_text(json.dumps({"path": "/usr/lib/libmpi.so.40"}))
    program = Program("hpcc", mpi="hpcc")
    bare = Side("baseline", "bare", program)
    generic = Side("subject", "generic", program, container=Container(by_name("Apptainer"), "a.sif"))
    integrated = Side(
        "other", "integrated", program, container=Container(by_name("Apptainer"), "a.sif", host_mpi=HostMpi("hpcc"))
    )
    runs = [run_of("baseline", "1", mpi=HOST), run_of("subject", "2", mpi=IMAGE), run_of("other", "3", mpi=MOVED)]

    def problems(runs, *sides):
        return findings_of(record_of(*runs), sides, tmp_path).start_problems()

    assert problems(runs, bare, generic, integrated) == []
    (problem,) = problems([*runs[:2], {**runs[2], "mpi": IMAGE}], bare, generic, integrated)
    assert problem.startswith("round 1, other: loaded /usr/lib/libmpi.so.40 of the image, not the host's")
    # Nothing to prove: no container, or no MPI.
    assert problems(runs, bare) == problems(runs, bare, generic.changed(program=Program("cat"))) == []
    # The coin may let the container begin, and the node may be gone before the bare program had its turn.
    assert problems(runs[1:2], bare, generic) == []
    assert "was seen" in problems([runs[0], {**runs[1], "mpi": {}}], bare, generic)[0]


def test_the_hosts_mpi_in_a_tree_that_the_site_binds_in_counts_as_the_images_own():
    (path,) = HOST
    program = Program("hpcc", mpi="hpcc")
    bare = Side("baseline", "bare", program)

    def problems(*trees):
        image = Container(by_name("Apptainer"), "a.sif", software_trees={tree: tree for tree in trees})
        generic = Side("subject", "generic", program, container=image)
        record = record_of(run_of("baseline", "1", mpi=HOST), run_of("subject", "2", mpi=HOST))
        return findings_of(record, [bare, generic]).start_problems()

    assert problems(str(Path(path).parent), "/apps") == []
    assert "generic variant must bring its own" in problems("/apps", path[:-3])[0]
    assert "generic variant must bring its own" in problems()[0]


def test_a_job_without_a_record_has_run_no_rounds(tmp_path):
    assert Record.read(tmp_path) == Record()
    for text in ("", "{}", '{"runs": []}'):
        (tmp_path / "rounds.json").write_text(text)
        assert not Record.read(tmp_path).complete
    (tmp_path / "rounds.json").write_text(json.dumps(record_of(run_of("baseline", "1"))))
    assert Record.read(tmp_path).complete


def test_what_is_complete_counts_where_the_job_met_its_limit():
    verdict = {"measured": [{"baseline": {"rate": 1.0}}]}
    met = Record(complete=False, ended="SIGTERM", verdict=verdict)
    line = "the job was ended (SIGTERM) before its last round: judged by the 1 that are complete"
    assert met.early_end(met_limit=True) == [line]
    assert met.early_end(met_limit=False) == []
    assert Record(complete=False, ended="SIGTERM").early_end(met_limit=True) == []
    # Killed, by what nobody knows; or not ended early at all.
    assert Record(complete=False, verdict=verdict).early_end(met_limit=True) == []
    assert Record(complete=True, verdict=verdict).early_end(met_limit=True) == []


def test_the_record_and_the_files_of_the_job_say_what_ran(tmp_path):
    (tmp_path / "subject.runtime.json").write_text('{"command": "apptainer", "version": "apptainer version 1.4.5"}')
    runs = record_of(run_of("baseline", "1", mpi=HOST), run_of("subject", "2", mpi=IMAGE, bound=["0", "1"]))
    assert provenance(runs, {}, tmp_path) == {
        "host": "here",
        "machine": {"kernel": "6.1.0"},
        "kept_awake": False,
        "builds": {},
        "mpi": {"baseline": ["/usr/lib/libmpi.so.40"], "subject": ["/usr/lib/libmpi.so.40"]},
        "bound": {"subject": ["0", "1"]},
        "runtimes": {"subject": {"command": "apptainer", "version": "apptainer version 1.4.5"}},
        "started": {},
    }
    (tmp_path / "image.json").write_text('{"path": "/images/hpcc.sif", "sha256": "abc", "bytes": 3}')
    found = provenance(runs, {}, tmp_path)
    assert (found["image"], found["image_sha256"]) == ("/images/hpcc.sif", "abc")
    assert found["image_bytes"] == 3 and "image_content_bytes" not in found
    counted = {"path": "/images/old.sif", "sha256": "def", "bytes": 3, "content_bytes": 5}
    (tmp_path / "old.image.json").write_text(json.dumps(counted))
    (own,) = provenance(runs, {}, tmp_path)["images"].values()
    assert (own["image_bytes"], own["image_content_bytes"]) == (3, 5)
    (tmp_path / "old.image.json").unlink()
    spack = {"specs": ["hpcg@3.1/abcdefg"], "target": "x86_64", "lock": "def"}
    (tmp_path / "image.json").write_text(json.dumps({"path": "/hpcg.sif", "sha256": "abc", "bytes": 3, "spack": spack}))
    assert provenance(runs, {}, tmp_path)["image_spack"] == spack
    # A program that is compiled for another processor is another one.
    (tmp_path / "spack.json").write_text(json.dumps({**spack, "target": "zen2"}))
    assert provenance(runs, {}, tmp_path)["builds"] == {"baseline": {"target": "zen2"}, "subject": {"target": "x86_64"}}


def pair(run, number, baseline, subject, **facts):
    return [run(number, "baseline", f"rate {baseline}\n"), run(number, "subject", f"rate {subject}\n", **facts)]


def test_the_metrics_of_a_replaced_round_do_not_count(run, evaluated):
    result = evaluated(*pair(run, 1, 1, 2), *pair(run, 2, 3, 4), *pair(run, 3, 5, 6), replaced=[2])
    assert result.values() == {"rate": {"baseline": [1, 5], "subject": [2, 6]}}
    assert (result.replaced, result.pairs["subject", "rate"].rounds) == (1, 2)
    # It took its time all the same.
    assert (result.seconds, result.round_seconds) == (6.0, 2.0)


def test_the_problems_of_a_replaced_round_do_count(run, evaluated):
    runs = [*pair(run, 1, 1, 1), *pair(run, 2, 1, 1, status=3), *pair(run, 3, 1, 1, **LEFT)]
    once = evaluated(*runs, replaced=[2, 3])
    assert (kinds(once), len(once.rounds)) == ([(STATUS, "subject")], 1)
    assert len(once.final_problems()) == 2
    again = evaluated(*runs, *pair(run, 4, 1, 1, status=4), replaced=[2, 3, 4])
    assert again.repeated() == "exit status of subject, 2 times"


def test_rounds_of_an_earlier_job_come_first(run, evaluated):
    earlier = [{"baseline": {"rate": 100.0}, "subject": {"rate": 99.0}}] * 5
    assert evaluated(earlier=earlier).more_would_tell()
    result = evaluated(*pair(run, 1, 200, 198), earlier=earlier)
    assert result.values() == {"rate": {"baseline": [100] * 5 + [200], "subject": [99] * 5 + [198]}}
    assert (result.pairs["subject", "rate"].verdict, result.more_would_tell()) == ("pass", False)
    # What a round of this job takes.
    assert result.round_seconds == 2.0


def test_the_known_spread_of_the_facts_decides_after_two_rounds(run, evaluated):
    runs = [made for number in (1, 2) for made in pair(run, number, 100, 25)]
    known = evaluated(*runs, priors={"rate": [5.0, "12 nights"]})
    pairs = known.pairs["subject", "rate"]
    assert (pairs.verdict, pairs.decided_after, pairs.prior.source) == ("fail", 2, "12 nights")
    assert not known.more_would_tell()
    alone = evaluated(*runs)
    assert (alone.pairs["subject", "rate"].verdict, alone.more_would_tell()) == ("inconclusive", True)


def test_the_accepted_range_is_that_of_the_facts(run, evaluated):
    runs = [made for number in range(1, 10) for made in pair(run, number, 100, 80)]
    assert evaluated(*runs).pairs["subject", "rate"].verdict == "fail"
    result = evaluated(*runs, expected={"rate": (10.0, 30.0)}).pairs["subject", "rate"]
    assert (result.verdict, result.lowest, result.highest) == ("pass", 10, 30)


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


def test_where_processors_are_emulated_two_rounds_do(run, evaluated):
    runs = [pair(run, number, 100, 80) for number in (1, 2)]
    assert evaluated(*runs[0], emulated=True).more_would_tell()
    assert not evaluated(*runs[0], *runs[1], emulated=True).more_would_tell()
    assert evaluated(*runs[0], *runs[1]).more_would_tell()


def test_a_side_by_itself_has_nothing_to_be_told_of(run, evaluated):
    assert evaluated(sides=[BARE]).more_would_tell()
    assert not evaluated(run(1, "baseline"), sides=[BARE]).more_would_tell()


def test_replaced_rounds_and_a_busy_machine_are_told_with_who_it_was():
    runs = [run_of(side, "", number) for number in range(1, 13) for side in ("baseline", "subject")]
    stress = "stress-ng (pid 4711): 48 %"
    assert findings_of(record_of(*runs), []).disturbances() == []
    replaced = {"2": stress, "3": f"{stress}; cc1 (pid 5): 2 %", "7": stress}
    found = findings_of(record_of(*runs, replaced=replaced), []).disturbances()
    assert found == ["3 of 12 rounds disturbed by stress-ng (pid 4711), cc1 (pid 5) and replaced"]
    record = record_of(*runs, replaced={"1": stress}, busy="stress-ng (pid 4711)")
    found = findings_of(record, []).disturbances()
    assert found[1:] == [
        "the machine is busy: stress-ng (pid 4711). Rounds were counted all the same: they spread more"
    ]


@pytest.mark.parametrize(("expected", "verdict"), [(20.0, "inconclusive"), (None, "fail")])
def test_a_range_is_judged_about_the_overhead_that_its_reference_expects(run, tmp_path, expected, verdict):
    """A failure has to be clear of 20 %, which is expected, and not of the middle of -80 to 25 %."""
    metric = {**asdict(replace(RATE, better="lower")), "accepted": (-80.0, 25.0), "expected": expected}
    evaluation = Evaluation(Facts({**facts_of([RATE]), "metrics": [metric]}), tmp_path)
    for number, overhead in enumerate((40, 35, 40, 40, 35, 35, 18, 18, 35, 40, 40)):
        evaluation.add(run(number, "baseline", "rate 100\n"))
        evaluation.add(run(number, "subject", f"rate {100 + overhead}\n"))
        evaluation.end_round(False)
    assert evaluation.pairs["subject", "rate"].verdict == verdict


def test_what_a_reference_expects_is_against_the_host_and_not_against_another_container(run, tmp_path):
    new = {"name": "new", "label": "new", "compared_with": "subject", "accepted": {"rate": (-math.inf, 5.0)}}
    metric = {**asdict(RATE), "accepted": (40.0, 60.0), "expected": 45.0}
    evaluation = Evaluation(Facts({**facts_of([RATE], sides=(BARE, GENERIC, new)), "metrics": [metric]}), tmp_path)
    for side, rate in (("baseline", 2), ("subject", 1), ("new", 1)):
        evaluation.add(run(0, side, f"rate {rate}\n"))
    evaluation.end_round(False)
    ranges = {side: (pairs.lowest, pairs.highest) for (side, _), pairs in evaluation.pairs.items()}
    assert ranges == {"subject": (40.0, 60.0), "new": (-math.inf, 5.0)}
