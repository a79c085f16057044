"""Which architecture an image is for: asked of the image, because a machine that emulates others would run any.

A kernel with binfmt_misc starts programs of any architecture that qemu knows. An x86 node with it runs an image for Arm
without a word, many times slower, and ``uname -m`` in there says Arm. Standard library only, Python 3.6 or newer.
"""

from pathlib import Path
from typing import Optional

from containercheck.node import architectures
from containercheck.node.build.cache import CacheError

#: What a SIF file has after a script of 32 bytes, and where the two digits of its architecture are (its global header:
#: sylabs/sif, pkg/sif/sif.go).
_MAGIC, _DIGITS, _LENGTH = b"SIF_MAGIC\0", slice(45, 47), 48
#: A program that every image has; by its place in an unpacked one.
_PROGRAMS = ("bin/sh", "usr/bin/sh", "bin/bash", "usr/bin/bash", "usr/bin/dash", "bin/busybox")


def read_architecture(path: Path) -> Optional[str]:
    """Return the architecture of an image, a SIF file or a directory, as ``uname -m`` says it; None for an unknown one.

    :raises OSError: it cannot be read.
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


def require(path: Path, architecture: Optional[str]) -> None:
    """Check that an image is for an architecture.

    :param architecture: as ``uname -m`` says it; None for any. One that is not known here fits any image.
    :raises CacheError: it is for another one.
    """
    found = read_architecture(path)
    if architectures.is_known(architecture) and found not in (None, architecture):
        raise CacheError(
            f"the image {path} is for {found}, and the partition's nodes are {architecture}: name one for these "
            "in the site's extras, images"
        )
