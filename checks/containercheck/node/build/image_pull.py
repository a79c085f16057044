"""Gets an image from a registry, once, by its digest: into the cache, or to where the runtime keeps its images.

    python3 checks/containercheck pull --runtime apptainer --cache ~/.cache/containercheck/images --link image.sif \\
        docker://registry.example.org/hpcc@sha256:0d73a23f...
    python3 checks/containercheck pull --runtime sarus --cache ~/.cache/containercheck/images \\
        registry.example.org/hpcc@sha256:0d73a23f...

Of an image that is a file it makes a link; some runtimes keep theirs themselves, and what they call it is left in
``contract.IMAGE_ID``. Which one it is stands in ``contract.IMAGE_RECORD``. Whatever a tag leads to
tomorrow, it stays that image; and a job with many ranks pulls nothing. Who may pull, and through which proxy, the
runtime's own settings say.

Standard library only, Python 3.6 or newer.
"""

import argparse
import platform
import re
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from containercheck.node import container_runtimes, contract, texts
from containercheck.node.build import cache, image_architecture, image_build, image_content
from containercheck.node.build.cache import CacheError, UnsupportedError
from containercheck.node.container_runtimes import DEFAULT_REGISTRY, REGISTRY_SCHEME, Runtime

#: Seconds that a pull may take, and that a runtime may take to say which images it has.
LIMIT, PATIENCE = 1800.0, 60.0
#: By what images are named whose digest the runtime compares, and what leads to a file, whose digest we compare.
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


class OfRegistry(cache.Entry):
    """An image of a registry.

    :param name: what it is called in messages and logs.
    :param path: its place.
    :param reference: its name in the registry.
    :param limit: seconds that the pull may take.
    """

    kind, setting = "image cache", "image_cache"
    lacking, instead = "image", ", or name an image file in the site's extras, images"
    doing, done = "pulling", "pulled"

    def __init__(self, name: str, path: Path, reference: str, limit: float) -> None:
        """Nothing is pulled before :meth:`ensure`."""
        super().__init__(name, path)
        self.reference, self.limit = reference, limit
        self.shown = texts.without_credentials(reference)

    def pull(self, command: List[str]) -> None:
        """Run the runtime's own command.

        :raises CacheError: the registry does not answer, does not have it, or does not give it.
        """
        try:
            self.run([command], timeout=self.limit)
        except subprocess.TimeoutExpired:
            raise CacheError(self.failed(f"{command[0]} was not done after {self.limit:g} s")) from None

    def unreached(self) -> str:
        """Return nothing: the message below names the registry, and proxies for packages are no help."""
        return ""

    def failed(self, why: str) -> str:
        """Say in one line which image cannot be had from where, and why."""
        return f"the image {self.shown} cannot be pulled from {registry_of(self.shown)}: {why} (log: {self.log})"


class Pulled(OfRegistry, cache.FileEntry):
    """An image that is a file.

    :param directory: of the cache.
    :param runtime: its command.
    :param wanted: architecture of the machines that are to run it, as ``uname -m`` prints it; None for any. An index
        has one digest for the images of all architectures.
    """

    def __init__(
        self, reference: str, directory: Path, runtime: str, limit: float = LIMIT, wanted: Optional[str] = None
    ) -> None:
        """Find its place in the cache.

        :raises CacheError: it is not pinned.
        """
        match = re.fullmatch(r"(?P<address>(?P<scheme>\w+)://\S+?)" + _PIN, reference)
        if not match:
            raise CacheError(_unpinned(reference))
        if match["scheme"] not in (*_VERIFIED, *_FILES):
            known = ", ".join(f"{scheme}://" for scheme in (*_VERIFIED, *_FILES))
            shown = texts.without_credentials(reference)
            raise CacheError(f"the image {shown} cannot be checked for its digest: name one by {known}")
        self.digest, self.is_file = match["digest"], match["scheme"] in _FILES
        self.address = match["address"] if self.is_file else reference
        name = re.sub(r"[^\w.-]", "_", texts.without_credentials(match["address"]).split("/")[-1])
        place = "-".join(filter(None, (name, wanted, match["digest"][:12])))
        super().__init__(name, directory / f"{place}.sif", reference, limit)
        self.runtime, self.wanted = runtime, wanted

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Pull it.

        :raises CacheError: see :meth:`pull`.
        """
        pulled = work / "image.sif"
        self.pull([self.runtime, "pull", str(pulled), self.address])
        known = self.known(pulled)
        # Of a file from a web server nobody else compares it.
        if self.is_file and known["sha256"] != self.digest:
            raise CacheError(self.failed(f"it is not the pinned one, its SHA-256 is {known['sha256']}"))
        image_architecture.require(pulled, self.wanted, self.shown)
        return pulled, {**known, **image_content.of_image(self.runtime, pulled), "reference": self.shown}

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether it is what was pulled, for this very reference: its place has a part of the digest only."""
        return record["reference"] == self.shown and super().intact(record)

    def facts(self) -> Dict[str, Any]:
        """Return which image it is, for a check's provenance; it must be there.

        :raises CacheError: it is gone again.
        """
        return {**super().facts(), **image_content.known(self.read_record()), "reference": self.shown}


