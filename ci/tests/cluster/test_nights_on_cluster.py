"""Nights on the virtual cluster: clean ones, a regression in the fourth, a slow node, and nodes out of service.

Sixteen nights, each of a cheap check or two in few rounds: together they are to take 15 minutes at most on two cores.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import REPOSITORY, SLURM, cluster, cluster_up, eventually, run_command, shared_directory, write_program

pytestmark = [pytest.mark.long, pytest.mark.skipif(os.geteuid() != 0, reason="the virtual cluster is started as root")]

#: One check, the cheapest, in a few short rounds.
CHEAP = ("-n", "^StartUp%variant=generic", "-S", "rounds=8", "-S", "StartUp.repeats=3")
#: A start that takes 0.15 s more is within what is accepted against bare: only the nights before tell.
SLOWER = """case $1 in
    --version) echo "apptainer version 99.0-made" ;;
    exec) sleep 0.15; exec {runtime} "$@" ;;
    *) exec {runtime} "$@" ;;
esac
"""
#: A check of night_checks.py that reports by its node: if there is an empty file "bad", the first node is the bad one.
BY_NODE = """

from containercheck.results import earlier_sessions
from containercheck.site import jobs


@rfm.simple_test
class ByNode(Base):
    rerun_nodes = variable(str, value="")

    @run_before("run")
    def next_line(self):
        first = "if [ -e bad ] && [ ! -s bad ]; then uname -n >bad; fi"
        # ReFrame asks squeue for the node while the job runs.
        own = 'sleep 8; grep -qsx "$(uname -n)" bad && cat slow || cat fine'
        self.executable_opts = ["-c", f"'cd {DIRECTORY}; {first}; {own}'"]
        place = self.current_partition.fullname
        wanted = earlier_sessions.rerun_nodes(self.rerun_nodes, self.display_name, place)
        self.job.options = [*self.job.options, *(jobs.on_nodes(self.job, 1, *wanted) if wanted[1] else [])]
"""
RUN = """
import sys
from pathlib import Path
from containercheck.command import main
from containercheck.session.reframe_process import Workplace
sys.exit(main.run("nightly", ["-n", "ByNode"], Workplace(Path({0!r}))))
"""
#: The cluster's site file, with a node in each of two partitions.
HALVES = """
import copy
import runpy
site_configuration = runpy.run_path({path!r})["site_configuration"]
(system,) = site_configuration["systems"]
(whole,) = system["partitions"]
system["partitions"] = []
for name in ("first", "second"):
    half = copy.deepcopy(whole)
    half.update(name=name, access=["--partition=" + name])
    half["extras"]["containercheck"]["max_nodes"] = 1
    system["partitions"].append(half)
