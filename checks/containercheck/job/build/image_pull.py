"""Gets an image from a registry, once, by its digest: into the cache, or to where the runtime keeps its images.

    python3 checks/containercheck/job pull --runtime apptainer --cache ~/.cache/containercheck/images \\
        --link image.sif docker://registry.example.org/hpcc@sha256:0d73a23f...
    python3 checks/containercheck/job pull --runtime sarus --cache ~/.cache/containercheck/images \\
        registry.example.org/hpcc@sha256:0d73a23f...

Of an image that is a file it makes a link. Some runtimes keep their images themselves; then the name that the runtime
gives the image is written into ``contract.IMAGE_ID``. The facts of the image are written into
``contract.IMAGE_RECORD``. The image stays the same, even if a tag leads to another one tomorrow; and a job with many
ranks pulls nothing. Credentials and proxies are the runtime's own settings.

Standard library only, Python 3.6 or newer.
"""

import platform
import re
import subprocess
from pathlib import Path
from typing import Any, Dict, Optional, Tuple

from containercheck.job import container_runtimes, contract, texts
from containercheck.job.build import cache, image_files
from containercheck.job.build.cache import CacheError, UnsupportedError
from containercheck.job.container_runtimes import DEFAULT_REGISTRY, REGISTRY_SCHEME, Runtime

#: Seconds that a pull may take, and that a runtime may take to list its images.
LIMIT, PATIENCE = 1800.0, 60.0
#: Schemes of images whose digest the runtime compares, and of files, whose digest is compared here.
_VERIFIED, _FILES = (REGISTRY_SCHEME, "oras"), ("https", "http")
_PIN = r"@sha256:(?P<digest>[0-9a-f]{64})"


def registry_of(reference: str) -> str:
    """Return the host of the registry that an image is in.

    >>> [registry_of(name) for name in ("oras://host:5000/a/b", "quay.io/a/b:1", "a/b:1", "docker://alpine")]
    ['host:5000', 'quay.io', 'docker.io', 'docker.io']
    """
    scheme, _, name = reference.rpartition("://")
    host, _, rest = name.partition("/")
    # As Docker tells the name of a host from that of a person.
    named = rest and (re.search(r"[.:]", host) or host == "localhost")
    return host if named or scheme not in ("", REGISTRY_SCHEME) else DEFAULT_REGISTRY


