"""Releases of Debian and Ubuntu: their libraries, and whether images may be built from them.

The versions are those of the archives (packages.debian.org, packages.ubuntu.com) in November 2026.
"""

from __future__ import annotations

from dataclasses import dataclass

Version = tuple[int, int]


@dataclass(frozen=True)
class Release:
    """A release of Debian or Ubuntu.

    :ivar name: code name.
    :ivar title: name and number.
    :ivar libc: version of its GNU C library.
    :ivar openmpi: version of its Open MPI.
    :ivar pmix: version of its PMIx, with which Open MPI starts ranks.
    :ivar image: whether images may be built from it: a Debian that is still supported.
    """

    name: str
    title: str
    libc: Version
    openmpi: str
    pmix: str
    image: bool


#: The releases, by age of their libc, the oldest first.
TABLE = (
    Release("jammy", "Ubuntu 22.04", (2, 35), "4.1.2", "4.1.2", image=False),
    Release("bookworm", "Debian 12", (2, 36), "4.1.4", "4.2.2", image=True),
    Release("noble", "Ubuntu 24.04", (2, 39), "4.1.6", "5.0.1", image=False),
    Release("trixie", "Debian 13", (2, 41), "5.0.7", "5.0.7", image=True),
)
#: Code names of the releases for images, the oldest first.
IMAGES = tuple(release.name for release in TABLE if release.image)


def for_libc(version: Version) -> str:
    """Return the release of images for hosts with this libc: the oldest whose libc is not older.

    The host's MPI then finds the symbols that it needs in the image (the integrated variant), and the image runs on
    most other hosts too. For hosts that are newer than all releases, it is the newest release.
    """
    return next((release.name for release in TABLE if release.image and release.libc >= version), IMAGES[-1])
