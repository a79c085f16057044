"""A session whose nodes are down."""

from __future__ import annotations

import platform

import pytest

HERE = platform.machine()


@pytest.fixture
def sinfo(tmp_path, monkeypatch):
    """Have sinfo print this, and nothing for other options than ours."""

    def prepare(text, *options):
        (tmp_path / "told").write_text(text)
        wanted = " ".join(["--all --noheader --Node --format=%P|%a|%N|%T|%E", *options])
        (tmp_path / "sinfo").write_text(f'#!/bin/sh\n[ "$*" != "{wanted}" ] || cat {tmp_path}/told\n')
        (tmp_path / "sinfo").chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    return prepare


def test_a_check_whose_nodes_are_down_fails_before_its_job(session, site, sinfo):
    sinfo("compute*|up|node1|down*|planted\n")
    processor = {"arch": HERE, "num_cpus": 2, "num_cpus_per_core": 1, "num_cpus_per_socket": 2, "num_sockets": 1}
    settings = site(scheduler="squeue", launcher="srun", processor=processor)
    result = session("-n", "^Planted%variant=bare", "-C", settings)
    case = result.case("bare")
    assert (case["result"], case["fail_phase"]) == ("fail", "setup"), result.output
    assert case["fail_reason"] == (
        "out of service: here:only needs 1 node(s), and Slurm's partition compute has 0 of 1 in service: "
        "node1 down (planted)"
    )
    # What it would take can be told all the same.
    assert session("-n", "^Planted%variant=bare", "-C", settings, "--dry-run").status == 0
