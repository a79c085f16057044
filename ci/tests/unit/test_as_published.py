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


def test_one_overhead_that_says_the_opposite_is_enough():
    rows = [made.row("rate", overhead=-20.0), made.row("time", overhead=20.0)]
    assert outcome(replace(SHAPE, says=FASTER), made.case(rows=rows)) == DIFFERS


def test_other_variants_nodes_and_figures_do_not_count():
    raw = made.case(rows=[made.row(overhead=1.0), made.row("time", overhead=90.0, verdict="fail")])
    assert outcome(replace(SHAPE, figures=("rate",)), raw) == AGREES
    assert outcome(replace(SHAPE, variant="integrated"), raw) == NOT_RUN
    assert outcome(replace(SHAPE, nodes=2), raw) == NOT_RUN


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
