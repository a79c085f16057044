"""Jobs before they start, and at their end: options, the job around the session, nodes out of service, the wait."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import REPOSITORY, write_program
from containercheck.site import jobs
from containercheck.site.layout import Layout, LayoutError
from containercheck.site.sites import Site
from reframe.core.backends import getlauncher, getscheduler
from reframe.core.schedulers import Job
from slurm_programs import sinfo  # noqa: F401

SITE = Site("cluster:compute", False, "x86_64", cores=8, gpus=0)


def job(scheduler="squeue", access=(), options=(), cli_options=()):
    facts = {"jobid": "7", "sched_access": access, "options": options, "cli_options": cli_options}
    return SimpleNamespace(scheduler=SimpleNamespace(registered_name=scheduler), **facts)


# Options


@pytest.mark.parametrize(
    ("scheduler", "extras", "nodes", "options"),
    [
        ("squeue", {}, 2, ["--no-requeue"]),
        ("lsf", {}, 2, []),
        ("pbs", {}, 2, ["-l place=scatter:excl"]),
        ("pbs", {"exclusive": False}, 2, []),
        # Whole nodes, whatever the ranks take of them.
        ("sge", {"parallel_environment": "mpi"}, 2, ["-q bench.q", "-pe mpi 16"]),
        ("sge", {"parallel_environment": "mpi", "exclusive": False}, 2, ["-q bench.q", "-pe mpi 4"]),
        ("sge", {"exclusive": False}, 1, ["-q bench.q"]),
    ],
)
def test_a_job_asks_for_what_reframe_leaves_out(scheduler, extras, nodes, options):
    asked = jobs.options_of(job(scheduler, ["-q bench.q"]), replace(SITE, **extras), Layout(nodes, nodes, 1))
    assert asked == options


def test_grid_engine_needs_a_parallel_environment():
    with pytest.raises(
        LayoutError, match="gives 8 slots in a parallel environment only: name it in the extras of clus"
    ):
        jobs.options_of(job("sge"), SITE, Layout(1, 1, 1))


def test_the_steps_of_a_job_have_its_environment_where_a_site_cuts_it_off():
    for option, commands in (("--export=NONE", ["export SLURM_EXPORT_ENV=ALL"]), ("--export=ALL", [])):
        assert jobs.first_commands(job("slurm", ["-A x", option]))[1:] == commands
    assert jobs.first_commands(job("pbs", ["--export=NONE"])) == []


@pytest.mark.parametrize(("count", "status", "error"), [(None, 0, ""), ("1", 1, "a second time")])
def test_a_second_start_of_a_job_of_slurm_ends_with_an_error(count, status, error):
    environment = {"PATH": os.environ["PATH"], **({"SLURM_RESTART_COUNT": count} if count else {})}
    command = ["bash", "-c", jobs.first_commands(job())[0]]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.returncode, error in done.stderr) == (status, True)


# The job around the session


SLURM = {"SLURM_JOB_ID": "12", "SLURM_NTASKS": "1", "PMIX_RANK": "0", "PMI_RANK": "0", "SLURMD_NODENAME": "n1"}
OWN = {"SLURM_CONF": "/etc/slurm.conf", "SLURM_MPI_TYPE": "pmix", "PMIX_MCA_gds": "hash", "HOME": "/root"}


@pytest.fixture
def partitions(monkeypatch):
    """Let the system have these partitions: their schedulers, launchers and largest node counts."""

    def prepare(*facts):
        parts = [
            SimpleNamespace(site=Site("c:p", scheduler == "local", None, 4, 0, max_nodes=nodes), launcher_type=launcher)
            for scheduler, name, nodes in facts
            for launcher in [SimpleNamespace(registered_name=name)]
        ]
        monkeypatch.setattr(jobs, "runtime", lambda: SimpleNamespace(system=SimpleNamespace(partitions=parts)))
        monkeypatch.setattr(jobs, "Site", SimpleNamespace(of=lambda part: part.site))

    return prepare


@pytest.mark.parametrize(
    ("variables", "left"),
    [
        ({"HOME": "/root"}, {"HOME"}),
        ({**SLURM, **OWN}, set(OWN)),
        # Settings of a person, outside of a job.
        ({**OWN, "SLURM_NTASKS": "4"}, {*OWN, "SLURM_NTASKS"}),
        ({"PBS_JOBID": "7.server", "PBS_NODEFILE": "/n", "PBS_SERVER": "s"}, {"PBS_SERVER"}),
        ({"JOB_ID": "3", "NSLOTS": "4", "PE": "mpi", "SGE_ROOT": "/sge"}, {"SGE_ROOT"}),
        # The number of another program.
        ({"JOB_ID": "3", "NSLOTS": "4"}, {"JOB_ID", "NSLOTS"}),
    ],
)
def test_variables_of_a_job_around_the_session_are_not_handed_on(partitions, variables, left):
    partitions(("slurm", "srun", 4), ("local", "mpirun", 1))
    jobs.leave_outer_job(variables)
    assert set(variables) == left


@pytest.mark.parametrize("local", [("local", "srun", 1), ("local", "mpirun", 2)])
def test_jobs_that_run_in_the_allocation_of_the_session_keep_its_variables(partitions, local):
    partitions(("slurm", "srun", 4), local)
    variables = {**SLURM}
    jobs.leave_outer_job(variables)
    assert variables == SLURM


# Nodes out of service


SINFO = (REPOSITORY / "ci/tests/saved_schedulers/made-states.txt").read_text()


DEAD = "node2 down (Not responding), node3 drained (disk | fan), node4 draining, and 1 more"


@pytest.mark.parametrize(
    ("facts", "nodes", "said"),
    [
        ({}, 1, ""),
        ({}, 2, "compute has 1 of 2 in service: node2 down (Not responding)"),
        # More than there are: Slurm itself says so.
        ({}, 3, ""),
        ({"access": ["--partition=dead", "--account=bench"]}, 1, f"dead has 0 of 4 in service: {DEAD}"),
        ({"access": ["-p shut"]}, 1, "shut has 0 of 1 in service: partition shut is inact"),
        # What comes later counts.
        ({"access": ["-p dead"], "options": ["--exclusive"], "cli_options": ["-pcompute"]}, 1, ""),
        ({"access": ["--partition=dead,compute"]}, 1, ""),
        # What comes back by itself is waited for.
        ({"access": ["--partition", "calm"]}, 4, ""),
        ({"access": ["-p nowhere"]}, 1, ""),
        ({"access": ["-p dead", "-M other"]}, 1, ""),
        ({"scheduler": "sge", "access": ["-p dead"]}, 1, ""),
    ],
)
def test_nodes_that_a_person_must_see_to_are_named_with_their_states(sinfo, facts, nodes, said):
    sinfo(SINFO)
    whole = said and f"needs {nodes} node(s), and Slurm's partition {said}"
    assert jobs.out_of_service(job(**facts), nodes) == whole


# A lost node


@pytest.fixture
def says(tmp_path, monkeypatch):
    """Have scontrol print these states of a job on two nodes, one after the other, and then the last."""

    def prepare(*states):
        lines = "\n".join(f"JobId=7 JobState={state} Reason=None NodeList=node[1-2]" for state in states)
        (tmp_path / "states").write_text(lines + "\n")
        script = f'cd {tmp_path}\nhead -n 1 states\n[ "$(wc -l <states)" = 1 ] || sed -i 1d states'
        write_program(tmp_path / "scontrol", script)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        monkeypatch.setattr(jobs, "_LOST", 0)

    return prepare


@pytest.mark.parametrize(
    ("states", "told", "lost"),
    [
        (["COMPLETING", "NODE_FAIL"], "", "Slurm says NODE_FAIL"),
        (["COMPLETING", "COMPLETED"], "compute*|up|node1|idle|none\ncompute*|up|node2|drained|planted\n", ""),
        # Its runs failed, and it was over, before Slurm had given the node up; a node is told once for each partition.
        (
            ["COMPLETING", "FAILED"],
            "compute*|up|node1|idle|none\ncompute*|up|node2|down*|Not responding\ndead|up|node2|down*|Not responding\n",
            "Slurm says node2 down (Not responding)",
        ),
    ],
)
def test_a_job_that_lost_a_node_is_known_once_slurm_has_settled_it(says, sinfo, states, told, lost):
    says(*states)
    sinfo(told, "--nodes=node[1-2]")
    assert jobs.lost_node(job()) == lost


def test_a_job_that_never_settles_is_not_waited_for_for_ever(says, monkeypatch):
    says("NODE_FAIL")
    assert not jobs.lost_node(job("local"))
    says("COMPLETING")
    monkeypatch.setattr(jobs, "PATIENCE", 0.2)
    assert not jobs.lost_node(job())


# The end of a job


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
