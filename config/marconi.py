"""MARCONI A3 (CINECA): D12.6 section 7, TensorFlow and Quantum ESPRESSO on 1 to 10 nodes; D12.5 section 3.3.

2 x Xeon 8160, 192 GB, Omni-Path, Slurm, Singularity 3.0.2 as a module. Quantum ESPRESSO with Intel MPI was some five
times as fast as with Open MPI: an image for the first is integrated by the host's library of MPICH's ABI. What is not
said there is the partition's name, and whether software comes from modules: fill that in.
"""

site_configuration = {
    "systems": [
        {
            "name": "marconi",
            "descr": "CINECA MARCONI A3, Bologna",
            "hostnames": [r"r\d+c\d+s\d+|login\d+\.marconi"],
            "modules_system": "tmod4",
            "partitions": [
                {
                    "name": "skylake",
                    "descr": "2 x Platinum 8160, Omni-Path",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "access": ["--partition=skl_usr_prod"],
                    "environs": ["builtin"],
                    "time_limit": "24h",
                    "processor": {
                        "arch": "skylake_avx512",
                        "num_cpus": 48,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 24,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Singularity", "modules": ["singularity/3.0.2"]}],
                    "extras": {"max_nodes": 10, "memory_per_node": 192 << 30},
                },
            ],
        }
    ],
}
