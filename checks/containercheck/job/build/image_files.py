"""Provide images that are not built here: a site's own, and images of registries; read image files.

An image of a registry is pulled once, by its digest: into the cache, or into the runtime's own storage. In the latter
case ``contract.IMAGE_ID`` gets the runtime's name of the image. The image stays the same, even if a tag leads to
another one tomorrow. A job with many ranks pulls nothing. Credentials and proxies are the runtime's own settings.

Standard library only, Python 3.6 or newer.
"""

import functools
import json
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

from containercheck.job import architectures, container_runtimes, contract, processes, runtime_start, texts
from containercheck.job.build import cache, file_trees
from containercheck.job.build.cache import CacheError, UnsupportedError
from containercheck.job.container_runtimes import REGISTRY_SCHEME, Runtime

#: Global header of a SIF file (sylabs/sif, pkg/sif/sif.go): the magic after a script of 32 bytes, the position of the
#: two digits of the architecture, and the length that is read.
_MAGIC, _DIGITS, _LENGTH = b"SIF_MAGIC\0", slice(45, 47), 48
#: Paths in an unpacked image, of which every image has one.
_PROGRAMS = ("bin/sh", "usr/bin/sh", "bin/bash", "usr/bin/bash", "usr/bin/dash", "bin/busybox")
#: Options of images' compression. Programs and libraries are read page by page while they run; unpacking gzip, the
#: default, then costs OpenFOAM 0.7 s more at each start.
COMPRESSION = ["--mksquashfs-args", "-comp lz4"]
#: Seconds that a pull or a step of a conversion may take, and that a container or a storage may take for an answer.
LIMIT, ANSWER_LIMIT = 3600.0, 300.0
#: Schemes of images for which the runtime compares the digest, and of files for which this module does.
_VERIFIED, _FILES = (REGISTRY_SCHEME, "oras"), ("https", "http")
_PIN = r"@sha256:(?P<digest>[0-9a-f]{64})"


class ImageEntry(cache.Entry):
    """Keep an image in a cache."""

    kind, folder = "image cache", "images"
    lacking, instead = "image", ", or name a ready image in the site's extras, images"

    def facts(self) -> Dict[str, Any]:
        """Return path, digest and size of the image, for the provenance of a check; it must be in the cache.

        :raises CacheError, OSError: the image has been removed.
        """
        # The digest was just compared with the record's, so it is known.
        record = self.read_record()
        return {**file_trees.facts_of(self.path, record["sha256"]), "bytes": record["bytes"]}


def is_sif(path: Path) -> bool:
    """Return whether a file is an image in the SIF format."""
    return bool(_sif_header(path))


def _sif_header(path: Path) -> bytes:
    """Return the script and the global header of a SIF file; empty for another file."""
    with path.open("rb") as stream:
        header = stream.read(_LENGTH)
    return header if header[32:].startswith(_MAGIC) else b""


def read_architecture(path: Path) -> Optional[str]:
    """Return the architecture of an image, a SIF file or a directory, as ``uname -m`` prints it; None if unknown.

    It is read from the files. ``uname -m`` in the image does not help: a kernel with binfmt_misc starts programs of any
    architecture that qemu knows, many times slower and without a message.

    :raises OSError: the image cannot be read.
    """
    if not path.is_dir():
        header = _sif_header(path)
        return architectures.from_sif(header[_DIGITS]) if header else None
    for program in (path / name for name in _PROGRAMS):
        # An absolute link would lead out of the image.
        if program.is_file() and not program.is_symlink():
            with program.open("rb") as stream:
                header = stream.read(20)
            if header[:4] == b"\x7fELF" and header[5:6] == b"\x01":
                # Bytes 18 and 19, the lower byte first (elf.h, e_machine).
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


class Ready(ImageEntry):
    """Provide a site's own image, at its own path.

    :param architecture: architecture of the machines that are to run it; None for any.
    """

    def __init__(self, image: cache.AnyPath, architecture: Optional[str] = None) -> None:
        """Name the image by its path."""
        super().__init__("ready", "", "", architecture)
        self.path = Path(image)

    def ensure(self) -> Path:
        """Return the path of the image.

        :raises CacheError: the image does not exist, cannot be read, or is for another architecture.
        """
        image = self.path
        try:
            # The digest must be that of the file that the check runs, even if a link in its path is changed later.
            self.path = image.resolve(strict=True)
            require_architecture(self.path, self.architecture)
            self._digest = file_trees.known_digest_of(self.path)
        except FileNotFoundError:
            raise CacheError(f"no image: {image}, which the site's extras name, does not exist") from None
        except (OSError, RuntimeError) as error:  # the latter for a loop of links
            raise CacheError(f"the image {image}, which the site's extras name, cannot be read: {error}") from None
        return self.path

    def facts(self) -> Dict[str, Any]:
        """Return path, digest and size of the image; the size is None for a directory."""
        return file_trees.facts_of(self.path, self._digest)


