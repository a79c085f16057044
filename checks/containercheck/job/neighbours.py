"""Run several programs at the same time on a node (Linux; standard library only, Python 3.6 or newer; run in the job).

    python3 checks/containercheck/job neighbours cores 48
    python3 checks/containercheck/job neighbours dlb
    python3 checks/containercheck/job neighbours report program1=3x2 program2=6x3

The first writes the node's cores and the script that binds each rank to its own cores. The second copies DLB's library
into the stage directory, which containers see too. The last prints the output of simultaneous programs, each line after
the program's name, and their times together (D12.5 section 3.2).
"""

import argparse
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional

from containercheck.job import contract, host_mpi, texts, this_node

#: Binds a rank and its children to its cores. The cores of its program begin with the number FIRST, and each rank has
#: THREADS of them. The rank's number comes from the launcher's variables: Open MPI, MPICH and Intel MPI, Slurm.
BIND = """\
first=$1 threads=$2
shift 2
rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${PMI_RANK:-${SLURM_LOCALID:-}}}}
[ -n "$rank" ] || { echo 'error: the launcher does not give ranks their number on the node' >&2; exit 1; }
from=$((first + threads * rank + 1))
exec taskset -c "$(sed -n "$from,$((from + threads - 1))p" cores.txt | paste -s -d, -)" "$@"
"""
#: DLB's library for MPI programs, OpenMP runtimes that it can work with (OMPT), and variable with DLB's directory.
LIBRARY, RUNTIMES, HOME = "libdlb_mpi.so", ("libomp.so.5", "libomp.so", "libiomp5.so"), "DLB_HOME"
#: Places of LLVM's and Intel's OpenMP runtime that the loader may not know.
PLACES = ("/usr/lib/llvm-*/lib", "/opt/intel/oneapi/compiler/latest/lib")
#: Line of the loader about a library that it could not load: the program then ran without the library.
NOT_LOADED = re.compile(r"^ERROR: ld\.so: object .*", re.MULTILINE)
#: Line of a program with the processor time of its threads for useful work.
USEFUL = re.compile(r"^useful (\S+) s$", re.MULTILINE)
#: Lines with the part of this time on each core.
CORE = re.compile(r"^core (\d+) (\S+) s$", re.MULTILINE)


class NeighboursError(Exception):
    """Report that the programs cannot run at the same time here; the message has the reason."""


class Ended(NamedTuple):
    """Hold a program that has ended: name, ranks and threads, times in s since 1970, exit status, and output."""

    name: str
    ranks: int
    threads: int
    began: float
    ended: float
    status: int
    output: str


def write_cores(wanted: int, usable: Optional[List[List[int]]] = None) -> None:
    """Write the first processor of each core, a line each, and the script that binds ranks to them.

    :param wanted: cores that all programs need together.
    :param usable: processors of each core; None to ask Linux.
    :raises NeighboursError: there are too few cores.
    """
    cores = this_node.cores(os.sched_getaffinity(0)) if usable is None else usable
    if len(cores) < wanted:
        raise NeighboursError(f"{os.uname().nodename} lets this job use {len(cores)} core(s) of the {wanted} needed")
    Path(contract.CORES).write_text("".join(f"{core[0]}\n" for core in cores))
    Path(contract.BIND).write_text(BIND)


def copy_dlb(home: str) -> None:
    """Copy DLB's library and the OpenMP runtime into the stage directory.

    :param home: directory of the DLB installation.
    :raises NeighboursError: one of them is missing.
    """
    found = [path for name in ("lib", "lib64") for path in Path(home, name).glob(LIBRARY)]
    if not home or not found:
        missing = f"{HOME} is {home!r}, and has no lib/{LIBRARY}" if home else f"{HOME} is not set"
        raise NeighboursError(f"no software: no DLB on {os.uname().nodename}: {missing}")
    openmp = _openmp_runtime()
    if not openmp:
        raise NeighboursError(
            f"no software: {os.uname().nodename} has no OpenMP runtime that DLB can work with (LLVM's libomp, Intel's "
            "libiomp5): install libomp5"
        )
    directory = Path(contract.DLB)
    directory.mkdir(exist_ok=True)
    for source, name in ((str(found[0]), LIBRARY), (openmp, "libomp.so")):
        shutil.copyfile(os.path.realpath(source), str(directory / name))


def _openmp_runtime() -> str:
    known = host_mpi.libraries_of_host()
    for name in RUNTIMES:
        paths = [path for path in known if Path(path).name == name]
        for place in PLACES:
            paths += sorted(map(str, Path("/").glob(f"{place[1:]}/{name}")), reverse=True)
        if paths:
            return paths[0]
    return ""


def read(spec: str) -> Ended:
    """Return a program that has ended.

    :param spec: its name, ranks and threads, as in ``program1=3x2``.
    :raises NeighboursError: the program has not ended.
    """
    name, _, mix = spec.partition("=")
    ranks, threads = map(int, mix.split("x"))
    try:
        began, ended, status = Path(f"{name}.times").read_text().split()
        output = texts.read(Path(f"{name}.out"))
    except (OSError, ValueError):
        raise NeighboursError(f"{name} was not run to its end") from None
    return Ended(name, ranks, threads, float(began), float(ended), int(status), output)


def report(programs: Iterable[Ended]) -> int:
    """Print the programs' outputs and times; return the exit status of the first that failed, else 0."""
    programs = list(programs)
    status = 0
    for program in programs:
        lines = program.output.splitlines()
        failed = program.status or (1 if NOT_LOADED.search(program.output) else 0)
        print("".join(f"{program.name}: {line}\n" for line in lines), end="", file=sys.stderr if failed else sys.stdout)
        status = status or failed
    if status:
        return status
    began, ended = min(program.began for program in programs), max(program.ended for program in programs)
    for program in programs:
        print(f"seconds {program.name} {program.ended - program.began:.3f}")
    whole = ended - began
    print(f"seconds whole {whole:.3f}")
    useful = [USEFUL.search(program.output) for program in programs]
    if all(useful):
        cores = sum(program.ranks * program.threads for program in programs)
        share = 1 - sum(float(match[1]) for match in useful if match) / (cores * whole)
        print(f"idle {100 * max(0.0, share):.2f} %")
    else:
        print("idle unknown")
    busy: Dict[str, float] = {}
    for program in programs:
        for core, seconds in CORE.findall(program.output):
            busy[core] = busy.get(core, 0.0) + float(seconds)
    # A bound of the time that does not depend on other users of the machine.
    print(f"busiest {max(busy.values()):.4f} s" if busy else "busiest unknown")
    return 0


def main() -> None:
    """Run the command of the first argument, or print one error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("cores").add_argument("wanted", type=int)
    commands.add_parser("dlb")
    commands.add_parser("report").add_argument("programs", nargs="+")
    arguments = parser.parse_args()
    try:
        if arguments.command == "cores":
            write_cores(arguments.wanted)
        elif arguments.command == "dlb":
            copy_dlb(os.environ.get(HOME, ""))
        else:
            sys.exit(report(map(read, arguments.programs)))
    except NeighboursError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(contract.UNSUPPORTED)
