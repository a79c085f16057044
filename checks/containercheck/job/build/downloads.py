"""Fetch pinned files into a cache: published inputs, jars from a Maven repository, and environments from PyPI.

Proxies, certificates, indexes and repositories are those of the machine's configuration: the settings of Maven and
pip.

An input is a file, or a tar archive that is unpacked into a directory. ``&subdirectory=<path>`` at the end of the
address selects a file or directory in the archive, as in pip's direct references.

A line of a list of artifacts names a jar and its SHA-256: ``group:artifact:version 0d73a23f...``. If Maven's local
repository has all of them, no network is needed.

The key of an environment is a digest of the requirements, the version of Python and the architecture. An environment
cannot be moved (its scripts name their interpreter), so it is built at its final path. If the pinned files are only for
some machines, a comment in the requirements names these (``machine``).

Standard library only, Python 3.6 or newer.
"""

import http.client
import os
import re
import shutil
import socket
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Dict, Tuple

from containercheck.job import texts
from containercheck.job.build import cache, file_trees, machine
from containercheck.job.build.cache import CacheError, UnsupportedError

#: Longest silence of a server, in seconds.
SILENCE = 60.0
#: Endings of the archives that are unpacked.
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
#: Maven's goal that copies one artifact without its dependencies: the list is complete.
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


class Download(cache.Entry):
    """Fetch a file, or the content of an archive.

    :param reference: address, followed by ``#sha256=`` and the digest.
    :param directory: directory of the cache.
    """

    kind, folder = "cache of inputs", "inputs"

    def __init__(self, reference: str, directory: cache.AnyPath) -> None:
        """Determine the path in the cache.

        :raises CacheError: the address has no digest.
        """
        self.address, _, fragment = reference.partition("#")
        self.shown = texts.without_credentials(self.address)
        parts = urllib.parse.parse_qs(fragment)
        self.pin = parts.get("sha256", [""])[0].lower()
        if not re.fullmatch(r"[0-9a-f]{64}", self.pin):
            raise CacheError(f"the input {self.shown} is not pinned: end its address with #sha256=<64 digits>")
        self.inside = parts.get("subdirectory", [""])[0]
        file = Path(urllib.parse.unquote(urllib.parse.urlsplit(self.address).path)).name or "input"
        self.is_archive = file.endswith(ARCHIVES)
        name = re.sub(r"[^\w.-]", "_", file).lstrip(".") or "input"
        super().__init__(name, directory, f"{name}-{self.pin[:12]}")

    @property
    def target(self) -> Path:
        """Return the path that the check gets.

        :raises CacheError: the archive has no such member.
        """
        if not self.is_archive:
            return self.path / self.name
        target, top = (self.path / self.inside).resolve(), self.path.resolve()
        if not target.exists() or top not in (target, *target.parents):
            members = ", ".join(sorted(path.name for path in self.path.iterdir()))
            raise CacheError(f"the input {self.shown} has no {self.inside!r}; it has {members}")
        return target

    def intact(self, record: Dict[str, Any]) -> bool:
        """Return whether the content is that of the pinned file or archive."""
        return bool(record["pin"] == self.pin) and super().intact(record)

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Fetch the file, check its digest, and unpack an archive.

        :raises CacheError: the file cannot be fetched, or is not the pinned one.
        """
        content = work / "content"
        content.mkdir()
        file = (work if self.is_archive else content) / self.name
        self._fetch(file)
        digest = file_trees.digest_of(file)
        if digest != self.pin:
            raise CacheError(f"the input {self.shown} is not the pinned one: its SHA-256 is {digest}, not {self.pin}")
        if self.is_archive:
            unpack = ["tar", "--extract", "--no-same-owner", "--no-same-permissions"]
            self.run([[*unpack, "--directory", str(content), "--file", str(file)]])
        return content, {**self.content_of(content), "pin": self.pin}

    def _fetch(self, file: Path) -> None:
        """Write the content of the address into a file."""
        request = urllib.request.Request(self.address, headers={"User-Agent": "containercheck"})
        try:
            with urllib.request.urlopen(request, timeout=SILENCE) as source, file.open("wb") as stream:
                shutil.copyfileobj(source, stream, 1 << 20)
        except (urllib.error.URLError, http.client.HTTPException, socket.timeout, ConnectionError, ValueError) as error:
            problem = error if isinstance(error, urllib.error.HTTPError) else getattr(error, "reason", error)
            raise CacheError(f"cannot fetch the input {self.shown}: {problem}") from None


def read_artifacts(path: Path) -> Dict[str, str]:
    """Return the digests of the artifacts of a list, by artifact.

    :raises OSError: there is no such file.
    :raises ValueError: a line has no digest.
    """
    lines = (line.split("#")[0].split() for line in texts.utf8(path).splitlines())
    return {artifact: digest for artifact, digest in filter(None, lines)}


class Jars(cache.Entry):
    """Fetch the jars of one list.

    :param directory: directory of the cache.
    """

    kind, folder = "cache of jars", "jars"

    def __init__(self, name: str, artifacts: cache.AnyPath, directory: cache.AnyPath) -> None:
        """Determine the path in the cache.

        :raises OSError, ValueError: there is no such list, or a line of it has no digest.
        """
        self.pinned = read_artifacts(Path(artifacts))
        super().__init__(name, directory, f"{name}-{cache.key_of(sorted(self.pinned.items()))}")

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Let Maven copy the jars, and check them.

        :raises CacheError: Maven fails, or a jar is not the pinned one.
        """
        place = work / "jars"
        place.mkdir()
        copy = ["mvn", "-B", "-q", "--strict-checksums", GOAL, f"-DoutputDirectory={place}"]
        self.run([[*copy, f"-Dartifact={artifact}"] for artifact in self.pinned])
        for artifact, pin in self.pinned.items():
            jar = place / "{1}-{2}.jar".format(*artifact.split(":"))
            digest = file_trees.digest_of(jar) if jar.exists() else "of no file"
            if digest != pin:
                raise CacheError(
                    f"{artifact} is not the pinned one: its SHA-256 is {digest}, not {pin}\n"
                    "remove it from Maven's local repository and try again, or find out why it changed"
                )
        return place, self.content_of(place)

    def last_words(self) -> str:
        """Return Maven's first error, which names the problem; its last lines are general advice."""
        first = re.search(r"^\[ERROR\] (\S.*)", "\n".join(self.lines()), re.MULTILINE)
        return first[1] if first else super().last_words()


