"""What Slurm says of a job that has ended, from what scontrol prints."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from containercheck import slurm


@pytest.fixture
def says(tmp_path, monkeypatch):
    """Have scontrol print these states, one after the other, and then the last."""

    def prepare(*states):
        lines = "\n".join(f"JobId=7 JobState={state} Reason=None" for state in states)
        (tmp_path / "states").write_text(lines + "\n")
        script = f'#!/bin/sh\ncd {tmp_path}\nhead -n 1 states\n[ "$(wc -l <states)" = 1 ] || sed -i 1d states\n'
        (tmp_path / "scontrol").write_text(script)
        (tmp_path / "scontrol").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        monkeypatch.setattr(slurm, "_INTERVAL", 0)

    return prepare


def job(scheduler="squeue"):
    return SimpleNamespace(jobid="7", scheduler=SimpleNamespace(registered_name=scheduler))


@pytest.mark.parametrize(
    ("states", "lost"),
    [(["COMPLETING", "NODE_FAIL"], True), (["NODE_FAIL"], True), (["COMPLETING", "COMPLETED"], False)],
)
def test_a_job_that_lost_a_node_is_known_once_slurm_has_settled_it(says, states, lost):
    says(*states)
    assert slurm.lost_node(job()) is lost


def test_a_job_that_slurm_never_had_lost_no_node(says):
    says("NODE_FAIL")
    assert not slurm.lost_node(job("local"))


def test_a_job_that_never_settles_is_not_waited_for_for_ever(says, monkeypatch):
    says("COMPLETING")
    monkeypatch.setattr(slurm, "PATIENCE", 0.2)
    assert not slurm.lost_node(job())
