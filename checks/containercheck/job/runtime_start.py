"""Find the needs of this node's container runtime, on the node itself (standard library only; in the job).

    python3 checks/containercheck/job runtime subject
    python3 checks/containercheck/job place /dev/shm/containercheck-1000-0123456789abcdef

The first writes the runtime's options for the side's commands (launch.py), and the words before the runtime that keep
the host's settings out of an image with its own. It writes ``subject.runtime.json`` with the runtime's version. It also
checks that the image is the one in the build step's record: the job may run hours later, and the file may have been
replaced. If sizes, inodes or times of change differ, the digest decides.

The second makes a directory for this job alone, in a directory that all users may write to. It must not exist before.
"""

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, Iterable, List, Tuple

from containercheck.job import container_runtimes, contract, launch, locks, processes, texts
from containercheck.job.build import file_trees
from containercheck.job.container_runtimes import Runtime

#: Variables with settings of the host's MPI, loader and Python.
OF_THE_HOST = re.compile(r"(OMPI_MCA|OPAL|PMIX_MCA|PRTE_MCA|UCX|UCC|FI|MPICH|MPIR_CVAR|I_MPI|MV2|LD)_|PYTHON")
#: Those of them that the library sets for every container.
OURS = ("PMIX_MCA_gds",)
#: File by which a job knows its own directory.
JOB = ".job"


def options(runtime: Runtime, command: str, ranks: int) -> List[str]:
    """Return the options for running an image as one of ``ranks`` ranks of MPI on this node.

    Ranks of a node in separate user namespaces cannot reach each other's memory, and Open MPI and MPICH lose their
    single-copy transfers. Only MPI's ranks share a namespace, as they wait for each other in MPI_Init. If a process
    ends before another has joined a shared namespace, Apptainer fails ("could not open proc directory"): one time in
    four for a program of milliseconds.

    :param command: the runtime's command.
    """
    # See job/processes.py.
    chosen = [*runtime.environment, *([*runtime.variable, contract.RUN] if runtime.variable else [])]
    if runtime.user_of_root and os.geteuid() != 0:
        # A user may run root's engine through sudo, or as a member of its group.
        of_root = processes.output_of([command, *runtime.rootless]).strip() == "false"
        user = runtime.user_of_root.format(user=os.geteuid(), group=os.getegid())
        chosen += filter(None, [user if of_root else runtime.same_user])
    if runtime.user_namespace and is_crippled_root():
        chosen.append(runtime.user_namespace)
    shared = runtime.shared_namespace
    if shared and ranks > 1 and shared in processes.output_of([command, *runtime.help]):
        chosen.append(shared)
    return chosen


def _require_network(runtime: Runtime, command: str, nodes: int) -> None:
    """Check that ranks in the host's network reach those on other nodes.

    :raises SystemExit: they do not.
    """
    if nodes == 1 or not runtime.one_node_without_root or runtime.way.own_network:
        return
    if processes.output_of([command, *runtime.rootless]).strip() == "true":
        sys.exit(
            f"error: {command} on {os.uname().nodename} runs without root: its host network is not the node's, and "
            "ranks on other nodes do not reach it: use an engine of root's, another runtime, or one node"
        )


def image_variables(runtime: Runtime, command: str, image: str, side: str) -> List[str]:
    """Write the variables that an image sets into a file, and return the option for it.

    Without it, a runtime that hands on the whole environment would replace them by the host's variables.

    :param image: its name in the storage of the runtime.
    """
    output = processes.output_of([command, *runtime.variables, image])
    lines = [line for line in output.splitlines() if re.match(r"\w+=", line)]
    Path(contract.variables_file(side)).write_text("".join(f"{line}\n" for line in lines))
    return [runtime.variable_file.format(file=contract.variables_file(side))]


def hidden(runtime: Runtime, names: Iterable[str], own_environment: bool) -> List[str]:
    """Return the job's variables with settings of the host, which a runtime would hand on to the container.

    The launcher's variables for its ranks are not among them: the job's environment lacks them. A runtime that sets
    LD_LIBRARY_PATH in every container may need the host's itself. With other runtimes the host's directories would
    replace the image's, even with the host's MPI in the container.

    :param own_environment: whether the image brings its own MPI and settings; else only LD_LIBRARY_PATH is kept out.
    """
    kept = (*OURS, "LD_LIBRARY_PATH") if runtime.own_library_path else OURS
    names = [name for name in names if own_environment or name == "LD_LIBRARY_PATH"]
    return sorted(name for name in names if OF_THE_HOST.match(name) and name not in kept)


def identify(command: str) -> Tuple[Runtime, str]:
    """Return the runtime of a command, and its output for the version; empty if it prints nothing."""
    output = processes.output_of([command, *container_runtimes.by_command(command).version]).strip()
    return container_runtimes.recognized(command, output), output


