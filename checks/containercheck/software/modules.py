"""Provider: modules of the site's own software, for the build step; in the job, ReFrame loads them."""

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
    """Return the commands that load the modules that the site names; a missing one is an error.

    ReFrame would fail too. If jobs run elsewhere, nodes may have other modules than the machine that builds: a missing
    one is no error then, and the job looks for the program.
    """
    build = []
    for name in wanted.own_modules:
        load = " && ".join(runtime().modules_system.emit_load_commands(name))
        error = shlex.quote(f"error: no software: no module {name}")
        otherwise = f"{{ echo {error} >&2; exit 1; }}" if site.is_here else "true"
        # Without a modules system there is no command.
        build += [f"{{ {load} || {otherwise}; }}"] if load else []
    return Provision(build=tuple(build))


def require(wanted: Wanted) -> None:
    """Refuse modules whose conflicts ReFrame cannot find out on its own machine.

    It asks for them before it writes a job (``general/resolve_module_conflicts``).

    :raises Misconfigured: there is no such module.
    """
    if not runtime().get_option("general/0/resolve_module_conflicts"):
        return
    for kind, names in (("software", wanted.own_modules), ("container runtime", wanted.runtime_modules)):
        for name in names:
            if not _is_known(runtime().modules_system, name):
                raise Misconfigured(f"no {kind}: no module {name} on {os.uname().nodename}")


@functools.cache
def _is_known(system: ModulesSystem, name: str) -> bool:
    try:
        system.conflicted_modules(name)
    except ReframeError:
        return False
    return True
