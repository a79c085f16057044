"""The table that a session ends with."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "ci"))
import summary  # noqa: E402

ROW = {"figure": "rate", "unit": "x", "bare": 1.0}
COMPARED = {
    **ROW,
    "container": 0.9,
    "overhead": 10.0,
    "interval": 1.5,
    "overhead_unit": "%",
    "verdict": "pass",
    "expected": True,
}


def case(result, results=(), **facts):
    head = {"name": "Code %variant=bare", "variant": "bare", "num_nodes": 1, "result": result, "results": results}
    facts = {**head, "partition": "only", "environ": "builtin", "skip_reason": "", "fail_reason": None, **facts}
    return {"unique_name": f"{facts['name']} {facts['variant']} {facts['num_nodes']}", **facts}


def summarise(*cases):
    return summary.summarise({"runs": [{"testcases": list(cases)}]})


def test_figures_and_verdicts_are_rows():
    lines, ran, _ = summarise(case("pass", [ROW]), case("pass", [COMPARED], variant="generic"))
    assert ran == 2
    assert lines[1].split() == ["Code", "bare", "1", "rate", "1", "x"]
    assert "0.9 x" in lines[2]
    assert lines[2].endswith("+10 ± 1.5 %  pass (expected overhead)")


def test_axes_that_differ_and_several_partitions_are_told():
    name = "Code %variant=bare %num_nodes=1 %size={} %kind=a"
    cases = [case("pass", [ROW], name=name.format(size)) for size in (1, 2)]
    lines, _, _ = summarise(*cases, case("skip", name=name.format(3).replace("kind=a", "kind=b"), skip_reason="full"))
    assert [line.split()[:3] for line in lines[1:3]] == [["Code", "size=1", "bare"], ["Code", "size=2", "bare"]]
    cases[1]["partition"] = "other"
    lines, _, _ = summarise(*cases)
    assert lines[0].split()[:2] == ["application", "partition"]
    assert lines[2].split()[:4] == ["Code", "size=2", "other", "bare"]


def test_skips_are_told_once_for_each_reason_and_do_not_count_as_run():
    skips = [case("skip", skip_reason="no software", num_nodes=nodes) for nodes in (1, 2, 4, 8)]
    lines, ran, _ = summarise(*skips, case("skip", skip_reason="no image", num_nodes=16))
    assert ran == 0
    assert lines == [
        "skipped: Code (bare 1 node(s), bare 2 node(s), bare 4 node(s) and 1 more): no software",
        "skipped: Code (bare 16 node(s)): no image",
    ]


def test_failures_are_told_with_their_reason():
    lines, ran, _ = summarise(case("fail", [], fail_reason="performance error: rate is worse\n"))
    assert (lines, ran) == (["FAILED: Code bare, 1 node(s): performance error: rate is worse"], 1)


@pytest.mark.parametrize(
    ("phase", "said", "unstable"),
    [
        ("performance", "not confirmed when it was run again: Code bare, 1 node(s): rate is worse", 0),
        ("sanity", "FAILED, and passed when it was run again: Code bare, 1 node(s): rate is worse", 1),
    ],
)
def test_a_failure_that_is_not_confirmed_is_told(phase, said, unstable):
    failed = case("fail", fail_phase=phase, fail_reason="rate is worse")
    other = case("pass", [ROW], variant="generic", name="Code %variant=generic")
    report = {"runs": [{"testcases": [failed, other]}, {"testcases": [case("pass", [ROW])]}]}
    lines, ran, count = summary.summarise(report)
    assert (ran, count) == (2, unstable)
    assert lines[-1] == said
    assert sum(line.startswith("Code") for line in lines) == 2
    report["runs"][1]["testcases"] = [failed]
    lines, _, count = summary.summarise(report)
    assert (lines[-1], count) == ("FAILED: Code bare, 1 node(s): rate is worse", 0)


@pytest.mark.parametrize("content", [None, "no json", '{"runs": []}'])
def test_a_session_without_results_is_an_error(tmp_path, content):
    report = tmp_path / "report.json"
    if content is not None:
        report.write_text(content)
    result = subprocess.run(
        [sys.executable, str(REPOSITORY / "ci" / "summary.py"), str(report)], capture_output=True, text=True
    )
    assert result.returncode == 1
    assert result.stderr.startswith("summary: error: ")
    assert "Traceback" not in result.stderr
