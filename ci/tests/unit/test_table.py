"""The text that a session ends with, its exit status, and the same cases as JUnit."""

from __future__ import annotations

import json
import math
from pathlib import Path
from xml.etree import ElementTree

import made
import pytest
from containercheck.command import main, run
from containercheck.job.stats import boundaries
from containercheck.report import table, view
from containercheck.results import exported, selections, states
from containercheck.results.row import Row
from hypothesis import given
from hypothesis import strategies as st

ROW = {"metric": "rate", "unit": "x", "baseline": 1.0, "baseline_label": "bare"}
COMPARED = {**ROW, "subject": 0.9, "subject_label": "generic", "overhead": 10.0, "interval": 1.5, "overhead_unit": "%"}
COMPARED.update(accepted=[None, 20.0], verdict="pass", expected=True)
SLOW = {"result": "fail", "fail_phase": "performance", "fail_reason": "HPL is 75 % ± 4 % worse than bare"}
#: A session with each kind of line.
FFT = made.row("FFT", 12.0, 0.5, rounds=2, low=-1.0, high=2.0)
FAILED = [made.row("HPL", 88.0, 75.0, verdict="fail", rounds=3, low=71.0, high=79.0), FFT]
OPEN = [
    made.opened("noisy", "HPL", bare=88.0, overhead=1.7, low=None, high=12.0, rounds=6),
    FFT,
    made.opened("slower", "STREAM", bare=50.0, overhead=41.26, low=None, high=None, rounds=2),
]
WILD = made.row("seconds", 1.6, 1.0, rounds=7, contradicted=True, low=-3.0, high=4.0)
ROUNDS = [{"baseline": {"HPL": value, "FFT": 12.0}, "subject": {"HPL": 22.0}} for value in (87.0, 88.0, 90.0)]
SESSION = (
    made.case("HPCC", "bare", 1, [made.alone("HPL", 34.0)]),
    made.case("HPCC", "integrated", 1, FAILED, measured=ROUNDS, **SLOW),
    made.case("HPCC", "generic", 1, OPEN),
    made.case("LAMMPS", "generic", 1, [made.opened("faster", overhead=-87.0, low=None, high=-80.0, rounds=3)]),
    made.case("WordCount", "generic", 1, [WILD]),
)
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "session.txt"


def case(*rows, **facts):
    (found,) = made.cases([made.case(rows=rows, **facts)])
    return found


def lines_of(*rows, variant="generic"):
    """Return the lines of the table for a case, whose rows are as given."""
    raw = made.case(variant=variant)
    return view.lines(made.cases([{**raw, "results": list(rows)}]))


def test_what_people_read_of_a_session():
    printed = "\n".join(view.lines(made.cases(SESSION))) + "\n"
    if not GOLDEN.exists():
        GOLDEN.write_text(printed)
        pytest.fail(f"{GOLDEN} was not there: look at it, and keep it")
    assert printed == GOLDEN.read_text()


@pytest.mark.parametrize(
    ("facts", "end"),
    [
        ({}, "+10 ± 1.5 %  pass (expected overhead)"),
        ({"expected": False, "difference": "not the same build"}, "pass (not the same build)"),
        ({"expected": False, "answers_compared": False}, "pass (answers not compared)"),
        ({"expected": False, "duet": True}, "pass (both sides at once, on halves of the node)"),
        ({"verdict": "emulated", "emulated": True}, "+10 ± 1.5 %  emulated: overheads are reported, not judged"),
        # As an earlier version stored it.
        ({"expected": False, "verdict": "inconclusive"}, "+10 ± 1.5 %  open"),
    ],
)
def test_the_verdict_has_remarks(facts, end):
    assert lines_of({**COMPARED, **facts})[1].endswith(end)


def test_the_same_build_is_one_line_of_a_case_and_no_remark_on_each_metric():
    same = {**COMPARED, "expected": False, "difference": "same build, executable 4455d68f8669"}
    lines = lines_of(same, same)
    assert all(line.endswith("pass") for line in lines[1:3])
    assert [line for line in lines if "same build" in line] == [
        "Code generic, 1 node(s): same build, executable 4455d68f8669"
    ]


