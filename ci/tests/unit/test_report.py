"""The table that a session ends with, and what counts as failure."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from containercheck.job.stats import boundaries
from containercheck.report import table
from containercheck.results import open_verdicts, selections
from containercheck.results.cases import collect
from containercheck.results.row import Row
from hypothesis import given
from hypothesis import strategies as st

ROW = {"metric": "rate", "unit": "x", "baseline": 1.0, "baseline_label": "bare"}
COMPARED = {
    **ROW,
    "subject": 0.9,
    "subject_label": "generic",
    "overhead": 10.0,
    "interval": 1.5,
    "overhead_unit": "%",
    "accepted": [None, 20.0],
    "verdict": "pass",
    "expected": True,
}


def case(result, results=(), **facts):
    head = {"name": "Code %variant=bare", "variant": "bare", "num_nodes": 1, "result": result, "results": results}
    facts = {**head, "partition": "only", "environ": "builtin", "skip_reason": "", "fail_reason": None, **facts}
    return {"unique_name": f"{facts['name']} {facts['variant']} {facts['num_nodes']}", **facts}


def report(*runs):
    return {"runs": [{"testcases": list(run)} for run in runs]}


def summarise(*cases):
    """Return the lines and how many checks were run."""
    found = collect([report(cases)])
    return table.lines(found), len(selections.ran(found))


def test_metrics_and_verdicts_are_rows():
    lines, ran = summarise(case("pass", [ROW]), case("pass", [COMPARED], variant="generic"))
    assert ran == 2
    assert lines[0].split()[4:6] == ["bare", "container"]
    assert lines[1].split() == ["Code", "bare", "1", "rate", "1", "x"]
    assert "0.9 x" in lines[2]
    assert lines[2].endswith("+10 ± 1.5 %  pass (expected overhead)")
    other = {**COMPARED, "expected": False, "difference": "not the same build: 2024.1 against 2022.5"}
    lines, _ = summarise(case("pass", [other], variant="generic"))
    assert lines[1].endswith("+10 ± 1.5 %  pass (not the same build: 2024.1 against 2022.5)")
    lines, _ = summarise(case("pass", [{**COMPARED, "answers_compared": False}], variant="generic"))
    assert lines[1].endswith("+10 ± 1.5 %  pass (expected overhead; answers not compared)")


def test_sides_that_are_not_bare_and_the_variant_are_told():
    old = {**COMPARED, "baseline_label": "apptainer 1.3", "subject_label": "apptainer 1.4"}
    lines, _ = summarise(case("pass", [old, {**COMPARED}], variant="generic"))
    assert lines[0].split()[4:6] == ["baseline", "subject"]
    assert "1 x (apptainer 1.3)  0.9 x (apptainer 1.4)" in lines[1]
    assert "1 x (bare)           0.9 x (generic)" in lines[2]
    lines, _ = summarise(case("pass", [{**COMPARED, "subject_label": "sandbox"}], variant="generic"))
    assert lines[0].split()[4:6] == ["bare", "subject"]
    assert "  1 x   0.9 x (sandbox)  " in lines[1]


def test_axes_that_differ_and_several_partitions_are_told():
    name = "Code %variant=bare %num_nodes=1 %size={} %kind=a"
    cases = [case("pass", [ROW], name=name.format(size)) for size in (1, 2)]
    lines, _ = summarise(*cases, case("skip", name=name.format(3).replace("kind=a", "kind=b"), skip_reason="full"))
    assert [line.split()[:3] for line in lines[1:3]] == [["Code", "size=1", "bare"], ["Code", "size=2", "bare"]]
    cases[1]["partition"] = "other"
    lines, _ = summarise(*cases)
    assert lines[0].split()[:2] == ["application", "partition"]
    assert lines[2].split()[:4] == ["Code", "size=2", "other", "bare"]


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, "+10 ± 1.5 %"),
        ({"overhead": -0.0, "interval": 0.0}, "+0 ± 0 %"),
        ({"overhead": 1e-15}, "+0 ± 1.5 %"),
        ({"overhead": -234.0, "interval": 470.0}, "-230 ±>100 %"),
        ({"overhead": 12345.0, "interval": 99.6}, "+12000 ± 100 %"),
        ({"overhead": 0.00123, "interval": 1234.0, "overhead_unit": "s"}, "+0.0012 ± 1200 s"),
        ({"interval": math.inf}, "+10 ± ? %"),
        ({"interval": None}, "+10 ± ? %"),
        ({"interval": math.inf, "low": 3.21, "high": math.inf}, "+10 (at least +3.2) %"),
        ({"interval": None, "low": None, "high": 14.0}, "+10 (at most +14) %"),
        ({"low": 8.4, "high": 11.4}, "+10 ± 1.5 %"),
        ({"overhead": -3.3, "interval": 22.0, "low": -45.0, "high": -1.0}, "-3.3 (-45 to -1) %"),
        ({"overhead": None, "interval": math.nan}, "? ± ? %"),
        ({"overhead": math.inf}, "+∞ ± 1.5 %"),
    ],
)
def test_overheads_are_short_and_clear(facts, text):
    assert table.overhead(Row.from_json({**COMPARED, **facts})) == text


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({}, ""),
        ({"baseline_spread": 0.01, "subject_spread": 0.018}, "1, 2 %"),
        ({"baseline_spread": 0.01, "subject_spread": 0.018, "unit": "s", "overhead_unit": "s"}, "0.01, 0.018 s"),
        ({"baseline_spread": 0.01, "baseline": 0.0}, "0.01 x"),
        ({"baseline_spread": 0.0, "subject_spread": 0.0}, "0, 0 %"),
    ],
)
def test_the_spread_of_each_side_is_in_percent_where_the_overhead_is(facts, text):
    assert table.spreads(Row.from_json({**COMPARED, **facts})) == text


def test_the_table_has_spreads_where_rows_have_them():
    """Rows of before have none."""
    spread = {**COMPARED, "baseline_spread": 0.01, "subject_spread": 0.018}
    lines, _ = summarise(case("pass", [spread, COMPARED], variant="generic"))
    assert lines[0].split()[5:8] == ["container", "spreads", "overhead"]
    assert [line.split()[8:10] for line in lines[1:3]] == [["1,", "2"], ["+10", "±"]]
    lines, _ = summarise(case("pass", [COMPARED], variant="generic"))
    assert "spreads" not in lines[0]


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12), st.sampled_from([2, 4]))
def test_numbers_have_no_exponent_and_are_right_to_their_digits(value, digits):
    text = table.number(value, digits)
    assert "e" not in text
    assert text != "-0"
    assert float(text) == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits), abs=1e-12)


def test_skips_are_told_once_for_each_reason_and_do_not_count_as_run():
    skips = [case("skip", skip_reason="no software", num_nodes=nodes) for nodes in (1, 2, 4, 8)]
    lines, ran = summarise(*skips, case("skip", skip_reason="no image", num_nodes=16))
    assert ran == 0
    assert lines == [
        "skipped: Code (4 case(s)): no software",
        "skipped: Code (1 case(s)): no image",
    ]


def test_failures_are_told_with_their_reason():
    lines, ran = summarise(case("fail", [], fail_reason="performance error: rate is worse\n"))
    assert (lines, ran) == (["FAILED: Code bare, 1 node(s): performance error: rate is worse"], 1)


@pytest.mark.parametrize("apart", [False, True], ids=["runs of one report", "reports"])
@pytest.mark.parametrize("phase", ["performance", "sanity"])
def test_a_failure_is_final(phase, apart):
    failed = case("fail", fail_phase=phase, fail_reason="rate is worse")
    other = case("pass", [ROW], variant="generic", name="Code %variant=generic")

    def read(last):
        first, second = [failed, other], [last]
        return collect([report(first), report(second)] if apart else [report(first, second)])

    cases = read(case("pass", [ROW]))
    lines = table.lines(cases)
    assert len(selections.ran(cases)) == 2
    assert selections.problems(cases) == ["1 of 2 checks failed: see above"]
    assert lines[-1] == "FAILED, and passed later: Code bare, 1 node(s): rate is worse"
    assert sum(line.startswith("Code") for line in lines) == 2
    assert table.lines(read(failed))[-1] == "FAILED: Code bare, 1 node(s): rate is worse"


@pytest.mark.parametrize("result", ["skip", "abort", "fail_deps"])
def test_a_second_run_that_says_nothing_leaves_the_first_standing(result):
    slow = case("fail", fail_phase="performance", fail_reason="rate is worse")
    cases = collect([report([slow]), report([case(result)])])
    assert table.lines(cases) == ["FAILED: Code bare, 1 node(s): rate is worse"]
    assert selections.problems(cases)


def print_report(*paths):
    return subprocess.run(
        [sys.executable, "-m", "containercheck", "report", *map(str, paths)], capture_output=True, text=True
    )


@pytest.mark.parametrize("content", [None, "no json", '{"runs": []}', "[]", '{"runs": [{}]}'])
def test_a_session_without_results_is_an_error(tmp_path, content):
    path = tmp_path / "report.json"
    if content is not None:
        path.write_text(content)
    result = print_report(path)
    assert result.returncode == 2
    assert result.stderr.startswith("report: error: ")
    assert "Traceback" not in result.stderr


def test_reports_are_printed_with_their_status(tmp_path):
    slow, fine = tmp_path / "run-report.json", tmp_path / "other-report.json"
    slow.write_text(json.dumps(report([case("fail", [ROW], fail_phase="performance", fail_reason="worse")])))
    fine.write_text(json.dumps(report([case("pass", [ROW])])))
    result = print_report(slow)
    assert (result.returncode, result.stderr) == (1, "report: error: 1 of 1 checks failed: see above\n")
    result = print_report(fine)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("\napplication  variant  nodes  metric  bare  ")


def test_the_report_counts_on_the_limits_of_the_verdict():
    first = next(n for n in range(1, 40) if boundaries.averages(n) >= boundaries.rank_boundary("pass", n))
    assert first == open_verdicts.FEWEST


def test_where_processors_are_emulated_the_table_says_so():
    row = {**COMPARED, "verdict": "emulated", "emulated": True}
    lines, _ = summarise(case("pass", [row], variant="generic"))
    assert lines[1].endswith("+10 ± 1.5 %  emulated: overheads are reported, not judged")
