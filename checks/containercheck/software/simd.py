"""Find instruction sets, by GROMACS's names: of a partition's processors, and of the portable images.

``images/gromacs.def`` gets the same names.
"""

from __future__ import annotations

from containercheck.node import architectures
from containercheck.site.sites import Site
from containercheck.software import Unavailable


def portable(site: Site) -> str:
    """Return the instruction set of the portable image for a partition."""
    return architectures.portable_kernels(site.architecture)


def native(site: Site) -> str:
    """Return the widest instruction set of a partition's processors.

    :raises Unavailable: the processors are not known, or have no wider one than the portable image.
    """
    from archspec.cpu import TARGETS

    known = TARGETS.get(site.target)
    # The name of an architecture stands for the instructions that all its processors have.
    if known is None or known.family == known:
        raise Unavailable(
            f"instruction set unknown: write 'arch' of {site.partition} into the site file, under 'processor', as "
            "archspec calls it, skylake_avx512 say"
        )
    sets = architectures.KERNELS_BY_FEATURE
    widest = next((name for feature, name in sets.items() if feature in known), portable(site))
    if widest == portable(site):
        raise Unavailable(f"nothing to compare: {site.target} has {widest}, which the portable image is built for")
    return widest
