"""Hosts that are asked by a job: a real one of ReFrame's local scheduler, in place of a node's."""

from __future__ import annotations

import platform
from dataclasses import replace

import pytest
from containercheck.site import hosts, jobs
from containercheck.site.sites import Site
from reframe.core.runtime import RuntimeContext, runtime

(PARTITION,) = runtime().system.partitions


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """Have a stage directory, and return a function that asks a node whose site has these extras."""
    monkeypatch.setattr(RuntimeContext, "stage_prefix", property(lambda _: str(tmp_path / "stage")))
    monkeypatch.setattr(jobs, "LATE", 0.0)

    def ask(**extras):
        site = replace(Site.of(PARTITION), **extras)
        monkeypatch.setattr(hosts.Site, "of", lambda _: site)
        return hosts.ask_all([site.partition])[site.partition]

    yield ask
    assert not [*(tmp_path / "stage").iterdir()]


def test_a_job_prints_the_facts_of_its_host(stage):
    answer = stage()
    assert answer.error is None
    assert answer.facts["processor"]["architecture"] == platform.machine()


def test_a_host_without_python_is_the_reason(stage):
    answer = stage(python="/nowhere/python3")
    assert str(answer.error).startswith("its job failed: no /nowhere/python3 on ")


def test_a_host_that_does_not_see_the_stage_directory_is_told(stage, monkeypatch):
    monkeypatch.setattr(jobs, "appears", lambda finished: False)
    error = stage().error
    assert isinstance(error, hosts.UnseenError) and "set the stage directory to one that they share" in str(error)
