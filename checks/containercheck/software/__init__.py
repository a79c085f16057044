"""Provide a check's software by providers. Each is a function that takes the needs and returns a :class:`Provision`.

A provider returns an empty one if it provides none of them.
"""

from __future__ import annotations

from pathlib import Path

from reframe.core.exceptions import ReframeError

from containercheck.job import contract, texts
from containercheck.site.sites import Site
from containercheck.software import host, images, managers, sources
from containercheck.software.host import ask_program
from containercheck.software.provision import Misconfigured, Provision, Unavailable, Wanted

__all__ = [
    "Misconfigured",
    "PROVIDERS",
    "Provision",
    "Unavailable",
    "Wanted",
    "ask_program",
    "provide",
    "require_built",
]

#: Providers in the order of their commands; the commands of modules come before them.
PROVIDERS = (
    sources.provide_environment,
    sources.provide_compiled,
    managers.provide_spack,
    managers.provide_easybuild,
    managers.provide_library,
    sources.provide_mpi_times,
    host.provide_program,
    sources.provide_jars,
    sources.provide_input,
    images.provide_image,
)


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return the software that a check needs.

    :raises Unavailable: something is not available on this partition.
    :raises Misconfigured: something was named, and does not exist.
    """
    provision = Provision()
    for provider in PROVIDERS:
        provision += provider(wanted, site)
    # Elsewhere the job loads the modules; the build step needs them only if it builds something.
    return host.provide_modules(wanted, site) + provision if provision.build or site.is_here else provision


def build_command(provision: Provision) -> str:
    """Return the command of the build step, which writes its status to a file: ReFrame reports only that it failed."""
    note = f"echo $? >{contract.BUILD_STATUS}"
    return f"({' && '.join(provision.build or ('true',))}) && {note} || {note}"


def require_built(stagedir: Path, stderr: str, ended: str = "") -> None:
    """Check that the build succeeded.

    :param stderr: file in the stage directory with the errors of the build.
    :param ended: why it ended early, if that is known.
    :raises Unavailable: the software does not exist for this partition's machines.
    :raises ReframeError: the build failed, or was ended.
    """
    try:
        status = (stagedir / contract.BUILD_STATUS).read_text().strip()
    except FileNotFoundError:
        raise ReframeError(f"the build was ended before it was done: {ended or f'see {stagedir}'}") from None
    if status == "0":
        return
    errors = texts.sanitized(texts.tail(stagedir / stderr).strip().removeprefix("error: "))
    if status == str(contract.UNSUPPORTED):
        # Modules may have printed lines before.
        raise Unavailable(errors.splitlines()[-1].removeprefix("error: "))
    raise ReframeError(errors or f"the build failed: see {stagedir}")