class Kept(OfRegistry):
    """An image that the runtime keeps; in the cache there is only the record of what it calls it.

    Where a tag will do, the image that it leads to when it is first asked for is the one that runs, by its identifier.

    :param directory: of the cache.
    :param runtime: one that keeps images.
    """

    needed_space = 0

    def __init__(self, reference: str, directory: Path, runtime: Runtime, limit: float = LIMIT) -> None:
        """Find the place of its record.

        :raises CacheError: it is not pinned.
        """
        if not runtime.storage:
            raise CacheError(f"{runtime.name} keeps no images of its own: name a file")
        match = re.fullmatch(rf"(?P<name>\w[\w./:-]*?)({_PIN})?", reference)
        if not match or not (match["digest"] or runtime.storage.takes_tags):
            raise CacheError(_unpinned(reference))
        self.digest, self.storage = match["digest"], runtime.storage
        self.called = self.storage.name.format(name=reference)
        name = re.sub(r"[^\w.-]", "_", match["name"])
        # It pulls the image for the machine that it is on.
        path = directory / f"{runtime.command}-{name}-{platform.machine()}-{(self.digest or 'tag')[:12]}"
        super().__init__(name, path, reference, limit)

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether the runtime has it still."""
        return record["reference"] == self.shown and self.identifier() == record["id"]

    def identifier(self) -> Optional[str]:
        """Return what the runtime calls it; None where it does not have it.

        :raises CacheError: it does not say.
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

        :raises CacheError: see :meth:`pull`.
        """
        identifier = self.identifier()
        if identifier is None:
            self.pull([*self.storage.pull, self.called])
            identifier = self.identifier()
        if identifier is None:
            # Shifter ends with 0 then too.
            raise CacheError(self.failed(self.last_words()))
        return self.path, {"bytes": 0, "id": identifier, "reference": self.shown}

    def facts(self) -> Dict[str, Any]:
        """Return which image it is, for a check's provenance; it must be there.

        :raises CacheError: it is gone again.
        """
        known = {"path": self.called, "sha256": self.digest, "bytes": None, "reference": self.shown}
        return {**known, "id": self.read_record()["id"]}


def _unpinned(reference: str) -> str:
    return f"the image {texts.without_credentials(reference)} is not pinned: end its name with @sha256:<64 digits>"


def main() -> None:
    """Print the path or the name of the image, or one error and exit status 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", required=True, help="command of the container runtime")
    parser.add_argument("--cache", type=Path, required=True, help="directory of the images")
    parser.add_argument("--link", type=Path, default=Path("image.sif"), help="make this a symbolic link to the image")
    parser.add_argument("--limit", type=float, default=LIMIT, help="give up after so many seconds (%(default)g)")
    parser.add_argument("--architecture", help="of the machines that are to run it, as uname -m says it")
    parser.add_argument("reference", help="address@sha256:digest")
    arguments = parser.parse_args()
    runtime, directory = container_runtimes.by_command(arguments.runtime), arguments.cache.resolve()
    kept = runtime.storage is not None

    def get() -> Dict[str, Any]:
        image = (
            Kept(arguments.reference, directory, runtime, arguments.limit)
            if kept
            else Pulled(arguments.reference, directory, arguments.runtime, arguments.limit, arguments.architecture)
        )
        image.ensure()
        facts = image.facts()
        if kept:
            Path(contract.IMAGE_ID).write_text(facts["id"] + "\n")
        return facts

    image_build.deliver(get, None if kept else arguments.link)
