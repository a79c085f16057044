"""A cluster with the software of EESSI: an example, of no document.

Software comes from the modules of a file system that all nodes mount, for the processor of each. A container has them
too, where that directory is bound into an image of the operating system.
"""

site_configuration = {
    "systems": [
        {
            "name": "eessi",
            "descr": "a cluster with EESSI",
            "hostnames": [r"login\d+\.eessi"],
            "modules_system": "lmod",
            "partitions": [
                {
                    "name": "zen4",
                    "descr": "2 x 96 cores",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "access": ["--partition=zen4"],
                    "environs": ["builtin"],
                    "time_limit": "72h",
                    "processor": {
                        "arch": "zen4",
                        "num_cpus": 192,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 96,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Apptainer"}],
                    "extras": {
                        "max_nodes": 64,
                        "memory_per_node": 768 << 30,
                        "binds": ["/cvmfs"],
                    },
                },
            ],
        }
    ],
}
