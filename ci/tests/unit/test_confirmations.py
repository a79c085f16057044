"""A confirmation of slowness: it tries what may explain it, unless that is not wanted."""

from __future__ import annotations

from dataclasses import replace

import made
import pytest
from containercheck.command import acceptance, nightly
from containercheck.command.run import asked, conclude_with_figures
from containercheck.report import ending
from containercheck.results import selections
from containercheck.results.cases import Case, collect
from containercheck.session import reframe_process
from containercheck.session.passes import Session
from containercheck.session.reframe_process import Workplace

SLOW = Case(("Code", "", "", "1"), "Code", {}, "Code", "compute", "generic", 1, "fail", phase="performance")


def ended(failed, runs, **facts):
    cause = {"sentence": "X=1 is set", "experiment": {"kind": "unset", "value": "X"}, "ended": [failed, runs], **facts}
    return replace(SLOW, phase="sanity", causes=(cause,))


@pytest.fixture
def options_of_confirmation(tmp_path, monkeypatch):
    """Confirm a case in a session with these arguments; return the options with which it is run again."""

    def confirm(*arguments, case=SLOW):
        session = Session(asked(arguments), Workplace(tmp_path), reframe_process.Relay())
        session.cases, asked_for = [case], []

        def repeat(cases, *options, **facts):
            asked_for.append(options)
            session.cases = [replace(case, earlier=(case,))]
            return []

        monkeypatch.setattr(session, "repeat", repeat)
        session.repeat_open()
        (options,) = asked_for or [()]
        return [option for option in options if option.startswith("experiments_of=")]

    return confirm


def test_a_confirmation_tries_remedies_for_the_causes_in_its_report(options_of_confirmation, tmp_path):
    (option,) = options_of_confirmation()
    assert option.startswith(f"experiments_of={tmp_path}")


def test_without_experiments_a_confirmation_is_the_same_run_again(options_of_confirmation):
    assert options_of_confirmation("--no-experiments") == []


@pytest.mark.parametrize(
    ("case", "is_tried"),
    [
        (ended(2, 2), True),
        # One that ends now and then may end well by chance.
        (ended(2, 3), False),
        (ended(1, 1), False),
        (ended(2, 2, experiment=None), False),
        (replace(ended(2, 2), earlier=(ended(2, 2),)), False),
        (replace(SLOW, phase="sanity"), False),
    ],
)
def test_what_ends_in_each_run_of_the_container_is_tried_once_without_the_cause(
    options_of_confirmation, case, is_tried
):
    assert bool(options_of_confirmation(case=case)) == is_tried
    assert options_of_confirmation("--no-experiments", case=case) == []


def test_what_ended_stays_failed_whatever_its_further_run_is():
    again = replace(SLOW, result="pass", phase="", earlier=(ended(2, 2),))
    assert selections.failure(again) == ended(2, 2)


def twice(second):
    """Return a case that failed in 3 of 3 rounds, as it is after a second run with this figure."""
    row = made.row(overhead=75.0, verdict="fail", rounds=3, above=3)
    why = {"fail_phase": "performance", "fail_reason": "rate is 75 % worse than bare"}
    runs = [made.case(rows=[row], result="fail", **why), made.case(rows=[second])]
    return collect([{"runs": [{"testcases": [run]} for run in runs]}])


def end_night(cases, directory):
    """End a night with these cases; return its exit status and its page."""
    result = nightly.Result("tonight", cases)
    result.unstored([])
    return nightly.conclude(result, directory), (directory / "report.html").read_text()


@pytest.mark.parametrize("kind", ["slower", "close", "noisy"])
def test_a_second_run_that_ends_open_refutes_nothing(kind, tmp_path, capsys):
    cases = twice(made.opened(kind, overhead=70.0, rounds=2, above=1))
    said = "a second run did not refute it (rate above 10 % in 4 of 5 rounds of both runs)"
    assert conclude_with_figures(cases, []) == 1
    assert f"FAILED, and {said}: Code generic, 1 node(s): rate is 75 % worse than bare" in capsys.readouterr().out
    short = "\n".join(ending.lines(cases))
    assert "1 case(s): 1 failed\n" in short and f"FAILED, and {said}" in short and "not yet certain" not in short
    status, page = end_night(cases, tmp_path)
    assert status == 1
    assert f"A{said[1:]}" in page and "Slow once" not in page
    assert acceptance.conclude({"old": "1.3", "generic": "1.4"}, cases, []) == 1


def test_a_second_run_that_passes_refutes_the_first(tmp_path, capsys):
    cases = twice(made.row(rounds=9))
    assert conclude_with_figures(cases, []) == 0
    assert "not confirmed when it was run again: Code generic" in capsys.readouterr().out
    status, page = end_night(cases, tmp_path)
    assert status == 0 and "Slow once" in page


def test_a_figure_that_another_one_refutes_stays_failed():
    assert conclude_with_figures(twice(made.row("other")), []) == 1
