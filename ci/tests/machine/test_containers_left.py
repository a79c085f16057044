"""Containers that a daemon runs end with their run: with a real Docker, and a Podman that is called as it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import BARE, GENERIC, eventually, facts_of
from containercheck.job import contract
from containercheck.job.container_runtimes import by_name
from containercheck.job.outputs.evaluation import Evaluation
from containercheck.job.outputs.facts import Facts
from docker_engines import docker_itself, podman_as_docker

#: Where Debian's busybox-static puts a program that needs no library: all that an image needs.
BUSYBOX = Path("/bin/busybox")
#: Runs a script once in a process of its own, as the runner does.
ONCE = """
import json
from pathlib import Path
from containercheck.job import processes, single_run
processes.adopt_orphans()
processes.signal.signal(processes.signal.SIGTERM, processes._terminate)
print(json.dumps(single_run.run_once(Path("subject.sh").read_text(), Path("output"), {limit}, [], 0)))
"""
IMAGE = "localhost/made:1"


@pytest.fixture(params=[podman_as_docker, docker_itself], ids=lambda engine: engine.__name__)
def docker(request, tmp_path):
    """Give the command of an engine with one image and storage of its own."""
    if not BUSYBOX.exists():
        pytest.skip("needs busybox-static")
    place = tmp_path / "engine"
    root = place / "root" / "bin"
    root.mkdir(parents=True)
    shutil.copy(BUSYBOX, root)
    for name in ("sh", "sleep"):
        (root / name).symlink_to("busybox")
    subprocess.run(["tar", "-C", str(place / "root"), "-cf", str(place / "image.tar"), "."], check=True)
    # Podman has no longer path than 50 characters there.
    run = tempfile.mkdtemp(prefix="run", dir="/tmp")
    with request.param(place, run):
        made = subprocess.run([place / "docker", "import", place / "image.tar", IMAGE], capture_output=True, text=True)
        if made.returncode != 0:
            pytest.skip(f"no image can be made here: {made.stderr.strip()}")
        (tmp_path / contract.runtime_file("subject")).write_text(json.dumps({"command": str(place / "docker")}))
        yield place / "docker"
    shutil.rmtree(run, ignore_errors=True)


def listed(docker):
    """Return the containers that there are, running or not."""
    return subprocess.run([docker, "ps", "--all", "--quiet"], check=True, capture_output=True, text=True).stdout.split()


def start(docker, tmp_path, words, limit, options="--rm"):
    """Start one run of a container."""
    label = by_name("Docker").label.format(label=f"{contract.RUN}=${contract.RUN}")
    (tmp_path / "subject.sh").write_text(f"{docker} run {options} {label} {IMAGE} {words}\n")
    script = ONCE.format(limit=limit)
    return subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True)


def test_a_container_that_is_not_done_in_time_ends_and_is_told(docker, tmp_path):
    other = [docker, "run", "--detach", IMAGE, "sleep", "1000"]
    others = subprocess.run(other, check=True, capture_output=True, text=True).stdout.strip()
    # What ends the command asks the container to end, and it does not.
    said, _ = start(docker, tmp_path, "sh -c 'trap : TERM INT; while :; do sleep 1; done'", 5).communicate(timeout=300)
    run = json.loads(said.splitlines()[-1])
    assert run["timed_out"]
    (left,) = run["leftover_processes"]
    assert left.startswith("container of ") and f"{IMAGE} (docker " in left
    # Nobody else's.
    assert [others.startswith(container) for container in listed(docker)] == [True]
    judged = Evaluation(Facts(facts_of([], sides=[BARE, GENERIC])), tmp_path)
    judged.add({**run, "round": 1, "side": "subject"})
    hangs, leaves = judged.final_problems()
    assert "hangs: killed at its limit of 5 s" in hangs
    assert "leaves processes behind when it ends, which bare does not: container of " in leaves and IMAGE in leaves


def test_a_container_that_its_command_leaves_running_is_told(docker, tmp_path):
    said, _ = start(docker, tmp_path, "sleep 1000", 60, "--detach").communicate(timeout=300)
    run = json.loads(said.splitlines()[-1])
    assert (run["status"], run["timed_out"]) == (0, False)
    assert len(run["leftover_processes"]) == 1 and listed(docker) == []


def test_a_job_that_is_cancelled_takes_its_container_along(docker, tmp_path):
    process = start(docker, tmp_path, "sh -c 'trap : TERM INT; while :; do sleep 1; done'", 300)
    assert eventually(lambda: listed(docker))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGTERM
    assert listed(docker) == []
