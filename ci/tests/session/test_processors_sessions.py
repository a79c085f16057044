"""A topology that ReFrame knows of another machine."""

from __future__ import annotations

import os
import subprocess

from conftest import PLANTED


def test_a_topology_of_another_machine_is_told(site, reframe):
    """As in a home directory that several machines share."""
    path = site(processor={"num_cpus": 128, "num_cpus_per_core": 1, "num_sockets": 1, "arch": "x86_64"})
    command, facts = reframe("-n", "NoSoftware%variant=bare", checks=PLANTED, RFM_CONFIG_FILES=path)
    done = subprocess.run(["taskset", "-c", str(min(os.sched_getaffinity(0))), *command], timeout=300, **facts)
    assert done.returncode == 1
    assert f"{os.uname().nodename} has 1 core(s) for this session, the configuration says 128" in done.stdout
    assert "Traceback" not in done.stdout
