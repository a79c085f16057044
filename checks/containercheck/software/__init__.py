"""Where a check's software comes from: providers, each a file with a function ``provide``.

A provider looks at what is wanted, and returns a :class:`Provision`: an empty one where it has nothing to do with it.
"""

from __future__ import annotations

from pathlib import Path

from reframe.core.exceptions import ReframeError

from containercheck import contract
from containercheck.sites import Site
from containercheck.software import host, images, inputs, maven, modules, pypi, source
from containercheck.software.host import told_by
from containercheck.software.provision import Provision, Unavailable, Wanted

__all__ = ["PROVIDERS", "Provision", "Unavailable", "Wanted", "provide", "require_built", "told_by"]

#: In the order in which their commands run.
PROVIDERS = (modules.provide, pypi.provide, source.provide, host.provide, maven.provide, inputs.provide, images.provide)


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return all that is wanted.

    :raises Unavailable: something of it is not to be had on this partition.
    """
    provision = Provision()
    for provider in PROVIDERS:
        provision += provider(wanted, site)
    return provision


def build_command(provision: Provision) -> str:
    """Return the command of the build step: it notes the status of what failed, because ReFrame says only that."""
    return f"({' && '.join(provision.build or ('true',))}) || echo $? >{contract.BUILD_STATUS}"


def require_built(stagedir: Path, stderr: str) -> None:
    """Check that the build succeeded.

    :param stderr: file in the stage directory with what the build said.
    :raises Unavailable: the software does not exist for this partition's machines.
    :raises ReframeError: the build failed.
    """
    status = stagedir / contract.BUILD_STATUS
    if status.exists():
        said = (stagedir / stderr).read_text(errors="replace").strip().removeprefix("error: ")
        if status.read_text().strip() == str(contract.UNSUPPORTED):
            # Modules may have spoken before.
            raise Unavailable(said.splitlines()[-1].removeprefix("error: "))
        raise ReframeError(said or f"the build failed: see {stagedir}")
