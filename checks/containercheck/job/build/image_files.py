"""Facts about image files: their architecture, the size of their content, and the runtime that builds them.

Standard library only, Python 3.6 or newer.
"""

import contextlib
import json
import os
import re
import subprocess
import tarfile
import threading
from pathlib import Path
from typing import IO, Any, Callable, Dict, List, Optional

from containercheck.job import architectures, container_runtimes, contract, runtime_start
from containercheck.job.build import cache, file_trees
from containercheck.job.build.cache import CacheError

#: Global header of a SIF file (sylabs/sif, pkg/sif/sif.go): the magic after a script of 32 bytes, the position of the
#: two digits of the architecture, and the length that is read.
_MAGIC, _DIGITS, _LENGTH = b"SIF_MAGIC\0", slice(45, 47), 48
#: Paths in an unpacked image, of which every image has one.
_PROGRAMS = ("bin/sh", "usr/bin/sh", "bin/bash", "usr/bin/bash", "usr/bin/dash", "bin/busybox")
#: Options of images' compression. Programs and libraries are read page by page while they run; unpacking gzip, the
#: default, then costs OpenFOAM 0.7 s more at each start.
COMPRESSION = ["--mksquashfs-args", "-comp lz4"]
#: Seconds that reading an image may take; then its size stays unknown.
PATIENCE = 600.0


class ImageEntry(cache.Entry):
    """An image in a cache."""

    kind, setting = "image cache", "image_cache"
    lacking, instead = "image", ", or name a ready image in the site's extras, images"


def read_architecture(path: Path) -> Optional[str]:
    """Return the architecture of an image, a SIF file or a directory, as ``uname -m`` prints it; None if unknown.

    It is read from the files. ``uname -m`` in the image does not help: a kernel with binfmt_misc starts programs of any
    architecture that qemu knows, many times slower and without a message.

    :raises OSError: the image cannot be read.
    """
    if not path.is_dir():
        with path.open("rb") as stream:
            header = stream.read(_LENGTH)
        return architectures.from_sif(header[_DIGITS]) if header[32:].startswith(_MAGIC) else None
    for program in (path / name for name in _PROGRAMS):
        # An absolute link would lead out of the image.
        if program.is_file() and not program.is_symlink():
            with program.open("rb") as stream:
                header = stream.read(20)
            if header[:4] == b"\x7fELF" and header[5:6] == b"\x01":
                # Bytes 18 and 19, where the lower byte comes first (elf.h, e_machine).
                return architectures.from_elf(int.from_bytes(header[18:20], "little"))
    return None


def require_architecture(path: Path, architecture: Optional[str], name: str = "") -> None:
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


def ready(path: Path, architecture: Optional[str] = None) -> Dict[str, Any]:
    """Return path, digest and size of a site's own image; the size is None for an unpacked image.

    :param architecture: architecture of the machines that are to run it; None for any.
    :raises CacheError: the image does not exist, cannot be read, or is for another architecture.
    """
    try:
        # The digest must be that of the file that the check runs, even if a link in its path is changed later.
        path = path.resolve(strict=True)
        require_architecture(path, architecture)
        return {"bytes": None, **file_trees.facts_of(path, file_trees.known_digest_of(path))}
    except FileNotFoundError:
        raise CacheError(f"no image: {path}, which the site's extras name, does not exist") from None
    except (OSError, RuntimeError) as error:  # the latter for a loop of links
        raise CacheError(f"the image {path}, which the site's extras name, cannot be read: {error}") from None


def version_of(runtime: str) -> str:
    """Return the output of a container runtime about its version.

    :raises CacheError: it does not run.
    """
    words = [runtime, *container_runtimes.by_command(runtime).version]
    try:
        return subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout.decode(errors="replace").strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise CacheError(f"{' '.join(words)} fails: {error}") from None


def build_environment(runtime: str, directory: Path) -> Dict[str, str]:
    """Return the variables that let a runtime build in a directory."""
    version = ""
    # A runtime that does not even print its version fails in the build, with a message.
    with contextlib.suppress(CacheError):
        version = version_of(runtime)
    variable = container_runtimes.recognized(runtime, version).build_directory
    return {variable: str(directory)} if variable else {}


def compression_options(runtime: str) -> List[str]:
    """Return the options for :data:`COMPRESSION`; none for a runtime that does not have them."""
    try:
        output = subprocess.run([runtime, "build", "--help"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    except OSError:
        return []
    return COMPRESSION if COMPRESSION[0].encode() in output else []


def inside(command: str) -> List[str]:
    """Return the words that run a program in a container, up to the image.

    :param command: of a runtime that runs image files.
    """
    runtime, _ = runtime_start.identify(command)
    return [command, "exec", *runtime_start.options(runtime, command, 0)]


def archiving(command: str, image: Path) -> List[str]:
    """Return the command that writes the files of an image to its output, as an archive, and nothing of the host.

    :param command: of a runtime that runs image files.
    """
    contain = runtime_start.identify(command)[0].contain
    return [*inside(command), *filter(None, [contain]), "--no-home", str(image), "sh", "-c", container_runtimes.ARCHIVE]


def bytes_of_archive(stream: IO[bytes]) -> int:
    """Return the bytes of all files in an archive; a file with several names counts once.

    :param stream: the archive, which is read once from its beginning.
    :raises tarfile.TarError: it is not an archive.
    :raises OSError: it cannot be read.
    """
    with tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 20) as archive:
        return sum(member.size for member in archive if member.isreg())


def content_of_image(command: str, image: Path) -> Dict[str, Any]:
    """Return the bytes of an image's files as a part of its record; nothing where no container of it starts.

    An image file is compressed, and smaller.

    :param command: of a runtime that runs the image file.
    """
    words = archiving(command, image)
    try:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return {}
    limit = threading.Timer(PATIENCE, process.kill)
    limit.start()
    try:
        size = bytes_of_archive(process.stdout) if process.stdout else 0
    except (tarfile.TarError, OSError):
        size = 0
    finally:
        # The padding of the archive is read too: else tar fails.
        process.communicate()
        limit.cancel()
    return {contract.CONTENT_BYTES: size} if size and process.returncode == 0 else {}


def known_content(record: Dict[str, Any]) -> Dict[str, Any]:
    """Return the bytes of an image's files from its record; nothing where they were not counted."""
    return {contract.CONTENT_BYTES: record[contract.CONTENT_BYTES]} if contract.CONTENT_BYTES in record else {}


def deliver(get: Callable[[], Dict[str, Any]], link: Optional[Path]) -> None:
    """Print the path of an image, link it, and write its facts beside the link.

    :param get: function that returns the facts; see :func:`cache.deliver` for the errors that it may raise.
    :param link: path of the link; None for an image that is not a file.
    """

    def get_path() -> Path:
        facts = get()
        record = link.with_suffix(".json") if link else Path(contract.IMAGE_RECORD)
        new = record.parent / f".{record.name}-{os.getpid()}"
        new.write_text(json.dumps(facts, indent=1) + "\n")
        new.replace(record)
        return Path(facts.get("archive", facts["path"]))

    cache.deliver(get_path, link)


def file_name(text: str) -> str:
    """Return a text as a part of a file's name."""
    return re.sub(r"[^\w.-]", "_", text)