"""


@pytest.fixture
def place():
    """Start the cluster, and make a directory that its nodes see."""
    with cluster_up("--nodes", "2"), shared_directory() as directory:
        yield directory


def slurm(*words):
    """Run a command of Slurm's, and return what it prints."""
    done = subprocess.run(words, env={**os.environ, **SLURM}, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def files(place):
    """Return the environment of a night, with the places of its files."""
    return {
        **SLURM,
        "RFM_PREFIX": str(place),
        "RFM_SQLITE_DB_FILE": str(place / "results.db"),
        "RFM_REPORT_FILE": str(place / "reports" / "last.json"),
    }


def night(place, *arguments, **more):
    """Run a night; return its exit status, what it printed, and what it left for programs."""
    left = place / "reports" / "nightly" / "nightly.json"
    left.unlink(missing_ok=True)
    done = run_command("nightly", "--nocolor", *arguments, patience=1200, **files(place), **more)
    assert left.exists(), done.stdout
    return done.returncode, done.stdout, json.loads(left.read_text())


def results(place):
    """Return what came of the cases of the last night that were not skipped, by check, variant and partition."""
    report = json.loads((place / "reports" / "nightly" / "run-report.json").read_text())
    cases = [case for run in report["runs"] for case in run["testcases"] if case["result"] != "skip"]
    return {f"{case['name'].split()[0]} {case['variant']} {case['partition']}": case["result"] for case in cases}


def test_a_regression_in_the_fourth_night_is_an_alarm_and_clean_nights_have_none(place):
    for _ in range(3):
        status, output, left = night(place, *CHEAP)
        assert (status, left["alarms"]) == (0, []), output
    shutil.copy(place / "results.db", place / "three.db")
    for _ in range(2):
        status, output, left = night(place, *CHEAP)
        assert (status, left["alarms"]) == (0, []), output
    # The same three nights, and then another runtime.
    shutil.copy(place / "three.db", place / "results.db")
    wrapper = place / "bin" / "apptainer"
    write_program(wrapper, SLOWER.format(runtime=shutil.which("apptainer")))
    nights = []
    for _ in range(2):
        status, output, left = night(place, *CHEAP, PATH=f"{wrapper.parent}:{os.environ['PATH']}")
        assert status == 1, output
        alarms = [line for line in left["alarms"] if re.search(r"StartUp generic start(_several)? by \+0\.[12]", line)]
        assert alarms, left["alarms"]
        assert "99.0-made" in alarms[0]
        assert re.search(r"on node[12] and on node[12]", alarms[0])
        assert not any("the machine changed" in line for line in left["alarms"]), left["alarms"]
        nights.append((left["night"], output))
    (fourth, output), _ = nights
    assert "run again with more rounds: StartUp generic" in output
    report = (place / "reports" / "nightly" / "report.html").read_text(encoding="utf-8")
    assert "99.0-made" in report
    # The trend has both levels, and the night between them.
    assert re.search(rf"overhead of generic \+0\.\d+ s → \+0\.\d+ s since {re.escape(fourth)}", report)


def test_a_slow_node_is_told_from_slow_software(place):
    """By the values that a check makes up, so that a busy machine changes nothing."""
    (place / "checks").mkdir()
    source = (REPOSITORY / "ci/tests/night_checks.py").read_text()
    (place / "checks" / "made.py").write_text(source + BY_NODE)
    words = [sys.executable, "-c", RUN.format(str(place))]
    own = {**files(place), "RFM_CHECK_SEARCH_PATH": str(place / "checks")}

    def by_node(fine):
        (place / "fine").write_text(f"overhead {fine} bare 10.0 runtime 1.3.4\n")
        done = subprocess.run(words, cwd=place, env={**os.environ, **own}, capture_output=True, text=True, timeout=600)
        return done.returncode, done.stdout + done.stderr

    (place / "slow").write_text("overhead 20.0 bare 10.0 runtime 1.3.4\n")
    for number in range(4):
        status, output = by_node(1 + 0.1 * number)
        assert status == 0, output
    shutil.copy(place / "results.db", place / "four.db")
    (place / "bad").touch()
    status, output = by_node(1.0)
    assert status == 1, output
    bad = (place / "bad").read_text().strip()
    found = re.findall(rf"only on {bad}; not on (node\d): look at {bad} \(containercheck nodes\)", output)
    # With the failure, and with the alarm on its change.
    assert len(found) == 2 and bad not in found, output
    assert "not confirmed on another node; run again on the first one: ByNode generic" in output
    # And slow on all nodes.
    shutil.copy(place / "four.db", place / "results.db")
    status, output = by_node(20.0)
    assert status == 1, output
    assert len(re.findall(r"on node\d and on node\d", output)) == 2, output
    assert "only on" not in output
    # And a failure without any metric; all nights before it were on one node.
    shutil.copy(place / "four.db", place / "results.db")
    (place / "slow").write_text("broken\n")
    (place / "bad").write_text("")
    status, output = by_node(1.0)
    assert status == 1, output
    bad = (place / "bad").read_text().strip()
    assert "failed on one node only; run again on another: ByNode generic" in output
    assert re.search(rf"only on {bad}; not on node\d: look at {bad}", output), output


@pytest.mark.parametrize("state", ["drained", "down"])
def test_a_partition_that_is_down_is_named_with_its_state_and_the_other_is_run(place, state):
    for name, node in (("first", "node1"), ("second", "node2")):
        slurm("scontrol", "create", f"PartitionName={name}", f"Nodes={node}", "State=UP")
    if state == "drained":
        slurm("scontrol", "update", "NodeName=node2", "State=DRAIN", "Reason=planted")
    else:
        # A node that is set down and answers comes back by itself: this one does not answer.
        cluster("kill-node", "node2")
    assert eventually(lambda: slurm("sinfo", "-hN", "-p", "second", "-o", "%T").startswith(state))
    (place / "halves.py").write_text(HALVES.format(path=SLURM["RFM_CONFIG_FILES"]))
    command = ("-n", "^StartUp%variant=(bare|generic)", *CHEAP[2:], "--timeout", "15")
    status, output, left = night(place, *command, RFM_CONFIG_FILES=str(place / "halves.py"))
    assert (status, left["problems"]) == (2, []), output
    assert "stopped after" not in output
    found = results(place)
    said = f"virtual-cluster:second needs 1 node(s), and Slurm's partition second has 0 of 1 in service: node2 {state}"
    for variant in ("bare", "generic"):
        assert found.pop(f"StartUp {variant} first") == "pass", output
        assert found.pop(f"StartUp {variant} second") == "fail", output
        assert f"FAILED: StartUp {variant}: out of service: {said}" in output
    assert found == {}
