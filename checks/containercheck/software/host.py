"""Provider: what the host has, as modules or on the PATH."""

from __future__ import annotations

import ctypes.util
import re
import shutil
import subprocess

from containercheck.sites import Site
from containercheck.software.provision import Provision, Unavailable, Wanted

#: What the loader calls the libraries of a family of MPI.
_LIBRARIES = {"mpich": ("mpich", "mpi_cray")}


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return the program that the host has, for a check that gets its program from nowhere else.

    Where there are modules the program is theirs, and not looked for here.

    :raises Unavailable: the host does not have it, or not the MPI that it needs.
    """
    if wanted.mpi_family:
        _require_mpi(wanted, site)
    if wanted.source or wanted.requirements:
        return Provision()
    if not wanted.modules and shutil.which(wanted.executable) is None:
        raise Unavailable(
            f"no software: {wanted.executable} is not on the PATH (ci/setup installs it on Debian and Ubuntu)"
        )
    return Provision(program=wanted.executable)


def _require_mpi(wanted: Wanted, site: Site) -> None:
    """Check that the host has an MPI of this family, as far as that can be told before the job."""
    family = wanted.mpi_family
    if wanted.modules or getattr(site, f"host_{family}") or not site.is_here:
        return
    if not any(ctypes.util.find_library(name) for name in _LIBRARIES[family]):
        raise Unavailable(
            f"no software: this machine has no MPI of the {family} family: install {family} (ci/setup does on Debian "
            f"and Ubuntu), or name its library: site's extras, host_{family}"
        )


def told_by(program: str, pattern: str) -> str:
    """Return what a program on the PATH tells with ``--version``: the first group of a pattern, or an empty text."""
    if shutil.which(program) is None:
        return ""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60).stdout
    found = re.search(pattern, said, re.MULTILINE)
    return found[1] if found else ""
