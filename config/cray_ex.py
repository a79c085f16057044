"""A Cray EX of today: an example, of no document.

AMD processors of 64 cores with two hardware threads, Slingshot, cray-mpich, Slurm with PMI2, Sarus and Apptainer;
SLES, whose python3 is 3.6. Programs are built with the GNU compilers; of another compiler, cray-mpich has another
library.
"""

site_configuration = {
    "systems": [
        {
            "name": "cray-ex",
            "descr": "a Cray EX",
            "hostnames": [r"uan\d+"],
            "modules_system": "lmod",
            "partitions": [
                {
                    "name": "cpu",
                    "descr": "2 x 64 cores, Slingshot",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "access": ["--account=bench"],
                    "environs": ["builtin"],
                    "time_limit": "24h",
                    "processor": {
                        "arch": "zen3",
                        "num_cpus": 256,
                        "num_cpus_per_core": 2,
                        "num_cpus_per_socket": 128,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Apptainer"}, {"type": "Sarus"}],
                    "extras": {
                        "containercheck": {
                            "max_nodes": 256,
                            "memory_per_node": 512 << 30,
                            "host_mpi": "/opt/cray/pe/mpich/default/ofi/gnu/9.1/lib/libmpi_gnu_91.so.12",
                            "host_mpich": "/opt/cray/pe/mpich/default/ofi/gnu/9.1/lib/libmpi_gnu_91.so.12",
                            "mpich_launcher_options": ["--mpi=pmi2"],
                            # What Slingshot's provider opens, and where PMI leaves its files.
                            "binds": ["/var/spool/slurmd", "/opt/cray/libfabric"],
                        },
                    },
                },
            ],
        }
    ],
}
