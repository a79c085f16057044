"""Provider: our own programs: C or C++, compiled with the host's MPI, or a script."""

from __future__ import annotations

import shlex
import shutil

from containercheck.node import contract
from containercheck.site import node_commands
from containercheck.site.sites import Site
from containercheck.software.provision import CHECKS, Provision, Unavailable, Wanted, architecture_of

#: What to do where there is no compiler of MPI.
_NO_COMPILER = (
    "install an MPI with its compilers (Debian and Ubuntu: libopenmpi-dev), or load its module: modules of the site's "
    "environment"
)


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
    reason = f"no software: {wanted.executable} is built from source, and no mpicc is on the PATH: {_NO_COMPILER}"
    if site.is_here and not wanted.modules and shutil.which("mpicc") is None:
        raise Unavailable(reason)
    complain = f"echo {shlex.quote(f'error: {reason}')} >&2"
    # Looks on the machine that compiles, after the modules were loaded.
    look = f"{{ {node_commands.unless_found('mpicc', complain, contract.UNSUPPORTED)}; }}"
    compile_ = shlex.join(["mpicc", "-O2", "-Wall", "-o", program]) + f" {source} {shlex.join(wanted.compile_options)}"
    return Provision(program=f"./{program}", build=(look, "mkdir -p bin", compile_.strip()))


def _from_cache(wanted: Wanted, site: Site) -> Provision:
    """Return a program in C++, from the cache: with a large library it takes a minute to compile."""
    words = ["--cache", site.cache("program_cache"), "--architecture", architecture_of(site), "--mpi", site.mpi_family]
    words += [f"--header={header}={package}" for header, package in wanted.headers.items()]
    words += [f"--option={option}" for option in wanted.compile_options]
    words += ["--source", CHECKS / "src" / wanted.source, "--link", wanted.executable, wanted.executable]
    return Provision(program=f"./{wanted.executable}", build=(node_commands.in_build(site, "compile", *words),))
