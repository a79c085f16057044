"""The cluster in a box that ci/virtual-cluster starts on one machine.

To use it, in the shell that runs ReFrame (its squeue and sbatch read SLURM_CONF):

    ci/virtual-cluster up
    eval "$(ci/virtual-cluster env)"
    reframe -C config/virtual_cluster.py --system=virtual-cluster -c checks/ -r
"""

import platform
import re
from pathlib import Path

# What `up` wrote down, if it has run: listing checks needs no cluster.
SLURM_CONF = Path("/var/lib/virtual-cluster/slurm.conf")


def size():
    """Return the number of nodes and of cores per node; two one-core nodes while there is no cluster."""
    text = SLURM_CONF.read_text() if SLURM_CONF.exists() else ""
    found = re.search(r"^NodeName=node\[1-(\d+)\].* CPUs=(\d+) ", text, re.MULTILINE)
    return (int(found[1]), int(found[2])) if found else (2, 1)


nodes, cores = size()

site_configuration = {
    "systems": [
        {
            "name": "virtual-cluster",
            "descr": "Slurm in namespaces on one machine: eth0 with 1 Gbit/s, and the fabric fab0 with 10",
            # No machine has this name: the system is chosen with --system or RFM_SYSTEM.
            "hostnames": [r"virtual-cluster\.invalid$"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "compute",
                    "scheduler": "squeue",
                    "launcher": "srun",
                    "environs": ["builtin"],
                    "container_platforms": [{"type": "Apptainer"}],
                    # Jobs side by side would share the machine's memory and disturb each other's timings.
                    "max_jobs": 1,
                    # The cluster is this machine, which its file may say of it.
                    "processor": {
                        "arch": platform.machine(),
                        "num_cpus": cores,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": cores,
                        "num_sockets": 1,
                    },
                    "resources": [{"name": "memory", "options": ["--mem={size}"]}],
                    # The memory is no node's own: this is each node's part of it, on a machine of 24 GiB.
                    "extras": {"max_nodes": nodes, "memory_per_node": (24 << 30) // nodes},
                },
            ],
        },
    ],
}
