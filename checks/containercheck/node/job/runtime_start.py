"""What the container runtime of this node needs, asked where it will run (standard library only; in the job).

    python3 checks/containercheck runtime --command apptainer --ranks 4 --own-environment subject

writes ``subject.options`` and ``subject.start``, which the side's commands take in, and ``subject.runtime.json`` with
the runtime's version. ``subject.start`` has the words before the runtime: those that keep the host's settings out of
an image that is to bring its own.
"""

import argparse
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, Iterable, List, Tuple

from containercheck.node import container_runtimes, contract
from containercheck.node.container_runtimes import Runtime
from containercheck.node.job import image_file, processes

#: Variables that tell the host's MPI, loader and Python what to do.
OF_THE_HOST = re.compile(r"(OMPI_MCA|OPAL|PMIX_MCA|PRTE_MCA|UCX|UCC|FI|MPICH|MPIR_CVAR|I_MPI|MV2|LD)_|PYTHON")
#: Those of them that the library sets, for every container.
OURS = ("PMIX_MCA_gds",)


def options(runtime: Runtime, command: str, ranks: int) -> List[str]:
    """Return the options for running an image as one of ``ranks`` ranks of MPI on this node.

    Ranks of a node in separate user namespaces cannot reach each other's memory, and Open MPI and MPICH lose their
    single-copy transfers. Only MPI's ranks wait for each other, in MPI_Init: where one ends before another has joined
    a shared namespace, Apptainer fails, one time in four for a program of milliseconds ("could not open proc
    directory").

    :param command: what is typed for the runtime.
    """
    # See node/job/belonging.py.
    chosen = [*runtime.variable, contract.RUN] if runtime.variable else []
    if runtime.user_namespace and _is_crippled_root():
        chosen.append(runtime.user_namespace)
    shared = runtime.shared_namespace
    if shared and ranks > 1 and shared in processes.output_of([command, *runtime.help]):
        chosen.append(shared)
    return chosen


def hidden(runtime: Runtime, names: Iterable[str], own_environment: bool) -> List[str]:
    """Return those of the job's variables that settings of the host's are in, and that a runtime would hand on.

    What the launcher sets for its ranks is not among them: it is in no job's environment. A runtime that gives every
    container an LD_LIBRARY_PATH of its own may need the host's itself. With others the host's directories would take
    the place of the image's, where the host's MPI is brought in too.

    :param own_environment: whether the image brings its own MPI and settings; else only LD_LIBRARY_PATH is kept out.
    """
    kept = (*OURS, "LD_LIBRARY_PATH") if runtime.own_library_path else OURS
    names = [name for name in names if own_environment or name == "LD_LIBRARY_PATH"]
    return sorted(name for name in names if OF_THE_HOST.match(name) and name not in kept)


def identify(command: str) -> Tuple[Runtime, str]:
    """Return the runtime that a command is, and what it says of its version; an empty text for nothing."""
    said = processes.output_of([command, *container_runtimes.by_command(command).version]).strip()
    return container_runtimes.recognized(command, said), said


def configuration(runtime: Runtime, command: str) -> Dict[str, str]:
    """Return what the runtime's configuration file says, by directive; nothing where it has none that can be read."""
    said = processes.output_of([command, *runtime.configuration]) if runtime.configuration else ""
    found = re.search(r"^\w+_CONF_FILE=(.+)$", said, re.MULTILINE)
    if not found:
        return {}
    try:
        text = Path(found[1]).read_text(errors="replace")
    except OSError:
        return {}
    lines = re.findall(r"^(\w[\w /-]*?) *= *(.*?) *$", text, re.MULTILINE)
    directives: Dict[str, List[str]] = {}
    for name, value in lines:
        # Some, such as bind paths, are there several times.
        directives.setdefault(name, []).append(value)
    return {name: ", ".join(values) for name, values in directives.items()}


def _is_crippled_root() -> bool:
    """Root without all capabilities (in a sandbox, say) can run images in a user namespace only."""
    if os.geteuid() != 0:
        return False
    status = Path("/proc/self/status").read_text().splitlines()
    effective = next(line for line in status if line.startswith("CapEff")).split()[1]
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    return int(effective, 16) != (1 << (last + 1)) - 1


def main() -> None:
    """Write both files.

    :raises SystemExit: the runtime is not on this node.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", required=True, help="the runtime, as it is typed")
    parser.add_argument("--ranks", type=int, required=True, help="ranks of MPI on a node; 0 without MPI")
    parser.add_argument("--own-environment", action="store_true", help="the image brings its own MPI and settings")
    parser.add_argument("--image", type=Path, help="link to the image, where that is a file: it is compared")
    parser.add_argument("--copy-to", type=Path, help="have it there for this job, in a directory of its own")
    parser.add_argument("side")
    arguments = parser.parse_args()
    if shutil.which(arguments.command) is None:
        sys.exit(f"error: {arguments.command} is not on the PATH of {os.uname().nodename}")
    if arguments.image and arguments.copy_to:
        image_file.copy(arguments.image, arguments.copy_to)
    elif arguments.image:
        image_file.verify(arguments.image)
    runtime, version = identify(arguments.command)
    words = options(runtime, arguments.command, arguments.ranks)
    Path(contract.options_file(arguments.side)).write_text(" ".join(words) + "\n")
    kept_out = hidden(runtime, os.environ, arguments.own_environment)
    start = ["env", *(f"-u{name}" for name in kept_out)] if kept_out else []
    Path(contract.start_file(arguments.side)).write_text(" ".join(start) + "\n")
    known: Dict[str, Any] = {"command": arguments.command, "version": version}
    known["configuration"] = configuration(runtime, arguments.command)
    Path(contract.runtime_file(arguments.side)).write_text(json.dumps(known))


if __name__ == "__main__":
    main()
