"""The testbed of CHPCE: section "Experimental testbed", HPCC with 4 to 64 processes, IOzone.

x86 and OpenPOWER (POWER8, up to 12 cores a socket, eight hardware threads a core) servers with 10 Gbit/s between them,
under OpenStack and Slurm; 70 % of the memory were some 90 GB. MPI was MPICH over TCP, as the profiles show (section
"DGEMM": MPIDI_CH3I_Progress and MPID_nem_tcp_connpoll). Table 3, with the numbers of nodes and cores and the
processors, is not in the text: fill them in, and with them "peak_per_core", of which HPL had 63.71 % on x86 and 86.50 %
on OpenPOWER (section "Compute performance"). The containers were the group's own (cHPCe); here it is whatever runtime
the site has.

Processes were divided equally among the nodes (section "Compute performance"). OpenPOWER's, though, were all on one
node by one paragraph of section "Interconnect performance" (latency), and not by another (bandwidth): 64 of them were
then probably on hardware threads. Here ranks have cores, on both.
"""

#: Ranks on each of four nodes that make 24, 48 and 56 processes: CHPCE's that are no powers of two.
RANKS = [6, 12, 14]

site_configuration = {
    "systems": [
        {
            "name": "chpce",
            "descr": "CHPCE testbed, x86 and OpenPOWER",
            "hostnames": [r"amber"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "x86",
                    "descr": "Xeon, 10 Gbit/s",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "access": ["--partition=x86"],
                    "environs": ["builtin"],
                    "processor": {
                        "arch": "x86_64",
                        "num_cpus": 16,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 8,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {
                        "containercheck": {
                            "max_nodes": 4,
                            "core_counts": RANKS,
                            "memory_per_node": 128 << 30,
                            "mpi": "mpich",
                            "software": {"HPCC": {"spack": "hpcc"}, "IOzone": {"spack": "iozone"}},
                        },
                    },
                },
                {
                    "name": "openpower",
                    "descr": "POWER8, 10 Gbit/s",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "access": ["--partition=openpower"],
                    "environs": ["builtin"],
                    "processor": {
                        "arch": "power8le",
                        "num_cpus": 128,
                        "num_cpus_per_core": 8,
                        "num_cpus_per_socket": 64,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {
                        "containercheck": {
                            "max_nodes": 4,
                            "core_counts": RANKS,
                            "memory_per_node": 128 << 30,
                            "mpi": "mpich",
                            # Spack's recipe of IOzone is for x86-64.
                            "software": {"HPCC": {"spack": "hpcc"}},
                        },
                    },
                },
            ],
        }
    ],
}
