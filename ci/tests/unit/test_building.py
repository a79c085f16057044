"""Where the build step runs: here, or as a job on a node of the partition."""

from __future__ import annotations

import platform
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from containercheck import software
from containercheck.check import build
from containercheck.job import contract
from containercheck.site import node_commands
from containercheck.site.sites import Site
from containercheck.software import Provision, Wanted, sources
from reframe.core.exceptions import ReframeError

HERE = platform.machine()
AWAY = Site("cluster:compute", is_here=False, architecture=HERE, cores=4, gpus=0)
ELSEWHERE = replace(AWAY, architecture="pdp11")


@pytest.mark.parametrize(
    ("site", "on_node"),
    [
        (AWAY, False),
        (ELSEWHERE, True),
        (replace(AWAY, architecture=None), False),
        # The site has the last word.
        (replace(AWAY, build_on_node=True), True),
        (replace(ELSEWHERE, build_on_node=False), False),
        # There is no other machine.
        (replace(ELSEWHERE, is_here=True), False),
        (replace(ELSEWHERE, is_here=True, build_on_node=True), False),
    ],
)
def test_another_architecture_is_built_on_its_nodes(site, on_node):
    assert site.builds_on_node is on_node
    python = "/opt/python" if on_node else sys.executable
    assert node_commands.in_build(replace(site, python="/opt/python"), "jars").startswith(f"{python} ")


def test_what_only_nodes_have_is_not_looked_for_here(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    wanted = Wanted("SemanticSpaces", "java", artifacts="semanticspaces/jars.txt")
    with pytest.raises(software.Unavailable, match="no mvn is on the PATH"):
        sources.provide_jars(wanted, AWAY)
    assert " jars " in sources.provide_jars(wanted, ELSEWHERE).build[0]


def test_modules_are_not_loaded_where_nothing_is_built(monkeypatch):
    monkeypatch.setattr(software.host, "provide_modules", lambda wanted, site: Provision(build=("load",)))
    plain = Wanted("GROMACS", "gmx_mpi", own_modules=("gromacs",))
    assert software.provide(plain, AWAY).build == ()
    compiled = software.provide(replace(plain, source="pingpong/pingpong.c"), AWAY).build
    assert compiled[0] == "load" and "mpicc" in compiled[-1]


def test_a_build_that_was_ended_is_not_taken_for_done(tmp_path):
    (tmp_path / "err").write_text("error: no space\n")
    with pytest.raises(ReframeError, match="^the build was ended before it was done: killed$"):
        software.require_built(tmp_path, "err", "killed")
    for command, status in (("false", "1"), ("true", "0")):
        step = software.build_command(Provision(build=(command,)))
        assert subprocess.run(["bash", "-ec", step], cwd=tmp_path).returncode == 0
        assert (tmp_path / contract.BUILD_STATUS).read_text() == f"{status}\n"
        if command == "false":
            with pytest.raises(ReframeError, match="^no space$"):
                software.require_built(tmp_path, "err")
    software.require_built(tmp_path, "err")


def test_a_job_that_builds_is_small():
    scheduler = SimpleNamespace(registered_name="slurm")
    job = SimpleNamespace(scheduler=scheduler, options=None)
    build._ask_for_little(job, replace(AWAY, cores=48, max_pending_time="1h"))
    assert (job.num_tasks, job.num_cpus_per_task, job.max_pending_time, job.options) == (1, 8, "1h", ["--no-requeue"])
    build._ask_for_little(job, replace(AWAY, build_access=["--partition=build"]))
    assert job.options == ["--no-requeue", "--partition=build"]