def configuration(runtime: Runtime, command: str) -> Dict[str, str]:
    """Return the values in the runtime's configuration file, by directive; empty if no file is readable."""
    output = processes.output_of([command, *runtime.configuration]) if runtime.configuration else ""
    match = re.search(r"^\w+_CONF_FILE=(.+)$", output, re.MULTILINE)
    text = texts.small(Path(match[1])) if match else ""
    directives: Dict[str, str] = {}
    for name, value in re.findall(r"^(\w[\w /-]*?) *= *(.*?) *$", text, re.MULTILINE):
        # Some directives, such as bind paths, occur several times.
        directives[name] = f"{directives[name]}, {value}" if name in directives else value
    return directives


def is_crippled_root() -> bool:
    """Return whether this user is root without all capabilities (as in a sandbox), and needs a user namespace."""
    if os.geteuid() != 0:
        return False
    status = texts.read(Path("/proc/self/status")).splitlines()
    effective = next(line for line in status if line.startswith("CapEff")).split()[1]
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
    return int(effective, 16) != (1 << (last + 1)) - 1


def verify_image(link: Path) -> None:
    """Compare an image with the record that the build step wrote next to the link to it.

    :raises SystemExit: it is another image, or is gone.
    """
    record = _record_of(link)
    try:
        if file_trees.stamp_of(link) != record["stamp"]:
            _refuse_other(link, record, file_trees.digest_of(link))
    except OSError as error:
        sys.exit(f"error: the image {record['path']} cannot be read on {os.uname().nodename}: {error.strerror}")


def copy_image(link: Path, target: Path) -> None:
    """Copy an image into a directory of this job, and compare the copy with the record.

    :raises SystemExit: it is another image, or there is no space for it.
    """
    record = _record_of(link)
    make_directory(target.parent)
    try:
        shutil.copyfile(str(link), str(target))
        _refuse_other(link, record, file_trees.digest_of(target))
    except OSError as error:
        sys.exit(f"error: the image {record['path']} cannot be copied to {target}: {error.strerror}")


def _record_of(link: Path) -> Dict[str, Any]:
    try:
        return json.loads(link.with_suffix(".json").read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"error: the record of the image {link} cannot be read: {error}")


def _refuse_other(link: Path, record: Dict[str, Any], digest: str) -> None:
    if digest != record["sha256"]:
        sys.exit(
            f"error: {os.path.realpath(str(link))} is not the image that the build step found: its SHA-256 is "
            f"{digest}, not {record['sha256']}\nit was replaced: run the check again, and see which users can write"
        )


def make_directory(directory: Path) -> None:
    """Make a directory for this job unless it exists already.

    :raises SystemExit: another job or user made it.
    """
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        status = os.lstat(str(directory))
        if status.st_uid != os.geteuid() or not (directory / JOB).is_file():
            owner = locks.user_name(status.st_uid)
            sys.exit(f"error: {directory} is there already, and belongs to {owner}: it was not made by this job")
        return
    except OSError as error:
        sys.exit(f"error: {directory} cannot be made: {error.strerror}")
    (directory / JOB).touch()


def make_place() -> None:
    """Make the directory that the first argument names, or print one error."""
    make_directory(Path(sys.argv[1]))


def main() -> None:
    """Write the files of the side that the first argument names.

    :raises SystemExit: the runtime is not on this node.
    """
    side = launch.Launch(sys.argv[1])
    command, facts, node = side.container["command"], side.container["start"], os.uname().nodename
    if shutil.which(command) is None:
        sys.exit(f"error: {command} is not on the PATH of {node}")
    needed = facts["required_option"]
    if needed and needed not in processes.output_of([command, "--help"]):
        sys.exit(f"error: {command} on {node} has no {needed}: its plugin that starts containers is not there")
    if facts["copy_to"]:
        copy_image(Path(facts["file"]), Path(facts["copy_to"]))
    elif facts["file"]:
        verify_image(Path(facts["file"]))
    runtime, version = identify(command)
    try:
        runtime = runtime.in_way(facts["way"])
    except KeyError:
        sys.exit(f"error: {command} on {node} has no way {facts['way']} to run images: {version}")
    _require_network(runtime, command, side.container.get("ranks", {}).get("nodes", 1))
    words = options(runtime, command, facts["ranks"])
    if runtime.variables and not facts["file"]:
        words += image_variables(runtime, command, shlex.split(side.image)[0], side.name)
    if facts["way"]:
        version = f"{version} ({facts['way']})"
    kept_out = hidden(runtime, os.environ, facts["own_environment"])
    start = ["env", *(f"-u{name}" for name in kept_out)] if kept_out else []
    launch.note(side.name, {"start": start, "options": [word for option in words for word in option.split()]})
    written = {"command": command, "version": version, "configuration": configuration(runtime, command)}
    Path(contract.runtime_file(side.name)).write_text(json.dumps(written))
