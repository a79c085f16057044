"""Causes that make a container slow, as data: what is planted, and what has to be found and proven.

The program needs no clock: it looks for what was planted, as its container has it, and counts. A clock is used where
processor time is taken away, as that is a factor.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

#: Begins a runtime that goes wrong; ``program`` starts the real one. Only runs of the program are changed.
WRAPPER = """#!/bin/sh
program() { "$REAL" "$@"; }
case "$*" in *count.sh* | *observe.sh*) ;; *) exec "$REAL" "$@" ;; esac
"""
#: Sentence about this runtime: where it is proven, so is what it does.
BY_WRAPPER = r"^apptainer is a script, "
#: The program. Its functions are for the conditions of faults: a limit, and a field of the process's status.
PROGRAM = Path(__file__).parent / "count.sh"


@dataclass(frozen=True)
class Fault:
    """What is planted, and what has to be found.

    :ivar source: the thread that it is from.
    :ivar slows: condition, in the shell of the container, under which the program is slower; empty for none of its own.
    :ivar expected: regular expression for the sentences that have to be named, each; none where nothing can be found.
    :ivar variables: of the job; ``PLACE`` in a value is the stage directory.
    :ivar runtime: commands of the runtime, after :data:`WRAPPER`.
    :ivar options: of the runtime.
    :ivar measures: what the metric depends on.
    :ivar proven: whether an experiment can prove it.
    :ivar fails: whether the check fails.
    :ivar does: what the condition does to the program: ``slows``, ``ends``, ``stops`` or kills it
        (``dies``, ``traps``), ends it without a word (``quits``), or its answer ``differs``.
    """

    source: str
    expected: tuple = ()
    slows: str = ""
    variables: dict = field(default_factory=dict)
    runtime: str = ""
    options: tuple = ()
    measures: tuple = ()
    proven: bool = True
    fails: bool = True
    does: str = "slows"


def variable_of_runtime(source, name, value, *measures):
    """Return the fault that a module of the site sets a variable for all containers."""
    sentence = rf"^{name}={value} is set by APPTAINERENV_{name}"
    return Fault(source, (sentence,), is_set(name, value), {f"APPTAINERENV_{name}": value}, measures=measures)


def is_set(name, value):
    """Return the condition that a variable has a value."""
    return f'[ "${{{name}:-}}" = "{value}" ]'


def limit_of_runtime(source, option, value, name, *measures, hard=False):
    """Return the fault that what starts containers sets a limit.

    :param option: of ``prlimit``.
    :param hard: whether the hard limit too, above which nothing in the container can raise it again.
    """
    sentence = rf"^the limit of {name} is {value} in the container"
    runtime = f'prlimit --pid $$ --{option}={value}{"" if hard else ":"}; exec "$REAL" "$@"'
    slows = f'[ "$(limit "{name}")" = {value} ]'
    return Fault(source, (sentence,), slows, runtime=runtime, measures=measures)


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
    "java": replace(
        variable_of_runtime("java(1)", "JAVA_TOOL_OPTIONS", "-Xint"), expected=(r"^JAVA_TOOL_OPTIONS is set by",)
    ),
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
        f'[ "${{NEEDS_UCX:-}}" ] && ! {is_set("UCX_NET_DEVICES", "mlx5_0:1")}',
        {"UCX_NET_DEVICES": "mlx5_0:1", "NEEDS_UCX": "1"},
        measures=("network",),
    ),
    "hosts-settings": Fault(
        "D12.6 4.4.3",
        (r"^btl_tcp_if_include = fab0 of .* does not reach",),
        '[ "${NEEDS_BTL:-}" ] && ! [ -e "$HOME/.openmpi/mca-params.conf" ] && '
        f"! {is_set('OMPI_MCA_btl_tcp_if_include', 'fab0')}",
        {"HOME": "PLACE/home", "APPTAINER_NO_HOME": "1", "NEEDS_BTL": "1"},
        measures=("network",),
    ),
    "shared-memory": Fault(
        "mpich#4631",
        (r"^/dev/shm holds 8 MiB in the container",),
        "[ \"$(df -Pk /dev/shm | awk 'END { print $2 }')\" -lt 65536 ]",
        runtime='exec unshare -m sh -c \'mount -t tmpfs -o size=8m none /dev/shm && exec "$@"\' sh "$REAL" "$@"',
        measures=("messages",),
    ),
    "processors": Fault(
        "easybuild-easyblocks#3650",
        (r"^processors 0 are allowed in the container, 0-1 on the host",),
        r"""[ "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)" = 0 ]""",
        runtime='exec taskset -c 0 "$REAL" "$@"',
    ),
    "quota": Fault(
        "moby#38839",
        (r"^the container's cgroup limits it to 0.05 processors \(2 on the host\): it was held back in",),
        variables={"BURN": "100000"},
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
    "numpy": replace(
        variable_of_runtime("rocker#123", "NPY_DISABLE_CPU_FEATURES", "AVX2", "computing"),
        expected=(r"^NPY_DISABLE_CPU_FEATURES is set by",),
    ),
    "temporary-files": Fault(
        "apptainer#2050",
        (r"^/tmp is overlay in the container",),
        "[ \"${NEEDS_TMP:-}\" ] && [ -e /.singularity.d ] && ! grep -q ' /tmp ' /proc/self/mountinfo",
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
    "open-files": limit_of_runtime("opensciencegrid/docs#345", "nofile", "1048576", "open files", "start", hard=True),
    "nice": Fault(
        "sched(7)",
        (r"^the container's processes run at nice 10, those of the host at 0",),
        '[ "$(field 17)" = 10 ]',
        runtime='exec nice -n 10 "$REAL" "$@"',
    ),
    "idle": Fault(
        "sched(7)",
        (r"^the kernel treats the container's processes as idle work",),
        '[ "$(field 39)" = 5 ]',
        runtime='exec chrt -i 0 "$REAL" "$@"',
    ),
    "batch": Fault(
        "sched(7)",
        (r"^the kernel treats the container's processes as batch work",),
        '[ "$(field 39)" = 3 ]',
        runtime='exec chrt -b 0 "$REAL" "$@"',
    ),
    "huge-pages": Fault(
        "prctl(2)",
        (r"^the container's processes get no transparent huge pages",),
        "grep -q '^THP_enabled:.*0' /proc/self/status",
        runtime="exec python3 -c 'import ctypes, os, sys; ctypes.CDLL(None).prctl(41, 1, 0, 0, 0); "
        'os.execv(sys.argv[1], sys.argv[1:])\' "$REAL" "$@"',
        measures=("memory",),
    ),
    "synchronous": Fault(
        "mount(8)",
        (r"^/var/tmp is mounted with sync in the container",),
        "grep -q ' /var/tmp .*[ ,]sync' /proc/self/mountinfo",
        {"TMPDIR": "/var/tmp"},
        runtime='exec unshare -m sh -c \'mount -t tmpfs -o sync none /var/tmp && exec "$@"\' sh "$REAL" "$@"',
        measures=("files",),
    ),
    "memory-limit": Fault(
        "cgroups(7)",
        (r"^the container's cgroup limits its memory to 512 MiB",),
        "grep -q 'memory.*:/containercheck-planted' /proc/self/cgroup",
        {"LINGER": "300000"},
        runtime='mkdir -p "$MEMORY_GROUP" && echo 512M >"$MEMORY_GROUP/memory.limit_in_bytes" && '
        'echo $$ >"$MEMORY_GROUP/cgroup.procs"; exec "$REAL" "$@"',
        measures=("files",),
    ),
    "tracing": variable_of_runtime("Score-P manual", "SCOREP_ENABLE_TRACING", "true", "computing"),
    "file-locks": variable_of_runtime("HDF5 manual", "HDF5_USE_FILE_LOCKING", "BEST_EFFORT", "files"),
    "pmix": variable_of_runtime("openpmix#1819", "PMIX_MCA_gds", "ds21", "start"),
    "openfoam": variable_of_runtime("OpenFOAM user guide", "FOAM_SETNAN", "true", "computing"),
    "verbose": variable_of_runtime("oneMKL manual", "MKL_VERBOSE", "1", "computing"),
    "helpers": Fault(
        "apptainer#3272",
        (r"^the runtime's helpers take",),
        "grep -qs '^squashfuse_burn' /proc/[0-9]*/comm",
        {"BURN": "0"},
        runtime='cp /bin/sh "$PLACE/squashfuse_burn"; "$PLACE/squashfuse_burn" -c "while :; do :; done" & burns=$!; '
        'sleep 3; program "$@"; status=$?; kill $burns; exit $status',
        measures=("files",),
    ),
    "two": Fault(
        "two at once",
        (r"^OPENBLAS_CORETYPE=Prescott is set by", r"^MALLOC_ARENA_MAX=1 is set by"),
        variables={"APPTAINERENV_OPENBLAS_CORETYPE": "Prescott", "APPTAINERENV_MALLOC_ARENA_MAX": "1"},
        proven=False,
    ),
    # No rule knows it, and halving finds it.
    "unknown": Fault(
        "nothing that is known",
        (r"^NOBODY_KNOWS is set by APPTAINERENV_NOBODY_KNOWS",),
        is_set("NOBODY_KNOWS", "1"),
        {"APPTAINERENV_NOBODY_KNOWS": "1"},
    ),
    "innocent": Fault(
        "a variable that costs nothing, and another cause",
        (r"^NOBODY_KNOWS is set by",),
        variables={"APPTAINERENV_NOBODY_KNOWS": "1", "APPTAINERENV_KMP_BLOCKTIME": "1"},
        measures=("computing",),
    ),
}


def program(faults):
    """Return the program, to which each of these faults does what it does."""
    effects = [f"{{ {fault.slows}; }} && {fault.does}" for fault in faults if fault.slows]
    return PROGRAM.read_text().replace("PLANTED\n", "\n".join([*dict.fromkeys(effects), ""]))
