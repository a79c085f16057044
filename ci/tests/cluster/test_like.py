"""Clusters in a box that are like a real centre's: Ping Pong, HPC Challenge and an application in three variants."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CLUSTER, REPOSITORY, STATE, Session, cluster_up, shared_directory

#: Seconds: the packages of such a cluster, and the images of its own MPI, are got and built the first time.
PATIENCE = 2400
#: Which applications, where users work, and over how many nodes.
LIKE = {
    "modules": ("PingPong|HPCC|GROMACS", "login", {1, 2}),
    "cray": ("PingPong|HPCC|WordCount|StartUp", "", {1, 2}),
    "smt": ("PingPong|HPCC|GROMACS", "", {1, 2}),
    "gridengine": ("PingPong|HPCC|GROMACS", "login", {1}),
}
#: Two rounds, one in each order; how fast it is, is not for a test to say.
FEW = ("-S", "rounds=2", "-S", "strict_check=no")

pytestmark = [pytest.mark.long, pytest.mark.skipif(os.geteuid() != 0, reason="the virtual cluster is started as root")]


class Centre:
    """A cluster that is up, and a user's shell there."""

    def __init__(self, name, place):
        self.name, self.place = name, place

    def reframe(self, *words, site=REPOSITORY / "config" / "virtual_cluster.py"):
        report = self.place / "report.json"
        report.unlink(missing_ok=True)
        command = [Path(sys.executable).parent / "reframe", "-c", REPOSITORY / "checks", "-r", "--keep-stage-files"]
        command += ["--nocolor", f"--report-file={report}", f"--prefix={self.place}", *words]
        script = [
            f'eval "$({shlex.quote(str(CLUSTER))} env)"',
            f"cd {shlex.quote(str(self.place))}",
            f"RFM_CONFIG_FILES={shlex.quote(str(site))} RFM_SYSTEM=virtual-cluster {shlex.join(map(str, command))}",
        ]
        shell = ["bash", "-lc", "\n".join(script)]
        login = LIKE[self.name][1]
        result = subprocess.run(
            [CLUSTER, "exec", login, *shell] if login else shell,
            timeout=PATIENCE,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        runs = json.loads(report.read_text())["runs"] if report.exists() else []
        # Of a case that was retried the last run counts.
        cases = {case["name"]: case for run in runs for case in run["testcases"]}
        return Session(result.returncode, result.stdout, list(cases.values()), self.place / "stage")


@pytest.fixture(scope="module", params=LIKE)
def centre(request):
    with cluster_up("--like", request.param, patience=600), shared_directory() as place:
        yield Centre(request.param, place)


def test_three_applications_run_in_all_variants(centre):
    applications, _, nodes = LIKE[centre.name]
    # MPICH before 4.2 hangs now and then in MPI_Finalize over UCX (pmodels/mpich #6596): here in one run of thirty.
    more = ["--max-retries=3", "-S", "run_limit=60"] if centre.name == "cray" else []
    result = centre.reframe("-n", f"^({applications})%", *FEW, *more)
    ran = [case for case in result.cases if case["result"] != "skip"]
    assert result.status == 0, result.output
    wanted = {
        (name, variant, number)
        for name in applications.split("|")
        for variant in ("bare", "integrated", "generic")
        for number in nodes
        # One core has nobody to send to, and a container starts on one node.
        if (name, number) not in {("PingPong", 1), ("StartUp", 2)} or len(nodes) == 1
    }
    found = {(case["name"].split()[0], case["variant"], case["num_nodes"]) for case in ran}
    assert found == wanted, result.output
    special = {"modules": modules, "cray": cray, "smt": smt, "gridengine": gridengine}
    special[centre.name](ran)


def job_of(case):
    """Return the text of a case's job."""
    return Path(case["stagedir"], "rfm_job.sh").read_text()


def modules(ran):
    """Runtime and programs come with their modules; one that is not there is a skip that says so."""
    jobs = {(case["name"].split()[0], case["variant"]): job_of(case) for case in ran}
    for (application, variant), job in jobs.items():
        assert ("module load apptainer" in job) == (variant != "bare")
        assert application not in ("HPCC", "GROMACS") or f"module load {application.lower()}" in job


def cray(ran):
    """What runs bare and integrated is the host's MPI under Cray's name, and generic the image's own."""
    for case in ran:
        # Start-up has an MPI in the integrated variant only.
        assert case["provenance"]["mpi"] or case["name"].startswith("StartUp")
        for side, libraries in case["provenance"]["mpi"].items():
            own = case["variant"] == "generic" and side == "subject"
            assert any(("libmpich.so" if own else "libmpi_gnu_91.so") in path for path in libraries), case["provenance"]


def smt(ran):
    """One rank a core, whatever hardware threads it has, and a time limit within the partition's."""
    for case in ran:
        assert case["num_tasks"] == case["num_nodes"]
        assert "#SBATCH --time=" in job_of(case)
    environment = {**os.environ, "SLURM_CONF": str(STATE / "slurm.conf")}
    told = subprocess.run(["sacct", "-nXo", "state"], capture_output=True, text=True, timeout=60, env=environment)
    assert set(told.stdout.split()) == {"COMPLETED"}, told.stdout + told.stderr


def gridengine(ran):
    """Jobs ask for the queue and for all slots of the node, and ran there."""
    for case in ran:
        job = job_of(case)
        assert "#$ -q all.q\n" in job
        assert f"#$ -pe mpi {os.cpu_count()}\n" in job or os.cpu_count() == 1
        assert case["provenance"]["host"] == "node1"


@pytest.mark.parametrize("centre", ["modules"], indirect=True)
def test_a_module_that_does_not_exist_is_a_skip_that_names_it(centre):
    site = centre.place / "site.py"
    text = (REPOSITORY / "config" / "virtual_cluster.py").read_text()
    site.write_text(text.replace('"HPCC": {"modules": ["hpcc"]}', '"HPCC": {"modules": ["hpcc/9.9"]}'))
    result = centre.reframe("-n", "^HPCC%variant=bare%num_nodes=1%", *FEW, site=site)
    (case,) = [case for case in result.cases if case["variant"] == "bare" and case["num_nodes"] == 1]
    assert case["result"] == "skip", result.output
    assert "hpcc/9.9" in case["skip_reason"]
    assert "\n" not in case["skip_reason"]


@pytest.mark.parametrize("centre", ["cray"], indirect=True)
def test_an_image_that_speaks_another_pmi_than_the_host_has_options_of_its_own(centre):
    """Images have Open MPI, which knows PMIx, and the host's ranks are started by PMI2."""
    site = centre.place / "site.py"
    text = (REPOSITORY / "config" / "virtual_cluster.py").read_text()
    few = ("-n", "^PingPong%variant=generic%num_nodes=2%", *FEW)
    own = {}
    for options in ([], ["--mpi=pmix"]):
        site.write_text(text.replace('"mpi": "mpich"', f'"mpi": "openmpi", "image_launcher_options": {options}'))
        result = centre.reframe(*few, site=site)
        (own[bool(options)],) = [case for case in result.cases if case["result"] != "skip"]
    assert own[True]["result"] == "pass", own[True]["fail_reason"]
    assert any("libmpi.so.40" in library for library in own[True]["provenance"]["mpi"]["subject"])
    assert any("libmpi_gnu_91.so" in library for library in own[True]["provenance"]["mpi"]["baseline"])
    # Without them it is named, and no round is run.
    assert "the host starts ranks with no PMIx (Slurm " in own[False]["fail_reason"]
    assert "no rounds were run" in own[False]["fail_reason"]
    # And with it what works.
    assert "proven: with --mpi=pmix they come up as one job" in own[False]["fail_reason"]
