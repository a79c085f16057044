"""A session that is started inside an allocation of Slurm submits its jobs without what the allocation set."""

from __future__ import annotations

import os

from conftest import PLANTED, write_program

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
