"""MareNostrum4 (BSC): D12.6 section 6.9.1, Alya FSI on 4 to 256 nodes; D12.5 section 3.2, BT-MZ with DLB on one node.

2 x Xeon Platinum 8160, Omni-Path and Ethernet of 10 Gbit/s, Slurm, Singularity 2.4.2. What is not said there is the
partition's name, and whether software comes from modules: fill that in.
"""

site_configuration = {
    "systems": [
        {
            "name": "marenostrum4",
            "descr": "BSC MareNostrum4, Barcelona",
            "hostnames": [r"login\d+\.mn4|mn4login"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "main",
                    "descr": "2 x Platinum 8160, Omni-Path",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "environs": ["builtin"],
                    "time_limit": "48h",
                    "processor": {
                        "arch": "skylake_avx512",
                        "num_cpus": 48,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 24,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {"max_nodes": 256, "memory_per_node": 96 << 30},
                },
            ],
        }
    ],
}
