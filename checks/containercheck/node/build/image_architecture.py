"""The architecture of an image, read from its files.

Running the image would not tell: a kernel with binfmt_misc starts programs of any architecture that qemu knows. An x86
node with it runs an image for Arm without a message, many times slower, and ``uname -m`` in the image prints Arm.
Standard library only, Python 3.6 or newer.
"""

from pathlib import Path
from typing import Optional

from containercheck.node import architectures
from containercheck.node.build.cache import CacheError

#: Global header of a SIF file (sylabs/sif, pkg/sif/sif.go): the magic after a script of 32 bytes, the position of the
#: two digits of the architecture, and the length that is read.
_MAGIC, _DIGITS, _LENGTH = b"SIF_MAGIC\0", slice(45, 47), 48
#: Paths in an unpacked image, of which every image has one.
_PROGRAMS = ("bin/sh", "usr/bin/sh", "bin/bash", "usr/bin/bash", "usr/bin/dash", "bin/busybox")


def read_architecture(path: Path) -> Optional[str]:
    """Return the architecture of an image, a SIF file or a directory, as ``uname -m`` prints it; None if unknown.

    :raises OSError: the image cannot be read.
    """
    if not path.is_dir():
        with path.open("rb") as stream:
            header = stream.read(_LENGTH)
        return architectures.from_sif(header[_DIGITS]) if header[32:].startswith(_MAGIC) else None
    for name in _PROGRAMS:
        program = path / name
        # An absolute link would lead out of the image.
        if program.is_file() and not program.is_symlink():
            with program.open("rb") as stream:
                header = stream.read(20)
            if header[:4] == b"\x7fELF" and header[5:6] == b"\x01":
                # Bytes 18 and 19, where the lower byte comes first (elf.h, e_machine).
                return architectures.from_elf(int.from_bytes(header[18:20], "little"))
    return None


def require(path: Path, architecture: Optional[str], name: str = "") -> None:
    """Check that an image is for an architecture.

    :param architecture: as ``uname -m`` prints it; None for any. An architecture that is not in
        :mod:`architectures` fits any image.
    :param name: of the image in the message; by default its path.
    :raises CacheError: the image is for another architecture.
    """
    actual = read_architecture(path)
    if architectures.is_known(architecture) and actual not in (None, architecture):
        raise CacheError(
            f"the image {name or path} is for {actual}, and the partition's nodes are {architecture}: name one for "
            "these in the site's extras, images"
        )
