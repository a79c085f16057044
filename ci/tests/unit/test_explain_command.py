"""containercheck explain: what is known of a case that failed, and what two sessions differ in."""

from __future__ import annotations

import json

import pytest
from containercheck.command import explain
from containercheck.explain import between
from containercheck.explain.observations import Observation, Use
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


def test_of_variables_that_no_rule_knows_the_name_is_kept_and_what_tells_nights_apart():
    of_job = {"SLURM_JOB_ID": "7", "PWD": "/stage"}
    environment = {"MY_LIBRARY": "hidden:1", "MY_TOKEN": "hidden:2", "UCX_TLS": "tcp", **of_job}
    seen = Observation(environment=environment, fingerprints={"MY_LIBRARY": "0123abcd", "MY_TOKEN": "", "UCX_TLS": "f"})
    assert between.kept(seen)["other variable"] == {"MY_LIBRARY": "0123abcd", "MY_TOKEN": "set"}
    assert between.kept(seen)["variable"] == {"UCX_TLS": "tcp"}


def test_user_and_cgroup_are_kept_without_the_numbers_of_a_job():
    lines = ["4:memory:/slurm/uid_0/job_12/step_0", "3:cpu:/slurm/uid_0/job_12/step_0", "0::/docker/0123456789abcdef"]
    kept = between.kept(Observation(user="uid=0(root) gid=0(root)", cgroup=lines))
    assert kept == {"user": "uid=0(root) gid=0(root)", "cgroup": ["/docker/#", "/slurm/uid_#/job_#/step_#"]}


def test_what_runs_used_is_kept_and_rules_can_ask_it():
    blas = "/usr/lib/x86_64-linux-gnu/openblas-serial/libopenblas-r0.3.21.so"
    kept = between.used(Use(12.3, libraries=frozenset([blas]), interfaces=frozenset(["fab0"]), threads=4))
    assert kept == {
        "library": {"libopenblas": "x86_64-linux-gnu/openblas-serial/libopenblas-r0.3.21.so"},
        "interfaces": ["fab0"],
        "threads": 4,
    }
    limited = between.used(Use(throttled=[1, 100, 0.5], memory_limit=float(2 << 30)))
    assert limited == {"limit": {"processors": "0.5", "memory": "2 GiB"}}
    again = between.use(json.loads(json.dumps({**kept, **limited})))
    assert (again.threads, again.interfaces, again.memory_limit) == (4, {"fab0"}, 2 << 30)
    assert between.used(Use()) == {}
