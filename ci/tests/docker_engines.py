"""Engines with a storage of the test's own: a real Docker, a Podman that is called as it, and Podman by itself."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import eventually, write_program
from containercheck.job import texts

#: On machines with cgroups of both versions crun does not run, and Podman asks for more files than are allowed.
ULIMITS = "--ulimit nofile=1024:1024"
PROGRAM = """
if [ "$1" = run ]; then
    shift
    case " $* " in *" --network"*) network= ;; *) network="--network none" ;; esac
    set -- run {limits} $network "$@"
fi
exec {engine} "$@"
"""
#: Podman's own settings: its storage, and what this machine's cgroups and limits need.
STORAGE = """
[storage]
driver = "{driver}"
graphroot = "{storage}"
runroot = "{run}"
"""
CONTAINERS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


def podman_settings(place, storage, run, driver="vfs", more=""):
    """Write Podman's settings into a directory, and return the variables that name them.

    :param more: further settings of containers.
    """
    Path(place, "storage.conf").write_text(STORAGE.format(driver=driver, storage=storage, run=run))
    Path(place, "containers.conf").write_text(CONTAINERS + more)
    return {"CONTAINERS_STORAGE_CONF": f"{place}/storage.conf", "CONTAINERS_CONF": f"{place}/containers.conf"}


@contextlib.contextmanager
def podman_as_docker(place, run):
    """Have Podman, which has no daemon, under the name of docker."""
    if not (shutil.which("podman") and shutil.which("runc")):
        pytest.skip("needs podman and runc")
    engine = f"podman --runtime runc --root {place}/storage --runroot {run} --storage-driver vfs"
    limits = f"{ULIMITS} --ulimit nproc=1000:1000"
    write_program(place / "docker", PROGRAM.format(engine=engine, limits=limits))
    yield
    subprocess.run([place / "docker", "rm", "--force", "--all"], capture_output=True)


@contextlib.contextmanager
def docker_itself(place, run):
    """Have Docker, with a daemon of its own and no network."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("dockerd", "containerd", "runc", "docker"))):
        pytest.skip("needs root, dockerd, containerd, runc and docker")
    options = ["--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs"]
    options += [
        f"--data-root={place}/data",
        f"--exec-root={run}/exec",
        f"--pidfile={run}/pid",
        f"--host=unix://{run}/sock",
    ]
    with Path(place, "log").open("wb") as log:
        daemon = subprocess.Popen(["dockerd", *options], stdout=log, stderr=log, start_new_session=True)
    engine = f"{shutil.which('docker')} --host unix://{run}/sock"
    write_program(place / "docker", PROGRAM.format(engine=engine, limits=ULIMITS))
    try:
        started = eventually(lambda: subprocess.run([place / "docker", "ps"], capture_output=True).returncode == 0, 60)
        if not started:
            pytest.skip(f"no daemon of Docker's starts here: {texts.tail(place / 'log', 500)}")
        yield
    finally:
        daemon.terminate()
        daemon.wait(60)