def test_the_network_of_generic_containers_on_several_nodes_is_one_line_for_all_that_used_it():
    tcp, fabric = {"interfaces": ["eth0", "lo"]}, {"devices": ["mlx5_0 (mlx5_core)"], "interfaces": ["eth0"]}

    def case(name, nodes, generic, bare=fabric, variant="generic"):
        return made.case(name, variant, nodes, provenance={"uses": {variant: generic, "bare": bare}})

    cases = [case("HPL", 2, tcp), case("IMB", 4, tcp), case("BTMZ", 2, fabric), case("Code", 2, tcp, tcp)]
    # On one node nothing goes over a network; nothing is said of what was not seen.
    others = [
        case("HPL", 1, tcp),
        case("FFT", 2, {}),
        case("HPL", 2, fabric, variant="integrated"),
        made.case("FFT", nodes=4),
    ]
    assert table.networks(made.cases([*cases, *others])) == [
        "HPL generic, 2 node(s); IMB generic, 4 node(s): over TCP (eth0), and bare over mlx5_0",
        "BTMZ generic, 2 node(s): over mlx5_0",
        "Code generic, 2 node(s): over TCP (eth0)",
    ]


def test_a_second_runtime_of_a_site_changes_no_name_and_no_series_of_the_first():
    (before,) = made.cases([made.case("HPL")])
    first, other = made.cases([made.case("HPL", axes=f" %platform={name}") for name in ("first", "Podman")])
    assert (first.label, first.identity) == (before.label, before.identity) and first.label == "HPL"
    assert other.label == "HPL platform=Podman" and other.identity != before.identity


def test_sides_other_than_bare_and_the_variant_are_named():
    old = {**COMPARED, "baseline_label": "apptainer 1.3", "subject_label": "apptainer 1.4"}
    heading, first, second, *_ = lines_of(old, COMPARED)
    assert heading.split()[4:6] == ["baseline", "subject"]
    assert "1 x (apptainer 1.3)  0.9 x (apptainer 1.4)" in first
    assert "1 x (bare)           0.9 x (generic)" in second


def test_axes_that_differ_and_several_partitions_are_named():
    cases = [made.case(axes=f" %size={size} %kind=a", rows=[made.row()]) for size in (1, 2)]
    skipped = made.case(axes=" %size=3 %kind=b", result="skip", skip_reason="full")
    lines = view.lines(made.cases([*cases, skipped]))
    assert [line.split()[:3] for line in lines[1:3]] == [["Code", "size=1", "generic"], ["Code", "size=2", "generic"]]
    cases[1]["partition"] = "other"
    heading, _, second, *_ = view.lines(made.cases(cases))
    assert (heading.split()[:2], second.split()[:3]) == (["application", "partition"], ["Code", "size=2", "other"])


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"overhead": -0.0, "interval": 0.0}, "+0 ± 0 %"),
        # An interval that says nothing is not printed.
        ({"overhead": -234.0, "interval": 470.0}, "-230 %"),
        ({"overhead": 0.00123, "interval": 1234.0, "overhead_unit": "s"}, "+0.0012 s"),
        ({"interval": None}, "+10 %"),
        ({"interval": math.inf, "low": 3.21, "high": math.inf}, "+10 (at least +3.2) %"),
        ({"interval": None, "low": None, "high": 14.0}, "+10 (at most +14) %"),
        ({"overhead": 31.0, "interval": 1245.0, "low": -2400.0, "high": 90.0}, "+31 (at most +90) %"),
        # The message about an open metric has the bound.
        ({"overhead": 31.0, "interval": 1245.0, "low": -2400.0, "high": 90.0, "verdict": "inconclusive"}, "+31 %"),
        ({"overhead": -3.3, "interval": 22.0, "low": -45.0, "high": -1.0}, "-3.3 (-45 to -1) %"),
        ({"overhead": None, "interval": math.nan}, "? %"),
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
    ],
)
def test_the_spread_of_each_side_is_in_percent_where_the_overhead_is(facts, text):
    assert table.spreads(Row.from_json({**COMPARED, **facts})) == text


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12), st.sampled_from([2, 4]))
def test_numbers_have_no_exponent_and_are_right_to_their_digits(value, digits):
    text = table.number(value, digits)
    assert "e" not in text
    assert text != "-0"
    assert float(text) == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits), abs=1e-12)


