"""Bring the host's MPI into a container: the integrated variant (standard library only; run in the job).

    python3 checks/containercheck/job hostmpi plan subject
    python3 checks/containercheck/job hostmpi verify subject
    python3 checks/containercheck/job hostmpi lend mpich

``plan`` writes subject.host-mpi/ and subject.host-mpi.json, and the runtime's options; ``verify`` checks the output of
the image's loader with these options, subject.preflight.out; ``lend`` writes bare-mpi/, the host's MPI for a bare
program that was built with another one.

This is the bind (hybrid) model, BSC's integrated container (D12.6 section 6.9.1). The directories of the host's MPI
libraries and of all their dependencies are bound under ``/host``. Its plugins and its configuration are bound at the
same paths as on the host, because these paths are compiled in. ``subject.host-mpi/`` holds a link for each library, and
comes first in the container's LD_LIBRARY_PATH; each side has its own. libc and the compilers' run-time libraries are
the image's: two versions in one process do not work. If the image lacks a run-time library, the host's is used.
Directories are bound in the job, because only the node's libraries count.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from containercheck.job import architectures, contract, launch, mpi, processes

#: Directory of the host's libraries in the container.
HOST = "/host"

#: Run-time libraries of the compilers: the image's, if it has them.
_RUN_TIME = re.compile(r"^lib(gcc_s|stdc\+\+|gfortran|quadmath|gomp|atomic|ssp)\.so")


#: Libraries of libc, which are always the image's.
_LIBC = re.compile(
    rf"^({architectures.LOADER}|lib(c|m|dl|rt|pthread|util|resolv|anl|nsl|nss_.*|BrokenLocale|thread_db|mvec))\.so"
)
#: Directories of plugins, in the directory of the library that loads them.
_PLUGINS = ("openmpi", "openmpi3", "openmpi4", "openmpi5", "pmix", "prte", "ucx", "ucc", "libfabric", "libibverbs")
_CONFIGURATION = ("/etc/openmpi", "/etc/pmix", "/etc/prte", "/etc/ucx", "/etc/libibverbs.d", "/etc/libfabric.conf")
#: Directories that Cray's MPI opens by name, with libraries of process manager and network (SANDIA section V.B).
_CRAY = ("/opt/cray", "/var/opt/cray", "/etc/opt/cray", "/var/spool/slurmd")


class HostMpiError(Exception):
    """Report that the host's MPI cannot be used; the message has the reason and a remedy, in one or two lines."""


class AbsentError(HostMpiError):
    """Report that the host has no MPI of the family that a program needs: a reason to skip."""


def needed_libraries(paths: List[str]) -> Dict[str, str]:
    """Return the libraries that the loader would load for these programs or libraries: file by SONAME."""
    files: Dict[str, str] = {}
    # One ldd of many files is far quicker than one ldd each.
    output = processes.output_of(["ldd", *paths], stderr=subprocess.DEVNULL)
    for match in re.finditer(r"^\s+(\S+) => (/\S+) \(0x", output, re.MULTILINE):
        files.setdefault(match[1], match[2])
    return files


def named(libmpi: str, extra: str) -> str:
    """Return the path of a library that the site names in an extra.

    :raises HostMpiError: the library does not exist.
    """
    if not Path(libmpi).exists():
        raise HostMpiError(f"no {libmpi} on {os.uname().nodename}: the site's extras, {extra}, name it")
    return libmpi


def find_mpi(executable: str, family: Optional[str] = None) -> Tuple[str, str]:
    """Return SONAME and path of the MPI library that the bare program loads.

    :param family: if the program is missing, or loads no MPI library, the loader is asked for a library of this family.
        (Since Open MPI 6, ompi_info loads libopen_mpi alone.)
    :raises AbsentError: the loader finds none.
    :raises HostMpiError: without a family, the program is missing, or shows no MPI library.
    """
    program = shutil.which(executable)
    needed = needed_libraries([program]) if program else {}
    for soname, path in needed.items():
        if mpi.SONAME.match(soname):
            return soname, path
    if family:
        path = found_by_loader(family, "host_mpi")
        return mpi.soname_of(path), path
    reason = f"ldd shows no MPI library of {program}" if program else f"{executable} is not on the PATH"
    raise HostMpiError(f"{reason} on {os.uname().nodename}: name the host's MPI in the site's extras, host_mpi")


def libraries_of_host() -> List[str]:
    """Return the paths of the libraries that the loader finds by name: LD_LIBRARY_PATH, then the system's."""
    paths = []
    for directory in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        paths += sorted(str(path) for path in Path(directory).glob("lib*.so*")) if directory else []
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    listing = processes.output_of([ldconfig, "-p"], stderr=subprocess.DEVNULL)
    return paths + re.findall(r"=> (/\S+)$", listing, re.MULTILINE)


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
    """Return configuration and help texts of this MPI, from the system's directories and its own prefix."""
    prefix = library.parent.parent
    own = [str(prefix / "etc"), str(prefix / "share" / "openmpi"), str(prefix / "share" / "pmix")]
    cray = _CRAY if mpi.is_crays(library.name) else ()
    places = (*_CONFIGURATION, "/usr/share/openmpi", "/usr/share/pmix", *own, *cray)
    return [path for path in places if Path(path).exists()]


