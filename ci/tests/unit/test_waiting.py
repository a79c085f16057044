"""The wait for the end of a job, with jobs of ReFrame's own, and with a Slurm that does not end them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from conftest import write_program
from containercheck.site import jobs
from reframe.core.backends import getlauncher, getscheduler
from reframe.core.schedulers import Job


@pytest.fixture
def submitted(tmp_path, monkeypatch):
    """Submit a job to one of ReFrame's schedulers, and return it.

    Slurm's commands print what is in files: ``scontrol`` of the job, ``squeue`` of its state, which is the same until
    ``scancel`` was called. A file ``silent`` stands for a controller that does not answer.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=":")
    monkeypatch.setattr(jobs, "_POLL", 0.05)
    monkeypatch.setattr(jobs, "_LOST", 0.05)
    monkeypatch.setattr(jobs, "PATIENCE", 0.5)

    def says(state):
        (tmp_path / "state").write_text(f"7|{state}|node1|None\n")
        (tmp_path / "told").write_text(f"JobId=7 JobState={state} NodeList=node1\n")

    silent = f"if [ -e {tmp_path}/silent ]; then echo 'Unable to contact slurm controller' >&2; exit 1; fi"
    write_program(tmp_path / "bin" / "sbatch", "echo Submitted batch job 7")
    write_program(tmp_path / "bin" / "squeue", f"cat {tmp_path}/state")
    write_program(tmp_path / "bin" / "scontrol", f"{silent}\ncat {tmp_path}/told")

    def submit(name, commands):
        scheduler = getscheduler(name)()
        monkeypatch.setattr(type(scheduler), "SQUEUE_DELAY", 0, raising=False)
        job = Job.create(scheduler, getlauncher("local")(), name="bounded", workdir=str(tmp_path))
        job.num_tasks = 1
        job.prepare(commands)
        job.submit()
        return job

    return SimpleNamespace(submit=submit, says=says)


@pytest.mark.parametrize("silent", [False, True])
def test_a_job_that_slurm_never_settles_is_not_waited_for_after_its_end(submitted, tmp_path, silent):
    submitted.says("COMPLETING")
    job = submitted.submit("squeue", ["true"])
    if silent:
        (tmp_path / "silent").touch()
        job._exitcode = 1
    assert jobs.outlast(job, lambda: False) == (None if silent else "COMPLETING")


@pytest.mark.parametrize(("state", "late"), [("COMPLETED", True), ("FAILED", False)])
def test_what_a_job_wrote_may_appear_seconds_after_its_end(submitted, tmp_path, monkeypatch, state, late):
    """On file systems of the network. A job that failed wrote what it wrote."""
    submitted.says(state)
    job = submitted.submit("squeue", ["true"])
    record, looks = tmp_path / "rounds.json", []

    def complete():
        looks.append(None)
        if len(looks) == 3:
            record.touch()
        return record.exists()

    assert jobs.outlast(job, complete) == state
    assert record.exists() == late
    # But not for ever.
    record.unlink(missing_ok=True)
    monkeypatch.setattr(jobs, "LATE", 0.2)
    assert jobs.outlast(job, lambda: False) == state


def test_other_schedulers_are_not_called_slurm(tmp_path):
    job = SimpleNamespace(jobid="12.server", state="COMPLETED", scheduler=SimpleNamespace(registered_name="pbs"))
    said = jobs.end_of_job(job, None, tmp_path / "rfm_job.err", None)
    assert said == (
        "pbs took it as job 12.server and says COMPLETED, and it left no output: was it started, and do the nodes see "
        f"{tmp_path}? (RFM_STAGE_DIR=DIR names another place)"
    )
    job.state = None
    assert "says" not in jobs.end_of_job(job, None, tmp_path / "rfm_job.err", None)
    (tmp_path / "rfm_job.err").write_text("error: it broke\n")
    assert jobs.end_of_job(job, None, tmp_path / "rfm_job.err", None) == "it broke"
