"""containercheck explain: what is known of a case that failed, and what two sessions differ in."""

from __future__ import annotations

import json

import pytest
from containercheck.command import explain
from containercheck.explain import between
from containercheck.explain.observations import Observation
from containercheck.results.cases import ReportError, collect

CAUSE = {
    "rule": "variable",
    "about": "X",
    "sentence": "X=1 is set",
    "remedy": "unset it",
    "source": "a#1",
    "kinds": ["computing"],
    "experiment": {"kind": "unset", "value": "X"},
}
FIGURE = {"helps": "fail", "rest": "pass", "overhead": 0.4, "interval": [-0.9, 1.8], "without": 34.0, "unit": "%"}


def cases(**facts):
    raw = {
        "name": "HPCC %variant=generic %num_nodes=1",
        "display_name": "HPCC %variant=generic %num_nodes=1",
        "unique_name": "HPCC_1",
        "system": "here",
        "partition": "only",
        "environ": "builtin",
        "variant": "generic",
        "num_nodes": 1,
        "result": "fail",
        "fail_phase": "performance",
        "fail_reason": "performance error: rate is 34 % worse",
        "results": [],
    }
    return collect([{"runs": [{"testcases": [{**raw, **facts}]}]}])


def test_a_case_is_explained_with_what_was_tried():
    result = {"name": "remedy1", "failed": "", "took_effect": True, "figures": {"rate": FIGURE}}
    tried = {**CAUSE, "result": result}
    lines = explain.explained(cases(causes=[tried, {**CAUSE, "sentence": "Y=1 is set"}]), "hpcc")
    assert lines[0].endswith("rate is 34 % worse")
    assert lines[1:] == [
        "  X=1 is set",
        "    can slow: computing",
        "    do: unset it (a#1)",
        "    tried: X removed: proven, the overhead of rate is +0.4 (-0.9 to +1.8) %, and +34 % without",
        "  Y=1 is set",
        "    can slow: computing",
        "    do: unset it (a#1)",
        "    not tried: X removed",
    ]


def test_what_nothing_explains_gets_no_story():
    assert explain.explained(cases(), "HPCC")[1:] == ["  nothing that is known to cost time differs"]
    with pytest.raises(ReportError, match="no case of the last session has 'GROMACS'"):
        explain.explained(cases(), "GROMACS")


def test_two_sessions_are_compared():
    old = {"machine": {"kernel": "6.1.0"}, between.SEES: {"generic": {"libc": "glibc 2.36", "limit": {"Max a": "1"}}}}
    new = {"machine": {"kernel": "6.1.0"}, between.SEES: {"generic": {"libc": "musl", "variable": {"UCX_TLS": "tcp"}}}}
    assert explain.compared(cases(provenance=old), cases(provenance=new))[1:] == [
        "  sees generic libc: glibc 2.36 -> musl",
        "  sees generic limit Max a was 1, and is gone",
        "  sees generic variable UCX_TLS is new: tcp",
    ]
    assert explain.compared(cases(provenance=old), cases(provenance=old))[1:] == ["  nothing that is recorded differs"]
    with pytest.raises(ReportError, match="no case in common"):
        explain.compared(cases(provenance=old), cases())


def test_what_is_kept_is_the_same_in_every_job():
    seen = Observation(
        environment={"UCX_TLS": "tcp", "FI_TOKEN": "hidden:12345678", "OMPI_MCA_orte_rank": "1", "HOME": "/home/me"},
        limits={"Max locked memory": "65536", "Max nice priority": "0"},
        space={"/dev/shm": [8 << 20, 12345]},
        mounts={"/": ["overlay", "overlay", "rw"]},
    )
    kept = between.kept(seen)
    assert kept["variable"] == {"UCX_TLS": "tcp"}
    assert kept["limit"] == {"Max locked memory": "65536"}
    assert kept["shared memory"] == "8 MiB"
    assert kept["file system"] == {"/": "overlay", "/tmp": "overlay", "/dev/shm": "overlay"}
    assert json.dumps(kept)


def test_rules_can_ask_what_was_kept():
    seen = Observation(
        environment={"UCX_TLS": "tcp"},
        limits={"Max locked memory": "65536"},
        space={"/dev/shm": [8 << 20, 8 << 20]},
        mounts={"/": ["fuse.squashfuse_ll", "x", "ro", "rw"]},
        devices=["/dev/fuse"],
        libc="musl",
    )
    again = between.observation(json.loads(json.dumps(between.kept(seen))))
    assert between.kept(again) == between.kept(seen)
    assert (again.space["/dev/shm"][0], again.environment) == (8 << 20, {"UCX_TLS": "tcp"})
