"""What a session shows while it goes, and what it ends with: a line for each case, why it failed, what was not run."""

from __future__ import annotations

import re

import made
import pytest
from containercheck.report import table, view
from containercheck.report.view import CaseView
from containercheck.results import states
from made import alone, case, opened, row

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def read(*cases):
    return made.cases(cases)


def line_of(*rows, **facts):
    return view.line_of(read(case(rows=rows, **facts))[0])


def shown(view, raw, result, rows):
    """Return the lines that a view shows of a case that ended."""
    return view.ended(read({**raw, "result": result, "results": rows})[0])


def test_a_case_that_passed_is_told_by_its_worst_metric():
    line = line_of(row("fast", overhead=-1), row("near", overhead=4), row("loose", overhead=6, accepted=[None, 30.0]))
    assert (line.state.shown, line.metric, line.value) == ("pass", "near", "+4 ± 2 %")
    assert line.rest == "12 rounds; all 3 pass"


def test_a_case_that_failed_is_told_by_the_worst_of_what_failed():
    rows = [
        opened("slower", "other", overhead=90),
        row("a", overhead=30, verdict="fail"),
        row("b", overhead=200, verdict="fail"),
    ]
    line = line_of(*rows, result="fail")
    assert (line.state.shown, line.metric, line.rest) == ("FAIL", "b", "12 rounds; 2 of 3 fail, 1 open")


@pytest.mark.parametrize(("kind", "state"), [("slower", "slow?"), ("faster", "fast?"), ("close", "open")])
def test_the_most_urgent_open_metric_is_shown(kind, state):
    line = line_of(row("fine"), opened("noisy", "noisy"), opened(kind, "asked", overhead=8))
    assert (line.state.shown, line.metric) == (state, "asked")
    assert line.rest == f"12 rounds; {opened(kind)['answer']}"


def test_a_case_that_did_not_come_to_metrics_has_a_line_too():
    assert line_of(result="fail") == view.CaseLine(states.UNMEASURED, "Code generic")
    shown_view = CaseView(is_terminal=False)
    assert shown(shown_view, case(), "fail", []).splitlines() == ["FAIL  Code generic", "FAILED: Code generic: fail"]


def test_without_a_terminal_there_is_no_colour_and_nothing_is_cut():
    rows = [opened("noisy", answer="at most 12 % worse; " * 20)]
    text = shown(CaseView(is_terminal=False), case(), "pass", rows)
    assert "\x1b" not in text
    assert text.count("at most 12 % worse") == 20
    assert text.endswith("\n") and text.count("\n") == 1


@pytest.mark.parametrize("colour", [True, False])
def test_in_a_terminal_a_line_is_as_long_as_that_is_wide(monkeypatch, colour):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    if colour:
        monkeypatch.delenv("NO_COLOR", raising=False)
    else:
        monkeypatch.setenv("NO_COLOR", "1")
    shown_view = CaseView(is_terminal=True)
    failed = shown(shown_view, case("A_check_with_a_very_long_name"), "fail", [row(verdict="fail", overhead=300)])
    text = shown(shown_view, case(), "pass", [opened("noisy", answer="at most 12 % worse; " * 20)])
    assert ("\x1b[1;31m" in failed) == colour
    lines = ESCAPE.sub("", failed + text).splitlines()
    assert [len(line) <= 80 for line in lines] == [True] * 3
    assert lines[-1].endswith("…")


def test_only_errors_are_shown_of_what_reframe_prints():
    shown_view = CaseView(is_terminal=False)
    assert shown_view.printed("[ RUN      ] Code %variant=generic /12345678 @a:b+c\n") == ""
    assert shown_view.printed("WARNING: Code: this and that\n") == ""
    assert shown_view.printed("ERROR: no system was found\n") == "ERROR: no system was found\n"


def test_a_case_is_shown_with_its_reason_when_it_ends_and_at_the_latest_at_the_end_of_the_run(capsys):
    shown_view = CaseView(is_terminal=False)
    reason = "\n".join(f"line {number}" for number in range(13))
    failed = read(case(result="fail", fail_phase="performance", fail_reason=reason, reproducer="/out/repeat.sh"))
    shown_view.collected(failed)
    late = capsys.readouterr().out
    lines = late.splitlines()
    assert lines[:3] == ["FAIL  Code generic", "FAILED: Code generic: line 0", "  line 1"]
    assert lines[9:] == ["  ...", "  to repeat Code generic: bash /out/repeat.sh subject"]
    assert shown_view.ended(failed[0]) == late
    shown_view.collected(failed)
    assert capsys.readouterr().out == ""


def test_the_heading_counts_what_will_run(capsys):
    lacking = case("Other", result="skip", skip_reason="no software: Other comes from Spack", scheduler="slurm")
    CaseView(is_terminal=False).head(read(case(scheduler="slurm"), lacking))
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("partitions: compute; 1 job(s): about ")
    assert second == "1 of 2 cases; 1 lack something, for 1 reason(s) listed at the end"


def test_what_was_not_run_is_told_by_the_reason():
    skips = [
        case(name, variant, result="skip", skip_reason=f"no software: {name} comes from Spack: name it")
        for name in ("HPCG", "WRF")
        for variant in ("bare", "generic")
    ]
    alone_ = case("Alya", result="skip", skip_reason="no software: Alya cannot be downloaded")
    assert [reason.line for reason in table.by_reason(read(*skips, alone_, case()))] == [
        "HPCG, WRF (4 case(s)): no software: NAME comes from Spack: name it",
        "Alya (1 case(s)): no software: Alya cannot be downloaded",
    ]


def test_a_session_ends_with_counts_failures_questions_and_what_was_not_run():
    lines = view.ending(
        read(
            case("A", rows=[row()]),
            case("B", result="fail", fail_phase="sanity", fail_reason="wrong energy"),
            case("C", rows=[opened("slower", overhead=40)]),
            case("D", "bare", rows=[alone()]),
            case("E", result="skip", skip_reason="no software: E is licensed"),
        )
    )
    assert lines[0] == "4 case(s): 1 fail, 1 too slow?, 1 pass, 1 measured"
    assert lines[1] == "FAILED: B generic: wrong energy"
    assert lines[2].startswith("TOO SLOW, not yet certain: C generic, 1 node(s): rate +40 ± 2 %")
    assert lines[-2:] == ["not run:", "  E (1 case(s)): no software: E is licensed"]
    assert view.ending([])[0] == "no case was run"


def test_a_failure_that_was_shown_whole_is_named_in_one_line_with_its_cause():
    cause = {"rule": "variable", "sentence": "X=1 is set", "remedy": "unset it", "source": "a#1", "experiment": None}
    failed = case("B", result="fail", fail_phase="sanity", fail_reason="wrong energy\nmore about it", causes=[cause])
    (found,) = read(failed)
    assert view.ending([found])[1:3] == ["FAILED: B generic: wrong energy", "  more about it"]
    assert view.ending([found], are_shown=True)[1] == (
        "FAILED: B generic: wrong energy; possible cause: X=1 is set; to try: unset it"
    )
