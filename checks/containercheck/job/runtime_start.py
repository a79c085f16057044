"""Find the needs of this node's container runtime, on the node itself (standard library only; in the job).

    python3 checks/containercheck/job runtime --command apptainer --ranks 4 --own-environment subject
    python3 checks/containercheck/job place /dev/shm/containercheck-1000-0123456789abcdef

The first writes the runtime's options for the side's commands (launch.py), and the words before the runtime that keep
the host's settings out of an image with its own. It writes ``subject.runtime.json`` with the runtime's version. With
``--way``, it checks that the runtime has this way to run images. It also checks that the image is the one in the build
step's record: the job may run hours later, and the file may have been replaced. If size, inode or time of change
differ, the digest decides. For an image that is a directory, the digest of its files counts.

The second makes a directory for this job alone, in a directory that all users may write to. It must not exist before.
Directories of the user's killed jobs are removed there.
"""

import argparse
import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import stat
import sys
import time
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Tuple

from containercheck.job import container_runtimes, contract, launch, locks, processes, texts
from containercheck.job.build import file_trees
from containercheck.job.container_runtimes import Runtime

#: Variables with settings of the host's MPI, loader and Python.
OF_THE_HOST = re.compile(r"(OMPI_MCA|OPAL|PMIX_MCA|PRTE_MCA|UCX|UCC|FI|MPICH|MPIR_CVAR|I_MPI|MV2|LD)_|PYTHON")
#: Those of them that the library sets for every container.
OURS = ("PMIX_MCA_gds",)
#: Name of a directory for one job: the number of its user, and a random part that cannot be guessed.
DIRECTORY = re.compile(r"containercheck-(\d+)-[0-9a-f]{16}")
#: File in it by which a job knows its own. Age in seconds from which a directory was left behind by a killed job.
JOB, OLD = ".job", 86400.0


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
        of_root = answers_rootless(runtime, command) == "false"
        user = runtime.user_of_root.format(user=os.geteuid(), group=os.getegid())
        chosen += filter(None, [user if of_root else runtime.same_user])
    if runtime.user_namespace and is_crippled_root():
        chosen.append(runtime.user_namespace)
    shared = runtime.shared_namespace
    if shared and ranks > 1 and shared in processes.output_of([command, *runtime.help]):
        chosen.append(shared)
    return chosen


def answers_rootless(runtime: Runtime, command: str) -> str:
    """Return whether an engine runs without root, in its own words: ``true``, ``false``, or other output."""
    return processes.output_of([command, *runtime.rootless]).strip()