def closure(libmpi: str) -> Tuple[Dict[str, str], Set[Path]]:
    """Return the libraries of the host's MPI (file by SONAME), without libc, and the directories of its plugins."""
    library = Path(libmpi).resolve()
    # The bindings for other languages are added even if this program does not use them.
    own, member = {}, mpi.member_of(Path(libmpi).name)
    for directory in (Path(libmpi).parent, library.parent):
        # MPICH's programs for the standard's ABI ask for libpmpi_abi too.
        for path in [*directory.glob("libmpi*.so.*"), *directory.glob("libpmpi_*.so.*")]:
            if path.name.count(".") == 2 and mpi.member_of(path.name) == member:
                own[path.name] = str(path)
    new = libraries = {**own, **needed_libraries([str(library), *own.values()])}
    asked: Set[str] = set()
    while new:
        plugins = _plugin_directories(libraries)
        files = {str(path.resolve()) for directory in plugins for path in directory.rglob("*.so*") if path.is_file()}
        # Debian's Open MPI has 150 of them: the loader takes a second.
        needed = needed_libraries(sorted(files - asked)) if files - asked else {}
        asked |= files
        new = {name: path for name, path in needed.items() if name not in libraries}
        libraries = {**new, **libraries}
    return {name: path for name, path in libraries.items() if not _LIBC.match(name)}, plugins


def lend(family: str, libmpi: Optional[str] = None) -> str:
    """Let programs for a family of MPIs load the host's MPI of that family, by their SONAME; return its path.

    :param libmpi: the library, if the loader does not find it.
    :raises AbsentError: the host has none.
    :raises HostMpiError: ``libmpi`` does not exist, or has another ABI.
    """
    title, soname, names, _ = mpi.FAMILIES[family]
    path = named(libmpi, f"host_{family}") if libmpi else found_by_loader(family, f"host_{family}")
    if not names.match(Path(path).name):
        raise HostMpiError(f"another ABI: the program needs {soname} ({title}), and host_{family} names {libmpi}")
    _fresh_directory(contract.BARE_MPI_LINKS)
    for name in {soname, *mpi.other_names(soname)}:
        Path(contract.BARE_MPI_LINKS, name).symlink_to(Path(path).resolve())
    return path


def _fresh_directory(name: str) -> None:
    shutil.rmtree(name, ignore_errors=True)
    Path(name).mkdir()


def plan(executable: str, bind: str, side: str, libmpi: Optional[str], family: Optional[str] = None) -> Dict[str, Any]:
    """Write the links, the options for the container runtime, and the plan; return the plan.

    :param bind: option of the runtime for a bind, with ``{source}`` and ``{target}``.
    :param side: the side that the container belongs to.
    :param libmpi: the host's MPI library, if the bare program does not load it.
    :param family: of the host's MPI, used if the program is missing.
    :raises HostMpiError: the library does not exist; see also :func:`find_mpi`.
    """
    soname, path = (mpi.soname_of(libmpi), named(libmpi, "host_mpi")) if libmpi else find_mpi(executable, family)
    needed, plugins = closure(path)
    needed.setdefault(soname, path)
    real = {name: Path(file).resolve() for name, file in needed.items()}
    sources = {file.parent for file in real.values()}
    targets = {name: f"{HOST}{file}" for name, file in real.items()}
    spares = {name: target for name, target in targets.items() if _RUN_TIME.match(name)}
    libraries = {name: file for name, file in needed.items() if name not in spares}
    # Links by all the SONAMEs of its family.
    links = {other: targets[name] for name in libraries for other in mpi.other_names(name)}
    links.update({name: targets[name] for name in libraries})
    links[contract.MPI_PRELOAD] = targets[soname]
    _fresh_directory(contract.mpi_links(side))
    for name, target in links.items():
        Path(contract.mpi_links(side), name).symlink_to(target)
    preload = Path(contract.MPI_PRELOAD)
    with contextlib.suppress(FileNotFoundError):
        preload.unlink()
    preload.symlink_to(real[soname])
    # The bind of a directory includes its subdirectories.
    outermost = [directory for directory in sources if not any(other in directory.parents for other in sources)]
    binds = {str(directory): f"{HOST}{directory}" for directory in outermost}
    binds.update({str(directory): str(directory) for directory in plugins})
    binds.update({file: file for file in configuration_of(Path(path).resolve())})
    if any(" " in source or ":" in source for source in binds):
        raise HostMpiError("a directory of the host's MPI has a space or a colon in its name: it cannot be bound")
    written = {"soname": soname, "path": str(Path(path).resolve()), "libraries": libraries, "spares": spares}
    written["binds"] = binds
    options = [bind.format(source=source, target=target) for source, target in sorted(binds.items())]
    launch.note(side, {"mpi-options": [word for option in options for word in option.split()]})
    Path(contract.mpi_plan_file(side)).write_text(json.dumps(written, indent=1))
    return written


