"""Installs pinned requirements from PyPI into a virtual environment in a cache (standard library only; build job).

    python3 venvs.py --requirements checks/src/db12/requirements.txt --cache ~/.cache/containercheck/venvs db12

prints the path of a complete environment. It is keyed by the content of the requirements, by the version of Python and
by the architecture. An environment cannot be moved (its scripts name their interpreter), so it is built at its place,
and its record, which is written last, is what makes it complete. pip uses the machine's own settings.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import subprocess
import sys
from pathlib import Path

import cache
from cache import CacheError

OLDEST = (3, 9)


def find_python() -> tuple[str, str]:
    """Return a Python that can make environments, and its version (``3.11``).

    The system's own comes first: one from a home directory may be closed to other users, and missing on other nodes.

    :raises CacheError: there is none.
    """
    tell = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    for python in ("/usr/bin/python3", sys.executable, "python3"):
        try:
            version = subprocess.run([python, "-c", tell], capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            continue
        if tuple(int(part) for part in version.split(".")) >= OLDEST:
            return python, version
    raise CacheError(
        f"no Python {OLDEST[0]}.{OLDEST[1]} or newer with its venv and ensurepip modules: install one as python3 "
        "(Debian and Ubuntu: python3-venv)"
    )


def content_of(directory: Path) -> tuple[int, int]:
    """Return the number of files and their bytes; without what Python compiles by itself whenever it likes."""
    files = size = 0
    for place, directories, names in os.walk(directory):
        directories[:] = [name for name in directories if name != "__pycache__"]
        for name in names:
            files += 1
            size += os.lstat(os.path.join(place, name)).st_size
    return files, size


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
        """
        try:
            content = requirements.read_bytes()
        except OSError as error:
            raise CacheError(f"no requirements {requirements}: {error.strerror}") from None
        self.requirements = requirements
        self.python, version = find_python()
        key = hashlib.sha256(content).hexdigest()[:12]
        super().__init__(name, directory / f"{name}-{platform.machine()}-python{version}-{key}")

    def intact(self, record: dict[str, object]) -> bool:
        """Tell whether all files are there, and the Python that it was made with."""
        files, size = content_of(self.path)
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
        files, size = content_of(self.path)
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
