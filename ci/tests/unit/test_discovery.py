"""A first site file: read from what sinfo prints, and from this machine where there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import write_program
from containercheck.site import discovery

#: In the form of sinfo's own fields; of a partition with two kinds of nodes, and one that is down.
NODES = """\
compute|c1|48|2|24|1|95000|(null)|cascadelake,opa|idle
compute|c2|48|2|24|1|95000|(null)|cascadelake,opa|allocated
compute|c3|48|2|24|1|190000|(null)|cascadelake,opa,fat|down*
gpu|g1|128|2|32|2|512000|gpu:a100:4(S:0-1)|milan|mixed
old|o1|16|2|8|1|32000|(null)|(null)|idle
"""
LIMITS = "compute|2-00:00:00|up\ngpu|12:00:00|up\nold|infinite|down\n"


def test_nodes_that_are_alike_are_one_kind():
    compute, fat, gpu = discovery.node_kinds(NODES, LIMITS)
    assert (compute.partition, compute.nodes, compute.in_service, compute.others) == ("compute", 2, 2, True)
    assert (fat.nodes, fat.in_service, fat.memory) == (1, 0, 190000)
    assert (gpu.gpus, gpu.gpu_type, gpu.threads, gpu.others) == (4, "a100", 2, False)
    assert discovery.distinguishing(fat, [compute, fat, gpu]) == "fat"
    assert discovery.distinguishing(compute, [compute, fat, gpu]) == ""
    assert discovery.reframe_time(compute.time_limit) == "2d0h0m0s"


def test_of_nothing_there_are_no_kinds():
    assert discovery.node_kinds("", "") == []
    assert discovery.node_kinds("sinfo: error: cannot contact the controller\n", "") == []


def site(*words, path):
    command = [sys.executable, "-m", "containercheck", "site", *words]
    environment = {"PATH": f"{path}:/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def slurm(tmp_path):
    """Have an sinfo, a srun and no sacct that answers."""
    directory = tmp_path / "bin"
    directory.mkdir()
    write_program(
        directory / "sinfo", f"case \"$*\" in *--Node*) cat <<'E'\n{NODES}E\n;; *) cat <<'E'\n{LIMITS}E\n;; esac"
    )
    write_program(directory / "srun", "echo MPI plugin types are...; echo none; echo pmi2; echo pmix")
    write_program(directory / "sacct", "echo accounting storage is disabled >&2; exit 1")
    return directory


def loaded(path):
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names["site_configuration"]


def test_the_file_of_a_cluster_is_one_that_reframe_takes(slurm, tmp_path):
    file = tmp_path / "site.py"
    status, said, wrong = site(str(file), "--system", "volta", path=slurm)
    assert (status, wrong) == (0, "")
    assert said.startswith(f"site: written: {file}; look through it, then ")
    (system,) = loaded(file)["systems"]
    assert system["name"] == "volta"
    compute, fat, gpu = system["partitions"]
    assert [part["name"] for part in system["partitions"]] == ["compute_1", "compute_fat", "gpu"]
    assert (compute["scheduler"], compute["launcher"], compute["time_limit"]) == ("squeue", "srun", "2d0h0m0s")
    assert fat["access"] == ["--partition=compute", "--constraint=fat"]
    assert gpu["devices"] == [{"type": "gpu", "model": "a100", "num_devices": 4}]
    assert gpu["processor"] == {"num_cpus": 128, "num_cpus_per_core": 2, "num_cpus_per_socket": 64, "num_sockets": 2}
    assert gpu["extras"]["containercheck"] == {"max_nodes": 1, "memory_per_node": 512000 << 20}
    assert "no feature tells these from them" in file.read_text()
    shown = subprocess.run(
        [
            sys.executable,
            "-m",
            "reframe.frontend.cli",
            "-C",
            str(file),
            "--system=volta",
            "--show-config=systems/0/name",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert shown.returncode == 0, shown.stdout + shown.stderr


def test_a_file_that_is_there_is_left_and_compared(slurm, tmp_path):
    file = tmp_path / "site.py"
    assert site(str(file), path=slurm)[0] == 0
    status, said, _ = site(str(file), path=slurm)
    assert (status, said) == (0, f"site: {file} says the same\n")
    mine = file.read_text().replace("srun", "mine")
    file.write_text(mine)
    status, said, _ = site(str(file), path=slurm)
    assert status == 1
    assert '-                    "launcher": "mine"' in said
    assert said.splitlines()[-1] == f"site: {file} is there already, and was left as it is"
    assert file.read_text() == mine


def test_without_a_scheduler_it_is_the_file_of_this_machine(tmp_path):
    status, said, _ = site(path=tmp_path)
    assert status == 0
    file = tmp_path / "site.py"
    file.write_text(said)
    (partition,) = loaded(file)["systems"][0]["partitions"]
    assert (partition["scheduler"], partition["name"]) == ("local", "default")


def test_where_it_cannot_be_written_it_says_so(slurm, tmp_path):
    status, said, _ = site(str(tmp_path / "none" / "site.py"), path=slurm)
    assert status == 64
    assert said.startswith("site: error: cannot write ") and len(said.splitlines()) == 1
