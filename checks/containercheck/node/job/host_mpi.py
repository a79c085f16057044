"""Brings the host's MPI into a container: the integrated variant (standard library only; run in the job).

    python3 checks/containercheck hostmpi plan --bind='-B{source}:{target}' --side subject hpcc
    python3 checks/containercheck hostmpi verify subject
    python3 checks/containercheck hostmpi lend mpich

``plan`` writes subject.host-mpi/, and .json and .options of that name; ``verify`` checks what the image's loader made
of it, which is in subject.preflight.out; ``lend`` writes bare-mpi/, the host's MPI for a bare program that was built
with another one.

This is the bind (hybrid) model, BSC's integrated container (D12.6 section 6.9.1). Bound are: the directories of the
libraries that the host's MPI consists of and depends on, under ``/host``; its plugins and its configuration, where they
are on the host, because their paths are compiled in. ``subject.host-mpi/`` holds a link for each library, and stands
before all that the image has in its own LD_LIBRARY_PATH; each side has its own. Left to the image are libc and the
compilers' run-time libraries: two versions of these in one process do not work. Of the latter the host's are taken
where the image has none. Directories are bound where the job runs, for the libraries of the node are the ones that
count.
"""

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, Optional, Sequence

from containercheck.node import contract, mpi
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

#: Of the image where it has them: the run-time libraries of the compilers.
_RUN_TIME = re.compile(r"^lib(gcc_s|stdc\+\+|gfortran|quadmath|gomp|atomic|ssp)\.so")


def lend(family: str, libmpi: Optional[str] = None) -> str:
    """Let programs of a family of MPIs load the host's MPI of that family, by the name that they know; return its path.

    :param libmpi: the library, where it is not among those that the loader finds.
    :raises AbsentError: the host has none.
    :raises HostMpiError: the one given is not there, or has another ABI.
    """
    title, wanted, names, _ = mpi.FAMILIES[family]
    path = named(libmpi, f"host_{family}") if libmpi else found_by_loader(family, f"host_{family}")
    if not names.match(Path(path).name):
        raise HostMpiError(
            f"another ABI: the program needs {wanted} ({title}); the site's extras, host_{family}, name {libmpi}"
        )
    _fresh_directory(contract.BARE_MPI_LINKS)
    for name in {wanted, *mpi.other_names(wanted)}:
        Path(contract.BARE_MPI_LINKS, name).symlink_to(Path(path).resolve())
    return path


def _fresh_directory(name: str) -> None:
    shutil.rmtree(name, ignore_errors=True)
    Path(name).mkdir()


def plan(executable: str, bind: str, side: str, libmpi: Optional[str], family: Optional[str] = None) -> Dict[str, Any]:
    """Write the links, the options for the container runtime, and the plan; return the plan.

    :param bind: how the runtime is told to bind, with ``{source}`` and ``{target}``.
    :param side: whose container it is for.
    :param libmpi: the host's MPI library, where the bare program does not tell.
    :param family: of the host's MPI, for a program that only may be there.
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
    # By all the names that programs of its family know it by.
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
    # One bind for a directory serves all below it.
    outermost = [one for one in sources if not any(other in one.parents for other in sources)]
    binds = {str(one): f"{HOST}{one}" for one in outermost}
    binds.update({str(one): str(one) for one in plugins})
    binds.update({one: one for one in configuration_of(Path(path).resolve())})
    if any(" " in source or ":" in source for source in binds):
        raise HostMpiError("a directory of the host's MPI has a space or a colon in its name: it cannot be bound")
    result = {"soname": soname, "path": str(Path(path).resolve()), "libraries": libraries, "spares": spares}
    result["binds"] = binds
    Path(contract.mpi_options_file(side)).write_text(
        " ".join(bind.format(source=source, target=target) for source, target in sorted(binds.items())) + "\n"
    )
    Path(contract.mpi_plan_file(side)).write_text(json.dumps(result, indent=1))
    return result


def _is_hosts(path: str, library: str, trees: Sequence[str]) -> bool:
    """Tell whether a path of the container is a library of the host's, because a tree with it is bound in.

    :param trees: each ``source:target``.
    """
    for source, target in (tree.split(":") for tree in trees):
        if Path(target) == Path(path) or Path(target) in Path(path).parents:
            there = Path(source, Path(path).relative_to(target))
            return there.exists() and there.samefile(library)
    return False


def verify(preflight: str, known: Dict[str, Any], side: str, trees: Sequence[str] = ()) -> str:
    """Check what the loader in the container said about the program, with the host's MPI in place.

    Run-time libraries of the host's that the image lacks are added to it. Return what has to be said of it: of a
    script only that the host's MPI can be loaded in the image; which one its program loads is seen while it runs.

    :param preflight: output of the loader with LD_TRACE_LOADED_OBJECTS; see ``entering.lookup``.
    :param known: the plan.
    :param side: whose container it is.
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
        telling = preflight.strip().splitlines()[-1:] or ["it printed nothing"]
        raise HostMpiError(
            f"the program in the image loads no MPI library, so the host's cannot replace it: {telling[0]}"
        )
    name = next((name for name in (known["soname"], *mpi.other_names(known["soname"])) if name in own), None)
    if name is None:
        raise HostMpiError(
            f"another ABI: the image's program needs {', '.join(map(mpi.title_of, own))}, the host's MPI is "
            f"{mpi.title_of(known['soname'])}. Build the image with an MPI of the host's family"
        )
    if f"/{contract.mpi_links(side)}/" not in own[name] and not _is_hosts(own[name], known["path"], trees):
        raise HostMpiError(
            f"the image's program insists on its own {own[name]} (an RPATH outranks LD_LIBRARY_PATH): "
            "link it with RUNPATH"
        )
    return ""


def main() -> None:
    """Run one command; one error when it cannot be: the exit status ``contract.UNSUPPORTED`` is a reason to skip."""
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
