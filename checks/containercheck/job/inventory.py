"""Print the facts of a machine that containers and their checks need, as one JSON object.

    python3 checks/containercheck/job inventory

It runs on the machine itself, changes nothing, and takes a few seconds at most. Standard library only, Python 3.6 or
newer.
"""

import json
import os
import platform
import re
import resource
import shutil
import socket
import stat
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from containercheck.job import architectures, container_runtimes, host_mpi, mpi, processes, runtime_start, texts
from containercheck.job.container_runtimes import Runtime

#: Longest wait for a program that prints its version, in seconds. A module system or srun may ask a server.
PATIENCE = 20.0
#: Programs that mount an image file without privileges: squashfuse's own, and the name in Apptainer's packages.
MOUNTERS = ("squashfuse_ll", "squashfuse")
#: Settings of the kernel that forbid user namespaces, with the value that does so.
_FORBIDDING = (
    ("user.max_user_namespaces", "0"),
    ("kernel.unprivileged_userns_clone", "0"),
    ("kernel.apparmor_restrict_unprivileged_userns", "1"),
)
#: Programs that compile the bare side's programs.
TOOLS = ("gcc", "g++", "make")


def output_of(words: Sequence[str]) -> Tuple[Optional[int], str]:
    """Return the exit status and the output of a program, both streams; None and "" if it does not run."""
    status, output = processes.answer_of(words, PATIENCE, stderr=subprocess.STDOUT)
    return status, output.strip()


def first_line(text: str) -> str:
    """Return the first line of a text with a digit in it, usually the version; else its first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if re.search(r"\d", line)), lines[0] if lines else "")


def inventory(root: Path = Path("/")) -> Dict[str, Any]:
    """Return the facts of this machine, by topic; each topic exists, and is empty if the machine has nothing of it.

    ``locked_memory`` is a limit of processes in bytes, None for none; ``shared_memory`` is the size of /dev/shm in
    bytes.

    :param root: root of the file systems that are read.
    """
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    state = os.statvfs(str(root / "dev/shm")) if (root / "dev/shm").is_dir() else None
    return {
        "host": host(root),
        "processor": processor(root),
        "runtimes": runtimes(),
        "namespaces": user_namespaces(root),
        "fuse": os.access(str(root / "dev/fuse"), os.R_OK | os.W_OK),
        "locked_memory": None if locked == resource.RLIM_INFINITY else locked,
        "shared_memory": state and state.f_blocks * state.f_frsize,
        "mpi": mpi_libraries(),
        "pmi": pmi_plugins(),
        "tools": [name for name in TOOLS if shutil.which(name)],
        "gpus": gpus(root),
        "fabric": fabric(root),
    }


def brief() -> Dict[str, Any]:
    """Return the facts for a heading, with only the first of the runtimes, as each of them has to be started."""
    first = [runtime.command for runtime in container_runtimes.RUNTIMES if shutil.which(runtime.command)][:1]
    return {"host": host(), "processor": processor(), "runtimes": runtimes(first), "mpi": mpi_libraries()}


def host(root: Path = Path("/")) -> Dict[str, Any]:
    """Return name, system, kernel, C library and Python of this machine, and whether this user is root."""
    release = dict(re.findall(r'^(\w+)="?(.*?)"?$', texts.small(root / "etc/os-release"), re.MULTILINE))
    # musl, for example, does not know the name.
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
    return {
        "name": socket.gethostname(),
        "system": release.get("PRETTY_NAME", ""),
        "kernel": platform.release(),
        "libc": libc or "",
        "python": platform.python_version(),
        "root": os.geteuid() == 0,
    }


def processor(root: Path = Path("/")) -> Dict[str, Any]:
    """Return architecture, model, processors, sockets, cores of a socket and memory (bytes) of this machine."""
    places = set()
    for topology in root.glob("sys/devices/system/cpu/cpu[0-9]*/topology"):
        places.add((texts.small(topology / "physical_package_id"), texts.small(topology / "core_id")))
    return {
        "architecture": platform.machine(),
        "model": architectures.processor(texts.small(root / "proc/cpuinfo")) or "",
        "processors": os.cpu_count() or 1,
        "usable": len(os.sched_getaffinity(0)),
        "sockets": len({socket_ for socket_, _ in places}) or 1,
        "cores": len(places) or os.cpu_count() or 1,
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def runtimes(commands: Iterable[str] = ()) -> List[Dict[str, Any]]:
    """Return the container runtimes of this machine: name, path, version, and their way to mount an image file.

    :param commands: commands to look for; by default those of all runtimes of the library.
    """
    runtimes_here = []
    for command in commands or dict.fromkeys(runtime.command for runtime in container_runtimes.RUNTIMES):
        path = shutil.which(command)
        if not path:
            continue
        row = container_runtimes.by_command(command)
        # The launcher's plugin starts the containers; it may be missing.
        if row.required_option and row.required_option not in output_of([path, "--help"])[1]:
            continue
        status, output = output_of([path, *row.version])
        runtime = container_runtimes.recognized(command, output)
        runtimes_here.append(
            {
                "name": runtime.name or command,
                "path": path,
                "version": first_line(output) if status == 0 else "",
                "problem": "" if status == 0 else first_line(output) or "it does not run",
                "mounts": mounting(runtime, path),
            }
        )
    return runtimes_here


def mounting(runtime: Runtime, path: str) -> str:
    """Return the way in which a runtime mounts image files: ``setuid``, the name of a program of FUSE, or ``unpacks``.

    Empty for a runtime that runs no image files, or does not print the directory of its parts.
    """
    if not runtime.configuration:
        return ""
    _, output = output_of([path, *runtime.configuration])
    settings = dict(re.findall(r"^(\w+)=(.*)$", output, re.MULTILINE))
    libexec = Path(settings.get("LIBEXECDIR") or "/nonexistent")
    parts = [directory / "bin" for directory in (libexec / Path(path).name, libexec / runtime.command)]
    starters = [starter for directory in parts for starter in directory.glob("starter-suid")]
    if any(starter.stat().st_mode & stat.S_ISUID for starter in starters):
        return "setuid"
    if os.geteuid() == 0 and not runtime_start.is_crippled_root():
        return "kernel"
    for name in MOUNTERS:
        if shutil.which(name, path=os.pathsep.join([*map(str, parts), os.environ.get("PATH", "")])):
            return name
    return "unpacks"


def user_namespaces(root: Path = Path("/")) -> Dict[str, Any]:
    """Return whether a program may have its own user namespace, and the setting that forbids it."""
    status, output = output_of(["unshare", "--user", "--map-root-user", "true"])
    set_so = (name for name, value in _FORBIDDING if texts.small(root / "proc/sys" / name.replace(".", "/")) == value)
    why = next((f"{name} is {dict(_FORBIDDING)[name]}" for name in set_so), "")
    # Without unshare, only the settings can be checked.
    allowed = not why if status is None else status == 0
    return {"allowed": allowed, "problem": "" if allowed else why or first_line(output)}


def mpi_libraries() -> List[Dict[str, str]]:
    """Return the MPI libraries that the loader finds: family, title, library, and its program's version."""
    libraries: List[Dict[str, str]] = []
    for name in sorted({Path(path).name for path in host_mpi.libraries_of_host()}):
        family = mpi.family_of(name) if mpi.SONAME.match(name) else None
        if not family or any(known["family"] == family for known in libraries):
            continue
        program = mpi.ABIS[family].program
        _, output = output_of([program]) if program and shutil.which(program) else (None, "")
        number = re.search(r"(?:Open MPI|MPICH Version): *v?(\S+)", output)
        title = mpi.ABIS[family].title
        libraries.append({"family": family, "title": title, "library": name, "version": number[1] if number else ""})
    return sorted(libraries, key=lambda library: library["family"] != "openmpi")


