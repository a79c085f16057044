"""Lenox (BSC): D12.6 sections 6.1 and 6.5 to 6.7, Alya, BT-MZ and HPCG with 112 cores.

Four nodes of 2 x E5-2697 v3, Ethernet of 1 Gbit/s, no batch system: mpirun with a list of hosts, bound to cores, from
one of the nodes. ReFrame runs on the first node of that list, and mpirun starts ranks on the others over ssh. Open MPI
1.10.4, Singularity 2.4.5, Shifter 16.08.3, Docker 1.11.1. The memory of a node is not given there: fill it in.
"""

#: Alya, of which each machine had its own image; the patterns read the log of the case, which is to be filled in.
ALYA = {
    "executable": "/path/to/alya/Alya.x",
    "image": "/path/to/alya.sif",
    "image_executable": "/opt/alya/Alya.x",
    "input": "/path/to/artery",
    "options": ["artery"],
    "patterns": {"ranks": r"processes +(\d+)"},
}

site_configuration = {
    "systems": [
        {
            "name": "lenox",
            "descr": "BSC Lenox, Barcelona",
            "hostnames": [r"lenox\d*"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "nodes",
                    "descr": "2 x E5-2697 v3, 1 Gbit/s",
                    "scheduler": "local",
                    "launcher": "mpirun",
                    "environs": ["builtin"],
                    # A line for each node: its name, and "slots=28". Open MPI 5: PRTE_MCA_prte_default_hostfile.
                    "env_vars": [["OMPI_MCA_orte_default_hostfile", "/path/to/hosts"]],
                    "processor": {
                        "arch": "haswell",
                        "num_cpus": 28,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 14,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Singularity"}, {"type": "Shifter"}, {"type": "Docker"}],
                    "extras": {
                        "containercheck": {
                            "max_nodes": 4,
                            "memory_per_node": 128 << 30,
                            "binding": "cores",
                            # BT-MZ and HPCG are Spack's, as on all machines that name no other.
                            "software": {"Alya": ALYA},
                        },
                    },
                },
            ],
        }
    ],
}
