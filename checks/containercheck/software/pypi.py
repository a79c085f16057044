"""Provider: pinned requirements from PyPI, in a virtual environment in the cache."""

from __future__ import annotations

from containercheck.node import pins
from containercheck.site import node_commands
from containercheck.site.sites import Site
from containercheck.software.provision import CHECKS, Provision, Unavailable, Wanted, architecture_of


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return a program from requirements below ``checks/src``; the environment is named after their directory.

    :raises Unavailable: the partition's architecture is not known, or has none of the pinned files.
    """
    if wanted.requirements is None:
        return Provision()
    path = CHECKS / "src" / wanted.requirements
    if path.exists() and (problem := pins.not_for(path.parent.name, path, architecture_of(site))):
        raise Unavailable(f"no software: {problem}")
    words = ["--cache", site.cache("venv_cache"), "--architecture", architecture_of(site), "--link", "venv"]
    build = node_commands.in_build(site, "venv", *words, "--requirements", path, path.parent.name)
    return Provision(program=wanted.executable, build=(build,), activate=(". venv/bin/activate",))
