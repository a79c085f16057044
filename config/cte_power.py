"""CTE-POWER (BSC): D12.6 section 6.9.1, Alya CFD on up to 16 nodes.

2 x POWER9 8335-GTG of 20 cores, EDR InfiniBand and Ethernet of 10 Gbit/s, Singularity 2.5.1. Its pages have 64 KiB.
Images are for ppc64le: they are built on one of its nodes, not on an x86-64 login. What is not said there are the batch
system, the partition's name, GPUs and memory of a node, and whether software comes from modules: fill that in.
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
            "name": "cte-power",
            "descr": "BSC CTE-POWER, Barcelona",
            "hostnames": [r"p9login"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "main",
                    "descr": "2 x POWER9, EDR",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "environs": ["builtin"],
                    "processor": {
                        "arch": "power9le",
                        "num_cpus": 160,
                        "num_cpus_per_core": 4,
                        "num_cpus_per_socket": 80,
                        "num_sockets": 2,
                    },
                    "devices": [{"type": "gpu", "arch": "sm_70", "num_devices": 4}],
                    "resources": [{"name": "_rfm_gpu", "options": ["--gres=gpu:{num_gpus_per_node}"]}],
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {
                        "containercheck": {
                            "max_nodes": 16,
                            "memory_per_node": 512 << 30,
                            "software": {"Alya": ALYA},
                        },
                    },
                },
            ],
        }
    ],
}
