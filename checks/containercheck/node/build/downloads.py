"""Fetches a published input into a cache, and checks that it is the pinned one.

    python3 checks/containercheck download --cache ~/.cache/containercheck/inputs --link published \\
        'https://host/case.tar.gz#sha256=0d73a23f...'

makes ``published`` a link to the file or, of a tar archive, to the directory it is unpacked into, and prints the path.
``&subdirectory=<path>`` at the end of the address selects a file or directory in the archive; the form is that of pip's
direct references. Proxies and certificates are those of the environment.

Standard library only, Python 3.6 or newer.
"""

import argparse
import http.client
import re
import shutil
import socket
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Dict, Tuple

from containercheck.node import texts
from containercheck.node.build import cache, file_trees, ownership
from containercheck.node.build.cache import CacheError

#: Longest silence of a server, in seconds.
SILENCE = 60.0
#: Endings of the archives that are unpacked.
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


class Download(cache.Entry):
    """A downloaded file, or the content of a downloaded archive.

    :param reference: address, followed by ``#sha256=`` and the digest.
    :param directory: directory of the cache.
    """

    kind, setting = "cache of inputs", "input_cache"

    def __init__(self, reference: str, directory: Path) -> None:
        """Determine the path in the cache.

        :raises CacheError: the address has no digest.
        """
        self.address, _, fragment = reference.partition("#")
        self.shown = texts.without_credentials(self.address)
        facts = urllib.parse.parse_qs(fragment)
        self.pin = facts.get("sha256", [""])[0].lower()
        if not re.fullmatch(r"[0-9a-f]{64}", self.pin):
            raise CacheError(f"the input {self.shown} is not pinned: end its address with #sha256=<64 digits>")
        self.inside = facts.get("subdirectory", [""])[0]
        self.file = Path(urllib.parse.unquote(urllib.parse.urlsplit(self.address).path)).name or "input"
        name = re.sub(r"[^\w.-]", "_", self.file).lstrip(".") or "input"
        super().__init__(name, directory / f"{name}-{self.pin[:12]}")

    @property
    def target(self) -> Path:
        """Return the path that the check gets.

        :raises CacheError: the archive has no such member.
        """
        if not self.file.endswith(ARCHIVES):
            return self.path / self.name
        target, top = (self.path / self.inside).resolve(), self.path.resolve()
        if not target.exists() or top not in (target, *target.parents):
            members = ", ".join(sorted(path.name for path in self.path.iterdir()))
            raise CacheError(f"the input {self.shown} has no {self.inside!r}; it has {members}")
        return target

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether the content is that of the pinned file or archive."""
        if record["sha256"] != self.pin or file_trees.content_of(self.path, ownership.require)[0] == 0:
            return False
        if not self.file.endswith(ARCHIVES):
            return file_trees.digest_of(self.path / self.name) == self.pin
        return file_trees.digest_of_tree(self.path) == record["tree"]

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Fetch the file, check its digest, and unpack an archive.

        :raises CacheError: the file cannot be fetched, or is not the pinned one.
        """
        place = work / "content"
        place.mkdir()
        file = place / self.name
        with self.alive():
            self._fetch(file)
        digest = file_trees.digest_of(file)
        if digest != self.pin:
            raise CacheError(f"the input {self.shown} is not the pinned one: its SHA-256 is {digest}, not {self.pin}")
        if self.file.endswith(ARCHIVES):
            archive = work / self.name
            file.replace(archive)
            unpack = ["tar", "--extract", "--no-same-owner", "--no-same-permissions"]
            self.run([[*unpack, "--directory", str(place), "--file", str(archive)]])
        count, size = file_trees.content_of(place)
        return place, {"files": count, "bytes": size, "sha256": self.pin, "tree": file_trees.digest_of_tree(place)}

    def _fetch(self, file: Path) -> None:
        """Write the content of the address into a file."""
        request = urllib.request.Request(self.address, headers={"User-Agent": "containercheck"})
        try:
            with urllib.request.urlopen(request, timeout=SILENCE) as source, file.open("wb") as stream:
                shutil.copyfileobj(source, stream, 1 << 20)
        except (urllib.error.URLError, http.client.HTTPException, socket.timeout, ConnectionError, ValueError) as error:
            problem = error if isinstance(error, urllib.error.HTTPError) else getattr(error, "reason", error)
            raise CacheError(f"cannot fetch the input {self.shown}: {problem}") from None


def main() -> None:
    """Print the path of the input; or print one error and exit with status 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="directory of the fetched inputs")
    parser.add_argument("--link", type=Path, required=True, help="make this a symbolic link to the input")
    parser.add_argument("reference", help="address#sha256=digest")
    arguments = parser.parse_args()

    def get() -> Path:
        download = Download(arguments.reference, arguments.cache.resolve())
        download.ensure()
        return download.target

    cache.deliver(get, arguments.link)
