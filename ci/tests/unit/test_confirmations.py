"""A confirmation of slowness: it tries what may explain it, unless that is not wanted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from containercheck.command.run import asked
from containercheck.results.cases import Case
from containercheck.session import reframe_process
from containercheck.session.passes import Session
from containercheck.session.reframe_process import Workplace

SLOW = Case(("Code", "", "", "1"), "Code", {}, "Code", "compute", "generic", 1, "fail", phase="performance")


@pytest.fixture
def options_of_confirmation(tmp_path, monkeypatch):
    """Confirm a slow case in a session with these arguments; return the options with which it is run again."""

    def confirm(*arguments):
        session = Session(asked(arguments), Workplace(tmp_path), reframe_process.Relay())
        session.cases, asked_for = [SLOW], []

        def repeat(cases, *options, **facts):
            asked_for.append(options)
            session.cases = [replace(SLOW, earlier=(SLOW,))]
            return []

        monkeypatch.setattr(session, "repeat", repeat)
        session.repeat_open()
        (options,) = asked_for
        return [option for option in options if option.startswith("experiments_of=")]

    return confirm


def test_a_confirmation_tries_remedies_for_the_causes_in_its_report(options_of_confirmation, tmp_path):
    (option,) = options_of_confirmation()
    assert option.startswith(f"experiments_of={tmp_path}")


def test_without_experiments_a_confirmation_is_the_same_run_again(options_of_confirmation):
    assert options_of_confirmation("--no-experiments") == []
