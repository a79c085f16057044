"""Find the MPI of this host: its library, and all that belongs to it (standard library only; run in the job)."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List, Optional, Set, Tuple

from containercheck.node import architectures, mpi
from containercheck.node.job import processes

#: Libraries of libc, which are always the image's.
_LIBC = re.compile(
    rf"^({architectures.LOADER}|lib(c|m|dl|rt|pthread|util|resolv|anl|nsl|nss_.*|BrokenLocale|thread_db|mvec))\.so"
)
#: Directories of plugins, beside the library that loads them.
_PLUGINS = ("openmpi", "openmpi3", "openmpi4", "openmpi5", "pmix", "prte", "ucx", "ucc", "libfabric", "libibverbs")
_CONFIGURATION = ("/etc/openmpi", "/etc/pmix", "/etc/prte", "/etc/ucx", "/etc/libibverbs.d", "/etc/libfabric.conf")
#: Directories that Cray's MPI opens by name, with libraries of process manager and network (SANDIA section V.B).
_CRAY = ("/opt/cray", "/var/opt/cray", "/etc/opt/cray", "/var/spool/slurmd")


class HostMpiError(Exception):
    """The host's MPI cannot be used; the message says why and what to do, in one or two lines."""


class AbsentError(HostMpiError):
    """The host has no MPI of the family that a program needs: a reason to skip."""


def needed_libraries(paths: List[str]) -> Dict[str, str]:
    """Return the libraries that the loader would load for these programs or libraries: file by SONAME."""
    files: Dict[str, str] = {}
    # ldd of many files at once is far quicker than one by one.
    output = _output_of(["ldd", *paths])
    for match in re.finditer(r"^\s+(\S+) => (/\S+) \(0x", output, re.MULTILINE):
        files.setdefault(match[1], match[2])
    return files


def named(libmpi: str, extra: str) -> str:
    """Return the path of a library that the site names in an extra.

    :raises HostMpiError: it is not there.
    """
    if not Path(libmpi).exists():
        raise HostMpiError(f"no {libmpi} on {os.uname().nodename}: the site's extras, {extra}, name it")
    return libmpi


def _output_of(command: List[str]) -> str:
    return processes.output_of(command, stderr=subprocess.DEVNULL)


def find_mpi(executable: str, family: Optional[str] = None) -> Tuple[str, str]:
    """Return SONAME and path of the MPI library that the bare program loads.

    :param family: if the program is not there, or loads none, the loader is asked for a library of this family.
        (Since Open MPI 6, ompi_info loads libopen_mpi alone.)
    :raises AbsentError: the loader finds none.
    :raises HostMpiError: without a family, the program is not there, is a script, or loads none.
    """
    program = shutil.which(executable)
    needed = needed_libraries([program]) if program else {}
    for soname, path in needed.items():
        if mpi.SONAME.match(soname):
            return soname, path
    if family:
        path = found_by_loader(family, "host_mpi")
        return mpi.soname_of(path), path
    if program is not None and not _is_binary(program):
        raise HostMpiError(
            f"{program} is a script, which does not tell its MPI: name the host's in the site's extras, host_mpi"
        )
    if program is None:
        raise HostMpiError(f"{executable} is not on the PATH of {os.uname().nodename}, so the host's MPI is not known")
    raise HostMpiError(
        f"{program} loads no MPI library here (ldd shows none): name the host's in the site's extras, host_mpi"
    )


def _is_binary(program: str) -> bool:
    with open(program, "rb") as stream:
        return stream.read(4) == b"\x7fELF"


def libraries_of_host() -> List[str]:
    """Return the paths of the libraries that the loader finds by name: LD_LIBRARY_PATH, then the system's."""
    paths = []
    for directory in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        paths += sorted(str(path) for path in Path(directory).glob("lib*.so*")) if directory else []
    for ldconfig in ("/sbin/ldconfig", "ldconfig"):
        if shutil.which(ldconfig):
            listing = _output_of([ldconfig, "-p"])
            return paths + re.findall(r"=> (/\S+)$", listing, re.MULTILINE)
    return paths


def found_by_loader(family: str, extra: str) -> str:
    """Return the path of the library of a family that the loader finds first.

    :param extra: the site's extra that can name the library.
    :raises AbsentError: there is none.
    """
    paths = libraries_of_host()
    path = next((path for path in paths if mpi.FAMILIES[family].names.match(Path(path).name)), None)
    if path is None:
        others = sorted({Path(path).name for path in paths if mpi.SONAME.match(Path(path).name) and ".so." in path})
        raise AbsentError(
            f"no software: the program needs {mpi.FAMILIES[family].soname} ({mpi.FAMILIES[family].title}), "
            f"{os.uname().nodename} has {', '.join(others) or 'no MPI'}. Install {family}, or name its library: site's "
            f"extras, {extra}"
        )
    return path


def _plugin_directories(libraries: Dict[str, str]) -> Set[Path]:
    parents = {Path(path).resolve().parent for path in libraries.values()}
    return {parent / name for parent in parents for name in _PLUGINS if (parent / name).is_dir()}


def configuration_of(library: Path) -> List[str]:
    """Return configuration and help texts of this MPI, in the system's places and in its own prefix."""
    prefix = library.parent.parent
    own = [str(prefix / "etc"), str(prefix / "share" / "openmpi"), str(prefix / "share" / "pmix")]
    cray = _CRAY if mpi.is_crays(library.name) else ()
    places = (*_CONFIGURATION, "/usr/share/openmpi", "/usr/share/pmix", *own, *cray)
    return [path for path in places if Path(path).exists()]


def closure(libmpi: str) -> Tuple[Dict[str, str], Set[Path]]:
    """Return the libraries of the host's MPI (file by SONAME), without libc, and the directories of its plugins."""
    library = Path(libmpi).resolve()
    # The bindings for other languages are added, whether or not this program uses them.
    own, member = {}, mpi.member_of(Path(libmpi).name)
    for directory in (Path(libmpi).parent, library.parent):
        # MPICH's programs for the standard's ABI ask for libpmpi_abi too.
        for path in [*directory.glob("libmpi*.so.*"), *directory.glob("libpmpi_*.so.*")]:
            if path.name.count(".") == 2 and mpi.member_of(path.name) == member:
                own[path.name] = str(path)
    libraries = {**own, **needed_libraries([str(library), *own.values()])}
    while True:
        plugins = _plugin_directories(libraries)
        files = [str(path) for directory in plugins for path in directory.rglob("*.so*") if path.is_file()]
        needed = needed_libraries(files) if files else {}
        if needed.keys() <= libraries.keys():
            break
        libraries = {**needed, **libraries}
    return {name: path for name, path in libraries.items() if not _LIBC.match(name)}, plugins
