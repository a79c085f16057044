"""Rounds of an earlier session, from ReFrame's report of it."""

from __future__ import annotations

import json

import pytest
from containercheck import earlier
from reframe.core.exceptions import ReframeError

ROUND = {"baseline": {"time": 1.0}, "subject": {"time": 1.01}}


@pytest.fixture
def report(tmp_path):
    """Write a report of runs, each of some cases, and return its path."""

    def write(*runs, name="report.json"):
        (tmp_path / name).write_text(json.dumps({"runs": [{"testcases": cases} for cases in runs]}))
        return str(tmp_path / name)

    return write


def case(name="HPL_1", partition="compute", **facts):
    return {"unique_name": name, "system": "cluster", "partition": partition, **facts}


def test_without_a_report_there_are_none():
    assert earlier.rounds_of("", "HPL_1", "cluster:compute") == []


def test_the_rounds_are_those_of_the_same_case_on_the_same_partition(report):
    cases = [case(measured=[ROUND] * 3), case("HPL_2", measured=[ROUND]), case(partition="login", measured=[ROUND] * 2)]
    path = report(cases)
    found = {
        (name, partition): len(earlier.rounds_of(path, name, partition))
        for name in ("HPL_1", "HPL_2", "HPL_3")
        for partition in ("cluster:compute", "cluster:login")
    }
    assert found == {
        ("HPL_1", "cluster:compute"): 3,
        ("HPL_1", "cluster:login"): 2,
        ("HPL_2", "cluster:compute"): 1,
        ("HPL_2", "cluster:login"): 0,
        ("HPL_3", "cluster:compute"): 0,
        ("HPL_3", "cluster:login"): 0,
    }
    assert earlier.rounds_of(path, "HPL_2", "cluster:compute") == [ROUND]


def test_of_several_runs_of_a_case_the_last_one_counts(report):
    path = report([case(measured=[ROUND] * 3)], [case(measured=[ROUND] * 4), case("HPL_2")])
    assert len(earlier.rounds_of(path, "HPL_1", "cluster:compute")) == 4


def test_a_case_that_was_not_run_has_none(report):
    assert earlier.rounds_of(report([case()]), "HPL_1", "cluster:compute") == []


def test_another_report_is_another_session(report):
    one, other = report([case(measured=[ROUND])]), report([case(measured=[ROUND] * 2)], name="other.json")
    found = [len(earlier.rounds_of(path, "HPL_1", "cluster:compute")) for path in (one, other, one)]
    assert found == [1, 2, 1]


@pytest.mark.parametrize("text", [None, "", "{}", '{"runs": [{}]}'])
def test_a_report_that_cannot_be_read_is_named(tmp_path, text):
    path = tmp_path / "report.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ReframeError, match=f"cannot read the earlier session's report {path}: "):
        earlier.rounds_of(str(path), "HPL_1", "cluster:compute")
