"""The rules on environment variables, as data: their names, which figures they can slow, and what they do."""

import re
from typing import Iterator, NamedTuple, Optional, Tuple

from containercheck.node.contract import MEASURED
from containercheck.node.explain.causes import COMPUTING, CORES, FILES, MEMORY, MPI, MPICH, OPEN_MPI, START, Cause
from containercheck.node.explain.observations import Observation
from containercheck.node.explain.remedies import SET, UNSET, Experiment


class VariableRule(NamedTuple):
    """A rule on variables that the container and bare do not have in common.

    :ivar names: pattern of their names.
    :ivar effect: what such a variable does, to follow its value in a sentence.
    :ivar also_missing: whether a variable that only bare has counts too, and is then given to the container.
    :ivar family: the family of MPI that reads it; empty for others.
    """

    names: str
    kinds: Tuple[str, ...]
    weight: int
    effect: str
    source: str
    also_missing: bool = False
    family: str = ""


#: Variables that are known to cost time.
VARIABLES = (
    VariableRule(
        "OPENBLAS_CORETYPE|OPENBLAS_CORETYPE_FORCE",
        (COMPUTING,),
        95,
        "OpenBLAS takes the kernels of that processor",
        "rocker#123",
    ),
    VariableRule(
        "MKL_CBWR|MKL_DEBUG_CPU_TYPE|MKL_ENABLE_INSTRUCTIONS|BLIS_ARCH_TYPE|DNNL_MAX_CPU_ISA|ONEDNN_MAX_CPU_ISA"
        "|NPY_DISABLE_CPU_FEATURES|ATEN_CPU_CAPABILITY|NUMBA_CPU_(NAME|FEATURES)",
        (COMPUTING,),
        90,
        "it limits the instructions that the library uses",
        "rocker#123",
    ),
    VariableRule(
        "OMP_NUM_THREADS|OMP_THREAD_LIMIT",
        CORES,
        90,
        "it sets the threads of each rank",
        "gadgetron#932, KTH#33",
        also_missing=True,
    ),
    VariableRule(
        "(OPENBLAS|GOTO|BLIS|MKL|NUMEXPR|NUMBA|VECLIB|RAYON|JULIA|POLARS)_(NUM|MAX)_THREADS|GOMAXPROCS"
        "|TF_NUM_(INTRAOP|INTEROP)_THREADS|MKL_DYNAMIC|OMP_DYNAMIC",
        CORES,
        85,
        "it sets the threads of the library",
        "gadgetron#932",
        also_missing=True,
    ),
    VariableRule(
        "OMP_(PROC_BIND|PLACES|WAIT_POLICY|SCHEDULE|NESTED|MAX_ACTIVE_LEVELS|STACKSIZE)|GOMP_.*|KMP_.*",
        CORES,
        75,
        "it places the threads, or says how they wait",
        "OpenMP 5.2, chapter 21",
        also_missing=True,
    ),
    VariableRule("TF_ENABLE_ONEDNN_OPTS|TF_DISABLE_MKL|TF_XLA_FLAGS", (COMPUTING,), 80, "it switches kernels", "RAMP"),
    VariableRule("GMX_(DISABLE|NO|FORCE)_?.*", (COMPUTING,), 75, "it switches kernels of GROMACS", "GROMACS manual"),
    VariableRule("GLIBC_TUNABLES", CORES, 80, "it changes the C library's own choices", "glibc manual, Tunables"),
    VariableRule("MALLOC_.*", CORES, 80, "it changes how memory is allocated", "texture-synthesis#8, tremor#377"),
    VariableRule("LD_DEBUG.*|LD_AUDIT|LD_PROFILE.*", (START, COMPUTING), 85, "the loader works for it", "ld.so(8)"),
    VariableRule("LD_BIND_NOW", (START,), 50, "all symbols are bound at the start", "ld.so(8)"),
    VariableRule("LD_PRELOAD", MEASURED, 55, "this library comes before all others", "apptainer#2537"),
    VariableRule(
        "PYTHON(MALLOC|DEVMODE|TRACEMALLOC|PROFILEIMPORTTIME|FAULTHANDLER|ASYNCIODEBUG)",
        (COMPUTING, START),
        85,
        "Python checks or traces what it does",
        "Python manual, environment variables",
    ),
    VariableRule("PYTHONDONTWRITEBYTECODE", (START,), 60, "Python compiles at each start", "Python manual"),
    VariableRule("JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS", MEASURED, 70, "Java takes its options", "java(1)"),
    VariableRule(
        "OMPI_MCA_(btl|pml|mtl|osc|coll|opal|mpi|hwloc|shmem|smsc|common|topo|op|io|fs|sharedfp)(?!_base_(user|env)).*",
        MPI,
        90,
        "it chooses how Open MPI talks",
        "ompi#7737",
        also_missing=True,
        family=OPEN_MPI,
    ),
    VariableRule(
        "UCX_.*|UCC_.*|PSM2_.*|PSM3_.*",
        MPI,
        90,
        "it chooses how the fabric is used",
        "ucx#3545, D12.6 4.4.3",
        also_missing=True,
    ),
    VariableRule(
        "FI_(?!PROVIDER_PATH).*", MPI, 90, "it chooses how the fabric is used", "libfabric#9422", also_missing=True
    ),
    VariableRule(
        "MPICH_.*|MPIR_CVAR_.*|I_MPI_(?!ROOT).*|MV2_.*",
        MPI,
        90,
        "it chooses how the ranks talk",
        "mpich#4631",
        also_missing=True,
        family=MPICH,
    ),
    VariableRule(
        "NCCL_.*|RCCL_.*", MPI, 90, "it chooses how GPUs talk", "NCCL manual, environment variables", also_missing=True
    ),
    VariableRule(
        "(CUDA|ROCR|HIP|ZE)_(VISIBLE_DEVICES|AFFINITY_MASK)|CUDA_LAUNCH_BLOCKING|CUDA_DEVICE_MAX_CONNECTIONS",
        MEASURED,
        80,
        "it chooses how GPUs are used",
        "CUDA programming guide, environment variables",
        also_missing=True,
    ),
    VariableRule(
        "MKL_(THREADING_LAYER|INTERFACE_LAYER)|NUMBA_(DISABLE_JIT|THREADING_LAYER)|PYTHONOPTIMIZE",
        (COMPUTING,),
        70,
        "it chooses how the library computes",
        "oneMKL and Numba manuals, environment variables",
    ),
    VariableRule(
        "(MKL|DNNL|ONEDNN|OPENBLAS)_VERBOSE|TF_CPP_(MIN|MAX)_VLOG_LEVEL|NUMBA_DEBUG.*",
        (COMPUTING,),
        75,
        "the library prints what it does",
        "oneMKL and oneDNN manuals, verbose mode",
    ),
    VariableRule(
        "SCOREP_.*|EXTRAE_.*|TAU_.*|VT_.*|HPCRUN_.*|CALI_.*|IPM_.*|DARSHAN_.*|XALT_.*|LIKWID_.*|VALGRIND_.*|NSYS_.*"
        "|(ASAN|TSAN|UBSAN|LSAN|MSAN)_OPTIONS",
        MEASURED,
        65,
        "a tool watches the program",
        "apptainer#2537, Score-P manual",
    ),
    VariableRule("HWLOC_.*", CORES, 60, "it changes the processors that MPI and OpenMP see", "hwloc manual"),
    VariableRule(
        "FOAM_(SETNAN|SIGFPE|ABORT)", CORES, 75, "OpenFOAM fills its memory, or traps errors", "OpenFOAM user guide"
    ),
    VariableRule(
        "HDF5_.*|ROMIO_.*|NETCDF_.*|LUSTRE_.*|STRIPE_.*",
        (FILES,),
        70,
        "it chooses how files are locked, gathered or laid out",
        "HDF5 and ROMIO manuals",
        also_missing=True,
    ),
    VariableRule("PYTHONUNBUFFERED", (FILES,), 55, "each line is written by itself", "Python manual"),
    VariableRule(
        "(PMIX|PRTE)_MCA_.*",
        (*MPI, START),
        70,
        "it chooses how ranks are started",
        "openpmix#1819",
        also_missing=True,
        family=OPEN_MPI,
    ),
    VariableRule(
        "NVIDIA_TF32_OVERRIDE|CUBLAS_WORKSPACE_CONFIG|TF_DETERMINISTIC_OPS|TF_CUDNN_.*|CUDNN_.*",
        (COMPUTING,),
        75,
        "it limits how GPUs compute",
        "cuBLAS and cuDNN manuals",
    ),
    VariableRule(
        "CUDA_(CACHE_DISABLE|CACHE_PATH|FORCE_PTX_JIT|MODULE_LOADING)",
        (START,),
        70,
        "code for the GPU is compiled or loaded at each start",
        "CUDA programming guide, environment variables",
    ),
    VariableRule(
        "GOGC|GOMEMLIMIT|GODEBUG", (COMPUTING, MEMORY), 60, "it changes how memory is collected", "Go manual, runtime"
    ),
)
#: Variables that launchers give each rank by themselves: their values differ between any two, or slow nothing.
OF_RANK = re.compile(
    r"(RANK|_LOCALID|_NODEID|_PROCID|_PID|_NAMESPACE|_URI|_UUID|_PIN_INFO|_TASK|_STEP|VPID|JOBID|FD$|PORT$"
    r"|_CH3_INTERFACE_HOSTNAME$|^(PMIX|PRTE)_MCA_mca_base_component_show_load_errors$)",
    re.I,
)


