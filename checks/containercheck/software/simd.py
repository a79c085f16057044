"""Instruction sets, in the words of GROMACS: that of a partition's processors, and that of the portable images.

``images/gromacs.def`` is told the same words.
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

    :raises Unavailable: they are not known, or have no more than the portable image is for.
    """
    from archspec.cpu import TARGETS

    known = TARGETS.get(site.target)
    # An architecture's own name says what all of its processors have.
    if known is None or known.family == known:
        raise Unavailable(
            f"instruction set unknown: write 'arch' of {site.partition} into the site file, under 'processor', as "
            "archspec calls it, skylake_avx512 say"
        )
    sets = architectures.KERNELS_BY_FEATURE
    own = next((name for feature, name in sets.items() if feature in known), portable(site))
    if own == portable(site):
        raise Unavailable(f"nothing to compare: {site.target} has {own}, which the portable image is built for")
    return own
