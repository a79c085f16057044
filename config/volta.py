"""Volta (Sandia): SANDIA sections IV to VI, IMB and HPCG to 768 ranks on 32 nodes.

A Cray XC30: 56 nodes of 2 x E5-2695 v2, 64 GB, Aries, CNL 5.2. The integrated container had Cray's MPI, of MPICH's
ABI, and with it 99.4 % of the bandwidth; Intel MPI in the image knew no Aries, and had 39.5 %. /opt/cray and
/var/opt/cray were mounted into every container (section V). The path of Cray's library is not in the paper, nor is
the batch system: it names aprun, and here it is Slurm's own launcher. Fill that in.
"""

IMAGE = "/path/to/hpcg-container.sif"

site_configuration = {
    "systems": [
        {
            "name": "volta",
            "descr": "Sandia Volta, Cray XC30",
            "hostnames": [r"volta"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "compute",
                    "descr": "2 x E5-2695 v2, Aries",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "environs": ["builtin"],
                    "processor": {
                        "arch": "ivybridge",
                        "num_cpus": 48,
                        "num_cpus_per_core": 2,
                        "num_cpus_per_socket": 24,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {
                        "containercheck": {
                            "max_nodes": 32,
                            "memory_per_node": 64 << 30,
                            "mpi": "mpich",
                            # Of the compiler that the bare programs are built with; this directory has Cray's libraries
                            # by the names of MPICH's ABI.
                            "host_mpi": "/opt/cray/mpt/default/gni/mpich-gnu-abi/4.9/lib/libmpi.so.12",
                            "host_mpich": "/opt/cray/mpt/default/gni/mpich-gnu-abi/4.9/lib/libmpi.so.12",
                            "mpich_launcher_options": ["--mpi=pmi2"],
                            "binds": ["/opt/cray", "/var/opt/cray"],
                            # The public image (section IV.B) has both programs, and Intel MPI.
                            "images": {"imb": IMAGE, "hpcg": IMAGE},
                            "software": {"IMB": {"spack": "imb"}},
                        },
                    },
                },
            ],
        }
    ],
}
