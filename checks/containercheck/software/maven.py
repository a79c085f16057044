"""Provider: pinned jars from a Maven repository, in ``jars/`` of the stage directory."""

from __future__ import annotations

import shutil

from containercheck.site import node_commands
from containercheck.site.sites import Site
from containercheck.software.provision import CHECKS, Provision, Unavailable, Wanted


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return the jars of a list below ``checks/src``; they are named after its directory.

    :raises Unavailable: there is no Maven.
    """
    if wanted.artifacts is None:
        return Provision()
    if not site.builds_on_node and shutil.which("mvn") is None:
        raise Unavailable("no software: jars come through Maven, and no mvn is on the PATH (Debian and Ubuntu: maven)")
    path = CHECKS / "src" / wanted.artifacts
    words = ["--cache", site.cache("jar_cache"), "--link", "jars", "--artifacts", path, path.parent.name]
    return Provision(build=(node_commands.in_build(site, "jars", *words),))
