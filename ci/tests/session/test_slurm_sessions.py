"""A session whose nodes are down."""

from __future__ import annotations

import platform

from slurm_programs import sinfo  # noqa: F401

HERE = platform.machine()


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
