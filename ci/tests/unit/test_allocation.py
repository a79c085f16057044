"""A session that is started inside an allocation of Slurm: its jobs have nothing to do with that."""

from __future__ import annotations

import types

import pytest
from containercheck.site import schedulers

#: What salloc, and a step of its, set; and what a site or a person does.
ALLOCATION = {"SLURM_JOB_ID": "7", "SLURM_JOBID": "7", "SLURM_NTASKS": "1", "SLURM_MEM_PER_CPU": "1000"}
ALLOCATION.update({"SLURM_CPU_BIND": "quiet,mask_cpu:0x1", "SLURMD_NODENAME": "n1", "PMI_RANK": "0", "PMIX_RANK": "0"})
OWN = {"SLURM_CONF": "/etc/slurm.conf", "SLURM_MPI_TYPE": "pmix", "PMIX_MCA_gds": "hash"}


@pytest.mark.parametrize(
    ("is_local", "environ", "left"),
    [
        (False, {**ALLOCATION, **OWN}, OWN),
        # There, mpirun and srun are to use it.
        (True, {**ALLOCATION, **OWN}, {**ALLOCATION, **OWN}),
        # Without an allocation, all of them are somebody's own.
        (False, {"SLURM_NTASKS": "4"}, {"SLURM_NTASKS": "4"}),
    ],
)
def test_what_the_allocation_says_of_itself_is_removed_where_jobs_go_elsewhere(is_local, environ, left):
    job = types.SimpleNamespace(scheduler=types.SimpleNamespace(is_local=is_local))
    schedulers.leave_allocation(job, environ)
    assert environ == left
