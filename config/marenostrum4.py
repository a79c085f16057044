"""MareNostrum4 (BSC): D12.6 section 6.9.1, Alya FSI on 4 to 256 nodes; D12.5 section 3.2, BT-MZ with DLB on one node.

2 x Xeon Platinum 8160, 96 GB, Omni-Path and Ethernet of 10 Gbit/s, Singularity 2.4.2. Open MPI and the GNU compilers
come from modules, several versions of each (D12.5 section 2.4.1). What is not said there are the batch system, the
partition's name and those of the modules: fill that in.
"""

#: Alya, of which each machine had its own image; the patterns read the log of the case, which is to be filled in.
ALYA = {
    "executable": "/path/to/alya/Alya.x",
    "image": "/path/to/alya.sif",
    "image_executable": "/opt/alya/Alya.x",
    "input": "/path/to/artery",
    "options": ["artery"],
    "patterns": {"ranks": r"processes +(\d+)"},
}
DLB = {"DLB_HOME": "/path/to/dlb"}
COLLOCATED = ("BTMZCollocation", "Collocation")

site_configuration = {
    "systems": [
        {
            "name": "marenostrum4",
            "descr": "BSC MareNostrum4, Barcelona",
            "hostnames": [r"login\d+\.mn4|mn4login"],
            "modules_system": "envmod",
            "partitions": [
                {
                    "name": "main",
                    "descr": "2 x Platinum 8160, Omni-Path",
                    "scheduler": "slurm",
                    "launcher": "srun",
                    "environs": ["openmpi"],
                    "time_limit": "48h",
                    "processor": {
                        "arch": "skylake_avx512",
                        "num_cpus": 48,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 24,
                        "num_sockets": 2,
                    },
                    "container_platforms": [{"type": "Singularity"}],
                    "extras": {
                        "containercheck": {
                            "max_nodes": 256,
                            "memory_per_node": 96 << 30,
                            # DLB of D12.5 section 2.3; BT-MZ is Spack's, as on all machines that name no other.
                            "software": {"Alya": ALYA, **{name: {"environ": DLB} for name in COLLOCATED}},
                        },
                    },
                },
            ],
        }
    ],
    "environments": [{"name": "openmpi", "modules": ["gcc", "openmpi"], "target_systems": ["marenostrum4"]}],
}
