"""Provider: the published input, if the site has it, in place of the embedded one."""

from __future__ import annotations

from containercheck.node import texts
from containercheck.site import node_commands
from containercheck.site.sites import Site, path_of
from containercheck.software.provision import Misconfigured, Provision, Wanted


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return the published input: a path, or a download from a pinned address, in the cache.

    :raises Misconfigured: the path does not exist.
    """
    reference = site.input_of(wanted.check, wanted.published)
    if not reference:
        return Provision()
    provenance = {"input": texts.without_credentials(reference)}
    if "://" in reference:
        words = ["--cache", site.cache("input_cache"), "--link", "published", reference]
        fetch = node_commands.in_build(site, "download", *words)
        return Provision(published="published", build=(fetch,), provenance=provenance)
    path = path_of(reference)
    if not path.exists():
        raise Misconfigured(f"no input: {path}, set as 'published' or in the site's extras, does not exist")
    return Provision(published=str(path.absolute()), provenance=provenance)
