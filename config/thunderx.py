"""ThunderX (BSC, Mont-Blanc): D12.6 section 6.9.1, Alya CFD on up to 4 nodes.

2 x Cavium CN8890 of 48 Armv8-a cores, Ethernet of 40 Gbit/s, no fabric: generic and integrated containers were as fast
as bare. Singularity 2.5.2. What is not said there are the batch system, the partition's name, the memory of a node, and
whether software comes from modules: fill that in.
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
            "name": "thunderx",
            "descr": "BSC ThunderX mini-cluster, Barcelona",
            "hostnames": [r"thunder"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "main",
                    "descr": "2 x CN8890, 40 Gbit/s",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "environs": ["builtin"],
                    "processor": {
                        "arch": "aarch64",
                        "num_cpus": 96,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 48,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {
                        "containercheck": {
                            "max_nodes": 4,
                            "memory_per_node": 128 << 30,
                            "software": {"Alya": ALYA},
                        },
                    },
                },
            ],
        }
    ],
}
