"""How many processors a session may use, and a configuration that says more."""

from __future__ import annotations

import os

import pytest
from containercheck.site import processors
from containercheck.site.layout import Layout
from containercheck.site.sites import Site
from reframe.core.exceptions import ReframeError

HERE = Site("here:only", is_here=True, architecture="x86_64", cores=128, gpus=0)


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        ("0::/", {}, 128),
        ("0::/user/job", {"user/job/cpu.max": "max 100000"}, 128),
        ("0::/user/job", {"user/job/cpu.max": "max 100000", "user/cpu.max": "250000 100000"}, 2),
        ("0::/user/job", {"cpu.max": "50000 100000"}, 1),
        ("4:cpu,cpuacct:/job", {"cpu,cpuacct/job/cpu.cfs_quota_us": "-1"}, 128),
        (
            "4:cpu,cpuacct:/job",
            {"cpu,cpuacct/job/cpu.cfs_quota_us": "400000", "cpu,cpuacct/job/cpu.cfs_period_us": "100000"},
            4,
        ),
        ("7:memory:/job", {"memory/job/cpu.max": "100000 100000"}, 128),
    ],
)
def test_a_quota_of_the_cgroup_or_of_one_above_counts(group, files, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(128)))
    files = {"proc/self/cgroup": group, **{f"sys/fs/cgroup/{name}": text for name, text in files.items()}}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert processors.usable(tmp_path) == expected


def test_the_machine_itself_tells():
    assert 1 <= processors.usable() <= len(os.sched_getaffinity(0))


def test_a_job_that_needs_more_than_there_are_is_refused_on_this_machine_only():
    with pytest.raises(ReframeError, match=r" has 2 core\(s\) for this session, the configuration says 128: correct "):
        Layout(1, 128, 1).require_here(HERE, 2)
    Layout(1, 1, 2).require_here(HERE, 2)
    Layout(1, 128, 1).require_here(Site("a:b", is_here=False, architecture="x86_64", cores=128, gpus=0), 2)
