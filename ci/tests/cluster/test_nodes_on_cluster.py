"""A sweep over eight nodes of the virtual cluster names those that are really bad, and no other one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import REPOSITORY, SLURM, cluster, cluster_up, shared_directory

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the virtual cluster is started as root")

LONG = pytest.mark.long

#: Two checks of the sweep, in few rounds: minutes. And a check that a test makes, which takes seconds.
REAL = ["-n", r"^(StartUp|PingPong)%.*variant=generic%.*num_nodes=1($|%)", "-S", "StartUp.repeats=3"]
MADE = ["-n", "Working"]
CHECK = '''
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, run_before, sanity_function, variable

# All nodes share two processors: of many short loops, the fastest ran undisturbed.
WORK = """import time
with open("/dev/shm/block", "wb") as file:
    file.write(bytes(4 << 20))
for side in ("bare", "container"):
    seconds = []
    for _ in range(20):
        began = time.monotonic()
        sum(range(2_000_000))
        seconds.append(time.monotonic() - began)
    print(min(seconds))
"""


@rfm.simple_test
class Working(rfm.RunOnlyRegressionTest):
    valid_systems = valid_prog_environs = ["*"]
    variant = parameter(["generic"], loggable=True)
    num_nodes = parameter([1], loggable=True)
    results = variable(list, value=[], loggable=True)
    expected = variable(dict, value={"ranks": 1, "expected": 360, "at_most": 3600}, loggable=True)
    seconds = variable(float, int, value=60)
    executable = "python3"
    executable_opts = ["work.py"]

    @run_before("run")
    def write_work(self):
        Path(self.stagedir, "work.py").write_text(WORK)

    @sanity_function
    def ran(self):
        return sn.assert_not_found("No space left on device", self.stderr, "no space left on device")

    @run_before("performance")
    def fill_in(self):
        if self.is_dry_run():
            return
        bare, container = map(float, Path(self.stagedir, "rfm_job.out").read_text().split())
        row = {"metric": "loop", "unit": "s", "better": "lower", "baseline": bare, "baseline_label": "bare"}
        compared = {"subject": container, "subject_label": "generic", "overhead": 0.0, "verdict": "pass"}
        self.results = [{**row, **compared}]
'''
RUN = """
import sys
from pathlib import Path
from containercheck.command import main, nodes
sys.exit(main.run("nodes", ["--nocolor", "-S", "seconds=10", *sys.argv[2:]], nodes.Workplace(Path(sys.argv[1]))))
"""
#: Control group of the slow node, by the version of the kernel's interface, and what gives it 0.1 of a processor: less
#: than each of eight jobs on two processors has, as all nodes are this machine.
GROUPS = {
    "/sys/fs/cgroup/cpu/containercheck-slow": ("cpu.cfs_quota_us", "10000"),
    "/sys/fs/cgroup/containercheck-slow": ("cpu.max", "10000 100000"),
}


@pytest.fixture
def slow_group():
    """Make a control group with a quota of processor time."""
    for path, (file, quota) in GROUPS.items():
        group = Path(path)
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / file).write_text(quota)
            yield group
            return
        except OSError:
            continue
        finally:
            group.rmdir()
    pytest.skip("no control group with a quota can be made here")


@pytest.fixture
def directory(slow_group):
    """Start eight nodes, and make a directory that they see. The cluster ends before the group is removed."""
    with cluster_up("--nodes", "8", "--cores-per-node", "2"), shared_directory() as shared:
        (shared / "checks").mkdir()
        (shared / "checks" / "working.py").write_text(CHECK)
        yield shared


def sweep(directory, words):
    """Run a sweep; return its exit status, what it printed, and the words after the name of each node."""
    command = [sys.executable, "-c", RUN, str(directory if words is MADE else REPOSITORY), *words]
    files = {
        "RFM_PREFIX": str(directory),
        "RFM_REPORT_FILE": str(directory / "reports" / "last.json"),
        "RFM_SQLITE_DB_FILE": str(directory / "results.db"),
    }
    environment = {**os.environ, **SLURM, **files}
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=3600)
    named = {}
    for node, why in re.findall(r"^nodes: (node\d): (.*)", done.stdout, re.MULTILINE):
        named.setdefault(node, []).append(why)
    return done.returncode, done.stdout + done.stderr, named


@pytest.mark.parametrize(
    ("words", "is_without_memory"),
    [(MADE, "Working failed: sanity error: no space left on device"), pytest.param(REAL, "PingPong", marks=LONG)],
)
def test_a_node_with_a_quota_and_one_with_little_shared_memory_are_named(
    directory, slow_group, words, is_without_memory
):
    # The daemon of the node, which starts its jobs, is in a namespace with its own numbers of processes.
    join = f'for place in /proc/[0-9]*; do echo "${{place#/proc/}}" >{slow_group}/cgroup.procs || :; done'
    cluster("exec", "node3", "sh", "-c", join)
    cluster("exec", "node6", "mount", "-t", "tmpfs", "-o", "size=1M,mode=1777", "tmpfs", "/dev/shm")
    status, output, named = sweep(directory, words)
    assert (status, {*named}) == (1, {"node3", "node6"}), output
    assert any("bare and in containers: the node" in why for why in named["node3"]), output
    assert all(is_without_memory in why for why in named["node6"]), output


@pytest.mark.parametrize("words", [MADE, pytest.param(REAL, marks=LONG)])
def test_of_eight_good_nodes_none_is_named(directory, words):
    status, output, named = sweep(directory, words)
    assert (status, named) == (0, {}), output
    assert "no node is worse than its peers, of 8 nodes" in output
