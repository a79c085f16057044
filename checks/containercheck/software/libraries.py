"""Provider: libraries that are loaded into a program and are no part of it, such as DLB."""

from __future__ import annotations

import os
import shlex
import shutil

from containercheck.node import contract
from containercheck.site import node_commands
from containercheck.site.sites import Site, path_of
from containercheck.software.provision import ENVIRONMENTS, Provision, Unavailable, Wanted, architecture_of


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return the commands after which ``<NAME>_HOME`` names the directory of a library in the job.

    The site's ``environ`` or modules set it, or the environment of a session whose jobs run here; otherwise the build
    step installs an environment of Spack.

    :raises Unavailable: none of them does, and there is no Spack.
    """
    if wanted.library is None:
        return Provision()
    name = home_of(wanted.library)
    if name in wanted.environ or wanted.own_modules:
        # The job looks whether modules set it.
        return Provision()
    if site.is_here and os.environ.get(name):
        return Provision(activate=(f"export {name}={shlex.quote(os.environ[name])}",))
    command = str(path_of(site.spack)) if os.sep in site.spack else site.spack
    if not (site.builds_on_node or shutil.which(command)):
        raise Unavailable(
            f"no software: {wanted.check} needs {wanted.library.upper()}: set {name} to the directory that it is "
            f"installed in (site's extras, software: {wanted.check}: environ, or modules that set it), or have Spack"
        )
    link = f"{contract.SPACK}-{wanted.library}"
    words = ["--environment", ENVIRONMENTS / wanted.library, "--spack", command]
    words += ["--architecture", architecture_of(site), "--target", site.target, "--cache", site.cache("spack_cache")]
    words += ["--site", path_of(site.spack_site)] if site.spack_site else []
    words += ["--link", link, wanted.library]
    build = node_commands.in_build(site, "spack", *words)
    return Provision(build=(build,), activate=(f'export {name}="$PWD/{link}/{contract.SPACK_VIEW}"',))


def home_of(library: str) -> str:
    """Return the variable that names a library's directory.

    >>> home_of("dlb")
    'DLB_HOME'
    """
    return f"{library.upper()}_HOME"
