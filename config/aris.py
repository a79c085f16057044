"""ARIS (GRNET): D12.6 section 4, GROMACS.

Three nodes of four sockets for HPC-Europa3, with Docker 18.06 and Singularity 3.2.1; and GPU nodes, which D12.6
used with 20 ranks on each of up to 16 nodes, and with two ranks and two GPUs. InfiniBand, Slurm, Open MPI 2.1.6, which
containers had from the host, without what InfiniBand needs. Its ranks were started by mpirun under Slurm; here by srun,
which gives a rank the cores of all its threads. What is not said there are the partitions' names, the memory of a node,
and whether software comes from modules: fill that in.
"""

#: UEABS's case A (section 4.2), and the checks that run it, from GROMACS compiled for these processors (section 4.3).
CASE_A = "/path/to/ueabs/gromacs/case-a/topol.tpr"
GROMACS = ("GROMACS", "GROMACSHybrid", "GROMACSKernels", "GROMACSNative", "GROMACSThreads")
SOFTWARE = {name: {"spack": "gromacs", "input": CASE_A} for name in GROMACS}

site_configuration = {
    "systems": [
        {
            "name": "aris",
            "descr": "GRNET ARIS, Athens",
            "hostnames": [r"login\d+\.aris\."],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "fat",
                    "descr": "4 x E5-4650 v2, InfiniBand",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "access": ["--partition=fat"],
                    "environs": ["builtin"],
                    "processor": {
                        "arch": "ivybridge",
                        "num_cpus": 40,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 10,
                        "num_sockets": 4,
                    },
                    "container_platforms": [{"type": "Singularity"}, {"type": "Docker"}],
                    # D12.6 section 4.2 has three of these nodes, which is no power of two.
                    "extras": {
                        "containercheck": {
                            "max_nodes": 3,
                            "node_counts": [3],
                            "memory_per_node": 512 << 30,
                            "software": SOFTWARE,
                        },
                    },
                },
                {
                    "name": "gpu",
                    "descr": "2 x E5-2660 v3, 2 x K40m, InfiniBand",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "access": ["--partition=gpu"],
                    "environs": ["builtin"],
                    "processor": {
                        "arch": "haswell",
                        "num_cpus": 20,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 10,
                        "num_sockets": 2,
                    },
                    "devices": [{"type": "gpu", "arch": "sm_35", "num_devices": 2}],
                    "resources": [{"name": "_rfm_gpu", "options": ["--gres=gpu:{num_gpus_per_node}"]}],
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {
                        "containercheck": {"max_nodes": 16, "memory_per_node": 64 << 30, "software": SOFTWARE},
                    },
                },
            ],
        }
    ],
}
