"""Installs pinned requirements from PyPI into a virtual environment in a cache (standard library only; build job).

    python3 venvs.py --requirements checks/src/db12/requirements.txt --cache ~/.cache/containercheck/venvs db12

prints the path of a complete environment. It is keyed by the content of the requirements, by the version of Python and
by the architecture. An environment cannot be moved (its scripts name their interpreter), so it is built at its place,
and its record, which is written last, is what makes it complete. pip uses the machine's own settings.

Where the pinned files are not for every machine, a comment in the requirements says for which:

    # only for: x86_64; Python 3.11, 3.12
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import cache
from cache import CacheError, UnsupportedError

OLDEST = (3, 9)


def limits_of(requirements: str) -> tuple[list[str], list[str]]:
    """Return the architectures and the versions of Python that requirements are pinned for; empty lists for all."""
    limits = re.search(r"^# only for: ([^;\n]*)(?:; Python (.*))?$", requirements, re.MULTILINE)
    return tuple(re.findall(r"[\w.]+", part or "") for part in limits.groups()) if limits else ([], [])


def find_python(versions: list[str]) -> tuple[str, str]:
    """Return a Python that can make environments, and its version (``3.11``).

    The system's own comes first: one from a home directory may be closed to other users, and missing on other nodes.

    :param versions: those that will do; an empty list for all from 3.9 on.
    :raises CacheError: there is none, of any version.
    :raises UnsupportedError: there is none of these versions.
    """
    tell = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    found = []
    for python in ("/usr/bin/python3", sys.executable, "python3", *(f"python{version}" for version in versions)):
        try:
            version = subprocess.run([python, "-c", tell], capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            continue
        found += [] if version in found else [version]
        if version in versions or (not versions and tuple(int(part) for part in version.split(".")) >= OLDEST):
            return python, version
    if found and versions:
        raise UnsupportedError(
            f"no software: it is pinned for Python {', '.join(versions)}, and found was only {', '.join(found)}"
        )
    raise CacheError(
        f"no Python {OLDEST[0]}.{OLDEST[1]} or newer with its venv and ensurepip modules: install one as python3 "
        "(Debian and Ubuntu: python3-venv)"
    )


class Environment(cache.Entry):
    """The environment of one requirements file.

    :param directory: of the cache.
    """

    kind, setting = "cache of Python environments", "venv_cache"
    # TensorFlow's takes 1.7 GB, its packages 300 MB.
    needed_space = 3 << 30

    def __init__(self, name: str, requirements: Path, directory: Path) -> None:
        """Find its place in the cache.

        :raises CacheError: there is no such file, or no Python.
        :raises UnsupportedError: the requirements are pinned for other machines.
        """
        try:
            content = requirements.read_bytes()
        except OSError as error:
            raise CacheError(f"no requirements {requirements}: {error.strerror}") from None
        self.requirements = requirements
        architectures, versions = limits_of(content.decode())
        if architectures and platform.machine() not in architectures:
            raise UnsupportedError(
                f"no software: {name} is pinned for {', '.join(architectures)}, and this machine is "
                f"{platform.machine()}: pin it for that too, in {requirements}"
            )
        self.python, version = find_python(versions)
        key = hashlib.sha256(content).hexdigest()[:12]
        super().__init__(name, directory / f"{name}-{platform.machine()}-python{version}-{key}")

    def intact(self, record: dict[str, object]) -> bool:
        """Tell whether all files are there, and the Python that it was made with."""
        files, size = cache.content_of(self.path)
        return (files, size) == (record["files"], record["bytes"]) and (self.path / "bin" / "python").exists()

    def build(self, work: Path) -> tuple[Path, dict[str, object]]:
        """Make the environment and install into it."""
        install = [str(self.path / "bin" / "python"), "-m", "pip", "install", "--no-input", "--no-cache-dir"]
        try:
            self.run(
                [
                    [self.python, "-m", "venv", str(self.path)],
                    [*install, "--requirement", str(self.requirements)],
                ],
                env={**os.environ, "TMPDIR": str(work)},
            )
        except BaseException:
            cache.remove(self.path)
            raise
        files, size = cache.content_of(self.path)
        return self.path, {"requirements": self.requirements.name, "files": files, "bytes": size}


def main() -> None:
    """Print the path of the environment, or one error and exit status 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requirements", type=Path, required=True, help="file with pinned requirements")
    parser.add_argument("--cache", type=Path, required=True, help="directory of the environments")
    parser.add_argument("--link", type=Path, help="make this a symbolic link to the environment")
    parser.add_argument("name", help="what to call it")
    arguments = parser.parse_args()
    cache.deliver(
        lambda: Environment(arguments.name, arguments.requirements, arguments.cache.resolve()).ensure(), arguments.link
    )


if __name__ == "__main__":
    main()
