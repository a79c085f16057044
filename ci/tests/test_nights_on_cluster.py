"""Five nights on the virtual cluster, clean or with a regression in the fourth: statuses, alarm, cause, report."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import REPOSITORY, SHARED, STATE, cluster

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="the virtual cluster is started as root"),
]

#: A start that takes 0.15 s more is within what is accepted against bare: only the nights before tell.
SLOWER = """#!/bin/sh
case $1 in
    --version) echo "apptainer version 99.0-made" ;;
    exec) sleep 0.15; exec {runtime} "$@" ;;
    *) exec {runtime} "$@" ;;
esac
"""


@pytest.fixture
def place():
    """Start the cluster, and make a directory that its nodes see."""
    if STATE.exists():
        pytest.skip("a virtual cluster is up already: ci/virtual-cluster down")
    cluster("up")
    directory = Path(tempfile.mkdtemp(dir=SHARED))
    yield directory
    cluster("down")
    shutil.rmtree(directory, ignore_errors=True)


def night(place, **more):
    """Run a night; return its exit status, what it printed, and what it left for programs."""
    own = {
        "SLURM_CONF": str(STATE / "slurm.conf"),
        "RFM_CONFIG_FILES": str(REPOSITORY / "config" / "virtual_cluster.py"),
        "RFM_SYSTEM": "virtual-cluster",
        "RFM_PREFIX": str(place),
        "RFM_SQLITE_DB_FILE": str(place / "results.db"),
        "RFM_REPORT_FILE": str(place / "reports" / "last.json"),
    }
    command = [sys.executable, str(REPOSITORY / "ci" / "nightly.py"), "--nocolor"]
    command += ["-n", "^(StartUp|WordCount)%.*num_nodes=1", "-S", "seconds=30"]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env={**os.environ, **own, **more},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout, json.loads((place / "reports" / "nightly" / "nightly.json").read_text())


def test_a_regression_in_the_fourth_night_is_an_alarm_and_clean_nights_have_none(place):
    for _ in range(3):
        status, output, _ = night(place)
        assert status == 0, output
    shutil.copy(place / "results.db", place / "three.db")
    for _ in range(2):
        status, output, left = night(place)
        assert (status, left["alarms"]) == (0, []), output
    # The same three nights, and then another runtime.
    shutil.copy(place / "three.db", place / "results.db")
    wrapper = place / "bin" / "apptainer"
    wrapper.parent.mkdir()
    wrapper.write_text(SLOWER.format(runtime=shutil.which("apptainer")))
    wrapper.chmod(0o755)
    for number in range(2):
        status, output, left = night(place, PATH=f"{wrapper.parent}:{os.environ['PATH']}")
        assert status == 1, output
        (alarm, *_) = [line for line in left["alarms"] if "StartUp" in line]
        assert "99.0-made" in alarm, left["alarms"]
        assert not any("the machine" in line for line in left["alarms"]), left["alarms"]
        # What is known by now is not run again.
        assert ("run again with more rounds" in output) == (number == 0), output
    report = (place / "reports" / "nightly" / "report.html").read_text()
    assert "StartUp" in report
    assert "99.0-made" in report
