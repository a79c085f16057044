"""Provider: the modules of the site's own software, in the build step; the job has ReFrame load them."""

from __future__ import annotations

import functools
import os
import shlex

from reframe.core.exceptions import ReframeError
from reframe.core.modules import ModulesSystem
from reframe.core.runtime import runtime

from containercheck.site.sites import Site
from containercheck.software.provision import Misconfigured, Provision, Wanted


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return the commands that load them; one that is not there, which the site names, is an error.

    ReFrame would fail. Where jobs run elsewhere, and ReFrame is told to ask nothing of modules, nodes may have others
    than the machine that builds: there it is the program that is looked for, in the job.
    """
    build = []
    for name in wanted.own_modules:
        load = " && ".join(runtime().modules_system.emit_load_commands(name))
        said = shlex.quote(f"error: no software: no module {name}")
        otherwise = f"{{ echo {said} >&2; exit 1; }}" if site.is_here else "true"
        # Without a system of modules there is nothing to type.
        build += [f"{{ {load} || {otherwise}; }}"] if load else []
    return Provision(build=tuple(build))


def require(wanted: Wanted) -> None:
    """Refuse modules of which ReFrame cannot learn, where it runs, with what others they conflict.

    That is what it asks for before it writes a job (``general/resolve_module_conflicts``).

    :raises Misconfigured: there is no such module.
    """
    if not runtime().get_option("general/0/resolve_module_conflicts"):
        return
    for what, names in (("software", wanted.own_modules), ("container runtime", wanted.runtime_modules)):
        for name in names:
            if not _is_known(runtime().modules_system, name):
                raise Misconfigured(f"no {what}: no module {name} on {os.uname().nodename}")


@functools.cache
def _is_known(system: ModulesSystem, name: str) -> bool:
    try:
        system.conflicted_modules(name)
    except ReframeError:
        return False
    return True