def variables(bare: Observation, container: Observation) -> Iterator[Cause]:
    """Yield a cause for each variable of :data:`VARIABLES` that differs."""
    for name in sorted({*bare.environment, *container.environment}):
        own, other = container.environment.get(name), bare.environment.get(name)
        rule = next((rule for rule in VARIABLES if re.fullmatch(rule.names, name)), None)
        if not rule or own == other or OF_RANK.search(name):
            continue
        if own is None and rule.also_missing:
            yield _missing(rule, name, str(other))
        elif own is not None:
            yield _other(rule, name, own, other, container)


def _missing(rule: VariableRule, name: str, other: str) -> Cause:
    setting = None if other.startswith("hidden:") else Experiment(SET, f"{name}={other}")
    sentence = f"{name} is {other} on the host, and is not set in the container: {rule.effect}"
    remedy = f"set {name}={other} in the container, by the runtime or in the image's environment"
    facts = ("variable", name, sentence, remedy, rule.source, rule.kinds, rule.weight - 10)
    return Cause(*facts, experiment=setting, family=rule.family)


def _other(rule: VariableRule, name: str, own: str, other: Optional[str], container: Observation) -> Cause:
    by = container.set_by.get(name)
    is_shown, is_set = not own.startswith("hidden:"), other is not None and not other.startswith("hidden:")
    where = f"by {by}" if by else "by the image" if name in container.image_variables else "in the container"
    setting = f"{name}={own}" if is_shown else name
    host = f", and is {other} on the host" if is_set else ", and not on the host"
    if by:
        remedy = f"unset {by} where jobs are started: a module, a profile or the site's file sets it"
    elif name in container.image_variables:
        remedy = f"take {name} out of the image's environment, or set it as on the host"
    else:
        remedy = f"find what sets {name} for containers: the runtime's configuration, a wrapper or the image"
    experiment = Experiment(SET, f"{name}={other}") if is_set else Experiment(UNSET, name)
    sentence = f"{setting} is set {where}{host}: {rule.effect}"
    facts = ("variable", name, sentence, remedy, rule.source, rule.kinds, rule.weight)
    return Cause(*facts, experiment=experiment, family=rule.family)
