"""Installs pinned requirements from PyPI into a virtual environment in a cache.

    python3 checks/containercheck venv --requirements checks/src/db12/requirements.txt --architecture x86_64 \\
        --cache ~/.cache/containercheck/venvs --link venv db12

makes ``venv`` a link to a complete environment, and prints its path. The key of the environment is a digest of the
requirements, and the version of Python and the architecture. An environment cannot be moved (its scripts name their
interpreter), so it is built at its final path, and complete when its record has been written. pip uses the machine's
own settings. Where the pinned files are not for every machine, a comment in the requirements says for which (``pins``).

Standard library only, Python 3.6 or newer.
"""

import argparse
import hashlib
import os
from pathlib import Path
from typing import Any, Dict, Tuple

from containercheck.node import pins
from containercheck.node.build import cache, file_trees, machine, ownership
from containercheck.node.build.cache import CacheError, UnsupportedError


class Environment(cache.Entry):
    """The virtual environment of a requirements file.

    :param directory: directory of the cache.
    :param architecture: architecture of the machines that it is for, as ``uname -m`` prints it.
    """

    kind, setting = "cache of Python environments", "venv_cache"
    # TensorFlow's takes 1.7 GB, its packages 300 MB.
    needed_space = 3 << 30

    def __init__(self, name: str, requirements: Path, directory: Path, architecture: str) -> None:
        """Determine the path in the cache.

        :raises CacheError: there is no such file, or no Python.
        :raises UnsupportedError: the requirements are pinned for other machines.
        """
        try:
            content = requirements.read_bytes()
            problem = pins.not_for(name, requirements, architecture)
        except OSError as error:
            raise CacheError(f"no requirements {requirements}: {error.strerror}") from None
        self.requirements = requirements
        if problem:
            raise UnsupportedError(f"no software: {problem}")
        self.python, version = machine.python(pins.limits_of(content.decode())[1])
        key = hashlib.sha256(content).hexdigest()[:12]
        super().__init__(name, directory / f"{name}-{architecture}-python{version}-{key}", architecture)

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether all files are there, and the Python that the environment was made with."""
        count, size = file_trees.content_of(self.path, ownership.require)
        return (count, size) == (record["files"], record["bytes"]) and (self.path / "bin" / "python").exists()

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Make the environment and install the requirements.

        :raises CacheError: Python or pip fails.
        """
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
            file_trees.remove(self.path)
            raise
        count, size = file_trees.content_of(self.path)
        return self.path, {"files": count, "bytes": size}


def main() -> None:
    """Print the path of the environment, or one error; the status ``contract.UNSUPPORTED`` means that a check skips."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requirements", type=Path, required=True, help="file with pinned requirements")
    parser.add_argument("--architecture", required=True, help="architecture of the partition, as uname -m prints it")
    parser.add_argument("--cache", type=Path, required=True, help="directory of the environments")
    parser.add_argument("--link", type=Path, required=True, help="make this a symbolic link to the environment")
    parser.add_argument("name", help="name of the environment")
    arguments = parser.parse_args()

    def get() -> Path:
        directory = arguments.cache.resolve()
        return Environment(arguments.name, arguments.requirements, directory, arguments.architecture).ensure()

    cache.deliver(get, arguments.link)
