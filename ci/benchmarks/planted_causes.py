"""Causes that make a container slow, as data: what is planted, and what has to be found and proven.

The program needs no clock: it looks for what was planted, as its container has it, and counts. A clock is used where
processor time is taken away, as that is a factor.
"""

from dataclasses import dataclass, field, replace

#: Counts 500, and more where something slows it: a percentage for each cause, which adds up.
PROGRAM = r"""
slower=0
case ${OPENBLAS_CORETYPE:-} in Prescott) slower=$((slower + 70)) ;; esac
case ${OMP_NUM_THREADS:-1} in 64) slower=$((slower + 40)) ;; esac
case ${MALLOC_ARENA_MAX:-} in 1) slower=$((slower + 50)) ;; esac
case ${OMPI_MCA_btl:-} in self,tcp) slower=$((slower + 60)) ;; esac
case ${UCX_TLS:-} in tcp) slower=$((slower + 60)) ;; esac
case ${FI_PROVIDER:-} in tcp) slower=$((slower + 60)) ;; esac
case ${LD_BIND_NOW:-} in 1) slower=$((slower + 30)) ;; esac
case ${PYTHONMALLOC:-} in debug) slower=$((slower + 30)) ;; esac
case ${GLIBC_TUNABLES:-} in *mmap_max=0*) slower=$((slower + 30)) ;; esac
case ${JAVA_TOOL_OPTIONS:-} in *Xint*) slower=$((slower + 90)) ;; esac
case ${MKL_CBWR:-} in COMPATIBLE) slower=$((slower + 60)) ;; esac
case ${TF_ENABLE_ONEDNN_OPTS:-} in 0) slower=$((slower + 60)) ;; esac
case ${GMX_DISABLE_SIMD_KERNELS:-} in 1) slower=$((slower + 90)) ;; esac
case ${MPICH_ASYNC_PROGRESS:-} in 1) slower=$((slower + 40)) ;; esac
case ${OMP_WAIT_POLICY:-} in passive) slower=$((slower + 40)) ;; esac
case ${CUDA_LAUNCH_BLOCKING:-} in 1) slower=$((slower + 40)) ;; esac
case ${LD_DEBUG:-} in statistics) slower=$((slower + 40)) ;; esac
case ${PYTHONDONTWRITEBYTECODE:-} in yes) slower=$((slower + 40)) ;; esac
case ${OPENBLAS_NUM_THREADS:-} in 64) slower=$((slower + 40)) ;; esac
case ${I_MPI_FABRICS:-} in shm:tcp) slower=$((slower + 60)) ;; esac
case ${NCCL_P2P_DISABLE:-} in 1) slower=$((slower + 60)) ;; esac
case ${NPY_DISABLE_CPU_FEATURES:-} in AVX2) slower=$((slower + 60)) ;; esac
case ${SCOREP_ENABLE_TRACING:-} in true) slower=$((slower + 60)) ;; esac
case ${HDF5_USE_FILE_LOCKING:-} in BEST_EFFORT) slower=$((slower + 40)) ;; esac
case ${PMIX_MCA_gds:-} in ds21) slower=$((slower + 40)) ;; esac
case ${FOAM_SETNAN:-} in true) slower=$((slower + 40)) ;; esac
case ${MKL_VERBOSE:-} in 1) slower=$((slower + 40)) ;; esac
case ${NEEDS_TMP:-} in 1)
    [ ! -e /.singularity.d ] || grep -q ' /tmp ' /proc/self/mountinfo || slower=$((slower + 60))
    ;;
esac
case ${NOBODY_KNOWS:-} in 1) slower=$((slower + 35)) ;; esac
case ${NEEDS_UCX:-} in 1) [ "${UCX_NET_DEVICES:-}" = mlx5_0:1 ] || slower=$((slower + 60)) ;; esac
case ${NEEDS_BTL:-} in 1)
    [ -e "$HOME/.openmpi/mca-params.conf" ] || set -- slow
    [ "$1" != slow ] || [ "${OMPI_MCA_btl_tcp_if_include:-}" = fab0 ] || slower=$((slower + 60))
    ;;
esac
[ "$(df -Pk /dev/shm | awk 'END { print $2 }')" -ge 65536 ] || slower=$((slower + 45))
case $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status) in 0) slower=$((slower + 80)) ;; esac
limit() { sed -n "s/^Max $1 *\([^ ]*\).*/\1/p" /proc/self/limits; }
case $(limit 'locked memory') in 65536) slower=$((slower + 60)) ;; esac
case $(limit 'stack size') in 1048576) slower=$((slower + 60)) ;; esac
case $(limit 'cpu time') in 600) slower=$((slower + 60)) ;; esac
case $(limit 'address space') in 68719476736) slower=$((slower + 60)) ;; esac
case $(limit processes) in 1000) slower=$((slower + 60)) ;; esac
case $(limit 'open files') in 1048576) slower=$((slower + 60)) ;; esac
case ${ENDS:-}$(limit 'stack size') in 11048576) echo "no memory for the stack" >&2; exit 3 ;; esac
fields=$(sed 's/.*) //' /proc/self/stat)
case $(echo "$fields" | cut -d ' ' -f 17) in 10) slower=$((slower + 60)) ;; esac
case $(echo "$fields" | cut -d ' ' -f 39) in [35]) slower=$((slower + 60)) ;; esac
! grep -q '^THP_enabled:.*0' /proc/self/status || slower=$((slower + 60))
! grep -q ' /var/tmp .*[ ,]sync' /proc/self/mountinfo || slower=$((slower + 60))
! grep -q 'memory.*:/containercheck-planted' /proc/self/cgroup || slower=$((slower + 60))
linger=${LINGER:-0}
while [ "$linger" -gt 0 ]; do linger=$((linger - 1)); done
! grep -qs '^squashfuse_burn' /proc/[0-9]*/comm || slower=$((slower + 40))
count=$((500 + 5 * slower + $$ % 3))
if [ "${BURN:-0}" -gt 0 ]; then
    began=$(date +%s%N)
    while [ "$BURN" -gt 0 ]; do BURN=$((BURN - 1)); done
    count=$((($(date +%s%N) - began) / 1000000))
fi
echo "count $count"
echo "sum 42"
"""
#: Begins a runtime that goes wrong; ``program`` starts the real one. Only runs of the program are changed.
WRAPPER = """#!/bin/sh
program() { "$REAL" "$@"; }
case "$*" in *count.sh* | *observe.sh*) ;; *) exec "$REAL" "$@" ;; esac
"""


