"""Nights on the virtual cluster: clean ones, a regression in the fourth, a slow node, and nodes out of service.

Eleven nights, each of a cheap check or two in few rounds: together they are to take 15 minutes at most on two cores.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import SLURM, cluster, cluster_up, eventually, run_command, shared_directory, write_program

pytestmark = [pytest.mark.long, pytest.mark.skipif(os.geteuid() != 0, reason="the virtual cluster is started as root")]

#: One check, the cheapest, in a few short rounds.
CHEAP = ("-n", "^StartUp%variant=generic", "-S", "rounds=8", "-S", "StartUp.repeats=3")
#: A start that takes 0.15 s more is within what is accepted against bare: only the nights before tell.
SLOWER = """case $1 in
    --version) echo "apptainer version 99.0-made" ;;
    exec) {slow}; exec {runtime} "$@" ;;
    *) exec {runtime} "$@" ;;
esac
"""
#: The same on one node only, that of the first job.
ON_ONE = """case $(uname -n) in node*) [ -e {bad} ] || uname -n >{bad} ;; esac
          [ "$(uname -n)" != "$(cat {bad})" ] || sleep 0.15"""
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


def night(place, *arguments, **more):
    """Run a night; return its exit status, what it printed, and what it left for programs."""
    own = {
        **SLURM,
        "RFM_PREFIX": str(place),
        "RFM_SQLITE_DB_FILE": str(place / "results.db"),
        "RFM_REPORT_FILE": str(place / "reports" / "last.json"),
    }
    left = place / "reports" / "nightly" / "nightly.json"
    left.unlink(missing_ok=True)
    done = run_command("nightly", "--nocolor", *arguments, patience=1200, **own, **more)
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
    runtime = shutil.which("apptainer")
    write_program(wrapper, SLOWER.format(runtime=runtime, slow="sleep 0.15"))
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
    # The same three nights, and then a node that is slow: another one is not, and it is an alarm all the same.
    shutil.copy(place / "three.db", place / "results.db")
    bad = place / "bad"
    write_program(wrapper, SLOWER.format(runtime=runtime, slow=ON_ONE.format(bad=bad)))
    status, output, left = night(place, *CHEAP, PATH=f"{wrapper.parent}:{os.environ['PATH']}")
    assert status == 1, output
    assert "not confirmed on another node; run again on the first one: StartUp generic" in output
    slow = bad.read_text().strip()
    good = "node2" if slow == "node1" else "node1"
    assert f"only on {slow}; not on {good}: look at {slow} (containercheck nodes)" in left["alarms"][0]


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
