"""ReFrame's configuration, as a session asks for it."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest
from conftest import write_program
from containercheck.results.cases import Case
from containercheck.session import reframe_process


def test_reframe_is_started_once_for_all_parts_of_its_configuration(tmp_path, monkeypatch):
    """ReFrame sets a variable when it is imported, which may be after the first question."""
    (tmp_path / "config.py").write_text("site_configuration = {}\n")
    place = reframe_process.Workplace(tmp_path, config=tmp_path / "config.py")
    started, start = [], subprocess.run
    monkeypatch.setattr(subprocess, "run", lambda *words, **facts: started.append(words) or start(*words, **facts))
    monkeypatch.delenv("RFM_INSTALL_PREFIX", raising=False)
    reframe_process.configuration([], place)
    monkeypatch.setenv("RFM_INSTALL_PREFIX", str(tmp_path))
    reframe_process.configuration([], place)
    assert len(started) == 1
    # What changes the answer is another question.
    monkeypatch.setenv("RFM_STAGE_DIR", str(tmp_path / "elsewhere"))
    assert reframe_process.configuration([], place).stage == tmp_path / "elsewhere"


HERE = Case(("Code", "", "", "1"), "Code", {}, "Code", "compute", "generic", 1, "pass", scheduler="local")


@pytest.mark.parametrize(
    ("arguments", "known", "rates"),
    [
        (["--dry-run"], None, "20 20 --dry-run"),
        ([], [HERE], "0.5 none -r"),
        ([], [replace(HERE, scheduler="slurm")], "none none -r"),
        # What is not shown.
        (["-c", "check.py"], None, "none none -r"),
    ],
)
def test_reframe_runs_unless_it_is_asked_for_a_dry_run_and_polls_as_often_as_needed(
    tmp_path, monkeypatch, arguments, known, rates
):
    """Between the steps of a dry run it slept for five seconds in all."""
    for name in ("RFM_POLL_RATE_MIN", "RFM_POLL_RATE_MAX"):
        monkeypatch.delenv(name, raising=False)
    write_program(tmp_path / "reframe", "echo ${RFM_POLL_RATE_MIN:-none} ${RFM_POLL_RATE_MAX:-none} $1")
    monkeypatch.setattr(reframe_process, "program", lambda: str(tmp_path / "reframe"))
    place = reframe_process.Workplace(tmp_path, config=tmp_path / "config.py")
    with reframe_process.Relay() as relay:
        assert reframe_process.reframe(arguments, place, relay, known) == 0
    assert place.log.read_text() == f"{rates}\n"
