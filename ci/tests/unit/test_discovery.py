"""A first site file, from the tables of schedulers, and from this machine without them."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
from conftest import REPOSITORY, write_program
from containercheck.command import site as command
from containercheck.command.site import Cluster

SCHEDULERS = {scheduler.backend: scheduler for scheduler in command.SCHEDULERS}


def saved(name):
    return (REPOSITORY / "ci/tests/saved_schedulers" / name).read_text()


#: In the form of sinfo's own fields: a partition with two kinds of nodes, and one that is down.
SINFO = saved("made-sinfo.txt")


def cluster(backend, *tables, **facts):
    """Return the cluster that a scheduler's tables describe."""
    return Cluster(SCHEDULERS[backend], SCHEDULERS[backend].read(*tables), backend, **facts)


# The tables


def test_nodes_that_are_alike_are_one_kind():
    volta = cluster("slurm", SINFO)
    compute, fat, gpu = volta.kinds
    assert (compute.nodes, fat.nodes, fat.memory, compute.time_limit) == (2, 1, 190000, "2d0h0m0s")
    assert (gpu.gpus, gpu.gpu_type, gpu.threads) == (4, "a100", 2)


@pytest.mark.parametrize("box", ["smt", "modules", "cray"])
def test_the_tables_of_clusters_in_a_box(box):
    (kind,) = cluster("slurm", saved(f"{box}-sinfo.txt")).kinds
    assert (kind.partition, kind.nodes, kind.time_limit) == ("compute", 2, "1h0m0s" if box == "smt" else "")
    # scontrol reports the same.
    nodes = saved(f"{box}-scontrol-nodes.txt")
    assert f"ThreadsPerCore={kind.threads} " in nodes
    assert f"RealMemory={kind.memory} " in nodes


def test_the_queues_of_pbs_with_the_nodes_that_serve_them():
    kinds = command.read_pbs(saved("pbs-nodes.json"), saved("pbs-queues.json"))
    assert [(kind.partition, kind.nodes, kind.time_limit) for kind in kinds] == [
        ("normal", 3, "48h0m0s"),
        ("gpu", 1, "12h0m0s"),
    ]
    # A node of a closed queue serves no other.
    nodes = saved("pbs-nodes.json").replace('"queue":"gpu"', '"queue":"closed"')
    assert [kind.partition for kind in command.read_pbs(nodes, saved("pbs-queues.json"))] == ["normal"]


def test_the_queues_of_grid_engine_without_hosts_whose_daemon_does_not_answer():
    table = saved("gridengine-qhost.txt")
    (kind,) = command.read_grid_engine(table)
    assert (kind.partition, kind.nodes) == ("all.q", 1)
    assert command.read_grid_engine(table.replace("lx-amd64        2", "-               -")) == []


@pytest.mark.parametrize("backend", SCHEDULERS)
@pytest.mark.parametrize("text", ["", "error: cannot contact the controller\n", "[]"])
def test_other_output_has_no_partitions(backend, text):
    assert cluster(backend, *[text] * len(SCHEDULERS[backend].tables)).kinds == []


# The command


