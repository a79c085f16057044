"""Kay (ICHEC): D12.6 section 5.2, WRF on 1 to 8 nodes.

2 x Xeon Gold 6148, 192 GB, Omni-Path, Slurm, CentOS 7, Singularity 2.6. What is not said there is the partition's
name, and whether software comes from modules: fill that in.
"""

site_configuration = {
    "systems": [
        {
            "name": "kay",
            "descr": "ICHEC Kay, Galway",
            "hostnames": [r"login\d*\.kay\."],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "compute",
                    "descr": "2 x Gold 6148, Omni-Path",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "access": ["--partition=ProdQ"],
                    "environs": ["builtin"],
                    "processor": {
                        "arch": "skylake_avx512",
                        "num_cpus": 40,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 20,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {"max_nodes": 8, "memory_per_node": 192 << 30},
                },
            ],
        }
    ],
}
