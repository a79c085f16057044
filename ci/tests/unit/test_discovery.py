"""A first site file: read from what sinfo prints, and from this machine where there is none."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import REPOSITORY, write_program
from containercheck.command import site as site_command
from containercheck.session.inventories import Answer
from containercheck.site import clusters, discovery, discovery_flux, discovery_gridengine, discovery_pbs

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
    command = [sys.executable, "-m", "containercheck", "site", "--no-jobs", *words]
    environment = {"PATH": f"{path}:/usr/bin:/bin", "PYTHONPATH": str(REPOSITORY / "checks")}
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


# PBS, Grid Engine, Flux


def saved(name):
    return (REPOSITORY / "ci/tests/saved_schedulers" / name).read_text()


def shapes(kinds):
    return [(kind.partition, kind.nodes, kind.in_service, kind.processors, kind.memory, kind.gpus) for kind in kinds]


def test_queues_of_pbs_with_the_nodes_that_serve_them():
    kinds = discovery_pbs.node_kinds(saved("pbs-nodes.json"), saved("pbs-queues.json"))
    assert shapes(kinds) == [
        ("normal", 2, 2, 48, 192382, 0),
        ("normal", 1, 0, 48, 1 << 20, 0),
        ("gpu", 1, 1, 64, 514260, 4),
    ]
    assert [kind.time_limit for kind in kinds] == ["48:00:00", "48:00:00", "12:00:00"]
    assert [kind.others for kind in kinds] == [True, True, False]


def test_nodes_of_pbs_without_queues_or_without_json():
    assert [kind.partition for kind in discovery_pbs.node_kinds(saved("pbs-nodes.json"))] == ["gpu", "normal", "normal"]
    assert discovery_pbs.node_kinds("pbsnodes: invalid option -- 'F'") == []
    assert shapes(discovery_pbs.kinds_of_table(saved("pbs-table.txt"))) == [
        ("workq", 3, 2, 28, 192 << 10, 2),
        ("workq", 1, 1, 128, 1 << 20, 0),
        ("workq", 1, 1, 64, 250 << 10, 1),
    ]


def test_resources_of_flux():
    assert shapes(discovery_flux.node_kinds(saved("flux-resources.txt"))) == [("default", 16, 15, 4, 0, 0)]
    kinds = discovery_flux.node_kinds(saved("flux-queues.txt"))
    assert shapes(kinds) == [("batch", 3, 3, 48, 0, 8), ("debug", 1, 1, 48, 0, 8)]
    assert discovery_flux.node_kinds("flux-resource: ERROR: Unable to connect to Flux") == []


def test_queues_of_grid_engine():
    hosts, queues = saved("gridengine-qhost.txt"), saved("gridengine-qconf.txt")
    (kind,) = discovery_gridengine.node_kinds(hosts, queues)
    assert (kind.partition, kind.nodes, kind.in_service, kind.time_limit) == ("all.q", 1, 1, "")
    assert (kind.processors, kind.sockets * kind.cores * kind.threads) == (2, 2)
    assert kind.memory > 1000
    assert discovery_gridengine.parallel_environments(queues) == {"all.q": ["mpi"]}
    # A daemon that does not answer, and a queue whose jobs run no more.
    assert discovery_gridengine.node_kinds(hosts.replace("lx-amd64", "-").replace(" 2 ", " - ", 1), queues) == []
    alarmed = hosts.replace("0/0/2", "0/0/2        au")
    assert discovery_gridengine.node_kinds(alarmed, queues)[0].in_service == 0


def test_limits_and_parallel_environments_of_a_queue():
    text = "qname  long.q\npe_list   make smp \\\n          openmpi,[@old=mpich]\nh_rt      48:00:00,[n1=1:00:00]\n"
    assert discovery_gridengine.parallel_environments(text) == {"long.q": ["openmpi", "smp"]}
    assert discovery_gridengine._values(text, "h_rt") == {"long.q": "48:00:00"}


def test_modules_of_runtimes_and_of_mpi():
    listed = """/apps/modules/all:
