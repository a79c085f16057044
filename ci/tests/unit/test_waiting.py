"""The wait for the end of a job, with jobs of ReFrame's own, and with a Slurm that does not end them."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import write_program
from containercheck.site import jobs
from reframe.core.backends import getlauncher, getscheduler
from reframe.core.exceptions import ReframeError
from reframe.core.schedulers import Job


@pytest.fixture
def submitted(tmp_path, monkeypatch):
    """Submit a job to one of ReFrame's schedulers, under a watch; return both.

    Slurm's commands print what is in files: ``scontrol`` of the job, ``squeue`` of its state, which is the same until
    ``scancel`` was called. A file ``silent`` stands for a controller that does not answer.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin", prepend=":")
    monkeypatch.setattr(jobs, "_POLLED", 0.0)
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
    write_program(tmp_path / "bin" / "scancel", f"touch {tmp_path}/cancelled")

    def submit(name, commands):
        scheduler = getscheduler(name)()
        monkeypatch.setattr(type(scheduler), "SQUEUE_DELAY", 0, raising=False)
        job = Job.create(scheduler, getlauncher("local")(), name="bounded", workdir=str(tmp_path))
        job.num_tasks = 1
        watch = jobs.Watch(job)
        job.prepare(commands)
        job.submit()
        return job, watch

    return SimpleNamespace(submit=submit, says=says)


def wait(job):
    """Wait as ReFrame does, in a thread, so that a test fails that would wait for ever."""
    waiter = threading.Thread(target=job.wait, daemon=True)
    waiter.start()
    waiter.join(60)
    assert not waiter.is_alive(), "it waits for ever"


@pytest.mark.parametrize("state", ["COMPLETING", "REQUEUED"])
def test_a_job_that_stays_in_a_state_which_others_pass_through_is_given_up(submitted, tmp_path, state):
    submitted.says(state)
    job, watch = submitted.submit("squeue", ["true"])
    wait(job)
    assert watch.why == f"Slurm has reported {state} for 0.5 s"
    assert (tmp_path / "cancelled").exists()
    # ReFrame takes it for ended, and nothing else waits for it again.
    assert job.finished()
    assert watch.outlast(lambda: False) is None
    assert watch.end(None, tmp_path / "no.err", None) == watch.why
    # So is one that ended without ReFrame seeing it.
    submitted.says("PENDING")
    job, watch = submitted.submit("squeue", ["true"])
    (tmp_path / "told").write_text("JobId=7 JobState=CANCELLED\n")
    wait(job)
    assert watch.why == "Slurm has reported CANCELLED for 0.5 s"


def test_a_job_in_the_queue_is_waited_for(submitted):
    """As long as Slurm answers, and it was not started before: queues are long."""
    submitted.says("PENDING")
    job, watch = submitted.submit("squeue", ["true"])
    end = time.monotonic() + 2
    while time.monotonic() < end:
        job.scheduler.poll(job)
        assert not job.finished()
    assert watch.why == ""


@pytest.mark.parametrize("silent", [False, True])
def test_a_job_that_slurm_never_settles_is_not_waited_for_after_its_end(submitted, tmp_path, silent):
    submitted.says("COMPLETING")
    job, _ = submitted.submit("squeue", ["true"])
    if silent:
        (tmp_path / "silent").touch()
        job._exitcode = 1
    assert jobs.outlast(job, lambda: False) == (None if silent else "COMPLETING")


@pytest.mark.parametrize(("state", "late"), [("COMPLETED", True), ("FAILED", False)])
def test_what_a_job_wrote_may_appear_seconds_after_its_end(submitted, tmp_path, monkeypatch, state, late):
    """On file systems of the network. A job that failed wrote what it wrote."""
    submitted.says(state)
    job, watch = submitted.submit("squeue", ["true"])
    record, looks = tmp_path / "rounds.json", []

    def complete():
        looks.append(None)
        if len(looks) == 3:
            record.touch()
        return record.exists()

    assert watch.outlast(complete) == state
    assert record.exists() == late
    # But not for ever.
    record.unlink(missing_ok=True)
    monkeypatch.setattr(jobs, "LATE", 0.2)
    assert watch.outlast(lambda: False) == state


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


def test_the_watch_is_the_scheduler_in_all_else(submitted):
    submitted.says("PENDING")
    job, watch = submitted.submit("squeue", ["true"])
    assert job.scheduler is watch and jobs.is_slurm(job)
    with pytest.raises(AttributeError):
        _ = watch.no_such_thing
    with pytest.raises(ReframeError):
        write_program(Path("bin/scancel"), "exit 1")
        job.cancel()
    local, watch = submitted.submit("local", ["echo said"])
    wait(local)
    assert (watch.why, local.exitcode) == ("", 0)
