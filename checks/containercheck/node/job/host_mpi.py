"""Bring the host's MPI into a container: the integrated variant (standard library only; run in the job).

    python3 checks/containercheck hostmpi plan --bind='-B{source}:{target}' --side subject hpcc
    python3 checks/containercheck hostmpi verify subject
    python3 checks/containercheck hostmpi lend mpich

``plan`` writes subject.host-mpi/ and subject.host-mpi.json, and the runtime's options; ``verify`` checks the output
of the image's loader with these, subject.preflight.out; ``lend`` writes bare-mpi/, the host's MPI for a bare program
that was built with another one.

This is the bind (hybrid) model, BSC's integrated container (D12.6 section 6.9.1). Bound are: the directories of the
host's MPI libraries and of all that they depend on, under ``/host``; its plugins and its configuration at the same
paths as on the host, because these are compiled in. ``subject.host-mpi/`` holds a link for each library, and comes
first in the container's LD_LIBRARY_PATH; each side has its own. libc and the compilers' run-time libraries are the
image's: two versions of these in one process do not work. If the image lacks one of the latter, the host's is taken.
Directories are bound in the job, because the libraries of the node count.
"""

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, Optional, Sequence

from containercheck.node import contract, mpi
from containercheck.node.job import launch
from containercheck.node.job.host_mpi_libraries import (
    AbsentError,
    HostMpiError,
    closure,
    configuration_of,
    find_mpi,
    found_by_loader,
    named,
)

#: Where the host's library directories appear in the container.
HOST = "/host"

#: Run-time libraries of the compilers: the image's, if it has them.
_RUN_TIME = re.compile(r"^lib(gcc_s|stdc\+\+|gfortran|quadmath|gomp|atomic|ssp)\.so")


def lend(family: str, libmpi: Optional[str] = None) -> str:
    """Let programs for a family of MPIs load the host's MPI of that family, by their SONAME; return its path.

    :param libmpi: the library, if the loader does not find it.
    :raises AbsentError: the host has none.
    :raises HostMpiError: ``libmpi`` is not there, or has another ABI.
    """
    title, soname, names, _ = mpi.FAMILIES[family]
    path = named(libmpi, f"host_{family}") if libmpi else found_by_loader(family, f"host_{family}")
    if not names.match(Path(path).name):
        raise HostMpiError(
            f"another ABI: the program needs {soname} ({title}); the site's extras, host_{family}, name {libmpi}"
        )
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
    :param family: of the host's MPI, in case the program is not there.
    :raises HostMpiError: it is not there; see also :func:`find_mpi`.
    """
    soname, path = (mpi.soname_of(libmpi), named(libmpi, "host_mpi")) if libmpi else find_mpi(executable, family)
    needed, plugins = closure(path)
    needed.setdefault(soname, path)
    real = {name: Path(file).resolve() for name, file in needed.items()}
    sources = {file.parent for file in real.values()}
    targets = {name: f"{HOST}{file}" for name, file in real.items()}
    spares = {name: target for name, target in targets.items() if _RUN_TIME.match(name)}
    libraries = {name: file for name, file in needed.items() if name not in spares}
    # By all the SONAMEs of its family.
    links = {other: targets[name] for name in libraries for other in mpi.other_names(name)}
    links.update({name: targets[name] for name in libraries})
    links[contract.MPI_PRELOAD] = targets[soname]
    _fresh_directory(contract.mpi_links(side))
    for name, target in links.items():
        Path(contract.mpi_links(side), name).symlink_to(target)
    preload = Path(contract.MPI_PRELOAD)
    if preload.is_symlink():
        preload.unlink()
    preload.symlink_to(real[soname])
    # The bind of a directory includes all below it.
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
    """Tell whether a path in the container is a library of the host's, in a directory that is bound in.

    :param trees: each ``source:target``.
    """
    for source, target in (tree.split(":") for tree in trees):
        if Path(target) == Path(path) or Path(target) in Path(path).parents:
            on_host = Path(source, Path(path).relative_to(target))
            return on_host.exists() and on_host.samefile(library)
    return False


def verify(preflight: str, known: Dict[str, Any], side: str, trees: Sequence[str] = ()) -> str:
    """Check the container's loader's output about the program, with the host's MPI in place; return a remark.

    Run-time libraries that the image lacks are linked to the host's. The remark is empty except for a script, of which
    only this is certain: the image can load the host's MPI. Which one its program loads is seen while it runs.

    :param preflight: output of the loader with LD_TRACE_LOADED_OBJECTS; see ``commands._MPI_LOOKUP``.
    :param known: the plan.
    :param side: the side that the container belongs to.
    :param trees: directories of the host that the site has bound in with the program, each ``source:target``.
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
            raise HostMpiError(
                f"in the container, {name} is not found: bind it (site's extras, host_mpi) or install it"
            )
        Path(contract.mpi_links(side), name).symlink_to(known["spares"][name])
    script = re.search(rf"^{contract.IS_SCRIPT} (.+)$", preflight, re.MULTILINE)
    if script and re.search(rf"^\s*\S+/{re.escape(contract.MPI_PRELOAD)} \(0x", preflight, re.MULTILINE):
        return f"{script[1]} in the image is a script: which MPI its program loads is seen while it runs"
    loaded = dict(re.findall(r"^\s*(\S+) => (/\S+)", preflight, re.MULTILINE))
    own = {name: path for name, path in loaded.items() if mpi.SONAME.match(name)}
    if not own:
        last_line = preflight.strip().splitlines()[-1:] or ["it printed nothing"]
        raise HostMpiError(
            f"the program in the image loads no MPI library, so the host's cannot replace it: {last_line[0]}"
        )
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
    commands = parser.add_subparsers(dest="command")
    commands.required = True
    planning = commands.add_parser("plan", help="find the host's MPI and say how to bind it")
    planning.add_argument("--bind", required=True, help="with {source} and {target}")
    planning.add_argument("--side", required=True, help="whose container it is for")
    planning.add_argument("--libmpi", help="the host's MPI library; by default what the program loads")
    planning.add_argument("--family", choices=mpi.FAMILIES, help="of the library, where the program is not there")
    planning.add_argument("executable")
    verifying = commands.add_parser("verify", help="check what the loader in the container said")
    verifying.add_argument("--tree", action="append", default=[], help="source:target, bound in with the program")
    verifying.add_argument("side", help="whose container it is")
    lending = commands.add_parser("lend", help="let a bare program load the host's MPI of its family")
    lending.add_argument("--libmpi", help="the host's MPI library; by default what the loader finds")
    lending.add_argument("family", choices=mpi.FAMILIES)
    arguments = parser.parse_args()
    try:
        if arguments.command == "lend":
            print(f"MPI of the bare program: {lend(arguments.family, arguments.libmpi)}")
        elif arguments.command == "plan":
            known = plan(arguments.executable, arguments.bind, arguments.side, arguments.libmpi, arguments.family)
            print(f"host MPI: {known['path']}, {len(known['libraries'])} libraries, {len(known['binds'])} binds")
        else:
            known = json.loads(Path(contract.mpi_plan_file(arguments.side)).read_text())
            preflight = Path(contract.preflight_file(arguments.side)).read_text(errors="replace")
            remark = verify(preflight, known, arguments.side, arguments.tree)
            print(remark or "host MPI: the image's program loads it", flush=True)
    except AbsentError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(contract.UNSUPPORTED)
    except (HostMpiError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
