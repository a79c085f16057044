"""The parts of ReFrame that are not documented: present in the installed version, with the form that is expected."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import pytest
from containercheck import reframe_internals
from reframe.frontend.executors import RegressionTask
from reframe.frontend.reporting import RunReport


def test_what_the_library_changes_is_there():
    """Where this fails, a newer ReFrame has moved it: see containercheck/reframe_internals.py."""
    assert [*inspect.signature(RegressionTask.log_result).parameters] == ["self"]
    assert [*inspect.signature(RunReport.update_run_stats).parameters][:2] == ["self", "stats"]
    assert "stats.runs()" in inspect.getsource(RunReport.update_run_stats)


@pytest.mark.parametrize("announced", ["yes", ""])
def test_a_case_that_ended_is_announced_or_shown(tmp_path, monkeypatch, announced):
    """Where its entry cannot be made, the case is logged all the same."""
    shown, logged, warned = [], [], []
    monkeypatch.setenv(reframe_internals.ANNOUNCED, announced and str(tmp_path / "announced"))
    monkeypatch.setattr(RegressionTask, "log_result", lambda task: logged.append(task))
    monkeypatch.setattr(reframe_internals, "entry_of", lambda task: {"name": task.name})
    monkeypatch.setattr(reframe_internals, "_register_end", lambda: None)
    logger = SimpleNamespace(info=shown.append, warning=warned.append)
    monkeypatch.setattr("reframe.core.logging.getlogger", lambda: logger)
    reframe_internals.listen.__wrapped__(lambda entry: f"{entry['name']} ended\n")
    check = SimpleNamespace(measured=[], is_dry_run=lambda: False, display_name="Code")
    tasks = [SimpleNamespace(name="Code", check=check), SimpleNamespace(check=check)]
    for task in tasks:
        RegressionTask.log_result(task)
    assert logged == tasks
    assert shown == ([] if announced else ["Code ended"])
    assert (tmp_path / "announced").exists() == bool(announced)
    assert warned == ["Code is not shown: AttributeError(\"'types.SimpleNamespace' object has no attribute 'name'\")"]
