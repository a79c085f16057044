"""What a machine has: read from files and programs that a test made, and from this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import PROGRAMS, write_program
from containercheck.job import inventory
from containercheck.report import machine

FACTS = {
    "host": dict(name="n1", system="Debian 12", kernel="6.1", libc="glibc 2.36", python="3.11", root=False),
    "processor": {"architecture": "x86_64", "model": "EPYC", "processors": 8, "usable": 8, "cores": 4},
    "runtimes": [{"name": "Apptainer", "path": "/bin/apptainer", "version": "1.4", "problem": "", "mounts": "setuid"}],
    "namespaces": {"allowed": True, "problem": ""},
    "fuse": True,
    "locked_memory": None,
    "shared_memory": 8 << 30,
    "mpi": [{"family": "openmpi", "title": "Open MPI", "library": "libmpi.so.40", "version": "4.1.4"}],
    "pmi": [],
    "tools": ["gcc", "g++", "make"],
    "gpus": [],
    "fabric": [],
}
FUSE = {**FACTS["runtimes"][0], "mounts": "squashfuse_ll"}
NO_NAMESPACES = {"allowed": False, "problem": "user.max_user_namespaces is 0"}


def file_(root, name, text):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Have a PATH with nothing on it but what a test writes there."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for needed in ("sh", "bash", "env"):
        (directory / needed).symlink_to(f"/bin/{needed}" if needed != "env" else "/usr/bin/env")
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    return directory


def test_this_machine_is_told_as_one_json_object():
    words = [sys.executable, PROGRAMS, "inventory"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert facts.keys() == FACTS.keys()
    assert facts["processor"]["usable"] == len(os.sched_getaffinity(0))
    assert all(value for _, value in machine.topics(facts))
    assert machine.heading(facts).startswith(f"{facts['host']['name']}: ")


@pytest.mark.parametrize(
    ("helper", "mode", "mounts"),
    [("starter-suid", 0o4755, "setuid"), ("squashfuse_ll", 0o755, "squashfuse_ll"), ("other", 0o755, "unpacks")],
)
def test_how_apptainer_mounts_image_files(programs, tmp_path, monkeypatch, helper, mode, mounts):
    parts = tmp_path / "libexec" / "apptainer" / "bin"
    parts.mkdir(parents=True)
    write_program(parts / helper, "true")
    (parts / helper).chmod(mode)
    write_program(
        programs / "apptainer",
        f'[ "$1" = buildcfg ] && echo LIBEXECDIR={tmp_path}/libexec || echo apptainer version 1.4.5',
    )
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (runtime,) = inventory.runtimes()
    assert (runtime["name"], runtime["version"], runtime["mounts"]) == ("Apptainer", "apptainer version 1.4.5", mounts)


@pytest.mark.parametrize("plugin", [True, False])
def test_a_launcher_is_a_runtime_only_with_the_plugin_that_starts_containers(programs, plugin):
    write_program(programs / "srun", f"echo --nodes {'--container-image' * plugin}")
    assert [runtime["name"] for runtime in inventory.runtimes()] == ["Pyxis"] * plugin


@pytest.mark.parametrize(
    ("said", "plugins"),
    [
        ("MPI plugin types are...\n\tpmix\n\tnone\nspecific pmix plugin versions available: pmix_v4", ["none", "pmix"]),
        ("srun: MPI types are...\nsrun: none\nsrun: pmi2\nsrun: openmpi", ["none", "pmi2"]),
        ("MPI plugin types are...\n\tcray_shasta\n\tnone", ["cray_shasta", "none"]),
    ],
)
def test_the_pmi_plugins_of_srun(programs, said, plugins):
    write_program(programs / "srun", f"cat <<'END'\n{said}\nEND")
    (programs / "cat").symlink_to("/bin/cat")
    assert inventory.pmi_plugins() == plugins


def test_the_mpi_libraries_that_the_loader_finds(programs):
    write_program(
        programs / "ldconfig",
        "echo '	libmpich.so.12 (libc6) => /lib/libmpich.so.12';"
        " echo '	libmpi.so.40 (libc6,x86-64) => /lib/libmpi.so.40'",
    )
    write_program(programs / "ompi_info", "echo '       Package: Debian OpenMPI'; echo '      Open MPI: 4.1.4'")
    libraries = [(library["title"], library["version"]) for library in inventory.mpi_libraries()]
    assert libraries == [("Open MPI", "4.1.4"), ("MPICH", "")]


def test_adapters_of_fast_networks(tmp_path):
    file_(tmp_path, "sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n")
    file_(tmp_path, "sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n")
    file_(tmp_path, "sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n")
    file_(tmp_path, "sys/class/cxi/cxi0/x", "")
    assert inventory.fabric(tmp_path) == ["mlx5_0: InfiniBand 200 Gb/sec (4X HDR) active", "cxi0"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user/max_user_namespaces", 0),
        ("kernel/unprivileged_userns_clone", 0),
        ("kernel/apparmor_restrict_unprivileged_userns", 1),
    ],
)
def test_what_forbids_user_namespaces(programs, tmp_path, name, value):
    file_(tmp_path, f"proc/sys/{name}", f"{value}\n")
    write_program(programs / "unshare", "echo unshare: unshare failed: Operation not permitted >&2; exit 1")
    problem = f"{name.replace('/', '.')} is {value}"
    assert inventory.user_namespaces(tmp_path) == {"allowed": False, "problem": problem}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, []),
        ({"namespaces": NO_NAMESPACES}, []),
        ({"namespaces": NO_NAMESPACES, "runtimes": [FUSE]}, ["needs user namespaces, which are forbidden"]),
        ({"fuse": False, "runtimes": [FUSE]}, ["/dev/fuse cannot be opened"]),
        ({"runtimes": [{**FUSE, "mounts": "unpacks"}]}, ["install squashfuse"]),
        ({"shared_memory": 64 << 20}, ["/dev/shm has 64 MiB only"]),
        ({"locked_memory": 65536}, []),
        ({"locked_memory": 65536, "fabric": ["mlx5_0: InfiniBand"]}, ["may lock 64 KiB"]),
        ({"tools": ["gcc"]}, ["no g++, make"]),
    ],
)
def test_what_is_wrong_is_told_with_its_remedy(facts, said):
    problems = machine.problems({**FACTS, **facts})
    assert len(problems) == len(said)
    assert all(words in problem for words, problem in zip(said, problems))
