"""Fetches a published input into a cache, and checks that it is the pinned one.

    python3 checks/containercheck download --cache ~/.cache/containercheck/inputs --link published \\
        'https://host/case.tar.gz#sha256=0d73a23f...'

makes ``published`` a link to the file or, of a tar archive, to the directory it is unpacked into, and prints the path.
``&subdirectory=<path>`` at the end leads to a file or directory in it; the form is the one of pip's direct references.
Proxies and certificates are those of the environment.

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

#: Seconds that a server may be silent.
SILENCE = 60.0
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


class Download(cache.Entry):
    """One file, as it came or unpacked.

    :param reference: its address, ``#sha256=`` and the digest.
    :param directory: of the cache.
    """

    kind, setting = "cache of inputs", "input_cache"

    def __init__(self, reference: str, directory: Path) -> None:
        """Find its place in the cache.

        :raises CacheError: it is not pinned.
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
        """What the check gets.

        :raises CacheError: the archive has no such member.
        """
        if not self.file.endswith(ARCHIVES):
            return self.path / self.name
        target, top = (self.path / self.inside).resolve(), self.path.resolve()
        if not target.exists() or top not in (target, *target.parents):
            there = ", ".join(sorted(path.name for path in self.path.iterdir()))
            raise CacheError(f"the input {self.shown} has no {self.inside!r}; it has {there}")
        return target

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether it is the pinned file, or what came out of it."""
        if record["sha256"] != self.pin or file_trees.content_of(self.path, ownership.require)[0] == 0:
            return False
        if not self.file.endswith(ARCHIVES):
            return file_trees.digest_of(self.path / self.name) == self.pin
        return file_trees.digest_of_tree(self.path) == record["tree"]

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Fetch it, check it, and unpack it.

        :raises CacheError: it is not to be had, or another one than the pinned.
        """
        place = work / "content"
        place.mkdir()
        file = place / self.name
        with self.alive():
            self._fetch(file)
        found = file_trees.digest_of(file)
        if found != self.pin:
            raise CacheError(f"the input {self.shown} is not the pinned one: its SHA-256 is {found}, not {self.pin}")
        if self.file.endswith(ARCHIVES):
            archive = work / self.name
            file.replace(archive)
            unpack = ["tar", "--extract", "--no-same-owner", "--no-same-permissions"]
            self.run([[*unpack, "--directory", str(place), "--file", str(archive)]])
        count, size = file_trees.content_of(place)
        return place, {"files": count, "bytes": size, "sha256": self.pin, "tree": file_trees.digest_of_tree(place)}

    def _fetch(self, file: Path) -> None:
        request = urllib.request.Request(self.address, headers={"User-Agent": "containercheck"})
        try:
            with urllib.request.urlopen(request, timeout=SILENCE) as source, file.open("wb") as stream:
                shutil.copyfileobj(source, stream, 1 << 20)
        except (urllib.error.URLError, http.client.HTTPException, socket.timeout, ConnectionError, ValueError) as error:
            problem = error if isinstance(error, urllib.error.HTTPError) else getattr(error, "reason", error)
            raise CacheError(f"cannot fetch the input {self.shown}: {problem}") from None


def main() -> None:
    """Print the path of the input, or one error and exit status 1."""
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