@pytest.mark.parametrize(
    ("words", "tally"),
    [
        ("", ""),
        ("p", "pass"),
        ("oo", "all 2 open"),
        ("p" * 13 + "o", "13 of 14 pass, 1 open"),
        ("fpo", "1 of 3 fail, 1 pass, 1 open"),
        ("e", ""),
    ],
)
def test_a_case_is_summed_up_by_its_metrics(words, tally):
    verdicts = {"p": "pass", "f": "fail", "o": "inconclusive", "e": "emulated"}
    rows = [made.row(str(number), verdict=verdicts[letter]) for number, letter in enumerate(words)]
    assert states.tally(case(*rows)) == tally


def test_metrics_that_are_too_slow_share_a_line():
    metrics = {"HPL": 32.7, "DGEMM": 52.8, "FFT": 30.6}
    rows = [made.opened("slower", name, overhead=more) for name, more in metrics.items()]
    assert table.questions([case(*rows)]) == [
        "TOO SLOW, not yet certain: Code generic, 1 node(s): HPL +33 ± 2 %, DGEMM +53 ± 2 %, FFT +31 ± 2 %"
    ]


@pytest.mark.parametrize(
    ("kind", "status"), [("slower", 2), ("faster", 2), ("close", 0), ("noisy", 0), (None, 0), ("failed", 1)]
)
def test_the_exit_status_shows_what_is_not_certain(kind, status, capsys):
    slow = made.opened("slower", "other")
    rows = {None: [made.row()], "failed": [made.row(verdict="fail"), slow]}.get(kind) or [made.opened(kind)]
    facts = SLOW if kind == "failed" else {}
    assert run.conclude_with_metrics([case(*rows, **facts)], []) == status
    said = capsys.readouterr().out
    assert said.startswith("\napplication ")
    assert ("TOO SLOW, not yet certain: " in said or "QUESTION, does it " in said) == (status == 2)
    # Other problems count more.
    assert run.conclude_with_metrics([case(*rows, **facts)], ["stopped by SIGTERM"]) == 1


# What failed, and what did not run.


@pytest.mark.parametrize("phase", ["performance", "sanity"])
@pytest.mark.parametrize("later", ["pass", "skip", "abort", "fail_deps"])
def test_a_failure_is_final(phase, later):
    failed = made.case(rows=[made.row()], result="fail", fail_phase=phase, fail_reason="rate is worse\n")
    other = made.case("Other", rows=[made.row()])
    cases = made.cases([failed, other], [made.case(rows=[made.row()], result=later)])
    lines = view.lines(cases)
    assert selections.problems(cases) == ["1 of 2 checks failed: see above"]
    passed_later = ", and passed later" if later == "pass" else ""
    assert f"FAILED{passed_later}: Code generic: rate is worse" in lines
    assert sum(line.startswith("Code") for line in lines) == 1


def test_a_failure_has_the_command_that_repeats_it():
    failed = {"result": "fail", "reproducer": "/stage/one two/reproduce.sh", "fail_reason": "slow"}
    compared = {"side baseline": "bare", "side old": "old", "side new": "new"}
    cases = [
        made.case("HPL", "generic", **failed),
        made.case("GROMACS", "generic", compared=compared, **failed),
        made.case("IMB", "bare", **failed),
    ]
    lines = view.lines(made.cases(cases))
    assert [line for line in lines if "to repeat" in line] == [
        "  to repeat HPL generic: bash '/stage/one two/reproduce.sh' subject",
        "  to repeat GROMACS generic: bash '/stage/one two/reproduce.sh' new",
        "  to repeat IMB bare: bash '/stage/one two/reproduce.sh' baseline",
    ]


