"""A sweep over the nodes of the virtual cluster: the planted bad nodes are named, and no other one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import SLURM, cluster_up, shared_directory

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the virtual cluster is started as root")

#: A check that counts by the node's name instead of measuring: bare 99 to 101, the container 1 less.
CHECK = """
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, run_before, sanity_function, variable


@rfm.simple_test
class Counting(rfm.RunOnlyRegressionTest):
    valid_systems = valid_prog_environs = ["*"]
    variant = parameter(["generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    results = variable(list, value=[], loggable=True)
    expected = variable(dict, value={"ranks": 1, "expected": 360, "at_most": 3600}, loggable=True)
    seconds = variable(float, int, value=60)
    executable = "hostname"

    @sanity_function
    def ran(self):
        return sn.assert_not_found("node5", self.stdout, "node5 is broken")

    @run_before("performance")
    def fill_in(self):
        if self.is_dry_run():
            return
        node = int(Path(self.stagedir, "rfm_job.out").read_text().strip()[-1])
        bare = {3: 69.0}.get(node, 99.0 + 0.25 * node)
        container = {2: 60.0}.get(node, bare - 1)
        row = {"metric": "rate", "unit": "x", "better": "higher", "baseline": bare, "baseline_label": "bare"}
        compared = {"subject": container, "subject_label": "generic", "overhead": bare - container, "verdict": "pass"}
        self.results = [{**row, **compared}]
"""
RUN = """
import sys
from pathlib import Path
from containercheck.command import main, nodes
sys.exit(main.run("nodes", ["-n", "Counting"], nodes.Workplace(Path({0!r}))))
"""


@pytest.fixture
def directory():
    """Start eight nodes, and make a directory that they see."""
    with cluster_up("--nodes", "8", "--cores-per-node", "1"), shared_directory() as shared:
        (shared / "checks").mkdir()
        (shared / "checks" / "counting.py").write_text(CHECK)
        yield shared


def test_the_bad_nodes_are_named_with_what_is_bad(directory):
    environment = {**SLURM, "RFM_CHECK_SEARCH_PATH": str(directory / "checks")}
    words = [sys.executable, "-c", RUN.format(str(directory))]
    done = subprocess.run(
        words, cwd=directory, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600
    )
    named = [line for line in done.stdout.splitlines() if line.startswith("nodes: node")]
    assert done.returncode == 1, done.stdout + done.stderr
    assert named == [
        "nodes: node5: Counting failed: sanity error: node5 is broken",
        "nodes: node2: Counting rate is 40 % worse than on its peers, in containers only: see its runtime and limits",
        "nodes: node3: Counting rate is 31 % worse than on its peers, bare and in containers: the node",
    ]
    assert "8 job(s): about 0.8 node-hours, at most 8" in done.stdout
