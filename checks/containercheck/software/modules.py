"""Provider: the modules of the site's own software, in the build step; the job has ReFrame load them."""

from __future__ import annotations

import shlex

from reframe.core.runtime import runtime

from containercheck import contract
from containercheck.sites import Site
from containercheck.software.provision import Provision, Wanted


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return the commands that load them; one that is not there is a reason for a skip.

    ReFrame would fail. Where jobs run elsewhere, nodes may have other modules than the machine that builds: there it is
    the program that is looked for, in the job.
    """
    build = []
    for name in wanted.own_modules:
        load = " && ".join(runtime().modules_system.emit_load_commands(name))
        said = shlex.quote(f"error: no software: no module {name}")
        otherwise = f"{{ echo {said} >&2; exit {contract.UNSUPPORTED}; }}" if site.is_here else "true"
        # Without a system of modules there is nothing to type.
        build += [f"{{ {load} || {otherwise}; }}"] if load else []
    return Provision(build=tuple(build))
