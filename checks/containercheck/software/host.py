"""Provider: what the host has, as modules or on the PATH."""

from __future__ import annotations

import ctypes.util
import os
import re
import shlex
import shutil
import subprocess

from containercheck.node import contract, mpi
from containercheck.site import hosts, node_commands
from containercheck.site.sites import Site
from containercheck.software.provision import Misconfigured, Provision, Unavailable, Wanted

#: What the loader calls the libraries of a family of MPI.
_LIBRARIES = {"mpich": ("mpich", "mpi_cray")}


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return the program that the host has, for a check that gets its program from nowhere else.

    Where it may be a module's, the build step looks for it, and where jobs run elsewhere the job. What is not there is
    a skip, and an error where somebody named it.

    :raises Unavailable: the host does not have it, or not the MPI that it needs.
    :raises Misconfigured: the host does not have it, and the site names it.
    """
    if wanted.mpi_family:
        _require_mpi(wanted, site)
    if wanted.source or wanted.requirements or wanted.spack or wanted.easybuild:
        return Provision()
    if not site.is_here:
        look = _look_for(wanted, ">&2" if _is_named(wanted) else f">{contract.UNSUPPORTED_WHY}", 1)
        return Provision(program=wanted.executable, activate=(look,))
    if wanted.modules:
        look = _look_for(wanted, ">&2", 1 if _is_named(wanted) else contract.UNSUPPORTED)
        return Provision(program=wanted.executable, build=(f"{{ {look}; }}",))
    if shutil.which(wanted.executable, path=wanted.environ.get("PATH")) is None:
        problem = Misconfigured if _is_named(wanted) else Unavailable
        raise problem(_absent(wanted) % "this machine")
    return Provision(program=wanted.executable)


def _is_named(wanted: Wanted) -> bool:
    """Tell whether somebody named the program: the site, or who gave a path, which no check of ours does."""
    return wanted.of_site or os.sep in wanted.executable


def _absent(wanted: Wanted) -> str:
    """Return what is said of a program that is not there, with %s for where, and what to do about it."""
    # It is formatted.
    program = wanted.executable.replace("%", "%%")
    said = (
        f"no software: %s has no {program}" if os.sep in program else f"no software: {program} is not on the PATH of %s"
    )
    entry = f"the site's extras, software: {wanted.check}"
    if _is_named(wanted):
        return f"{said}; {entry}, names it" if wanted.of_site else f"{said}, which was named for it"
    install = (
        f"install {' '.join(wanted.debian)} (ci/setup does on Debian and Ubuntu)" if wanted.debian else "install it"
    )
    return f"{said}: {install}, or name it in {entry}"


def _look_for(wanted: Wanted, into: str, status: int) -> str:
    """Return the command that ends its shell with the reason where the program is not there.

    :param into: where the reason goes.
    """
    program = wanted.executable
    error = "error: " if into == ">&2" else ""
    said = f'printf {shlex.quote(error + _absent(wanted))} "$(uname -n)" {into}'
    return node_commands.unless_found(shlex.quote(program), said, status, wanted.environ)


def _require_mpi(wanted: Wanted, site: Site) -> None:
    """Check that the host has an MPI of this family, as far as that can be told before the job."""
    family = wanted.mpi_family
    if wanted.modules or getattr(site, f"host_{family}") or (wanted.dry and not site.is_here):
        return
    if site.is_here:
        where, found = "this machine", any(ctypes.util.find_library(name) for name in _LIBRARIES[family])
    else:
        where, found = site.partition, _on_nodes(family, site)
    if not found:
        raise Unavailable(
            f"no software: {where} has no MPI of the {family} family: install {' '.join(wanted.debian) or family} "
            f"(ci/setup does on Debian and Ubuntu), or name its library: site's extras, host_{family}"
        )


def _on_nodes(family: str, site: Site) -> bool:
    try:
        return any(mpi.FAMILIES[family].names.match(name) for name in hosts.mpi_libraries_of(site))
    except hosts.UnknownError:
        # The job finds out.
        return True


def ask_program(program: str, pattern: str) -> str:
    """Return what a program on the PATH tells with ``--version``: the first group of a pattern, or an empty text."""
    if shutil.which(program) is None:
        return ""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60).stdout
    found = re.search(pattern, said, re.MULTILINE)
    return found[1] if found else ""