def pmi_plugins() -> List[str]:
    """Return the PMI plugins with which srun can start ranks; empty without srun."""
    if not shutil.which("srun"):
        return []
    _, output = output_of(["srun", "--mpi=list"])
    # "MPI plugin types are...", then one a line (a comma-separated list since 22.05 for versions of pmix).
    lines = [line.strip() for line in output.splitlines()]
    return sorted({word for line in lines for word in re.findall(r"^(?:srun: )?(none|cray_shasta|pmi\w*)$", line)})


def gpus(root: Path = Path("/")) -> List[str]:
    """Return the names of the GPUs from their vendor's tool; without the tool, the names of their devices."""
    if shutil.which("nvidia-smi"):
        status, output = output_of(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"])
        if status == 0 and output:
            return ["{} (driver {})".format(*map(str.strip, line.rsplit(",", 1))) for line in output.splitlines()]
    devices = sorted(path.name for path in (root / "dev").glob("nvidia[0-9]*"))
    if (root / "dev/kfd").exists():
        cards = (root / "sys/class/kfd/kfd/topology/nodes").glob("*/gpu_id")
        devices += [f"AMD GPU {texts.small(card)}" for card in sorted(cards) if texts.small(card) not in ("", "0")]
    return devices


def fabric(root: Path = Path("/")) -> List[str]:
    """Return the adapters of fast networks, with the state of the first port from their kernel driver."""
    adapters = []
    for device in sorted((root / "sys/class/infiniband").glob("*")):
        port = device / "ports/1"
        state, rate = texts.small(port / "state").rpartition(": ")[2].lower(), texts.small(port / "rate")
        words = " ".join(filter(None, [texts.small(port / "link_layer"), rate, state]))
        adapters.append(f"{device.name}: {words}" if words else device.name)
    # HPE Slingshot, Cornelis Omni-Path Express and Intel's adapters have their own classes.
    for name in ("cxi", "hfi1"):
        adapters += [device.name for device in sorted((root / "sys/class" / name).glob("*"))]
    return adapters


def main() -> None:
    """Print the facts."""
    print(json.dumps(inventory()))
