"""Provider: the library that measures the time in MPI, compiled with the MPI of the bare program."""

from __future__ import annotations

import shlex

from containercheck.node import contract
from containercheck.site import node_commands
from containercheck.site.sites import Site
from containercheck.software.provision import CHECKS, Provision, Wanted, compiler_of


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return the library, for a check that asks for the time in MPI.

    The image's C library must not be older than that of the machine that compiles; else the run says that the library
    cannot be preloaded.
    """
    if not wanted.mpi_times:
        return Provision()
    compiler = compiler_of(wanted, site)
    reason = f"error: no software: the time in MPI is measured by a library, and no {compiler} is on the PATH"
    complain = f"echo {shlex.quote(reason)} >&2"
    look = f"{{ {node_commands.unless_found(compiler, complain, contract.UNSUPPORTED)}; }}"
    source = CHECKS / "src" / "mpitimes" / "mpitimes.c"
    words = [compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", contract.MPI_TIMES_LIBRARY, str(source), "-ldl"]
    return Provision(build=(look, shlex.join(words)))