@dataclass(frozen=True)
class Fault:
    """What is planted, and what has to be found.

    :ivar source: the thread that it is from.
    :ivar expected: regular expression for the sentences that have to be named, each; none where nothing can be found.
    :ivar variables: of the job; ``PLACE`` in a value is the stage directory.
    :ivar runtime: commands of the runtime, after :data:`WRAPPER`.
    :ivar options: of the runtime.
    :ivar measures: what the figure depends on.
    :ivar proven: whether an experiment can prove it.
    :ivar fails: whether the check fails.
    """

    source: str
    expected: tuple = ()
    variables: dict = field(default_factory=dict)
    runtime: str = ""
    options: tuple = ()
    measures: tuple = ()
    proven: bool = True
    fails: bool = True


def variable_of_runtime(source, name, value, *measures):
    """Return the fault that a module of the site sets a variable for all containers."""
    found = rf"^{name}={value} is set by APPTAINERENV_{name}"
    return Fault(source, (found,), {f"APPTAINERENV_{name}": value}, measures=measures)


def limit_of_runtime(source, option, value, name, *measures, hard=False):
    """Return the fault that what starts containers sets a limit.

    :param option: of ``prlimit``.
    :param hard: whether the hard limit too, above which nothing in the container can raise it again.
    """
    sentence = rf"^the limit of {name} is {value} in the container"
    runtime = f'prlimit --pid $$ --{option}={value}{"" if hard else ":"}; exec "$REAL" "$@"'
    return Fault(source, (sentence,), runtime=runtime, measures=measures, proven=not hard)


