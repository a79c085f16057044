"""A confirmation of slowness: it tries what may explain it, unless that is not wanted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from containercheck.command.run import asked
from containercheck.results import selections
from containercheck.results.cases import Case
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