class OfRegistry(image_files.ImageEntry):
    """An image of a registry.

    :param reference: its name in the registry.
    """

    instead = ", or name an image file in the site's extras, images"
    doing, done = "pulling", "pulled"

    def __init__(self, name: str, path: Path, reference: str) -> None:
        """Determine the path in the cache."""
        super().__init__(name, path)
        self.shown = texts.without_credentials(reference)

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether it is the image of this very reference: its path has a part of the digest only."""
        return bool(record["reference"] == self.shown) and super().intact(record)

    def unreached(self) -> str:
        """Return nothing: the message below names the registry, and proxies for packages are no help."""
        return ""

    def failed(self, reason: str) -> str:
        """Return the message of a failed pull, in one line, with the image and the registry."""
        return f"the image {self.shown} cannot be pulled from {registry_of(self.shown)}: {reason} (log: {self.log})"


class Pulled(OfRegistry):
    """An image that is a file.

    :param directory: of the cache.
    :param runtime: its command.
    :param wanted: architecture of the machines that are to run it, as ``uname -m`` prints it; None for any. An index
        has one digest for the images of all architectures.
    """

    def __init__(self, reference: str, directory: Path, runtime: str, wanted: Optional[str] = None) -> None:
        """Determine the path in the cache.

        :raises CacheError: the reference is not pinned.
        """
        match = re.fullmatch(r"(?P<address>(?P<scheme>\w+)://\S+?)" + _PIN, reference)
        if not match:
            raise CacheError(_unpinned(reference))
        if match["scheme"] not in (*_VERIFIED, *_FILES):
            schemes = ", ".join(f"{scheme}://" for scheme in (*_VERIFIED, *_FILES))
            shown = texts.without_credentials(reference)
            raise CacheError(f"the image {shown} cannot be checked for its digest: name one by {schemes}")
        self.digest, self.is_file = match["digest"], match["scheme"] in _FILES
        self.address = match["address"] if self.is_file else reference
        name = image_files.file_name(texts.without_credentials(match["address"]).split("/")[-1])
        words = "-".join(filter(None, (name, wanted, match["digest"][:12])))
        super().__init__(name, directory / f"{words}.sif", reference)
        self.runtime, self.wanted = runtime, wanted

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
        image_files.require_architecture(pulled, self.wanted, self.shown)
        return pulled, {**content, **image_files.content_of_image(self.runtime, pulled), "reference": self.shown}

    def facts(self) -> Dict[str, Any]:
        """Return the facts of the image, for a check's provenance; it must be in the cache.

        :raises CacheError: it has been removed.
        """
        return {**super().facts(), **image_files.known_content(self.read_record()), "reference": self.shown}


class Kept(OfRegistry):
    """An image that the runtime keeps; the cache has only a record with the runtime's name of it.

    Where the runtime takes tags, the image that the tag leads to at the first pull is the one that runs.

    :param directory: of the cache.
    :param runtime: one that keeps images.
    """

    def __init__(self, reference: str, directory: Path, runtime: Runtime) -> None:
        """Determine the path of the record.

        :raises CacheError: the reference is not pinned.
        """
        if not runtime.storage:
            raise CacheError(f"{runtime.name} keeps no images of its own: name a file")
        match = re.fullmatch(rf"(?P<name>\w[\w./:-]*?)({_PIN})?", reference)
        if not match or not (match["digest"] or runtime.storage.takes_tags):
            raise CacheError(_unpinned(reference))
        self.digest, self.storage = match["digest"], runtime.storage
        self.called = self.storage.name.format(name=reference)
        name = image_files.file_name(match["name"])
        # The runtime pulls the image for the machine that it is on.
        words = (name, runtime.command, platform.machine(), (self.digest or "tag")[:12])
        super().__init__(name, directory / "-".join(words), reference)

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether the runtime still has it."""
        return bool(record["reference"] == self.shown) and self.identifier() == record["id"]

    def identifier(self) -> Optional[str]:
        """Return the runtime's identifier of the image; None where it does not have it.

        :raises UnsupportedError: the runtime is not on the PATH.
        :raises CacheError: it does not answer.
        """
        look = self.storage.look
        command = look if self.storage.lists_digests else (*look, self.called)
        try:
            process = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=PATIENCE
            )
        except FileNotFoundError:
            raise UnsupportedError(
                f"no {self.lacking}: {self.name} would be {self.done} here, and there is no {look[0]} on the PATH"
            ) from None
        except subprocess.TimeoutExpired:
            raise CacheError(self.failed(f"{' '.join(look)} was not done after {PATIENCE:g} s")) from None
        text = process.stdout.decode(errors="replace") if process.returncode == 0 else ""
        if self.storage.lists_digests:
            # Of those that were pulled, by the digest that they were pulled by.
            return f"sha256:{self.digest}" if f"sha256:{self.digest}" in text.split() else None
        return next((line.strip() for line in text.splitlines() if line.strip()), None)

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Pull it, where the runtime does not have it.

        :raises CacheError: the registry does not answer, or does not give it.
        """
        identifier = self.identifier()
        if identifier is None:
            self.run([[*self.storage.pull, self.called]], timeout=LIMIT)
            identifier = self.identifier()
        if identifier is None:
            # Shifter ends with 0 then too.
            raise CacheError(self.failed(self.last_words()))
        return self.path, {"bytes": 0, "id": identifier, "reference": self.shown}

    def facts(self) -> Dict[str, Any]:
        """Return the facts of the image, for a check's provenance; it must be there.

        :raises CacheError: it has been removed.
        """
        name = {"path": self.called, "sha256": self.digest, "bytes": None, "reference": self.shown}
        return {**name, "id": self.read_record()["id"]}


def _unpinned(reference: str) -> str:
    return f"the image {texts.without_credentials(reference)} is not pinned: end its name with @sha256:<64 digits>"


def main() -> None:
    """Print the path or the name of the image, or one error and exit status 1."""
    parser = cache.parser(__doc__, required=["cache"])
    parser.add_argument("--runtime", required=True, help="command of the container runtime")
    parser.add_argument("reference", help="address@sha256:digest")
    arguments = parser.parse_args()
    runtime = container_runtimes.by_command(arguments.runtime)
    parts = (arguments.reference, arguments.cache)

    def get() -> Dict[str, Any]:
        if runtime.storage is None:
            image = Pulled(*parts, arguments.runtime, arguments.architecture)
            image.ensure()
            return image.facts()
        kept = Kept(*parts, runtime)
        kept.ensure()
        Path(contract.IMAGE_ID).write_text(kept.facts()["id"] + "\n")
        return kept.facts()

    image_files.deliver(get, None if runtime.storage else arguments.link or Path("image.sif"))