apptainer/1.3.6
apptainer/1.4.5(default)
tools/singularity-ce/4.1.0
mpi/openmpi/4.1.6-gcc-13
OpenMPI/5.0.3-GCC-13.3.0
intel-mpi/2021.12 <L>
openmpi-docs/1
GROMACS/2024.4
GROMACS/
"""
    runtimes, mpis = clusters.modules(listed)
    assert runtimes == {"Apptainer": "apptainer/1.4.5", "Singularity": "tools/singularity-ce/4.1.0"}
    assert mpis == ["mpi/openmpi/4.1.6-gcc-13", "OpenMPI/5.0.3-GCC-13.3.0", "intel-mpi/2021.12"]
    assert clusters.modules("bash: module: command not found") == ({}, [])


# The file of each


HERE = {
    "modules": "Lmod 8.7",
    "runtimes": [],
    "mpi": [],
    "pmi": [],
    "processor": {"processors": 4, "cores": 4, "sockets": 1},
}
NODE = {
    **HERE,
    "host": {"name": "n1"},
    "processor": {
        "architecture": "aarch64",
        "model": "",
        "processors": 96,
        "cores": 48,
        "sockets": 2,
        "memory": 64 << 30,
    },
    "mpi": [{"family": "mpich", "title": "MPICH", "library": "libmpi_cray.so.12"}],
    "runtimes": [{"name": "Apptainer", "path": "/usr/bin/apptainer", "problem": ""}],
}


def partitions_of(cluster, tmp_path, **facts):
    """Return the partitions of the file of a cluster, as Python reads it."""
    known = site_command.Surroundings("volta", cluster, HERE, **facts)
    path = tmp_path / "made.py"
    path.write_text(site_command.text_of(known))
    return loaded(path)["systems"][0]["partitions"]


def test_the_file_of_pbs(tmp_path):
    kinds = discovery_pbs.node_kinds(saved("pbs-nodes.json"), saved("pbs-queues.json"))
    cluster = clusters.Cluster("PBS", "pbsnodes -F json, qstat -Qf", "pbs", kinds)
    normal, fat, gpu = partitions_of(cluster, tmp_path)
    assert [part["access"] for part in (normal, fat, gpu)] == [["-q normal"], ["-q normal"], ["-q gpu"]]
    assert (normal["scheduler"], normal["launcher"], normal["time_limit"]) == ("pbs", "mpirun", "48h0m0s")
    assert (normal["name"], fat["name"]) == ("normal_1", "normal_2")
    assert gpu["resources"][0]["options"] == ["ngpus={num_gpus_per_node}"]
    # Nothing tells the hardware threads.
    assert normal["processor"]["num_cpus"] == normal["processor"]["num_cpus_per_socket"] == 48
    assert "arch" not in normal["processor"]


def test_the_file_of_grid_engine_and_of_flux(tmp_path):
    queues = saved("gridengine-qconf.txt")
    kinds = discovery_gridengine.node_kinds(saved("gridengine-qhost.txt"), queues)
    cluster = clusters.Cluster("Grid Engine", "qhost", "sge", kinds, discovery_gridengine.parallel_environments(queues))
    (part,) = partitions_of(cluster, tmp_path)
    assert (part["scheduler"], part["access"]) == ("sge", ["-q all.q"])
    assert part["extras"]["containercheck"]["parallel_environment"] == "mpi"
    kinds = discovery_flux.node_kinds(saved("flux-queues.txt"))
    batch, _ = partitions_of(clusters.Cluster("Flux", "flux resource list", "flux", kinds), tmp_path)
    assert (batch["scheduler"], batch["access"]) == ("flux", ["--queue=batch"])
    assert "memory_per_node" not in batch["extras"]["containercheck"]


def test_what_a_job_saw_completes_what_the_scheduler_does_not_tell(tmp_path):
    kinds = discovery_flux.node_kinds(saved("flux-resources.txt"))
    answers = {"default": Answer("volta:default", False, NODE)}
    cluster = clusters.Cluster("Flux", "flux resource list", "flux", kinds)
    (part,) = partitions_of(cluster, tmp_path, answers=answers)
    assert part["processor"] == {
        "arch": "aarch64",
        "num_cpus": 96,
        "num_cpus_per_core": 2,
        "num_cpus_per_socket": 48,
        "num_sockets": 2,
    }
    assert part["extras"]["containercheck"]["memory_per_node"] == 64 << 30
    assert part["extras"]["containercheck"]["mpi"] == "mpich"
    both = [*NODE["mpi"], {"family": "openmpi", "title": "Open MPI", "library": "libmpi.so.40"}]
    (part,) = partitions_of(
        cluster, tmp_path, answers={"default": replace(answers["default"], facts={**NODE, "mpi": both})}
    )
    assert part["extras"]["containercheck"]["mpi"] == "mpich"
    (part,) = partitions_of(
        cluster, tmp_path, answers={"default": replace(answers["default"], facts={**NODE, "mpi": both[::-1]})}
    )
    assert "mpi" not in part["extras"]["containercheck"]
    assert part["container_platforms"] == [{"type": "Apptainer"}]


def test_modules_of_runtime_and_mpi_come_into_the_file(tmp_path):
    kinds = discovery.node_kinds(NODES, LIMITS)[-1:]
    cluster = clusters.Cluster("Slurm", "sinfo", "slurm", kinds)
    facts = {"runtimes": {"Apptainer": "apptainer/1.4.5"}, "mpi_modules": ["openmpi/4.1.6", "mpich/4.2"]}
    (part,) = partitions_of(cluster, tmp_path, **facts)
    assert part["container_platforms"] == [{"type": "Apptainer", "modules": ["apptainer/1.4.5"]}]
    assert part["environs"] == ["mpi"]
    # Beside what nodes have without a module, and before it where it is preferred.
    docker = {"name": "Docker", "path": "/usr/bin/docker", "problem": ""}
    answers = {"gpu": Answer("volta:gpu", False, {**NODE, "runtimes": [docker], "mpi": []})}
    (part,) = partitions_of(cluster, tmp_path, **facts, answers=answers)
    assert [entry["type"] for entry in part["container_platforms"]] == ["Apptainer", "Docker"]
    assert part["environs"] == ["mpi"]
    environments = loaded(tmp_path / "made.py")["environments"]
    assert environments[1]["modules"] == ["openmpi/4.1.6"]


def test_nodes_are_asked_without_modules(tmp_path, monkeypatch):
    """What comes with a module would be taken for what is there without."""
    texts = []

    def ask(arguments, place, relay):
        texts.append(Path(arguments[1]).read_text())
        return [Answer("volta:gpu", False, NODE)]

    monkeypatch.setattr(site_command.inventories, "of_partitions", ask)
    cluster = clusters.Cluster("Slurm", "sinfo", "slurm", discovery.node_kinds(NODES, LIMITS)[-1:])
    draft = site_command.Surroundings("volta", cluster, HERE, {"Apptainer": "apptainer"}, ["openmpi"], pending="5m")
    known = site_command._ask(draft, site_command.Workplace())
    assert '"max_pending_time": "5m"' in texts[0]
    assert '"modules"' not in texts[0]
    assert known.of("gpu") == NODE
    assert "max_pending_time" not in site_command.text_of(replace(known, pending=""))


@pytest.mark.parametrize(
    ("home", "scratch", "said"),
    [
        ("nfs4", "ext4", "# Caches lie below the home directory, which is on nfs4: nodes see it."),
        ("ext4", "lustre", '"image_cache": "$SCRATCH/containercheck/images",'),
        ("ext4", "xfs", "# Caches lie below the home directory, on ext4; if nodes do not see that, name"),
    ],
)
def test_caches_lie_where_nodes_share_them(tmp_path, home, scratch, said):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"2 1 0:1 / /home rw - {home} a rw\n3 1 0:2 / /scratch rw - {scratch} b rw\n"
    )
    assert said in site_command.caches({"HOME": "/home/u", "SCRATCH": "/scratch/u"}, mounts)


def test_a_module_system_that_this_shell_does_not_have_is_not_one_for_reframe():
    assert site_command._modules("Lmod 8.6", {"LMOD_CMD": "/x"}) == '"modules_system": "lmod",  # Lmod 8.6'
    assert site_command._modules("Environment Modules", {"MODULES_CMD": "/x"}).startswith('"modules_system": "tmod4"')
    assert site_command._modules("", {}).startswith('"modules_system": "nomod"')
    said = site_command._modules("Lmod 8.6", {})
    assert said.startswith('"modules_system": "nomod",  # "lmod" from a login shell')


@pytest.mark.parametrize("box", ["smt", "modules", "cray"])
def test_what_slurm_printed_on_clusters_in_a_box(box, tmp_path):
    kinds = discovery.node_kinds(saved(f"{box}-sinfo-nodes.txt"), saved(f"{box}-sinfo-limits.txt"))
    (part,) = partitions_of(clusters.Cluster("Slurm", "sinfo", "slurm", kinds), tmp_path)
    assert (part["name"], part["extras"]["containercheck"]["max_nodes"]) == ("compute", 2)
    # scontrol says the same.
    told = saved(f"{box}-scontrol-nodes.txt")
    assert f"ThreadsPerCore={part['processor']['num_cpus_per_core']} " in told
    assert f"RealMemory={part['extras']['containercheck']['memory_per_node'] >> 20} " in told
    assert part.get("time_limit") == ("1h0m0s" if box == "smt" else None)
