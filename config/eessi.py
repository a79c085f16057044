"""A cluster with the software of EESSI: an example, of no document.

Software comes from the modules of a file system that all nodes mount, for the processor of each. A container has them
too, where that directory is bound into an image of the operating system: as for GROMACS here, with the same program on
both sides.
"""

#: GROMACS of EESSI, for the processors of this partition.
GROMACS = "GROMACS/2024.1-foss-2023b"
PREFIX = "/cvmfs/software.eessi.io/versions/2023.06/software/linux/x86_64/amd/zen4"

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
                        "containercheck": {
                            "max_nodes": 64,
                            "memory_per_node": 768 << 30,
                            "software": {
                                "GROMACS": {
                                    "modules": ["EESSI/2023.06", GROMACS],
                                    # Any: the tree brings its own libraries, to the C library.
                                    "image": "/shared/images/debian.sif",
                                    "image_executable": f"{PREFIX}/software/{GROMACS}/bin/gmx_mpi",
                                    "binds": ["/cvmfs"],
                                },
                            },
                        },
                    },
                },
            ],
        }
    ],
}