def site(*words, path):
    words = [sys.executable, "-m", "containercheck", "site", *words]
    environment = {"PATH": f"{path}:/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY / "checks")}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    if done.stderr.startswith("site: error: "):
        return done.returncode, done.stderr
    is_here = "this machine, as no scheduler answered" in done.stdout
    assert done.stderr == ("site: no scheduler answered: this file measures this machine\n" if is_here else "")
    return done.returncode, done.stdout


def loaded(path):
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names["site_configuration"]


@pytest.fixture
def slurm(tmp_path):
    """Write an sinfo, an srun, and an sacct that does not answer."""
    directory = tmp_path / "bin"
    directory.mkdir()
    write_program(directory / "sinfo", f"cat <<'E'\n{SINFO}E")
    write_program(directory / "srun", "echo MPI plugin types are...; echo none; echo pmi2; echo pmix")
    write_program(directory / "sacct", "echo accounting storage is disabled >&2; exit 1")
    return directory


def test_reframe_reads_the_file_of_a_cluster(slurm, tmp_path):
    file = tmp_path / "site.py"
    status, output = site(str(file), "--system", "volta", path=slurm)
    assert status == 0
    assert output.startswith(f"site: written: {file}; look through it, then ")
    (system,) = loaded(file)["systems"]
    compute, fat, gpu = system["partitions"]
    assert [part["name"] for part in system["partitions"]] == ["compute_1", "compute_fat", "gpu"]
    assert fat["access"] == ["--partition=compute", "--constraint=fat"]
    assert compute["access"] == ["--partition=compute"]
    assert (compute["scheduler"], compute["launcher"], compute["time_limit"]) == ("squeue", "srun", "2d0h0m0s")
    assert gpu["devices"] == [{"type": "gpu", "model": "a100", "num_devices": 4}]
    shape = {"num_cpus": 128, "num_cpus_per_core": 2, "num_cpus_per_socket": 64, "num_sockets": 2}
    assert gpu["processor"] == {"arch": platform.machine(), **shape}
    assert gpu["extras"]["containercheck"] == {"max_nodes": 1, "memory_per_node": 512000 << 20}
    assert "Other nodes of compute differ: add a --constraint for these." in file.read_text()
    reframe = [sys.executable, "-m", "reframe.frontend.cli", "-C", str(file), "--system=volta"]
    shown = subprocess.run([*reframe, "--show-config=systems/0/name"], capture_output=True, text=True, timeout=120)
    assert shown.returncode == 0, shown.stdout + shown.stderr


def test_a_present_file_is_not_changed(slurm, tmp_path):
    file = tmp_path / "site.py"
    file.write_text("mine")
    said = f"site: error: {file} exists, and is not changed: write another file, and compare both (diff)\n"
    assert site(str(file), path=slurm) == (64, said)
    assert file.read_text() == "mine"


def test_without_a_scheduler_it_is_the_file_of_this_machine(tmp_path):
    status, output = site(path=tmp_path)
    assert status == 0
    file = tmp_path / "site.py"
    file.write_text(output)
    (partition,) = loaded(file)["systems"][0]["partitions"]
    assert (partition["scheduler"], partition["name"]) == ("local", "default")
    # ReFrame itself detects the processors of this machine.
    assert "processor" not in partition


def test_a_file_that_cannot_be_written_is_one_line(slurm, tmp_path):
    status, output = site(str(tmp_path / "none" / "site.py"), path=slurm)
    assert (status, output.partition("/")[0], len(output.splitlines())) == (
        2,
        "site: error: [Errno 2] No such file or directory: '",
        1,
    )


# The file


HERE = {
    "runtimes": [{"name": "Apptainer", "problem": ""}, {"name": "Docker", "problem": "it does not run"}],
    "mpi": [{"family": "mpich"}],
    "pmi": [],
}


def configuration_of(tmp_path, cluster):
    """Return the content of a cluster's file, as Python reads it, and its text."""
    path = tmp_path / "made.py"
    path.write_text(command.text_of("volta", cluster, HERE))
    return loaded(path), path.read_text()


@pytest.mark.parametrize(
    ("backend", "tables", "access"),
    [
        ("pbs", ("pbs-nodes.json", "pbs-queues.json"), [["-q normal"], ["-q gpu"]]),
        ("sge", ("gridengine-qhost.txt",), [["-q all.q"]]),
    ],
)
def test_the_file_of_another_scheduler_leaves_the_processor_to_the_person(tmp_path, backend, tables, access):
    content, text = configuration_of(tmp_path, cluster(backend, *map(saved, tables)))
    partitions = content["systems"][0]["partitions"]
    assert [part["access"] for part in partitions] == access
    assert {(part["scheduler"], part["launcher"]) for part in partitions} == {(backend, "mpirun")}
    assert not any("processor" in part for part in partitions)
    assert "# Complete it; without it no check runs here." in text
    if backend == "sge":
        assert '# "parallel_environment": "mpi",' in text
        content, _ = configuration_of(tmp_path, cluster("sge", *map(saved, tables), parallel_environment="openmpi"))
        (part,) = content["systems"][0]["partitions"]
        assert part["extras"]["containercheck"]["parallel_environment"] == "openmpi"


def test_runtimes_and_mpi_are_those_of_this_host(tmp_path):
    content, _ = configuration_of(tmp_path, cluster("slurm", SINFO))
    for part in content["systems"][0]["partitions"]:
        assert part["container_platforms"] == [{"type": "Apptainer"}]
        assert part["extras"]["containercheck"]["mpi"] == "mpich"
