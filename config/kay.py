"""Kay (ICHEC): D12.6 section 5.2, WRF on 1 to 8 nodes.

2 x Xeon Gold 6148, 192 GB, Omni-Path, Slurm, CentOS 7, Singularity 2.6. EasyBuild's foss-2018b has compiler, Open MPI
and netCDF, bare and in the image (sections 5.4 and 5.5); on these WRF is compiled, from an easyconfig of ours, and the
image gets the tree that bare runs. The modules were of Environment Modules 3.2, which ReFrame knows no more. What is
not said there are the partition's name and where the modules lie: fill that in.
"""

site_configuration = {
    "systems": [
        {
            "name": "kay",
            "descr": "ICHEC Kay, Galway",
            "hostnames": [r"login\d*\.kay\."],
            "modules_system": "envmod",
            "partitions": [
                {
                    "name": "compute",
                    "descr": "2 x Gold 6148, Omni-Path",
                    "scheduler": "slurm",
                    "launcher": "mpirun",
                    "access": ["--partition=ProdQ"],
                    "environs": ["foss"],
                    "processor": {
                        "arch": "skylake_avx512",
                        "num_cpus": 40,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 20,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {
                        "containercheck": {
                            "max_nodes": 8,
                            "memory_per_node": 192 << 30,
                            "easybuild": "/path/to/easybuild/bin/eb",
                            "software": {"WRF": {"easybuild": "WRF-4.7.1-gompi-system-tropical_cyclone.eb"}},
                        },
                    },
                },
            ],
        }
    ],
    "environments": [
        {"name": "foss", "modules": ["netCDF-Fortran/4.4.4-foss-2018b"], "target_systems": ["kay"]},
    ],
}
