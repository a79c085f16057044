"""The cluster in a box that ci/virtual-cluster starts on one machine.

To use it, in the shell that runs ReFrame (its squeue and sbatch read SLURM_CONF):

    ci/virtual-cluster up
    eval "$(ci/virtual-cluster env)"
    reframe -C config/virtual_cluster.py --system=virtual-cluster -c checks/ -r

For one that is like another (``up --like NAME``) it says what the site file there would. Where there is a login node,
reframe runs there: ``ci/virtual-cluster exec login bash -l``. With nodes of other architectures (``up --arm N
--power N``) it has their partitions, too.
"""

import platform
import re
from pathlib import Path

# What `up` wrote down, if it has run: listing checks needs no cluster.
STATE = Path("/var/lib/virtual-cluster")


def written(name):
    """Return the text of a file that ``up`` wrote; an empty one while there is no cluster."""
    path = STATE / name
    return path.read_text() if path.exists() else ""


def size():
    """Return the number of nodes, and cores and MiB of each; two one-core nodes while there is no cluster."""
    line = r"^NodeName=node\[1-(\d+)\].* CoresPerSocket=(\d+) .*RealMemory=(\d+)"
    found = re.search(line, written("slurm.conf"), re.MULTILINE)
    return tuple(map(int, found.groups())) if found else (2, 1, 12 << 10)


nodes, cores, memory = size()
like = written("like").strip()
# Hardware threads of a core.
threads = 2 if like == "smt" else 1
CRAY = STATE / "cray"

# What the site file of a cluster like that says besides (ci/virtual_cluster/like).
SPECIAL = {
    "smt": {"partition": {"scheduler": "slurm", "time_limit": "1h"}},
    "gridengine": {
        "partition": {"scheduler": "sge", "launcher": "mpirun", "access": ["-q all.q"], "resources": []},
        "extras": {"parallel_environment": "mpi"},
    },
    "modules": {
        "partition": {
            "environs": ["openmpi"],
            "container_platforms": [{"type": "Apptainer", "modules": ["apptainer"]}],
        },
        "extras": {"software": {"HPCC": {"modules": ["hpcc"]}, "GROMACS": {"modules": ["gromacs"]}}},
    },
    "cray": {
        "partition": {"environs": ["cray"]},
        "extras": {
            "mpi": "mpich",
            "host_mpi": f"{CRAY}/lib/libmpi_gnu_91.so.12",
            "host_mpich": f"{CRAY}/lib/libmpi_gnu_91.so.12",
            "mpich_launcher_options": ["--mpi=pmi2"],
        },
    },
}
special = SPECIAL.get(like, {})

# Of the nodes with another userland (``up --arm N --power N``), by partition: their processors, as archspec calls what
# qemu-user emulates.
EMULATED = {"arm": "aarch64", "power": "power9le"}
# How many such nodes there are, by partition.
LINE = r"^PartitionName=(\w+) Nodes=\1\[1-(\d+)\]"
emulated = {name: int(count) for name, count in re.findall(LINE, written("slurm.conf"), re.MULTILINE)}


def of_emulated(name):
    """Return the extras of such a partition: its nodes have their own Python, and one of them the machine's network."""
    return {
        "emulated": True,
        "python": "/usr/bin/python3",
        "build_access": [f"--partition={name}-build"],
        "image_mirror": written("mirror").strip() or None,
        # CHPCE's MPI is MPICH.
        **({"mpi": "mpich"} if like == "chpce" else {}),
    }


def partition(name, arch, count, more):
    """Return a partition.

    :param arch: its processors.
    :param count: its nodes.
    :param more: extras of its own.
    """
    return {
        "name": name,
        "scheduler": "squeue",
        "launcher": "srun",
        "environs": ["builtin"],
        "container_platforms": [{"type": "Apptainer"}],
        # Jobs side by side would share the machine's memory and disturb each other's timings.
        "max_jobs": 1,
        "processor": {
            "arch": arch,
            "num_cpus": threads * cores,
            "num_cpus_per_core": threads,
            "num_cpus_per_socket": threads * cores,
            "num_sockets": 1,
        },
        "resources": [{"name": "memory", "options": ["--mem={size}"]}],
        # The memory is no node's own: this is each node's part of it. Nor is the machine, on which others may measure.
        "extras": {
            "containercheck": {"max_nodes": count, "memory_per_node": memory << 20, "machine_lock": True, **more}
        },
    }


site_configuration = {
    "systems": [
        {
            "name": "virtual-cluster",
            "descr": "Slurm in namespaces on one machine: eth0 with 1 Gbit/s, and the fabric fab0 with 10",
            # No machine has this name: the system is chosen with --system or RFM_SYSTEM.
            "hostnames": [r"virtual-cluster\.invalid$"],
            "modules_system": "lmod" if like == "modules" else "nomod",
            "partitions": [
                # The cluster is this machine, which its file may say of it.
                {
                    **partition("compute", platform.machine(), nodes, special.get("extras", {})),
                    **special.get("partition", {}),
                },
                *(
                    {
                        **partition(name, arch, emulated[name], of_emulated(name)),
                        "access": [f"--partition={name}"],
                    }
                    for name, arch in EMULATED.items()
                    if name in emulated
                ),
            ],
        },
    ],
    "environments": [
        {"name": "openmpi", "modules": ["openmpi"], "target_systems": ["virtual-cluster"]},
        {"name": "cray", "env_vars": [["PATH", f"{CRAY}/bin:$PATH"]], "target_systems": ["virtual-cluster"]},
    ],
    # Where modules come with the login shell.
    "general": [{"use_login_shell": like == "modules", "target_systems": ["virtual-cluster"]}],
}
