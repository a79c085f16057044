"""EXCESS (HLRS): D12.6 section 8, Ping Pong, OpenFOAM, Palabos, PACE3D and data analytics on one and two nodes.

Of its nodes the document used the first two: 2 x Ivy Bridge of 10 cores, 32 GB, FDR InfiniBand with UCX, verbs, and
TCP over it. No batch system is named: ReFrame runs on one of them. Scientific Linux 6 and CentOS 7.6.
"""

site_configuration = {
    "systems": [
        {
            "name": "excess",
            "descr": "HLRS EXCESS, Stuttgart",
            "hostnames": [r"node0[12]|excess"],
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
                    "extras": {"max_nodes": 2, "memory_per_node": 32 << 30},
                },
            ],
        }
    ],
}
