"""Which verdicts are open, what fits into the time that is left, and the lines about both."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from containercheck.report import table, view
from containercheck.results import selections
from containercheck.results.cases import Case, collect, merged, save
from containercheck.results.row import Row
from hypothesis import given
from hypothesis import strategies as st


def row(verdict="inconclusive", needed=None, rounds=12, each=5.0, **facts):
    row = {"metric": "rate", "unit": "x", "verdict": verdict, "rounds": rounds, "rounds_needed": needed}
    return {**row, "round_seconds": each, "overhead_unit": "%", "spread": 4.0, "subject_label": "generic", **facts}


def case(name, *rows, result="pass", variant="generic", **facts):
    key = ("here", "only", "builtin", f"{name}_{variant}")
    return Case(
        key, name, {}, name, "only", variant, 1, result, rows=tuple(map(Row.from_json, rows)), seconds=60.0, **facts
    )


def chosen(plan):
    return [case.application for case in plan.cases]


BEYOND = row(needed=None)


@pytest.mark.parametrize(
    ("rows", "least", "most", "metrics"),
    [
        ([row(needed=14), row(needed=16), row("pass")], 10.0, 5 * (1.3 * 16 - 12), 2),
        # What else is open in the case closes all the same.
        ([BEYOND, row(needed=13)], 5.0, 5 * (1.3 * 13 - 12), 1),
        # Before ten rounds nothing is beyond reach.
        ([row(rounds=3), row(needed=8, rounds=3)], 25.0, 5 * (1.3 * 8 - 3), 1),
        ([row(rounds=4)], 30.0, 1.3 * 30.0, 0),
        # One round has no spread, and a check with long ones would never get its second.
        ([row(rounds=1, spread=None)], 25.0, 5 * (1.3 * 6 - 1), 1),
    ],
)
def test_a_case_needs_the_rounds_that_its_open_metrics_lack(rows, least, most, metrics):
    opened = case("A", *rows)
    assert selections.need_of(opened) == selections.Need(opened, least, math.ceil(most), metrics)


@pytest.mark.parametrize(
    ("rows", "facts"),
    [
        ([BEYOND, row("pass")], {}),
        # Its job saw no use in one more round.
        ([row(needed=13)], {"seconds": 0}),
        # The other metrics of a check that failed are not open.
        ([row("fail"), row(needed=13, metric="other")], {}),
        ([row("fail"), row(needed=13, metric="other")], {"result": "fail"}),
    ],
)
def test_nothing_is_needed_where_nothing_closes(rows, facts):
    assert selections.need_of(replace(case("A", *rows), **facts)) is None


def test_the_cheapest_go_first_and_as_many_as_fit():
    cases = [case("Long", row(needed=40)), case("Short", row(needed=13)), case("Middle", row(needed=16))]
    plan = selections.plan(cases)
    assert chosen(plan) == ["Short", "Middle", "Long"]
    # What is forecast are all rounds, and so is its margin; but no more than 40, where it is on what is missing.
    assert plan.seconds == {"Short": 25, "Middle": 44, "Long": 182}
    assert (plan.takes, plan.metrics) == (30 + 25 + 44 + 182, 3)
    assert chosen(selections.plan(cases, left=100)) == ["Short", "Middle"]
    assert chosen(selections.plan(cases, left=40)) == ["Short"]
    assert chosen(selections.plan(cases, left=14)) == []
    assert chosen(selections.plan([])) == []
    # Cases without a forecast come last.
    assert chosen(selections.plan([case("Vague", row(rounds=9)), case("Known", row(needed=20))], left=60)) == ["Known"]


def test_cases_share_the_time_where_each_can_close_one_of_its_metrics():
    rich = case("Rich", *(row(needed=14, metric=str(n)) for n in range(4)), row(needed=40, metric="slow"))
    plan = selections.plan([case("Short", row(needed=13)), rich], left=61.5)
    # Both get their least, 5 s and 10 s, and half of the rest.
    assert (chosen(plan), plan.seconds, plan.takes) == (["Short", "Rich"], {"Short": 18, "Rich": 23}, 61)
    assert chosen(selections.plan([case("Short", row(needed=13)), rich], left=34)) == ["Short"]


def test_what_looks_too_slow_goes_first():
    cases = [case("Short", row(needed=13)), case("Slow", row(needed=16, open_kind="slower"))]
    assert chosen(selections.plan(cases, left=44)) == ["Slow"]
    # Where there is time for both, both go on; the person may limit the seconds.
    plan = selections.plan(cases, limits={"": 4.0, "Slow": 30.0})
    assert plan.seconds == {"Short": 4, "Slow": 30}


def test_a_session_has_a_usual_length():
    def made(count, expected):
        return [case(f"A{n}", expected={"expected": expected}) for n in range(count)]

    assert selections.usual_session(made(20, 100)) == selections.USUAL
    assert selections.usual_session(made(3, 70)) == 210
    # Not even a first pass of all of them would fit, or nobody knows what they take.
    assert selections.usual_session(made(200, 100)) == 0
    assert selections.usual_session([case("A")]) == 0
    # The time of builds, beyond the usual start, is not part of it.
    assert selections.built([case("A", building=300.0), case("B", building=60.0), case("C", building=5.0)]) == 340


NEEDS = st.lists(st.tuples(st.sampled_from("ABC"), st.integers(13, 40), st.floats(0.01, 100)), max_size=8)


@given(NEEDS, st.floats(0, 2000))
def test_no_run_takes_more_than_is_left(facts, left):
    cases = [case(name, row(needed=needed, each=each), variant=str(n)) for n, (name, needed, each) in enumerate(facts)]
    plan = selections.plan(cases, left)
    assert plan.takes <= left
    if facts and min((needed - 12) * each for _, needed, each in facts) + selections.START + 1 <= left:
        assert plan.cases


def known(name, closing, each=2.0, variant="generic", most=60.0):
    """Return a case whose metrics are known to close after so many rounds, each of a run of so many seconds a side."""
    expected = {"expected": 15 + most, "closing": closing, "seconds": each, "rounds": most}
    return case(name, variant=variant, expected=expected)


def test_each_check_gets_the_rounds_that_its_known_spread_needs():
    cases = [known("Quiet", [2]), known("Usual", [2, 6]), known("Half", [3, 40]), known("Noisy", [40, 40])]
    # 1.3 times the rounds, and one more that would not end in time; a round is two runs of two seconds.
    wanted = {"Quiet": 15, "Usual": 36, "Half": 20, "Noisy": 20}
    assert selections.first_seconds(cases, 1800) == wanted
    assert selections.usual_session(cases) == 300
    # No more than a job has, and no less than a first pass gives; nobody knows of the last one.
    cases = [known("Long", [12], each=10.0, most=60), known("Short", [2], each=0.1), case("New")]
    assert selections.first_seconds(cases, 1800) == {"Long": 60, "Short": 10, "New": 60}
    # Of a class the case that needs most.
    cases = [known("A", [2]), known("A", [6], variant="integrated")]
    assert selections.first_seconds(cases, 1800) == {"A": 36}


def test_no_case_gets_less_than_two_rounds_in_a_first_run():
    """One round has no spread, and so its metrics no bound: a session on two cores left five cases like that."""
    cases = [known("Slow", [4], each=9.0), known("Quick", [2], each=0.5), known("Noisy", [40], each=1.0)]
    seconds = selections.first_seconds(cases, 150)
    assert seconds["Slow"] >= 2 * 2 * 9.0
    assert selections.takes(cases, selections.first_seconds(cases, 0)) == 30 + 54 + 10 + 10


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.integers(2, 40), st.floats(0.01, 100)), max_size=8))
def test_the_first_run_takes_no_more_than_its_part_unless_that_is_too_little_for_any(facts):
    cases = [known(name, [needed], each, variant=str(n)) for n, (name, needed, each) in enumerate(facts)]
    for session in (60.0, 300.0, 1800.0):
        takes = selections.takes(cases, selections.first_seconds(cases, session))
        # Seconds are whole.
        shortest = selections.takes(cases, selections.first_seconds(cases, 0))
        most = max(selections.FIRST_PART * session, shortest)
        assert takes <= most + 0.5 * len(cases)


CLOSE = case("GROMACS", row("pass", spread=9.04), row("pass", spread=8.0, metric="other"), row("pass", spread=99.0))
WIDE = case("PingPong", row(needed=22, spread=40.0), row(needed=None, spread=41.0, metric="other"))
TOO_FEW = "1 of 1 verdict open, after too few rounds for a forecast: containercheck run --resume"


@pytest.mark.parametrize(
    ("cases", "text"),
    [
        ([case("A", row("pass"))], "1 verdict closed, none open"),
        # Where processors are emulated there is nothing to close.
        ([case("A", row("emulated"))], None),
        ([CLOSE, WIDE], "2 of 5 verdicts open; 2 more minutes would close 1: containercheck run --minutes 2 --resume"),
        (
            [case("A", row(needed=13, overhead_unit="s", spread=0.1))],
            "1 of 1 verdict open; 1 more minute would close 1: ",
        ),
        (
            [case("A", row("pass"), row(metric="other"))],
            "1 of 2 verdicts open; more rounds would close none: it takes ",
        ),
        ([case("A", row(rounds=3, spread=None))], TOO_FEW),
        # The default spread alone makes that forecast.
        ([case("A", row(needed=19, rounds=2, spread_source="default"))], TOO_FEW),
        ([case("A", row("fail"), row(needed=20), result="fail")], "1 verdict closed, none open"),
    ],
)
def test_the_last_line_says_how_far_the_verdicts_are(cases, text):
    lines = table.last_line(cases)
    assert [line.startswith(text or "") for line in lines] == ([] if text is None else [True]), lines


@given(NEEDS)
def test_the_minutes_that_are_named_are_enough_for_what_they_promise(facts):
    cases = [case(name, row(needed=needed, each=each), variant=str(n)) for n, (name, needed, each) in enumerate(facts)]
    for line in table.last_line(cases):
        minutes = int(line.rpartition("--minutes ")[2].split()[0])
        assert len(selections.plan(cases, 60 * minutes).cases) == len(cases)


def test_a_note_is_a_line_that_cases_share():
    note = "3 of 12 rounds disturbed by stress-ng (pid 4711) and replaced"
    first = case("PingPong", notes=(note,))
    assert table.notes([replace(first, earlier=(first,)), case("A", notes=("busy",))]) == [
        f"PingPong generic: {note}",
        "A generic: busy",
    ]
    cases = [case(name, notes=(note.replace("3", str(place)),)) for place, name in enumerate("ABCDE")]
    assert table.notes(cases) == [
        "A generic, B generic, C generic and 2 more: rounds disturbed and replaced",
    ]
    busy = "the machine is busy: another {} (pid 7) of your user. Rounds were counted all the same"
    cases = [case(name, notes=(busy.format(f"code.{name}"),)) for name in "AB"]
    assert table.notes(cases) == ["A generic, B generic: the machine is busy. Rounds were counted all the same"]


def raw(result, name="Code", **facts):
    head = {"name": name, "unique_name": name, "display_name": name, "partition": "only", "environ": "builtin"}
    return {**head, "variant": "generic", "num_nodes": 1, "result": result, **facts}


def report(*runs):
    return {"session_info": {"version": "4"}, "runs": [{"run_index": 0, "testcases": list(run)} for run in runs]}


def test_later_runs_are_appended_and_the_last_one_that_says_something_counts():
    first = report([raw("pass", results=[row()], measured=[1]), raw("pass", "Other")])
    later = report([raw("pass", results=[row("pass")], notes=["a note"]), raw("abort", "Other")])
    final = merged(first, later)
    assert [[case["result"] for case in run["testcases"]] for run in final["runs"]] == [["pass"] * 2, ["pass", "abort"]]
    assert [run["run_index"] for run in final["runs"]] == [0, 1]
    code, other = collect([final])
    assert [code.rows[0].verdict, code.earlier[0].rows[0].verdict] == ["pass", "inconclusive"]
    assert (code.notes, other.result) == (("a note",), "pass")
    assert view.lines([code])[-1].endswith("1 verdict closed, none open")
    assert merged({}, later) == later


def test_a_report_is_written_in_one_step(tmp_path):
    path = tmp_path / "report.json"
    path.write_text("old")
    with path.open() as reader:
        save(path, {"runs": []})
        assert reader.read() == "old"
    assert json.loads(path.read_text()) == {"runs": []}
    assert [file.name for file in tmp_path.iterdir()] == ["report.json"]
