"""EXCESS (HLRS): D12.6 section 8, Ping Pong, OpenFOAM, Palabos, PACE3D and data analytics on one and two nodes.

Of its nodes D12.6 used the first two: 2 x Ivy Bridge of 10 cores, 32 GB, FDR InfiniBand with UCX, verbs, and
TCP over it; the second has a K40 too, which only checks on that node alone use. The third is 2 x E5-2680 v3 of 12
cores, 128 GB; the fourth, a Xeon Phi, is left out. Scientific Linux 6 and CentOS 7.6, Open MPI 4.0.1, Singularity
3.1.1.
No batch system is named: ReFrame runs on one of them, which the name of the partition has to fit
(``--system=excess:haswell`` on node03), and Open MPI finds another in the file that OMPI_MCA_orte_default_hostfile
names.
"""

#: PACE3D of KIT (section 8.1.4), whose output is not public: fill in the patterns. The text of the MPI 3.0 standard.
PACE3D = {
    "executable": "/path/to/pace3d/pace3d.x",
    "image": "/path/to/pace3d.sif",
    "input": "/path/to/sintering",
    "options": ["sintering.in"],
    "patterns": {"LUPS": r"^LUPS +(\S+)", "ranks": r"^processes +(\d+)"},
}
SOFTWARE = {"OpenFOAM": {"spack": "openfoam"}, "PACE3D": PACE3D, "WordCount": {"input": "/path/to/mpi30-report.txt"}}

site_configuration = {
    "systems": [
        {
            "name": "excess",
            "descr": "HLRS EXCESS, Stuttgart",
            "hostnames": [r"node0[1-3]|excess"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "ivybridge",
                    "descr": "2 x Ivy Bridge, 10 cores, FDR",
                    "scheduler": "local",
                    "launcher": "mpirun",
                    "environs": ["builtin"],
                    "processor": {
                        "arch": "ivybridge",
                        "num_cpus": 20,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 10,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {
                        "containercheck": {"max_nodes": 2, "memory_per_node": 32 << 30, "software": SOFTWARE},
                    },
                },
                {
                    "name": "k40",
                    "descr": "2 x Ivy Bridge, 10 cores, K40: node02 alone",
                    "scheduler": "local",
                    "launcher": "mpirun",
                    "environs": ["builtin"],
                    "processor": {
                        "arch": "ivybridge",
                        "num_cpus": 20,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 10,
                        "num_sockets": 2,
                    },
                    "devices": [{"type": "gpu", "arch": "sm_35", "num_devices": 1}],
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {
                        "containercheck": {"max_nodes": 1, "memory_per_node": 32 << 30, "software": SOFTWARE},
                    },
                },
                {
                    "name": "haswell",
                    "descr": "2 x E5-2680 v3, FDR",
                    "scheduler": "local",
                    "launcher": "mpirun",
                    "environs": ["builtin"],
                    "processor": {
                        "arch": "haswell",
                        "num_cpus": 24,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 12,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {
                        "containercheck": {"max_nodes": 1, "memory_per_node": 128 << 30, "software": SOFTWARE},
                    },
                },
            ],
        }
    ],
}