# The command.


@pytest.mark.parametrize("content", [None, "no json", '{"runs": []}', '{"runs": [{}]}'])
def test_a_session_without_results_is_an_error(tmp_path, content, capsys):
    path = tmp_path / "report.json"
    if content is not None:
        path.write_text(content)
    assert main.run("report", [str(path)], None) == 2
    assert capsys.readouterr().err.startswith("report: error: ")


def test_reports_are_printed_with_their_status(tmp_path, capsys):
    path = tmp_path / "report.json"
    for case_, status in ((made.case(rows=[made.row()], **SLOW), 1), (made.case(rows=[made.row()]), 0)):
        path.write_text(json.dumps({"runs": [{"testcases": [case_]}]}))
        assert main.run("report", [str(path)], None) == status
        printed = capsys.readouterr()
        assert ("1 of 1 checks failed: see above" in printed.err) == (status == 1)
        assert printed.out.startswith("\napplication  variant  nodes  metric  bare  ")


def test_the_report_counts_on_the_limits_of_the_verdict():
    first = next(n for n in range(1, 40) if boundaries.averages(n) >= boundaries.rank_boundary("pass", n))
    assert first == selections.FEWEST


# JUnit.


def written(tmp_path, cases, alarms=(), problems=()):
    exported.write_junit(tmp_path / "junit.xml", cases, alarms, problems)
    assert [path.name for path in tmp_path.iterdir()] == ["junit.xml"]
    return ElementTree.parse(tmp_path / "junit.xml").getroot()


def test_each_result_has_its_kind_in_junit(tmp_path):
    error = {"fail_phase": "sanity", "fail_info": {"exc_type": "NotMeasured"}, "fail_reason": "the job ended early"}
    cases = [
        made.case(variant="bare", rows=[made.alone()], nodes=2, axes=" %size=1", job_seconds=12.5),
        made.case(variant="integrated", rows=[made.row("a", verdict="fail"), made.row("b")], **SLOW),
        made.case("Code", "generic", 1, result="fail", **error),
        made.case("Code", "other", 1, result="skip", skip_reason="no image"),
        made.case("Code", "open", 1, rows=[made.row(), made.opened("noisy", "HPL")]),
    ]
    (suite,) = written(tmp_path, made.cases(cases))
    counts = [suite.get(name) for name in ("name", "tests", "failures", "errors", "skipped")]
    assert counts == ["Code", "5", "1", "1", "1"]
    bare, integrated, generic, other, open_case = suite
    assert (bare.get("classname"), bare.get("name")) == ("Code", "bare 2 node(s) size=1 @cluster:compute+builtin")
    assert (bare.get("time"), list(bare)) == ("12.500", [])
    assert integrated.find("failure").text == SLOW["fail_reason"]
    assert integrated.find("system-out").text == "1 of 2 fail, 1 pass"
    assert generic.find("error").text == "the job ended early"
    assert other.find("skipped").get("message") == "no image"
    assert open_case.find("system-out").text.startswith("1 of 2 pass, 1 open\nHPL: at most 12 % worse; a minute")


def test_alarms_and_problems_are_in_junit_though_no_check_failed(tmp_path):
    history, session = written(tmp_path, [], ["the machine changed"], ["stopped by SIGTERM"])
    assert (history.get("name"), history.get("failures")) == ("history", "1")
    assert (session.get("name"), session.get("errors")) == ("session", "1")


def test_characters_that_xml_cannot_hold_do_not_break_it(tmp_path):
    failed = made.case(result="fail", fail_phase="sanity", fail_reason="a \x1b[31mred\x00 <&> line")
    (suite,) = written(tmp_path, made.cases([failed]))
    assert suite[0].find("failure").get("message") == "a ?[31mred? <&> line"
