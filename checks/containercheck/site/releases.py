"""Releases of Debian and Ubuntu: what hosts have, and which of them an image may be.

The versions are those of the archives (packages.debian.org, packages.ubuntu.com), of November 2026.
"""

from __future__ import annotations

from dataclasses import dataclass

Version = tuple[int, int]


@dataclass(frozen=True)
class Release:
    """What a release has.

    :ivar name: its code name.
    :ivar title: what people call it.
    :ivar libc: version of its GNU C library.
    :ivar openmpi: version of its Open MPI.
    :ivar pmix: version of its PMIx, with which that starts ranks.
    :ivar image: whether images may be of it: a Debian that its makers support.
    """

    name: str
    title: str
    libc: Version
    openmpi: str
    pmix: str
    image: bool


#: From the oldest libc to the newest.
TABLE = (
    Release("jammy", "Ubuntu 22.04", (2, 35), "4.1.2", "4.1.2", image=False),
    Release("bookworm", "Debian 12", (2, 36), "4.1.4", "4.2.2", image=True),
    Release("noble", "Ubuntu 24.04", (2, 39), "4.1.6", "5.0.1", image=False),
    Release("trixie", "Debian 13", (2, 41), "5.0.7", "5.0.7", image=True),
)
#: Code names of the releases that an image may be, the oldest first.
IMAGES = tuple(release.name for release in TABLE if release.image)


def for_libc(version: Version) -> str:
    """Return the release that an image is to be for hosts with this libc: the oldest that is not older than theirs.

    The host's MPI then finds all that it needs in the image (the integrated variant), and the image runs on most other
    hosts too. For a host that is newer than all, it is the newest.
    """
    return next((one.name for one in TABLE if one.image and one.libc >= version), IMAGES[-1])