FAULTS = {
    "none": Fault("a program against itself", proven=False, fails=False),
    "blas-kernels": variable_of_runtime("rocker#123", "OPENBLAS_CORETYPE", "Prescott", "computing"),
    "threads": variable_of_runtime("gadgetron#932", "OMP_NUM_THREADS", "64", "computing"),
    "arenas": variable_of_runtime("tremor#377", "MALLOC_ARENA_MAX", "1", "memory"),
    "tcp": variable_of_runtime("ompi#7737", "OMPI_MCA_btl", "self,tcp", "messages"),
    "ucx": variable_of_runtime("ucx#3545", "UCX_TLS", "tcp", "network"),
    "libfabric": variable_of_runtime("libfabric#9422", "FI_PROVIDER", "tcp", "network"),
    "loader": variable_of_runtime("ld.so(8)", "LD_BIND_NOW", "1", "start"),
    "python": variable_of_runtime("Python manual", "PYTHONMALLOC", "debug", "computing"),
    "tunables": variable_of_runtime("glibc manual", "GLIBC_TUNABLES", "glibc.malloc.mmap_max=0", "memory"),
    # Options of Java may hold a password: their value is not shown.
    "java": Fault("java(1)", (r"^JAVA_TOOL_OPTIONS is set by",), {"APPTAINERENV_JAVA_TOOL_OPTIONS": "-Xint"}),
    "mkl": variable_of_runtime("oneMKL guide", "MKL_CBWR", "COMPATIBLE", "computing"),
    "tensorflow": variable_of_runtime("TensorFlow guide", "TF_ENABLE_ONEDNN_OPTS", "0", "computing"),
    "gromacs": variable_of_runtime("GROMACS manual", "GMX_DISABLE_SIMD_KERNELS", "1", "computing"),
    "mpich": variable_of_runtime("mpich#4631", "MPICH_ASYNC_PROGRESS", "1", "messages"),
    "waiting-threads": variable_of_runtime("OpenMP 5.2", "OMP_WAIT_POLICY", "passive", "computing"),
    "gpu": variable_of_runtime("CUDA guide", "CUDA_LAUNCH_BLOCKING", "1"),
    "option": Fault(
        "rocker#123",
        (r"^OPENBLAS_CORETYPE=Prescott is set in the container",),
        options=("--env", "OPENBLAS_CORETYPE=Prescott"),
        measures=("computing",),
    ),
    "hosts-variable": Fault(
        "D12.6 4.4.3",
        (r"^UCX_NET_DEVICES is mlx5_0:1 on the host, and is not set",),
        {"UCX_NET_DEVICES": "mlx5_0:1", "NEEDS_UCX": "1"},
        measures=("network",),
    ),
    "hosts-settings": Fault(
        "D12.6 4.4.3",
        (r"^btl_tcp_if_include = fab0 of .* does not reach",),
        {"HOME": "PLACE/home", "APPTAINER_NO_HOME": "1", "NEEDS_BTL": "1"},
        measures=("network",),
    ),
    "shared-memory": Fault(
        "mpich#4631",
        (r"^/dev/shm holds 8 MiB in the container",),
        runtime='exec unshare -m sh -c \'mount -t tmpfs -o size=8m none /dev/shm && exec "$@"\' sh "$REAL" "$@"',
        measures=("messages",),
        proven=False,
    ),
    "processors": Fault(
        "easybuild-easyblocks#3650",
        (r"^processors 0 are allowed in the container, 0-1 on the host",),
        runtime='exec taskset -c 0 "$REAL" "$@"',
    ),
    "quota": Fault(
        "moby#38839",
        (r"^the container's cgroup limits it to 0.05 processors: it was held back in",),
        {"BURN": "100000"},
        runtime='mkdir -p "$GROUP" && echo 5000 >"$GROUP/cpu.cfs_quota_us" && echo $$ >"$GROUP/cgroup.procs"; '
        'exec "$REAL" "$@"',
        proven=False,
    ),
    "loader-debug": variable_of_runtime("ld.so(8)", "LD_DEBUG", "statistics", "start"),
    "bytecode": variable_of_runtime("Python manual", "PYTHONDONTWRITEBYTECODE", "yes", "start"),
    "blas-threads": variable_of_runtime("gadgetron#932", "OPENBLAS_NUM_THREADS", "64", "computing"),
    "intel-mpi": variable_of_runtime("mpich#4631", "I_MPI_FABRICS", "shm:tcp", "network"),
    "nccl": variable_of_runtime("NCCL manual", "NCCL_P2P_DISABLE", "1", "messages"),
    # Values that no list knows are not shown.
    "numpy": Fault(
        "rocker#123",
        (r"^NPY_DISABLE_CPU_FEATURES is set by",),
        {"APPTAINERENV_NPY_DISABLE_CPU_FEATURES": "AVX2"},
        measures=("computing",),
    ),
    "temporary-files": Fault(
        "apptainer#2050",
        (r"^/tmp is overlay in the container",),
        {"NEEDS_TMP": "1"},
        options=("--no-mount", "tmp", "--env", "NEEDS_TMP=1"),
        measures=("files",),
    ),
    "locked-memory": limit_of_runtime("D12.6 4.4.3", "memlock", "65536", "locked memory", "network", hard=True),
    "stack-ends": replace(
        limit_of_runtime("OpenMP 5.2", "stack", "1048576", "stack size", "computing"), variables={"ENDS": "1"}
    ),
    "stack": limit_of_runtime("OpenMP 5.2", "stack", "1048576", "stack size", "computing"),
    "cpu-time": limit_of_runtime("getrlimit(2)", "cpu", "600", "cpu time"),
    "address-space": limit_of_runtime("getrlimit(2)", "as", "68719476736", "address space", "memory"),
    "processes": limit_of_runtime("apptainer#2691", "nproc", "1000", "processes", "start"),
    # The hard limit is raised with it, and lowering the soft one is free.
    "open-files": replace(
        limit_of_runtime("opensciencegrid/docs#345", "nofile", "1048576", "open files", "start", hard=True), proven=True
    ),
    "nice": Fault(
        "sched(7)",
        (r"^the container's processes run at nice 10, those of the host at 0",),
        # To take it back is a privilege, which containers of this machine lack.
        runtime='exec nice -n 10 "$REAL" "$@"',
        proven=False,
    ),
    "idle": Fault(
        "sched(7)",
        (r"^the kernel treats the container's processes as idle work",),
        runtime='exec chrt -i 0 "$REAL" "$@"',
        proven=False,
    ),
    "batch": Fault(
        "sched(7)",
        (r"^the kernel treats the container's processes as batch work",),
        runtime='exec chrt -b 0 "$REAL" "$@"',
    ),
    "huge-pages": Fault(
        "prctl(2)",
        (r"^the container's processes get no transparent huge pages",),
        runtime="exec python3 -c 'import ctypes, os, sys; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0); "
        'os.execv(sys.argv[1], sys.argv[1:])\' "$REAL" "$@"',
        measures=("memory",),
        proven=False,
    ),
    "synchronous": Fault(
        "mount(8)",
        (r"^/var/tmp is mounted with sync in the container",),
        {"TMPDIR": "/var/tmp"},
        runtime='exec unshare -m sh -c \'mount -t tmpfs -o sync none /var/tmp && exec "$@"\' sh "$REAL" "$@"',
        measures=("files",),
        proven=False,
    ),
    "memory-limit": Fault(
        "cgroups(7)",
        (r"^the container's cgroup limits its memory to 512 MiB",),
        {"LINGER": "300000"},
        runtime='mkdir -p "$MEMORY_GROUP" && echo 512M >"$MEMORY_GROUP/memory.limit_in_bytes" && '
        'echo $$ >"$MEMORY_GROUP/cgroup.procs"; exec "$REAL" "$@"',
        measures=("files",),
        proven=False,
    ),
    "tracing": variable_of_runtime("Score-P manual", "SCOREP_ENABLE_TRACING", "true", "computing"),
    "file-locks": variable_of_runtime("HDF5 manual", "HDF5_USE_FILE_LOCKING", "BEST_EFFORT", "files"),
    "pmix": variable_of_runtime("openpmix#1819", "PMIX_MCA_gds", "ds21", "start"),
    "openfoam": variable_of_runtime("OpenFOAM user guide", "FOAM_SETNAN", "true", "computing"),
    "verbose": variable_of_runtime("oneMKL manual", "MKL_VERBOSE", "1", "computing"),
    "helpers": Fault(
        "apptainer#3272",
        (r"^the runtime's helpers take",),
        {"BURN": "0"},
        runtime='cp /bin/sh "$PLACE/squashfuse_burn"; "$PLACE/squashfuse_burn" -c "while :; do :; done" & burns=$!; '
        'sleep 3; program "$@"; status=$?; kill $burns; exit $status',
        measures=("files",),
        proven=False,
    ),
    "two": Fault(
        "two at once",
        (r"^OPENBLAS_CORETYPE=Prescott is set by", r"^MALLOC_ARENA_MAX=1 is set by"),
        {"APPTAINERENV_OPENBLAS_CORETYPE": "Prescott", "APPTAINERENV_MALLOC_ARENA_MAX": "1"},
        proven=False,
    ),
    "unknown": Fault("nothing that is known", variables={"APPTAINERENV_NOBODY_KNOWS": "1"}, proven=False),
    "innocent": Fault(
        "a variable that costs nothing, and another cause",
        (r"^KMP_BLOCKTIME=1 is set by",),
        {"APPTAINERENV_NOBODY_KNOWS": "1", "APPTAINERENV_KMP_BLOCKTIME": "1"},
        measures=("computing",),
        proven=False,
    ),
}
