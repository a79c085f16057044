"""Provider: our own programs: C or C++, compiled with the host's MPI, or a script."""

from __future__ import annotations

import shlex
import shutil

from containercheck.node import contract
from containercheck.site import node_commands
from containercheck.site.sites import Site
from containercheck.software.provision import CHECKS, Provision, Unavailable, Wanted, architecture_of, compiler_of

#: What to do where there is no compiler of MPI; with the family.
_NO_COMPILER = (
    "install an MPI with its compilers (Debian and Ubuntu: lib{}-dev), or load its module: modules of the site's "
    "environment"
)
#: Option of MPICH's compiler that links the MPI into the program.
_STATIC = "-static-mpi"


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return the program that is built from a source below ``checks/src``.

    :raises Unavailable: there is no compiler; or, for C++, the partition's architecture is not known.
    """
    if wanted.source is None:
        return Provision()
    if wanted.source.endswith(".cpp"):
        return _from_cache(wanted, site)
    program, source = f"bin/{wanted.executable}", shlex.quote(str(CHECKS / "src" / wanted.source))
    if wanted.source.endswith(".py"):
        return Provision(program=f"./{program}", build=("mkdir -p bin", f"install {source} {program}"))
    compiler, install = compiler_of(wanted, site), _NO_COMPILER.format(wanted.mpi_family or site.mpi_family)
    reason = f"no software: {wanted.executable} is built from source, and no {compiler} is on the PATH: {install}"
    if site.is_here and not wanted.modules and shutil.which(compiler) is None:
        raise Unavailable(reason)
    complain = f"echo {shlex.quote(f'error: {reason}')} >&2"
    # Looks on the machine that compiles, after the modules were loaded.
    look = f"{{ {node_commands.unless_found(compiler, complain, contract.UNSUPPORTED)}; }}"
    options = shlex.join(wanted.compile_options)

    def command(name: str) -> str:
        return f"{compiler} -O2 -Wall -o {name} {source} {options}".strip()

    static = program + contract.STATIC
    linked = (_linked_statically(command(f"{static} {_STATIC}"), static),) if wanted.static_mpi else ()
    return Provision(program=f"./{program}", build=(look, "mkdir -p bin", command(program), *linked))


def _linked_statically(command: str, program: str) -> str:
    """Return the command that links MPI into a program, and ends with the reason where that cannot be done.

    :param command: command that links it.
    """
    # A compiler may not know the option, and link the library all the same.
    verify = f"! ldd {program} | grep -q 'libmpi[^ ]*[.]so'"
    reason = f"error: no software: the compiler's {_STATIC} links no MPI: install MPICH's libmpich.a (libmpich-dev)"
    complain = f"{{ echo {shlex.quote(reason)} >&2; exit {contract.UNSUPPORTED}; }}"
    return f"{{ {{ {command} && {verify}; }} || {complain}; }}"


def _from_cache(wanted: Wanted, site: Site) -> Provision:
    """Return a program in C++, from the cache: with a large library it takes a minute to compile."""
    words = ["--cache", site.cache("program_cache"), "--architecture", architecture_of(site), "--mpi", site.mpi_family]
    words += [f"--header={header}={package}" for header, package in wanted.headers.items()]
    words += [f"--option={option}" for option in wanted.compile_options]
    words += ["--source", CHECKS / "src" / wanted.source, "--link", wanted.executable, wanted.executable]
    return Provision(program=f"./{wanted.executable}", build=(node_commands.in_build(site, "compile", *words),))
