"""Sessions before their jobs of Slurm: nodes that are down, and an allocation around the session."""

from __future__ import annotations

import os
import platform

from conftest import PLANTED, write_program
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


#: What salloc, and a step of its, set; and what a site or a person does.
ALLOCATION = {"SLURM_JOB_ID": "7", "SLURM_JOBID": "7", "SLURM_NTASKS": "1", "SLURM_MEM_PER_CPU": "1000"}


OWN = {"SLURM_CONF": "/etc/slurm.conf", "SLURM_MPI_TYPE": "pmix", "PMIX_MCA_gds": "hash"}


def test_a_job_is_submitted_without_it(session, site, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    write_program(programs / "sbatch", f"env >{tmp_path}/seen; echo no job today >&2; exit 1")
    for name in ("squeue", "sinfo", "scontrol"):
        write_program(programs / name, "exit 0")
    path = site(scheduler="squeue", processor={"num_cpus": 2, "num_cpus_per_core": 1, "arch": "x86_64"})
    own = {"PATH": f"{programs}:{os.environ['PATH']}", "RFM_CONFIG_FILES": path}
    result = session("-n", "Planted%variant=bare", checks=PLANTED, **ALLOCATION, **OWN, **own)
    assert result.status == 1
    seen = (tmp_path / "seen").read_text().splitlines()
    assert [line for line in seen if line.partition("=")[0] in ALLOCATION] == []
    assert {f"{name}={value}" for name, value in OWN.items()} <= set(seen)
