"""Template of a site file: copy it, fill in the names, and name it in RFM_CONFIG_FILES (or with -C).

    export RFM_CONFIG_FILES=/this/repository/config/common.py:/site/settings.py
    reframe -c checks/ -r

It is plain ReFrame configuration (ReFrame's manual has every key). What the checks read beyond ReFrame's own is below,
and all of it is optional. Without any site file the checks run on one node, with mpirun and the runtime on the PATH.
"""

site_configuration = {
    "systems": [
        {
            "name": "mycluster",
            "descr": "what it is",
            # Regular expressions; the system is chosen by the name of the host that ReFrame runs on.
            "hostnames": [r"login\d+\.mycluster"],
            # Needed only where software comes from modules: nomod, envmod (Environment Modules 4.1 or newer), lmod
            # or spack. lmod needs the variable LMOD_CMD, which a login shell sets: bash -lc in cron.
            "modules_system": "nomod",
            "partitions": [
                {
                    "name": "compute",
                    "descr": "2 x 24 cores, fabric",
                    # slurm; squeue where there is no accounting (no sacct); pbs, torque, sge, lsf, flux ...
                    "scheduler": "slurm",
                    # srun, or mpirun where it is built for the scheduler.
                    "launcher": "srun",
                    "access": ["--partition=compute", "--account=bench"],
                    "environs": ["builtin"],
                    # Jobs at once. Each has its nodes to itself; what they share is the network and the file systems.
                    "max_jobs": 8,
                    # The longest job. Without it each asks for what its rounds take at most.
                    "time_limit": "12h",
                    # Ranks, threads and problem sizes follow from these; detected where they are absent, which on
                    # another machine than this one takes a job of its own.
                    "processor": {
                        # archspec's name of the processor (archspec cpu, on a node), for which software is compiled; or
                        # the name that uname -m prints, such as x86_64.
                        "arch": "skylake_avx512",
                        "num_cpus": 48,
                        "num_cpus_per_core": 1,
                        "num_cpus_per_socket": 24,
                        "num_sockets": 2,
                    },
                    # The GPUs of a node. GROMACS, TensorFlow and the U-Net must then use them. Their containers get the
                    # runtime's option for NVIDIA's (sm_70), such as --nv, or for AMD's (gfx90a), such as --rocm. Spack
                    # compiles for them. The pinned TensorFlow uses no GPU: 'software' below names one that does.
                    "devices": [{"type": "gpu", "arch": "sm_70", "num_devices": 4}],
                    # How a job asks for them; and for memory, where it must. {size} is that of each node, as in 96000M:
                    # all memory_per_node for a job that has its nodes to itself, for any other twice what its run is
                    # expected to take, and 2 GiB at least. Without an entry, nothing is asked for.
                    "resources": [
                        {"name": "_rfm_gpu", "options": ["--gres=gpu:{num_gpus_per_node}"]},
                        {"name": "memory", "options": ["--mem={size}"]},
                    ],
                    # The first is the default; the full axes run the others too. 'modules' and 'env_vars' of a runtime
                    # are loaded for it.
                    # Apptainer, Singularity, Podman, Charliecloud, Docker, Sarus, Shifter, or Pyxis, which takes the
                    # launcher srun. What a runtime needs on the nodes, such as
                    # CONTAINERS_CONF for a Podman that is to use runc, goes into its env_vars.
                    "container_platforms": [{"type": "Apptainer", "modules": []}],
                    # What ours read. Beside it, other test libraries may have their own; within it, a key that is not
                    # known is an error.
                    "extras": {
                        "containercheck": {
                            # Largest node count: 1, 2, 4 ... up to this are generated. Default: 1.
                            "max_nodes": 16,
                            # Further node counts, up to that: those of a document, or of your usual jobs.
                            "node_counts": [3, 10],
                            # Further numbers of ranks on a node, below that of its cores, on the full axes: 6 on each
                            # of 4 nodes are the 24 processes of a document.
                            "core_counts": [6],
                            # Bytes of memory that a job may have on a node (Slurm's RealMemory), for problem sizes and
                            # requests; what needs more is skipped. Default: this machine's for local jobs.
                            "memory_per_node": 96 << 30,
                            # Peak of a core in GFLOPS (double precision): HPL and HPCC are told in percent of it too.
                            "peak_per_core": 51.2,
                            # Longest wait in the queue; then the job is cancelled and the check fails. Default: for
                            # ever.
                            "max_pending_time": "12h",
                            # Whether jobs have their nodes to themselves. Default: True.
                            "exclusive": True,
                            # Whether measurements wait for other measurements and image builds on the same machine.
                            # Default: no where jobs have their nodes to themselves, yes elsewhere.
                            "machine_lock": False,
                            # Grid Engine's parallel environment for MPI; slots are asked for in it.
                            "parallel_environment": "mpi",
                            # How ranks are bound: "cores", "none", or "launcher" for the launcher's own way. Default:
                            # "cores", and without a scheduler "launcher".
                            "binding": "cores",
                            # Python of the nodes, 3.6 or newer. Default: python3 on their PATH.
                            "python": "/usr/bin/python3",
                            # Whether images, Python environments and programs of ours are built by a job on a node,
                            # which then has to reach what they are downloaded from. Default: where ReFrame's machine is
                            # of another architecture than 'arch'.
                            "build_on_node": False,
                            # More options of the jobs that build, after 'access': which nodes reach the outside, say.
                            "build_access": ["--partition=build"],
                            # Whether the energy of jobs on one node is compared too (Cray's counters, or RAPL, which
                            # users must be allowed to read). Jobs need their nodes to themselves. Slurm's own figure
                            # is of a job step, which a run need not be (mpirun on one node, no MPI): it is not read.
                            "energy": False,
                            # Whether its processors are emulated, as by qemu: what they take is reported, not judged.
                            "emulated": False,
                            # Family of the partition's MPI, for which images are built: openmpi or mpich (MPICH,
                            # Cray's, Intel's, MVAPICH). Default: what the name of host_mpi tells, else openmpi.
                            "mpi": "openmpi",
                            # The MPI library that the integrated variant brings in. Default: what the bare program
                            # loads.
                            "host_mpi": "/opt/openmpi/lib/libmpi.so.40",
                            # The host's library of MPICH's ABI, for IMB. Default: what the loader finds.
                            "host_mpich": "/opt/mpich/lib/libmpi.so.12",
                            # Options with which the launcher starts them. Default: Hydra's mpiexec in its place.
                            "mpich_launcher_options": ["--mpi=pmi2"],
                            # More options of the launcher where an image runs with its own MPI, which may not speak the
                            # PMI that the host's speaks.
                            "image_launcher_options": ["--mpi=pmi2"],
                            # A network that containers on all nodes join, by its name in the runtime: an overlay, for
                            # podman+overlay (ci/docs/images.md). Default: none; several nodes are skipped.
                            "container_network": "overlay",
                            # Files and directories that every container has too, as path or path:target: what the
                            # launcher's PMI needs, say. What belongs to the host's MPI, integrated finds by itself.
                            "binds": ["/var/spool/slurmd"],
                            # Ready images by recipe, instead of building images/<recipe>.def: a path, or a name in a
                            # registry with its digest: docker://host/hpcc@sha256:... for Apptainer and Singularity,
                            # host/hpcc@sha256:... for Docker, Sarus (1.5 and newer) and Shifter. A Shifter whose
                            # gateway cannot pull by digest takes a tag; the results say what that led to.
                            "images": {"hpcc": "/shared/images/hpcc.sif"},
                            # Registry that containercheck images push copies the images to. Default: none.
                            "image_registry": "oras://registry.example.org/containercheck",
                            # Fingerprint of the PGP key in Apptainer's keyring that signs the images there. If it is
                            # set, an image of a registry is used only if it has a signature of this key. Default: none.
                            "image_key": "E4B98F6EA93DE537FB6415C1A0BC05D6A5A7E793",
                            # Spack's command, for software that comes from it. Default: spack on the PATH.
                            "spack": "/apps/spack/bin/spack",
                            # What the environments in spack-envs/ include of the site's: compilers and MPI as
                            # externals, mirrors, build caches, upstreams. Default: nothing but Spack's own
                            # configuration. What it wants of a package is under 'prefer': with a 'require' of its own,
                            # Spack forgets the target.
                            "spack_site": "/site/containercheck/spack.yaml",
                            # EasyBuild's command, for software that comes from it. Default: eb on the PATH. The
                            # system's modules_system loads what it installs.
                            "easybuild": "/apps/easybuild/bin/eb",
                            # Its configuration file for that: where sources and other easyconfigs lie, optarch ...
                            # Default: EasyBuild's own.
                            "easybuild_site": "/site/containercheck/easybuild.cfg",
                            # Where images, programs, environments and inputs lie; all nodes must see it. Default:
                            # ~/.cache/containercheck.
                            "caches": "/shared/containercheck",
                            # Whose files in these caches are used, besides the user's own and root's: the account that
                            # fills them for all, say. Names or numbers; of groups, whose members may write there, with
                            # an @ before them. Where a user may not write, or finds another's, ~/.cache is taken.
                            "cache_owners": ["hpctest", "@hpcstaff"],
                            # Accepted overheads of this partition's own, by check and metric: in percent, or in the
                            # unit of a metric that is compared by difference. Default: the check's.
                            "tolerances": {"StartUp": {"start": 1.0}, "GROMACS": {"rate": 3.0}},
                            # Directory of the site's own references, a file <Check>.yaml each. It may be absent: after
                            # ten nights, containercheck references --write makes it. Default: checks/references.
                            "references": "/site/containercheck/references",
                            # Software of the site's own, by check: another program bare and in the container. Each key
                            # is optional and takes the place of what the check, or -S, says. Default: the check's.
                            "software": {
                                "GROMACS": {
                                    # Loaded by the job and by the build step, where an absent module or program is a
                                    # skip.
                                    "modules": ["GROMACS/2024.1"],
                                    # Variables of the bare program only, as they are.
                                    "environ": {"GMX_MAXBACKUP": "-1"},
                                    # The bare program, a path or a name; and that of the container.
                                    "executable": "gmx_mpi",
                                    "image_executable": "/usr/local/gromacs/avx_512/bin/gmx_mpi",
                                    # Or where that comes from: an environment of Spack, by its name in spack-envs/ or
                                    # by the path of its directory. The program is looked for in its view.
                                    "spack": None,
                                    # Or an easyconfig, in place of that: by its name in easyconfigs/, by that of one
                                    # that EasyBuild has, or by its path.
                                    "easybuild": None,
                                    # "same" for images with the tree of Spack or EasyBuild that bare runs, "debian" for
                                    # those of the recipe's own software. Default: the first, where it can be packed.
                                    "stack": None,
                                    # A ready image, in place of that in 'images'.
                                    "image": "/shared/images/gromacs-2024.sif",
                                    # Files and directories for this application's containers, besides 'binds' above.
                                    # With a tree of the site's software, image_executable may be a program in it.
                                    "binds": [],
                                    # For bare and container.
                                    "launcher_options": ["--hint=nomultithread"],
                                    # In percent, for metrics that name none of their own; 'tolerances' goes before it.
                                    "tolerance": 3.0,
                                    # The document's own input: a path, or address#sha256=<digest>, fetched once.
                                    # Default: the embedded input. What each check takes is in its docstring.
                                    "input": "/shared/inputs/ueabs-case-a/topol.tpr",
                                    # For Alya, Amber and PACE3D only, whose program and input are the site's: how the
                                    # program is run, as in ["sphere"]; and what its output looks like, by metric or
                                    # answer: {"LUPS": r"^performance (\S+)", "ranks": r"^processes (\d+)"}.
                                    "options": [],
                                    "patterns": {},
                                },
                            },
                            # File systems that IOzone measures besides the one of the stage directory, by name.
                            "file_systems": {"scratch": "/scratch/$USER", "local": "/tmp"},
                            # Debian that images are built from, by its code name. Default: the oldest that is supported
                            # and whose C library is not older than that of the nodes, which a job of a second asks for
                            # it.
                            "release": "bookworm",
                            # Debian mirror for building images. Default: the one of this machine's apt.
                            "image_mirror": None,
                            # Where the results of nights are sent, by a name of yours; ci/docs/operations.md has the
                            # kinds. An address or token that is a secret lies in a file or a variable, never here.
                            "sinks": {
                                "prometheus": {"kind": "openmetrics", "path": "/var/lib/prometheus/node-exporter"},
                                "team": {"kind": "slack", "secret_file": "~/.config/containercheck/webhook"},
                            },
                        },
                    },
                }
            ],
        }
    ],
    # The environment that 'environs' above names. The module of the MPI of all checks is named here; it needs another
    # modules_system than nomod.
    "environments": [
        {"name": "builtin", "modules": ["openmpi/4.1.6"], "cc": "mpicc", "cxx": "mpicxx", "ftn": "mpif90"},
    ],
    # Where reports and results database lie. Default: reports/ of the checkout. The variables RFM_REPORT_FILE and
    # RFM_SQLITE_DB_FILE come before them. A report's name has no {sessionid}: ci/run goes on with the last one.
    "general": [{"report_file": "/site/containercheck/run-report.json"}],
    "storage": [{"sqlite_db_file": "/site/containercheck/results.db"}],
}