def _is_host_library(path: str, library: str, trees: Sequence[str]) -> bool:
    """Return whether a path in the container is a library of the host, in a bound directory.

    :param trees: each ``source:target``.
    """
    for source, target in (tree.split(":") for tree in trees):
        if Path(target) == Path(path) or Path(target) in Path(path).parents:
            on_host = Path(source, Path(path).relative_to(target))
            return on_host.exists() and on_host.samefile(library)
    return False


def verify(preflight: str, known: Dict[str, Any], side: str, trees: Sequence[str] = ()) -> str:
    """Check the output of the container's loader about the program, with the host's MPI in place; return a remark.

    Run-time libraries that the image lacks are linked to the host's. The remark is empty except for a script: the image
    can load the host's MPI, but only the run shows which MPI its program loads.

    :param preflight: output of the loader with LD_TRACE_LOADED_OBJECTS; see ``commands._MPI_LOOKUP``.
    :param known: the plan.
    :param side: the side that the container belongs to.
    :param trees: directories of the host that the site has bound with the program, each ``source:target``.
    :raises HostMpiError: the host's libc is newer than the image's, a library is missing, or the ABI is another.
    """
    match = re.search(r"version `(GLIBC_[\d.]+)' not found \(required by (\S+)\)", preflight)
    if match:
        raise HostMpiError(
            f"the host's libc is newer than the image's: {match[2]} needs {match[1]}. "
            "Build the image from a newer distribution, or run the generic variant only"
        )
    for name in sorted(set(re.findall(r"^\s*(\S+) => not found", preflight, re.MULTILINE))):
        if name not in known["spares"]:
            raise HostMpiError(f"{name} is not found in the container: bind it (extras: host_mpi), or install it")
        Path(contract.mpi_links(side), name).symlink_to(known["spares"][name])
    script = re.search(rf"^{contract.IS_SCRIPT} (.+)$", preflight, re.MULTILINE)
    if script and re.search(rf"^\s*\S+/{re.escape(contract.MPI_PRELOAD)} \(0x", preflight, re.MULTILINE):
        return f"{script[1]} in the image is a script: which MPI its program loads is seen while it runs"
    loaded = dict(re.findall(r"^\s*(\S+) => (/\S+)", preflight, re.MULTILINE))
    own = {name: path for name, path in loaded.items() if mpi.SONAME.match(name)}
    if not own:
        last_line = (preflight.strip() or "it printed nothing").splitlines()[-1]
        raise HostMpiError(f"the image's program loads no MPI library that the host's can replace: {last_line}")
    name = next((name for name in (known["soname"], *mpi.other_names(known["soname"])) if name in own), None)
    if name is None:
        raise HostMpiError(
            f"another ABI: the image's program needs {', '.join(map(mpi.title_of, own))}, the host's MPI is "
            f"{mpi.title_of(known['soname'])}. Build the image with an MPI of the host's family"
        )
    if f"/{contract.mpi_links(side)}/" not in own[name] and not _is_host_library(own[name], known["path"], trees):
        raise HostMpiError(
            f"the image's program insists on its own {own[name]} (an RPATH outranks LD_LIBRARY_PATH): "
            "link it with RUNPATH"
        )
    return ""


def main() -> None:
    """Run a command, or print one error; the exit status ``contract.UNSUPPORTED`` is a reason to skip."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("plan", "verify", "lend"))
    parser.add_argument("name", help="side of the container; or family of MPI that is lent to the bare program")
    parser.add_argument("--libmpi", help="the host's MPI library to lend; by default the one that the loader finds")
    arguments = parser.parse_args()
    side = arguments.name
    try:
        if arguments.command == "lend":
            print(f"MPI of the bare program: {lend(arguments.name, arguments.libmpi)}")
        elif arguments.command == "plan":
            container = launch.Launch(side).container
            host = container["host"]
            known = plan(host["program"], container["bind"], side, host["library"], host["family"])
            print(f"host MPI: {known['path']}, {len(known['libraries'])} libraries, {len(known['binds'])} binds")
        else:
            known = json.loads(Path(contract.mpi_plan_file(side)).read_text())
            preflight = Path(contract.preflight_file(side)).read_text(errors="replace")
            remark = verify(preflight, known, side, launch.Launch(side).container["host"]["trees"])
            print(remark or "host MPI: the image's program loads it", flush=True)
    except AbsentError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(contract.UNSUPPORTED)
    except (HostMpiError, OSError) as error:
        sys.exit(f"error: {error}")
