"""MARCONI A3 (CINECA): D12.6 section 7, TensorFlow and Quantum ESPRESSO on 1 to 10 nodes; D12.5 section 3.3.

2 x Xeon 8160, 192 GB, Omni-Path. Software comes from modules (D12.5 section 2.4.2), as does Singularity 3.0.2 (D12.6
section 7.3.1). Quantum ESPRESSO with Intel MPI 2018 was some five times as fast as with Open MPI, so the first is the
partition's: it has MPICH's ABI, and integrated takes the library that the bare program loads. What is not said there
are the batch system, the partition's name and that of Intel MPI's module: fill that in.
"""

#: The slabs of zirconium silicide (section 7.4.1), in files that the check names; and PMEMD of D12.5 section 3.3.2.
SLABS = {"input": "/path/to/zirconium-silicide"}
AMBER = {"modules": ["amber/16"], "input": "/path/to/pmemd", "image": "/path/to/amber.sif"}

site_configuration = {
    "systems": [
        {
            "name": "marconi",
            "descr": "CINECA MARCONI A3, Bologna",
            "hostnames": [r"r\d+c\d+s\d+|login\d+\.marconi"],
            "modules_system": "envmod",
            "partitions": [
                {
                    "name": "skylake",
                    "descr": "2 x Platinum 8160, Omni-Path",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "access": ["--partition=skl_usr_prod"],
                    "environs": ["intelmpi"],
                    "time_limit": "24h",
                    "processor": {
                        "arch": "skylake_avx512",
                        "num_cpus": 48,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 24,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Singularity", "modules": ["singularity/3.0.2"]}],
                    "extras": {
                        "containercheck": {
                            "max_nodes": 10,
                            # Of D12.6 figures 7.5 (3) and 7.3, 7.4 (10).
                            "node_counts": [3, 10],
                            "memory_per_node": 192 << 30,
                            "mpi": "mpich",
                            "mpich_launcher_options": ["--mpi=pmi2"],
                            "image_launcher_options": ["--mpi=pmi2"],
                            "software": {
                                "QuantumEspresso": {"modules": ["qe/6.3"], **SLABS},
                                "QuantumEspressoMPI": SLABS,
                                "QuantumEspressoDLB": {"environ": {"DLB_HOME": "/path/to/dlb"}},
                                # Compiled for these processors, which the image's is not (section 7.3.1).
                                "TensorFlowCNN": {"spack": "tensorflow", "stack": "debian"},
                                "Amber": AMBER,
                                "AmberDLB": {**AMBER, "environ": {"DLB_HOME": "/path/to/dlb"}},
                            },
                        },
                    },
                },
            ],
        }
    ],
    "environments": [{"name": "intelmpi", "modules": ["intelmpi/2018"], "target_systems": ["marconi"]}],
}
