"""The two servers of MIPT: MIPT section 2, HPL with N = 8000 to 96000 on 12 cores.

Each has an i7-5820K (6 cores) and 64 GB, with QDR InfiniBand between them; Fedora 26 and its MPICH, Singularity 2.0.
No batch system: ReFrame runs on one of them, and MPICH's mpirun finds the other in the file that HYDRA_HOST_FILE names.
"""

site_configuration = {
    "systems": [
        {
            "name": "mipt",
            "descr": "MIPT, two servers, Moscow",
            "hostnames": [r"mipt"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "pair",
                    "descr": "i7-5820K, QDR",
                    "scheduler": "local",
                    "launcher": "mpirun",
                    "environs": ["builtin"],
                    "env_vars": [["PATH", "/usr/lib64/mpich/bin:$PATH"]],
                    "processor": {
                        "arch": "haswell",
                        "num_cpus": 6,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 6,
                        "num_sockets": 1,
                    },
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {
                        "containercheck": {
                            "max_nodes": 2,
                            "memory_per_node": 64 << 30,
                            "mpi": "mpich",
                            "host_mpich": "/usr/lib64/mpich/lib/libmpi.so.12",
                            # Fedora's own, on the host and in an image of Fedora (section 3).
                            "software": {
                                "HPL": {
                                    "executable": "xhpl_mpich",
                                    "image": "/path/to/fedora-hpl.sif",
                                },
                            },
                        },
                    },
                },
            ],
        }
    ],
}
