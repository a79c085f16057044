"""The documents' figures, with what a night says of each."""

from __future__ import annotations

import importlib
from dataclasses import replace

import made
import pytest
from conftest import REPOSITORY
from containercheck.report.page import as_published
from containercheck.report.page.as_published import (
    AGREES,
    AS_FAST,
    DIFFERS,
    FASTER,
    NOT_HAD,
    NOT_RUN,
    OPEN,
    SLOWER,
    WORKS,
    Shape,
)
from containercheck.results.cases import collect

SHAPE = Shape("D12.6", "figure 1", "a code", "Code")


def outcome(shape, *raw):
    return as_published.outcome(shape, collect([{"runs": [{"testcases": list(raw)}]}]))[0]


@pytest.mark.parametrize(
    ("says", "facts", "expected"),
    [
        (AS_FAST, {"overhead": 1.0}, AGREES),
        (AS_FAST, {"overhead": 30.0, "verdict": "fail"}, DIFFERS),
        (AS_FAST, {"overhead": 9.0, "verdict": "inconclusive"}, OPEN),
        (SLOWER, {"overhead": 80.0}, AGREES),
        (SLOWER, {"overhead": 1.0}, OPEN),
        (SLOWER, {"overhead": -20.0}, DIFFERS),
        (FASTER, {"overhead": -20.0}, AGREES),
        (FASTER, {"overhead": 20.0}, DIFFERS),
    ],
)
def test_a_shape_agrees_or_not(says, facts, expected):
    assert outcome(replace(SHAPE, says=says), made.case(rows=[made.row(**facts)])) == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        # Of a slow network, IMB's 60.5 % on Volta: it passes as expected, and is not as fast.
        ({"overhead": 60.0, "accepted": [None, 66.6]}, DIFFERS),
        ({"overhead": 4.0, "accepted": [None, 20.0]}, OPEN),
        ({"overhead": 2.0, "accepted": [None, 20.0]}, AGREES),
        # CHPCE's "less than 3 %" is as fast.
        ({"overhead": 2.0, "accepted": [None, 3.0]}, AGREES),
        ({"overhead": 1.2, "low": 0.7, "high": 1.7, "accepted": [0.4, 2.4], "overhead_unit": "s"}, DIFFERS),
        ({"overhead": 0.1, "low": -0.4, "high": 0.6, "accepted": [None, 2.4], "overhead_unit": "s"}, OPEN),
    ],
)
def test_an_overhead_that_a_reference_expects_is_not_as_fast(facts, expected):
    assert outcome(SHAPE, made.case(rows=[made.row(expected=True, **facts)])) == expected


def test_one_overhead_that_says_the_opposite_is_enough():
    rows = [made.row("rate", overhead=-20.0), made.row("time", overhead=20.0)]
    assert outcome(replace(SHAPE, says=FASTER), made.case(rows=rows)) == DIFFERS


def test_other_variants_nodes_and_figures_do_not_count():
    raw = made.case(rows=[made.row(overhead=1.0), made.row("time", overhead=90.0, verdict="fail")])
    assert outcome(replace(SHAPE, figures=("rate",)), raw) == AGREES
    assert outcome(replace(SHAPE, variant="integrated"), raw) == NOT_RUN
    assert outcome(replace(SHAPE, nodes=2), raw) == NOT_RUN


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, AGREES),
        ({"rows": [made.alone("seconds_push")]}, AGREES),
        ({"rows": [made.alone("seconds_push")], "result": "fail", "fail_phase": "sanity"}, DIFFERS),
        # Without the tools it needs, nothing was tried.
        ({"result": "fail", "fail_phase": "compile_wait"}, OPEN),
        ({"result": "skip", "skip_reason": "no umoci"}, NOT_RUN),
    ],
)
def test_a_check_that_compares_nothing_is_judged_by_its_cases(facts, expected):
    raw = made.case(variant="bare", **facts)
    assert outcome(replace(SHAPE, says=WORKS, variant="bare"), raw) == expected


def test_a_container_without_figures_is_no_fast_container():
    raw = made.case(result="fail", fail_phase="sanity", fail_reason="wrong answer")
    assert outcome(SHAPE, raw) == DIFFERS
    assert outcome(SHAPE, made.case()) == OPEN


def test_bare_values_are_nothing_that_a_container_does():
    raw = made.case(variant="bare", rows=[made.alone()])
    assert outcome(SHAPE, raw) == NOT_RUN
    assert outcome(replace(SHAPE, says=WORKS), raw) == NOT_RUN


def test_the_way_of_an_image_has_bare_rows_only():
    rows = [made.alone(f"seconds_{step}") for step in ("build", "push", "pull", "convert", "start")]
    (cases,) = [collect([{"runs": [{"testcases": [made.case("ImageTransfer", "bare", rows=rows)]}]}])]
    (row,) = [row for row in as_published.table(cases).rows if row[3] == "ImageTransfer"]
    assert AGREES in row


def test_what_did_not_run_says_why():
    skipped = made.case(result="skip", skip_reason="no software: DLB")
    assert as_published.outcome(SHAPE, collect([{"runs": [{"testcases": [skipped]}]}]))[0] == NOT_RUN
    assert as_published.outcome(replace(SHAPE, without="no virtualisation"), []) == (NOT_HAD, "no virtualisation")


def test_every_shape_names_a_check_or_a_reason():
    known = {path.stem: importlib.import_module(path.stem) for path in (REPOSITORY / "checks").glob("*.py")}
    names = {name for module in known.values() for name in vars(module)}
    assert [shape for shape in as_published.SHAPES if bool(shape.check) == bool(shape.without)] == []
    assert {shape.check for shape in as_published.SHAPES if shape.check} <= names
    assert len(as_published.table([]).rows) == len(as_published.SHAPES)
