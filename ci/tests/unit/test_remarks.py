"""Remarks on what did no harm today: each is made where something is wrong, and a healthy node has none."""

from __future__ import annotations

import pytest
from containercheck import Metric
from containercheck.job.explain import explanation
from containercheck.job.explain.causes import BIND, GPUS, Change
from containercheck.job.explain.observations import Observation, Use
from containercheck.job.explain.rules import remarks

HEALTHY = Observation(
    environment={"HOME": "/home/somebody", "TMPDIR": "/scratch"},
    limits={"Max locked memory": "unlimited"},
    space={"/dev/shm": [64 << 20, 60 << 20]},
    directories={"/scratch": "usable", "/home/somebody": "usable"},
    devices=["/dev/infiniband/uverbs0", "/dev/infiniband/rdma_cm"],
    kernel={"ptrace_scope": "1"},
)
LATENCY = Metric("latency", r"^latency (\S+)", "us", better="lower", measures=("network",))
SPEED = Metric("speed", r"^speed (\S+)", "x", measures=("computing",))


def test_a_healthy_node_and_what_was_not_recorded_have_none():
    assert remarks({"bare": HEALTHY, "generic": None}) == []
    assert remarks({"bare": Observation()}) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"limits": {"Max locked memory": "65536"}}, "only 64 KiB of memory may be locked on a node with InfiniBand"),
        ({"space": {"/dev/shm": [8 << 30, 1 << 20]}}, "/dev/shm has 1 MiB free of 8 GiB"),
        ({"kernel": {"ptrace_scope": "2"}}, "kernel.yama.ptrace_scope is 2"),
        ({"directories": {"/scratch": "missing"}}, "TMPDIR is /scratch, which is missing"),
    ],
)
def test_what_is_wrong_is_said_once_with_the_sides(change, said):
    wrong = HEALTHY._replace(**change)
    (of_one,) = remarks({"bare": HEALTHY, "generic": wrong})
    assert of_one.startswith(f"generic: {said}")
    (of_both,) = remarks({"bare": wrong, "generic": wrong})
    assert of_both.startswith(f"bare and generic: {said}")


def test_a_home_that_is_not_there_is_no_remark():
    assert remarks({"generic": HEALTHY._replace(directories={"/home/somebody": "unwritable"})}) == []


def test_little_locked_memory_hurts_only_where_there_is_infiniband():
    assert remarks({"bare": HEALTHY._replace(limits={"Max locked memory": "65536"}, devices=[])}) == []


def test_devices_that_the_container_lacks_explain_what_needs_them():
    lacking = HEALTHY._replace(devices=[])
    (cause,) = explanation.causes(HEALTHY, lacking, (Use(), Use()), [LATENCY])
    assert cause.sentence.startswith("/dev/infiniband/uverbs0 is on the host, and not in the container")
    assert cause.change == Change(BIND, "/dev/infiniband")
    assert explanation.causes(HEALTHY, lacking, (Use(), Use()), [SPEED]) == []
    (gpu,) = explanation.causes(HEALTHY._replace(devices=["/dev/nvidia0"]), lacking, (Use(), Use()), [SPEED])
    assert "NVIDIA's GPUs" in gpu.sentence
    assert gpu.change == Change(GPUS)


def test_what_is_wrong_on_another_node_is_said_of_it():
    wrong = {"kernel": {"ptrace_scope": "2"}}
    seen = HEALTHY._replace(host="node1", nodes={"node2": wrong, "node3": {}})
    (remark,) = remarks({"bare": seen, "generic": seen})
    assert remark.startswith("bare on node2 and generic on node2: kernel.yama.ptrace_scope is 2")
    # What the first node has too is said once.
    assert len(remarks({"bare": seen._replace(**wrong)})) == 1