class PythonEnvironment(cache.Entry):
    """Build the virtual environment of a requirements file.

    :param directory: directory of the cache.
    :param architecture: architecture of the machines that it is for, as ``uname -m`` prints it.
    """

    kind, folder = "cache of Python environments", "venvs"

    def __init__(self, name: str, requirements: cache.AnyPath, directory: cache.AnyPath, architecture: str) -> None:
        """Determine the path in the cache.

        :raises CacheError: there is no Python.
        :raises OSError: there is no such file.
        :raises UnsupportedError: the requirements are pinned for other machines.
        """
        self.requirements = Path(requirements)
        content = texts.utf8(self.requirements)
        problem = machine.not_for(name, self.requirements, architecture)
        if problem:
            raise UnsupportedError(f"no software: {problem}")
        self.python, version = machine.python(machine.limits_of(content)[1])
        file = f"{name}-{architecture}-python{version}-{cache.key_of(content)}"
        super().__init__(name, directory, file, architecture)

    def intact(self, record: Dict[str, Any]) -> bool:
        """Return whether all files are as they were, and the Python that the environment was made with is there."""
        return (self.path / "bin" / "python").exists() and super().intact(record)

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Make the environment and install the requirements.

        :raises CacheError: Python or pip fails.
        """
        install = [str(self.path / "bin" / "python"), "-m", "pip", "install", "--no-input", "--no-cache-dir"]
        make = [self.python, "-m", "venv", str(self.path)]
        self.run([make, [*install, "--requirement", str(self.requirements)]], env={**os.environ, "TMPDIR": str(work)})
        return self.path, self.content_of(self.path)