def refuse_several_nodes(runtime: Runtime, command: str) -> None:
    """Check that the containers of an engine on several nodes have the host's network.

    :raises SystemExit: they do not, because the engine runs without root.
    """
    if runtime.network_of_root and answers_rootless(runtime, command) == "true":
        ways = " or ".join(f"{command}{container_runtimes.WAY}{way.name}" for way in runtime.ways if way.own_network)
        sys.exit(
            f"error: {command} on {os.uname().nodename} runs without root, and its containers then have no network in "
            f"common with those of other nodes: have it run by root, or take {ways} with the generic variant"
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
    if not match:
        return {}
    try:
        text = Path(match[1]).read_text(errors="replace")
    except OSError:
        return {}
    lines = re.findall(r"^(\w[\w /-]*?) *= *(.*?) *$", text, re.MULTILINE)
    directives: Dict[str, List[str]] = {}
    for name, value in lines:
        # Some directives, such as bind paths, occur several times.
        directives.setdefault(name, []).append(value)
    return {name: ", ".join(values) for name, values in directives.items()}


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
        now = os.stat(str(link))
        if stat.S_ISDIR(now.st_mode):
            if file_trees.stamp_of(link) != record["stamp"]:
                _refuse_other(link, record, file_trees.digest_of_tree(link))
        elif [now.st_size, now.st_ino, now.st_mtime_ns] != [record["bytes"], record["inode"], record["mtime_ns"]]:
            _refuse_other(link, record, _digest(link, None))
    except OSError as error:
        sys.exit(f"error: the image {record['path']} cannot be read on {os.uname().nodename}: {error.strerror}")


def copy_image(link: Path, target: Path) -> None:
    """Copy an image into a directory of this job, and compare the copy with the record.

    :raises SystemExit: it is another image, or there is no space for it.
    """
    record = _record_of(link)
    make_directory(target.parent)
    try:
        _refuse_other(link, record, _digest(link, target))
    except OSError as error:
        sys.exit(f"error: the image {record['path']} cannot be copied to {target}: {error.strerror}")


def _record_of(link: Path) -> Dict[str, Any]:
    try:
        return json.loads(link.with_suffix(".json").read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"error: the record of the image {link} cannot be read: {error}")


def _digest(link: Path, target: Optional[Path]) -> str:
    """Return the SHA-256 of an image; copy it if there is a target."""
    digest = hashlib.sha256()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with link.open("rb") as source, open(os.open(str(target), flags, 0o600) if target else os.devnull, "wb") as copied:
        for block in iter(lambda: source.read(1 << 20), b""):
            digest.update(block)
            copied.write(block)
    return digest.hexdigest()


def _refuse_other(link: Path, record: Dict[str, Any], digest: str) -> None:
    if digest != record["sha256"]:
        sys.exit(
            f"error: {os.path.realpath(str(link))} is not the image that the build step found: its SHA-256 is "
            f"{digest}, not {record['sha256']}\nit was replaced: run the check again, and see which users can write"
        )


def make_directory(directory: Path) -> None:
    """Make a directory for this job unless it exists already; remove those of the user's ended jobs.

    :raises SystemExit: another job or user made it.
    """
    _sweep(directory.parent)
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


def _sweep(place: Path) -> None:
    """Remove directories that killed jobs left behind: no job is as old."""
    with contextlib.suppress(OSError):
        for path in place.iterdir():
            match = DIRECTORY.fullmatch(path.name)
            if match and match[1] == str(os.geteuid()):
                with contextlib.suppress(OSError):
                    status = os.lstat(str(path))
                    if status.st_uid == os.geteuid() and time.time() - status.st_mtime > OLD:
                        shutil.rmtree(str(path))


def make_place() -> None:
    """Make the directory of the command line, or print one error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    make_directory(parser.parse_args().directory)


def main() -> None:
    """Write the files of a side.

    :raises SystemExit: the runtime is not on this node.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", required=True, help="the runtime, as it is typed")
    parser.add_argument("--ranks", type=int, required=True, help="ranks of MPI on a node; 0 without MPI")
    parser.add_argument("--way", default="", help="way to run images, if the runtime has several")
    parser.add_argument("--own-environment", action="store_true", help="the image brings its own MPI and settings")
    parser.add_argument("--stored-image", action="store_true", help="the runtime keeps the image in its own storage")
    parser.add_argument("--image", type=Path, help="link to the image, if it is a file: check it against its record")
    parser.add_argument("--copy-to", type=Path, help="copy it there, into a directory of this job")
    parser.add_argument(
        "--required-option", help="option that the command must have, of a plugin that starts containers"
    )
    parser.add_argument("--several-nodes", action="store_true", help="containers on other nodes have to be reached")
    parser.add_argument("side")
    arguments = parser.parse_args()
    if shutil.which(arguments.command) is None:
        sys.exit(f"error: {arguments.command} is not on the PATH of {os.uname().nodename}")
    needed = arguments.required_option
    if needed and needed not in processes.output_of([arguments.command, "--help"]):
        node = os.uname().nodename
        sys.exit(
            f"error: {arguments.command} on {node} has no {needed}: its plugin that starts containers is not there"
        )
    if arguments.image and arguments.copy_to:
        copy_image(arguments.image, arguments.copy_to)
    elif arguments.image:
        verify_image(arguments.image)
    runtime, version = identify(arguments.command)
    try:
        runtime = runtime.in_way(arguments.way)
    except KeyError:
        node = os.uname().nodename
        sys.exit(f"error: {arguments.command} on {node} has no way {arguments.way} to run images: {version}")
    if arguments.several_nodes:
        refuse_several_nodes(runtime, arguments.command)
    words = options(runtime, arguments.command, arguments.ranks)
    if arguments.stored_image and runtime.variables:
        image = shlex.split(launch.Launch(arguments.side).image)[0]
        words += image_variables(runtime, arguments.command, image, arguments.side)
    if arguments.way:
        version = f"{version} ({arguments.way})"
    kept_out = hidden(runtime, os.environ, arguments.own_environment)
    start = ["env", *(f"-u{name}" for name in kept_out)] if kept_out else []
    launch.note(arguments.side, {"start": start, "options": [word for option in words for word in option.split()]})
    written: Dict[str, Any] = {"command": arguments.command, "version": version}
    written["configuration"] = configuration(runtime, arguments.command)
    Path(contract.runtime_file(arguments.side)).write_text(json.dumps(written))


if __name__ == "__main__":
    main()
