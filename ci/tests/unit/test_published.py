"""The documents' figures: their data, and the results of a night on each."""

from __future__ import annotations

import re
from dataclasses import replace

import made
import pytest
from application_files import check_of
from containercheck.report.page import published
from containercheck.report.page.published import Statement

STATEMENTS = published.statements()
STATEMENT = Statement("D12.6", "figure 1", "a code", "Code")


def ours(statement, *raw):
    return published.results(statement, made.cases(raw))


def test_overheads_of_each_unit_are_listed_with_the_remark():
    rows = [made.row("rate", overhead=-20.0), made.row("time", overhead=20.0)]
    rows.append(made.row(overhead_unit="s", overhead=3.0))
    raw = made.case(rows=rows)
    assert ours(replace(STATEMENT, note="the same build"), raw) == (
        "2 overheads: -20 to +20 %; 1 overhead: +3 s",
        "the same build",
    )


def test_other_variants_nodes_metrics_and_machines_do_not_count():
    raw = made.case(rows=[made.row(overhead=1.0), made.row("time", overhead=90.0, verdict="fail")])
    assert ours(replace(STATEMENT, metrics=("rate",), system="cluster"), raw)[0] == "1 overhead: +1 %"
    for other in ({"variant": "integrated"}, {"nodes": 2}, {"system": "thunderx"}):
        assert ours(replace(STATEMENT, **other), raw)[0] == "not run"


@pytest.mark.parametrize(
    ("says", "variant", "facts", "expected"),
    [
        ("works", "bare", {}, "1 pass"),
        ("works", "bare", {"result": "fail", "fail_phase": "sanity"}, "1 fail"),
        ("works", "bare", {"result": "skip", "skip_reason": "no umoci"}, "not run"),
        # Of containers, bare values say nothing.
        ("works", "", {"rows": [made.alone()]}, "not run"),
        ("as fast", "", {"variant": "generic"}, "1 pass"),
        ("nothing", "bare", {"rows": [made.alone()]}, "1 measured"),
    ],
)
def test_cases_that_compare_nothing_have_their_state(says, variant, facts, expected):
    raw = made.case(**{"variant": "bare", **facts})
    assert ours(replace(STATEMENT, says=says, variant=variant), raw)[0] == expected


def test_a_figure_that_did_not_run_has_a_reason():
    skipped = made.case(result="skip", skip_reason="no software: DLB")
    assert ours(STATEMENT, skipped) == ("not run", "no software: DLB")
    assert ours(replace(STATEMENT, not_repeated="no virtualisation")) == ("not repeated", "no virtualisation")


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