def build_environment(runtime: str, directory: Path) -> Dict[str, str]:
    """Return the variables that let a runtime build in a directory."""
    variable = runtime_start.identify(runtime)[0].build_directory
    return {variable: str(directory)} if variable else {}


@functools.lru_cache(maxsize=None)
def build_help(runtime: str) -> str:
    """Return a runtime's own description of its options for building images; empty if it does not run."""
    return processes.output_of([runtime, "build", "--help"], stderr=subprocess.DEVNULL)


def compression_options(runtime: str) -> List[str]:
    """Return the options for :data:`COMPRESSION`; none for a runtime that does not have them."""
    return COMPRESSION if COMPRESSION[0] in build_help(runtime) else []


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


def file_name(text: str) -> str:
    """Return a text as a part of a file's name."""
    return re.sub(r"[^\w.-]", "_", text)


# Images of registries


class OfRegistry(ImageEntry):
    """Pull an image of a registry.

    :param reference: its name in the registry.
    """

    instead = ", or name an image file in the site's extras, images"
    doing, done = "pulling", "pulled"

    def __init__(self, name: str, directory: cache.AnyPath, file: str, reference: str) -> None:
        """Determine the path in the cache."""
        super().__init__(name, directory, file)
        self.shown = texts.without_credentials(reference)

    def intact(self, record: Dict[str, Any]) -> bool:
        """Return whether it is the image of exactly this reference, because its path has only a part of the digest."""
        return bool(record["reference"] == self.shown) and super().intact(record)

    def _failure(self) -> str:
        """Return the message of a failed pull, without advice on proxies for packages."""
        return self.failed(self.last_words())

    def failed(self, reason: str) -> str:
        """Return the message of a failed pull, in one line, with the image."""
        return f"the image {self.shown} cannot be pulled: {reason} (log: {self.log})"


