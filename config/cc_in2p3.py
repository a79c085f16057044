"""CC-IN2P3: D12.6 section 9, RAMP and DB12 with Singularity 2.6.1 to 3.3.0, and start-up.

Three dedicated nodes, under Univa Grid Engine: one with CPUs only (32 cores, 100 GB), one with a K80 (16 cores, 130
GB), which is two GPUs, and one with a V100 (20 cores, 190 GB). CentOS 7.6, no MPI. The names of queues and of the
parallel environment, and the sockets of a node, are not in D12.6: fill them in.
"""

#: RAMP on GPUs (section 9.2): the same conda environment bare and in a container, with the host's CUDA, or the image's.
RAMP = {
    "executable": "/path/to/conda/bin/python",
    "environ": {"LD_LIBRARY_PATH": "/path/to/cuda/lib64"},
    "image": "/path/to/ramp.sif",
    "image_executable": "/path/to/conda/bin/python",
    "binds": ["/path/to/conda"],
}

site_configuration = {
    "systems": [
        {
            "name": "cc-in2p3",
            "descr": "CC-IN2P3, Lyon",
            "hostnames": [r"cca\d+|ccwsge"],
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "cpu",
                    "descr": "32 cores",
                    "scheduler": "sge",
                    "launcher": "local",
                    "access": ["-q mc_long"],
                    "environs": ["builtin"],
                    "processor": {
                        "arch": "x86_64",
                        "num_cpus": 32,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 16,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {
                        "containercheck": {
                            "max_nodes": 1,
                            "memory_per_node": 100 << 30,
                            "parallel_environment": "multicores",
                        },
                    },
                },
                {
                    "name": "k80",
                    "descr": "16 cores, K80",
                    "scheduler": "sge",
                    "launcher": "local",
                    "access": ["-q mc_gpu_long", "-l GPUtype=K80"],
                    "environs": ["builtin"],
                    "processor": {
                        "arch": "x86_64",
                        "num_cpus": 16,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 8,
                        "num_sockets": 2,
                    },
                    "devices": [{"type": "gpu", "arch": "sm_37", "num_devices": 2}],
                    "resources": [{"name": "_rfm_gpu", "options": ["-l GPU={num_gpus_per_node}"]}],
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {
                        "containercheck": {
                            "max_nodes": 1,
                            "memory_per_node": 130 << 30,
                            "parallel_environment": "multicores",
                            "software": {"RAMP": RAMP, "TensorFlowCNN": RAMP},
                        },
                    },
                },
                {
                    "name": "v100",
                    "descr": "20 cores, V100",
                    "scheduler": "sge",
                    "launcher": "local",
                    "access": ["-q mc_gpu_long", "-l GPUtype=V100"],
                    "environs": ["builtin"],
                    "processor": {
                        "arch": "x86_64",
                        "num_cpus": 20,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 10,
                        "num_sockets": 2,
                    },
                    "devices": [{"type": "gpu", "arch": "sm_70", "num_devices": 1}],
                    "resources": [{"name": "_rfm_gpu", "options": ["-l GPU={num_gpus_per_node}"]}],
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {
                        "containercheck": {
                            "max_nodes": 1,
                            "memory_per_node": 190 << 30,
                            "parallel_environment": "multicores",
                            "software": {"RAMP": RAMP, "TensorFlowCNN": RAMP},
                        },
                    },
                },
            ],
        }
    ],
}
