"""The documents' figures: their data, and whether the results of a night agree with each."""

from __future__ import annotations

import re
from dataclasses import replace

import made
import pytest
from application_files import check_of
from containercheck.report.page import published
from containercheck.report.page.published import Statement, StatementOutcome

STATEMENTS = published.statements()
STATEMENT = Statement("D12.6", "figure 1", "a code", "Code")


def outcome(statement, *raw):
    return judged(statement, *raw).word


def judged(statement, *raw):
    return published.outcome(statement, made.cases(raw))


@pytest.mark.parametrize(
    ("says", "facts", "expected"),
    [
        ("as fast", {"overhead": 1.0}, "agrees"),
        ("as fast", {"overhead": 30.0, "verdict": "fail"}, "differs"),
        ("as fast", {"overhead": 9.0, "verdict": "inconclusive"}, "not certain"),
        ("slower", {"overhead": 80.0}, "agrees"),
        ("slower", {"overhead": 1.0}, "not certain"),
        ("slower", {"overhead": -20.0}, "differs"),
        ("faster", {"overhead": -20.0}, "agrees"),
        ("faster", {"overhead": 20.0}, "differs"),
        # An overhead that a reference expects is not as fast: IMB's 60.5 % on Volta, of a slow network.
        ("as fast", {"expected": True, "overhead": 60.0, "accepted": [None, 66.6]}, "differs"),
        ("as fast", {"expected": True, "overhead": 4.0, "accepted": [None, 20.0]}, "not certain"),
        ("as fast", {"expected": True, "overhead": 2.0, "accepted": [None, 20.0]}, "agrees"),
        # CHPCE's "less than 3 %" is as fast.
        ("as fast", {"expected": True, "overhead": 2.0, "accepted": [None, 3.0]}, "agrees"),
        ("as fast", {"expected": True, "overhead": 3.0, "accepted": [0.4, 4.4], "overhead_unit": "s"}, "differs"),
        ("as fast", {"expected": True, "overhead": 0.1, "accepted": [None, 2.4], "overhead_unit": "s"}, "not certain"),
    ],
)
def test_a_statement_agrees_or_not(says, facts, expected):
    assert outcome(replace(STATEMENT, says=says), made.case(rows=[made.row(**facts)])) == expected


def test_one_overhead_that_says_the_opposite_is_enough():
    raw = made.case(rows=[made.row("rate", overhead=-20.0), made.row("time", overhead=20.0)])
    result = judged(replace(STATEMENT, says="faster", note="the same build"), raw)
    reason = "1 of 2 overheads certain to be faster, the opposite: 1; the same build"
    assert result == StatementOutcome("differs", "2 overheads: -20 to +20 %", reason)
    assert judged(replace(STATEMENT, note="the same build"), made.case(rows=[made.row()])).reason == ""


def test_other_variants_nodes_metrics_and_machines_do_not_count():
    raw = made.case(rows=[made.row(overhead=1.0), made.row("time", overhead=90.0, verdict="fail")])
    assert outcome(replace(STATEMENT, metrics=("rate",), system="cluster"), raw) == "agrees"
    assert outcome(replace(STATEMENT, variant="integrated"), raw) == "not run"
    assert outcome(replace(STATEMENT, nodes=2), raw) == "not run"
    assert outcome(replace(STATEMENT, system="thunderx"), raw) == "not run"


@pytest.mark.parametrize(
    ("says", "variant", "facts", "expected"),
    [
        ("works", "bare", {}, "agrees"),
        ("works", "bare", {"rows": [made.alone("seconds_push")]}, "agrees"),
        ("works", "bare", {"result": "fail", "fail_phase": "sanity"}, "differs"),
        # Without the tools that it needs, nothing was tried.
        ("works", "bare", {"result": "fail", "fail_phase": "compile_wait"}, "not certain"),
        ("works", "bare", {"result": "skip", "skip_reason": "no umoci"}, "not run"),
        # Of containers, bare values say nothing; and a container without metrics is not a fast one.
        ("works", "", {"rows": [made.alone()]}, "not run"),
        ("as fast", "", {"rows": [made.alone()]}, "not run"),
        ("as fast", "", {"variant": "generic", "result": "fail", "fail_phase": "sanity"}, "differs"),
        ("as fast", "", {"variant": "generic"}, "not certain"),
    ],
)
def test_a_check_that_compares_nothing_is_judged_by_its_cases(says, variant, facts, expected):
    raw = made.case(**{"variant": "bare", **facts})
    assert outcome(replace(STATEMENT, says=says, variant=variant), raw) == expected


def test_a_figure_that_did_not_run_has_a_reason():
    skipped = made.case(result="skip", skip_reason="no software: DLB")
    assert judged(STATEMENT, skipped) == StatementOutcome("not run", reason="no software: DLB")
    missing = replace(STATEMENT, not_repeated="no virtualisation")
    assert judged(missing) == StatementOutcome("not repeated", reason="no virtualisation")


def test_a_document_that_does_not_compare_has_its_plots():
    raw = made.case("Code", "bare", rows=[made.alone()])
    assert outcome(replace(STATEMENT, says="nothing"), raw) == "see its plots"


def test_documents_come_one_after_the_other():
    documents = list(dict.fromkeys(statement.document for statement in STATEMENTS))
    assert documents == ["D12.5", "D12.6", "MIPT", "SANDIA", "CHPCE"]
    assert len({(statement.document, statement.place, statement.shows) for statement in STATEMENTS}) == len(STATEMENTS)
    assert {statement.says for statement in STATEMENTS} <= {"as fast", "slower", "faster", "works", "nothing"}
    places = [re.match(r"figures? (\d+)\.(\d+)", statement.place) for statement in STATEMENTS]
    figures = [(int(match[1]), int(match[2])) for match in places if match]
    assert figures == sorted(figures)


#: Metrics that a check adds for some of its cases.
ADDED = {
    "IOzone": {"random_write", "stride_read"},
    "BTMZCollocation": {"seconds_program1"},
    "PingPong": {f"{what}_dispersion_within_socket" for what in ("latency", "bandwidth")},
}


def test_every_statement_has_a_reason_or_names_a_check_with_its_metrics_and_axes():
    for statement in STATEMENTS:
        assert bool(statement.check) != bool(statement.not_repeated), statement
        if not statement.check:
            continue
        check = check_of(statement.check)
        if not statement.check.endswith("DLB"):
            names = {metric.name for metric in check.metrics} | ADDED.get(statement.check, set())
            assert [word for word in statement.metrics if not any(map(re.compile(word).match, names))] == [], statement
        for axis, beginning in statement.where.items():
            values = map(str, check.param_space.params[axis].values)
            assert any(value.startswith(beginning) for value in values), statement
    assert len(published.table([]).rows) == len(STATEMENTS)