class Pulled(OfRegistry):
    """Pull an image that is a file.

    :param directory: of the cache.
    :param runtime: its command.
    :param wanted: architecture of the machines that are to run it, as ``uname -m`` prints it; None for any. An index
        has one digest for the images of all architectures.
    :param key: fingerprint of the key that must have signed it; None for any image.
    """

    def __init__(
        self,
        reference: str,
        directory: cache.AnyPath,
        runtime: str,
        wanted: Optional[str] = None,
        key: Optional[str] = None,
    ) -> None:
        """Determine the path in the cache.

        :raises CacheError: the reference is not pinned.
        """
        schemes = "|".join((*_VERIFIED, *_FILES))
        match = re.fullmatch(rf"(?P<address>(?P<scheme>{schemes})://\S+?){_PIN}", reference)
        if not match:
            raise CacheError(f"{_unpinned(reference)}, and begin it with {schemes}")
        self.digest, self.is_file = match["digest"], match["scheme"] in _FILES
        self.address = match["address"] if self.is_file else reference
        name = file_name(texts.without_credentials(match["address"]).split("/")[-1])
        words = "-".join(filter(None, (name, wanted, match["digest"][:12])))
        super().__init__(name, directory, f"{words}.sif", reference)
        self.runtime, self.wanted, self.key = runtime, wanted, key

    def intact(self, record: Dict[str, Any]) -> bool:
        """Return whether it is the pinned image, and was pulled with the same demand for a signature."""
        return record.get("signed_by") == self.key and super().intact(record)

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Pull it.

        :raises CacheError: the registry does not answer, or does not give it.
        """
        pulled = work / "image.sif"
        self.run([[self.runtime, "pull", str(pulled), self.address]], timeout=LIMIT)
        content = self.content_of(pulled)
        # A web server does not compare it.
        if self.is_file and content["sha256"] != self.digest:
            raise CacheError(self.failed(f"it is not the pinned one, its SHA-256 is {content['sha256']}"))
        require_architecture(pulled, self.wanted, self.shown)
        signed = {"signed_by": self.key} if self.key else {}
        if self.key and self.key.upper() not in signers_of(self.runtime, pulled):
            raise CacheError(self.failed(f"it has no valid signature of the key {self.key}, the site's image_key"))
        return pulled, {**content, **signed, "reference": self.shown}

    def facts(self) -> Dict[str, Any]:
        """Return the facts of the image, for a check's provenance; it must be in the cache.

        :raises CacheError: it has been removed.
        """
        return {**super().facts(), "reference": self.shown}


class Kept(OfRegistry):
    """Provide an image that the runtime keeps; the cache has only a record with the runtime's name of it.

    :param directory: of the cache.
    :param runtime: one that keeps images.
    """

    def __init__(self, reference: str, directory: cache.AnyPath, runtime: Runtime) -> None:
        """Determine the path of the record.

        :raises CacheError: the reference is not pinned.
        """
        if not runtime.storage:
            raise CacheError(f"{runtime.name} does not keep images: name a file")
        match = re.fullmatch(rf"(?P<name>\w[\w./:-]*?){_PIN}", reference)
        if not match:
            raise CacheError(_unpinned(reference))
        self.digest, self.storage = match["digest"], runtime.storage
        self.called = self.storage.name.format(name=reference)
        name = file_name(match["name"])
        # The runtime pulls the image for the machine that it is on.
        words = (name, runtime.command, platform.machine(), self.digest[:12])
        super().__init__(name, directory, "-".join(words), reference)

    def intact(self, record: Dict[str, Any]) -> bool:
        """Return whether the runtime still has it."""
        return bool(record["reference"] == self.shown) and self.identifier() == record["id"]

    def identifier(self) -> Optional[str]:
        """Return the runtime's identifier of the image; None if it does not have it.

        :raises UnsupportedError: the runtime is not on the PATH.
        :raises CacheError: it does not answer.
        """
        look = self.storage.look
        command = look if self.storage.lists_digests else (*look, self.called)
        if shutil.which(look[0]) is None:
            raise UnsupportedError(
                f"no {self.lacking}: {self.name} would be {self.done} here, and there is no {look[0]} on the PATH"
            )
        status, output = processes.answer_of(command, ANSWER_LIMIT, stderr=subprocess.DEVNULL)
        if status is None:
            raise CacheError(self.failed(f"{' '.join(look)} was not done after {ANSWER_LIMIT:g} s"))
        text = output if status == 0 else ""
        if self.storage.lists_digests:
            # The runtime lists the digest by which it pulled each image.
            return f"sha256:{self.digest}" if f"sha256:{self.digest}" in text.split() else None
        return next((line.strip() for line in text.splitlines() if line.strip()), None)

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Pull the image if the runtime does not have it.

        :raises CacheError: the registry does not answer, or does not give it.
        """
        identifier = self.identifier()
        if identifier is None:
            self.run([[*self.storage.pull, self.called]], timeout=LIMIT)
            identifier = self.identifier()
        if identifier is None:
            # Shifter then also ends with status 0.
            raise CacheError(self.failed(self.last_words()))
        return self.path, {"bytes": 0, "id": identifier, "reference": self.shown}

    def facts(self) -> Dict[str, Any]:
        """Return the facts of the image, for a check's provenance; it must be there.

        :raises CacheError: it has been removed.
        """
        name = {"path": self.called, "sha256": self.digest, "bytes": None, "reference": self.shown}
        return {**name, "id": self.read_record()["id"]}

    def hand_over(self, link: Path) -> None:
        """Write the facts of the image, and the name that the runtime gives it; there is no file to link."""
        facts = self.facts()
        cache.write_facts(link, facts)
        Path(contract.IMAGE_ID).write_text(facts["id"] + "\n")


def _unpinned(reference: str) -> str:
    return f"the image {texts.without_credentials(reference)} is not pinned: end its name with @sha256:<64 digits>"


def image_of_registry(
    reference: str,
    directory: cache.AnyPath,
    runtime: str,
    architecture: Optional[str] = None,
    key: Optional[str] = None,
) -> Union[Pulled, Kept]:
    """Return an image of a registry, as a runtime has images.

    :param runtime: command of the container runtime.
    :param architecture: architecture of the machines that are to run it; None for any.
    :param key: fingerprint of the key that must have signed it; None for any image.
    :raises CacheError: the reference is not pinned, or the runtime cannot verify signatures.
    """
    row = container_runtimes.by_command(runtime)
    if not row.storage:
        return Pulled(reference, directory, runtime, architecture, key)
    if key:
        shown = texts.without_credentials(reference)
        raise CacheError(f"the image {shown} is not verified: {runtime} knows no such keys: leave out image_key")
    return Kept(reference, directory, row)


def signers_of(runtime: str, image: Path) -> List[str]:
    """Return the fingerprints of the keys that signed an image file; none if a signature or a part is not valid.

    :param runtime: command of a runtime that runs image files; its keyring has the public keys.
    """
    words = [runtime, "verify", "--all", "--local", "--json", str(image)]
    status, output = processes.answer_of(words, LIMIT, stderr=subprocess.DEVNULL)
    try:
        signers = json.loads(output)["SignerKeys"] if status == 0 else []
        return [each["Signer"]["Fingerprint"].upper() for each in signers]
    except (ValueError, LookupError, TypeError):
        return []
