"""Amazon EC2, c3.8xlarge: SANDIA sections V and VI, IMB and HPCG to 768 ranks on 48 instances.

Two Ivy Bridge sockets of 8 cores with two hardware threads each, which were not used; 60 GB, Ethernet of 10 Gbit/s by
SR-IOV, RHEL 7, Docker. The image, which is public as ajyounge/hpcg-container (section IV.B), has IMB and HPCG with
Intel MPI, of MPICH's ABI, and an SSH server to start them with; how is not said: here by Slurm, as clusters in a cloud
have it. No digest is published, without which no image is pulled: replace the zeros by it. Docker builds no images of
other checks, whose containers are skipped until a site names ready ones.
"""

IMAGE = "ajyounge/hpcg-container@sha256:" + 64 * "0"

site_configuration = {
    "systems": [
        {
            "name": "ec2",
            "descr": "Amazon EC2, c3.8xlarge",
            "hostnames": [r"ip-\d+-\d+-\d+-\d+"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "c3-8xlarge",
                    "descr": "2 x 8 cores, 10 Gbit/s",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "environs": ["builtin"],
                    "time_limit": "24h",
                    "processor": {
                        "arch": "ivybridge",
                        "num_cpus": 32,
                        "num_cpus_per_core": 2,
                        "num_cpus_per_socket": 16,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Docker"}],
                    "extras": {
                        "containercheck": {
                            "max_nodes": 48,
                            # SANDIA figures 4 and 5: 768 ranks.
                            "node_counts": [48],
                            "memory_per_node": 60 << 30,
                            "mpi": "mpich",
                            "images": {"imb": IMAGE, "hpcg": IMAGE},
                        },
                    },
                },
            ],
        }
    ],
}
