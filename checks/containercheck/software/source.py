"""Provider: programs of the project's own: C, compiled with the host's MPI, or a script."""

from __future__ import annotations

import shlex
import shutil

from containercheck import contract, programs
from containercheck.sites import Site
from containercheck.software.provision import CHECKS, Provision, Unavailable, Wanted


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return the program that is made of a source below ``checks/src``.

    :raises Unavailable: there is no compiler.
    """
    if wanted.source is None:
        return Provision()
    program, source = f"bin/{wanted.executable}", shlex.quote(str(CHECKS / "src" / wanted.source))
    if wanted.source.endswith(".py"):
        return Provision(program=f"./{program}", build=("mkdir -p bin", f"install {source} {program}"))
    reason = f"no software: {wanted.executable} is built from source, and no mpicc is on the PATH"
    if site.is_here and not wanted.modules and shutil.which("mpicc") is None:
        raise Unavailable(reason)
    said = f"error: {reason}"
    # Where it is compiled, after the modules were loaded.
    look = f"{{ {programs.unless_found('mpicc', f'echo {shlex.quote(said)} >&2', contract.UNSUPPORTED)}; }}"
    compile_ = f"mpicc -O2 -Wall -o {program} {source}"
    return Provision(program=f"./{program}", build=(look, "mkdir -p bin", compile_))
