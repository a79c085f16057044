"""Fetches pinned artifacts from a Maven repository into a cache.

    python3 checks/containercheck jars --artifacts checks/src/semanticspaces/jars.txt \\
        --cache ~/.cache/containercheck/jars --link jars semanticspaces

makes ``jars`` a link to a directory with all jars of the list, and prints its path. A line of the list names a jar and
its SHA-256:

    group:artifact:version 0d73a23f...

Maven uses the machine's own settings, and its local repository first: if that has all jars, no network is needed.

Standard library only, Python 3.6 or newer.
"""

import argparse
import hashlib
import re
from pathlib import Path
from typing import Any, Dict, Tuple

from containercheck.node.build import cache, file_trees, ownership
from containercheck.node.build.cache import CacheError

#: Maven's goal that copies one artifact without its dependencies: the list is complete.
GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"


def read_artifacts(path: Path) -> Dict[str, str]:
    """Return the digests of the artifacts of a list, by artifact.

    :raises CacheError: there is no such file, or a line is not of the form.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise CacheError(f"no list of artifacts {path}: {error.strerror}") from None
    pinned = {}
    for number, line in enumerate(lines, 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or words[0].count(":") != 2 or len(words[1]) != 64:
            raise CacheError(f"{path}:{number}: not of the form group:artifact:version <sha256>")
        pinned[words[0]] = words[1]
    return pinned


def file_of(artifact: str) -> str:
    """Return the file name of an artifact's jar."""
    _, name, version = artifact.split(":")
    return f"{name}-{version}.jar"


class Jars(cache.Entry):
    """The jars of one list.

    :param directory: directory of the cache.
    """

    kind, setting = "cache of jars", "jar_cache"
    needed_space = 64 << 20

    def __init__(self, name: str, artifacts: Path, directory: Path) -> None:
        """Determine the path in the cache.

        :raises CacheError: there is no such list, or a line of it is not of the form.
        """
        self.pinned = read_artifacts(artifacts)
        key = hashlib.sha256(repr(sorted(self.pinned.items())).encode()).hexdigest()[:12]
        super().__init__(name, directory / f"{name}-{key}")

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether each jar has its pinned digest."""
        file_trees.content_of(self.path, ownership.require)
        return all(
            file_trees.known_digest_of(self.path / file_of(artifact)) == pin for artifact, pin in self.pinned.items()
        )

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Let Maven copy the jars, and check them.

        :raises CacheError: Maven fails, or a jar is not the pinned one.
        """
        place = work / "jars"
        place.mkdir()
        copy = ["mvn", "-B", "-q", "--strict-checksums", GOAL, f"-DoutputDirectory={place}"]
        self.run([[*copy, f"-Dartifact={artifact}"] for artifact in self.pinned])
        for artifact, pin in self.pinned.items():
            jar = place / file_of(artifact)
            if not jar.exists():
                raise CacheError(f"Maven left no {jar.name} for {artifact}: see {self.log}")
            digest = file_trees.digest_of(jar)
            if digest != pin:
                raise CacheError(
                    f"{artifact} is not the pinned one: its SHA-256 is {digest}, not {pin}\n"
                    "remove it from Maven's local repository and try again, or look at who changed it"
                )
        return place, {"bytes": sum(jar.stat().st_size for jar in place.iterdir())}

    def _failure(self) -> str:
        # Maven's first error says what is wrong; its last lines are general advice.
        first = re.search(r"^\[ERROR\] (\S.*)", "\n".join(self.lines()), re.MULTILINE)
        return f"{self.name}: Maven: {first[1]}\nthe whole log: {self.log}" if first else super()._failure()


def main() -> None:
    """Print the path of the directory; or print one error and exit with status 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--artifacts", type=Path, required=True, help="list of the artifacts")
    parser.add_argument("--cache", type=Path, required=True, help="directory of the fetched jars")
    parser.add_argument("--link", type=Path, required=True, help="make this a symbolic link to the directory")
    parser.add_argument("name", help="name of the directory in the cache")
    arguments = parser.parse_args()
    cache.deliver(lambda: Jars(arguments.name, arguments.artifacts, arguments.cache.resolve()).ensure(), arguments.link)
