"""Provider: environments of Spack, from ``spack-envs/`` or the site's own."""

from __future__ import annotations

import os
from pathlib import Path

from containercheck.node import contract
from containercheck.site import node_commands
from containercheck.site.sites import Site, path_of
from containercheck.software.provision import (
    ENVIRONMENTS,
    Misconfigured,
    Provision,
    Wanted,
    architecture_of,
    command_of,
)


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return the program of an environment, which the build step concretises and installs into the cache.

    :raises Unavailable: there is no Spack, or the partition's processor is not known.
    :raises Misconfigured: there is no such environment, or no Spack where the site names one.
    """
    directory = _directory(wanted)
    if directory is None:
        return Provision()
    command = command_of("Spack", site.spack, wanted, site)
    words = ["--environment", directory, "--spack", command, "--architecture", architecture_of(site)]
    words += ["--target", site.target, "--cache", site.cache("spack_cache"), "--link", contract.SPACK]
    words += ["--site", path_of(site.spack_site)] if site.spack_site else []
    words += ["--program", program := f"{wanted.view_directory}/{wanted.executable}", directory.name]
    view = f"{contract.SPACK}/{contract.SPACK_VIEW}"
    return Provision(
        program=f"./{view}/{program}",
        build=(node_commands.in_build(site, "spack", *words),),
        # Programs that it needs, and those that make its input, must come from the same environment.
        activate=(f'export PATH="$PWD/{view}/bin:$PATH"',),
    )


def for_image(wanted: Wanted, site: Site) -> list[object]:
    """Return the options for an image with an environment: the bare program's, or else the recipe's.

    It is compiled for the partition's processor too, or for any of its architecture if it is to be portable.

    :raises Unavailable: there is no Spack, or the partition's processor is not known.
    :raises Misconfigured: there is no such environment, or no Spack where the site names one.
    """
    directory, architecture = _directory(wanted), architecture_of(site)
    words = ["--spack", command_of("Spack", site.spack, wanted, site), "--spack-cache", site.cache("spack_cache")]
    words += ["--target", architecture if wanted.portable else site.target]
    words += ["--spack-site", path_of(site.spack_site)] if site.spack_site else []
    return [*words, "--environment", directory] if directory else words


def _directory(wanted: Wanted) -> Path | None:
    """Return the directory of the bare program's environment; None if it comes from none."""
    # EasyBuild, set with -S, takes precedence over the check's Spack.
    if wanted.spack is None or wanted.easybuild:
        return None
    directory = path_of(wanted.spack) if os.sep in wanted.spack else ENVIRONMENTS / wanted.spack
    if not (directory / "spack.yaml").is_file():
        raise Misconfigured(f"no software: there is no {directory}/spack.yaml")
    return directory
