"""Installs an environment of Spack into a cache.

    python3 checks/containercheck spack --environment spack-envs/hpcg --site /site/spack.yaml \\
        --target skylake_avx512 --architecture x86_64 --cache ~/.cache/containercheck/spacks --link spack hpcg

makes ``spack`` a link to the installed environment, and prints its path. Beside its ``spack.yaml`` lie the two files
that this includes: ``site.yaml``, the site's (its compilers and its MPI as externals, its mirrors, build caches and
upstreams), and ``partition.yaml``, which this program writes: the target that everything is compiled for, and the tree
that all environments of the cache are installed into. The programs are in ``.spack-env/view/bin``.

The lock file is a cache entry of its own, so that a failed installation goes on from the concretised environment. The
key of both is a digest of these files and of Spack's version. Other configuration of Spack, for all users or for one,
counts at the time of concretisation.

Standard library only, Python 3.6 or newer.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from containercheck.node import contract
from containercheck.node.build import build_logs, cache, file_trees, ownership, spack_lock, tools
from containercheck.node.build.cache import CacheError, UnsupportedError

#: Names of the environment's own file, of its lock file, and of the files that it includes.
NAME, LOCK, SITE, PARTITION = "spack.yaml", "spack.lock", "site.yaml", "partition.yaml"
#: File in the prefix of each package that Spack installed.
_RECEIPT = Path(".spack", "spec.json")
#: Beginnings of a line of Spack's output that say nothing.
_NOISE = re.compile(r"^\s*(?:==> )?(?:Error: )?(?:[\w.]+Error: )?(?:\d+\. )?")
#: Lines that Spack quotes from a build's output (its older installer with line numbers).
_QUOTED = re.compile(r"^ *>+ +(?:\d+ +)?(?!==>)(.*)")
#: Errors of Spack itself.
_ERROR = re.compile(r"^(?:==> )?Error: (.*)")
#: Last line of an exception of Spack's, such as for a source that cannot be fetched.
_EXCEPTION = re.compile(r"^ *(?:\w+\.)+\w*Error: (\S.*)")


class Parts(NamedTuple):
    """The files of an environment, and how Spack installs it.

    ``directory`` has the environment's file and its own packages, if any; ``site`` is the site's file, if it has one;
    ``target`` is archspec's name of the processor that is compiled for, and ``command`` the command of Spack.
    """

    directory: Path
    site: Optional[Path]
    target: str
    command: str

    def texts(self, tree: Path) -> Dict[str, str]:
        """Return the contents of the environment's files, by name.

        :param tree: directory that Spack installs into.
        :raises CacheError: a file cannot be read.
        """
        files = sorted(path for path in self.directory.rglob("*") if path.is_file() and path.name != LOCK)
        paths = {str(path.relative_to(self.directory)): path for path in files if path.suffix != ".pyc"}
        paths[NAME] = self.directory / NAME
        if self.site:
            paths[SITE] = self.site
        # JSON is YAML too, and quotes any path. The site's file is included first, and so takes precedence.
        defaults = {
            "config": {"install_tree": {"root": str(tree)}},
            "packages": {"all": {"require": [f"target={self.target}"]}},
        }
        texts = {SITE: "config: {}\n", PARTITION: json.dumps(defaults, indent=1) + "\n"}
        for name, path in paths.items():
            try:
                texts[name] = path.read_text()
            except OSError as error:
                raise CacheError(f"no software: Spack's file {path} cannot be read: {error.strerror}") from None
        return texts


class SpackLogged(build_logs.Logged):
    """An entry of the cache of Spack's environments, with a log of Spack: a lock file or an installed environment."""

    kind, setting = "cache of Spack's environments", "spack_cache"
    #: Parts of lines that say more than the first error does, the most informative one first.
    telling: Tuple[str, ...] = ()

    def failed(self, why: str) -> str:
        """Return the message of a failed command of Spack, in two lines."""
        return f"{self.doing} {self.name} failed: {why}\nthe whole log: {self.log}"

    def last_words(self) -> str:
        """Return the line of Spack's output that says what is wrong."""
        lines = self.lines()
        for text in self.telling:
            for number, line in enumerate(lines):
                if text in line:
                    following = lines[number + 1].strip() if line.endswith(":") and lines[number + 1 :] else ""
                    return f"{_NOISE.sub('', line).strip()} {following}".strip()
        quoted, exceptions, errors = (
            [match.group(1).strip() for match in map(pattern.match, lines) if match]
            for pattern in (_QUOTED, _EXCEPTION, _ERROR)
        )
        build_errors = [line for line in quoted if re.search(r"\berror\b", line, re.IGNORECASE)]
        candidates = build_errors[:1] or quoted[-1:] or exceptions[-1:] or errors[:1]
        return candidates[0] if candidates else super().last_words()


class Lock(SpackLogged, cache.FileEntry):
    """The lock file of an environment on a machine: each package with its version, options and dependencies.

    :param directory: directory of the cache.
    """

    doing, done = "concretising", "concretised"
    needed_space = 64 << 20
    telling = (
        "is not compatible with this machine",
        "contains unknown targets",
        "No version exists that satisfies",
        "does not exist",
    )

    def __init__(self, name: str, parts: Parts, directory: Path, architecture: str) -> None:
        """Determine the path in the cache.

        :raises CacheError: a file cannot be read, or Spack does not run.
        :raises UnsupportedError: there is no Spack.
        """
        self.parts, self.texts = parts, parts.texts(directory / "tree")
        facts = [sorted(self.texts.items()), tools.version_of("Spack", parts.command, name)]
        self.key = hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
        super().__init__(name, directory / f"{name}-{parts.target}-{self.key}.lock", architecture)

    def move(self, directory: Path) -> None:
        """Use another cache, whose tree gives the lock another key."""
        self.__init__(self.name, self.parts, directory, self.architecture)  # type: ignore[misc]

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Concretise the environment.

        :raises CacheError: Spack fails, or chooses another processor.
        """
        write(work, self.texts)
        self.run([spack(self.parts.command, work, "concretize")], env=_environment())
        for name, target in spack_lock.targets(read(work / LOCK)).items():
            # A package's own 'require' replaces the one for all packages.
            if target != self.parts.target:
                why = f"{name} would be for {target}, not {self.parts.target}"
                raise CacheError(self.failed(f"{why}: say 'prefer' where the site's Spack file says 'require' of it"))
        return work / LOCK, self.known(work / LOCK)


class Environment(SpackLogged, cache.Entry):
    """An installed environment, with its lock file."""

    broken = "not complete"
    doing, done = "installing", "installed"
    #: A compiler among the packages needs many times that; the site's tree may lie elsewhere.
    needed_space = 4 << 30
    telling = ("Timed out waiting for a",)

    def __init__(self, name: str, lock: Lock) -> None:
        """Determine the path in the cache, beside the lock file."""
        super().__init__(name, lock.path.parent / lock.path.stem, lock.architecture)
        self.lock = lock

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether all installed packages are still there, which Spack does not check."""
        # Packages that the site has installed elsewhere, for its users to build upon, are not checked.
        ownership.require_below(self.path.parent, (Path(prefix) / _RECEIPT for prefix in record["prefixes"]))
        return self.path.is_dir() and not any(map(_is_gone, record["prefixes"]))

    def move(self, directory: Path) -> None:
        """Use another cache, whose tree gives the environment another key."""
        self.lock.move(directory)
        self.path = directory / self.lock.path.stem

    def prepare(self) -> None:
        """Provide the lock file.

        :raises CacheError: Spack fails.
        """
        self.lock.ensure()

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Install the environment at its final path, because the view has that path in it.

        :raises CacheError: Spack fails.
        """
        self.path.mkdir()
        try:
            write(self.path, {**self.lock.texts, LOCK: self.lock.path.read_text()})
            install = self._spack("install", "--only-concrete", "--fail-fast")
            self.run([install], env=_environment())
            if any(map(_is_gone, self.prefixes().values())):
                # Spack takes packages that were removed by hand for installed until a reindex, and never adds them to
                # an existing view again.
                file_trees.remove(self.path / contract.SPACK_VIEW)
                self.run([self._spack("reindex"), install], env=_environment())
            prefixes = sorted(self.prefixes().values())
        except BaseException:
            file_trees.remove(self.path)
            raise
        return self.path, {
            "bytes": sum(file_trees.content_of(Path(prefix))[1] for prefix in prefixes),
            "prefixes": prefixes,
        }

    def facts(self) -> Dict[str, Any]:
        """Return the packages that the environment names, with version and hash, the target, and the lock's SHA-256.

        :raises CacheError: the environment has been removed.
        """
        packages = spack_lock.roots(self.locked()).items()
        specs = sorted(f"{package['name']}@{package['version']}/{digest[:7]}" for digest, package in packages)
        return {"specs": specs, "target": self.lock.parts.target, "lock": self.lock.facts()["sha256"]}

    def prefixes(self) -> Dict[str, str]:
        """Return the prefixes of the packages, by their hashes, without external packages.

        :raises CacheError: Spack fails.
        """
        packages = self.locked()["concrete_specs"].items()
        installed = {digest for digest, package in packages if "external" not in package}
        process = subprocess.run(
            self._spack("find", "--format", "{hash} {prefix}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
        )
        if process.returncode != 0:
            raise CacheError(self.failed(process.stderr.decode(errors="replace").strip()))
        lines = (line.strip().partition(" ") for line in process.stdout.decode(errors="replace").splitlines())
        return {digest: prefix for digest, _, prefix in lines if digest in installed}

    def locked(self) -> Dict[str, Any]:
        """Return the content of the environment's lock file.

        :raises CacheError: the file cannot be read.
        """
        return read(self.path / LOCK)

    def _spack(self, *words: str) -> List[str]:
        return spack(self.lock.parts.command, self.path, *words)


def read(lock: Path) -> Dict[str, Any]:
    """Return the content of a lock file.

    :raises CacheError: the file cannot be read.
    """
    try:
        return json.loads(lock.read_text())
    except (OSError, ValueError) as error:
        raise CacheError(f"{lock} cannot be read: {error}") from None


def _is_gone(prefix: str) -> bool:
    return not (Path(prefix) / _RECEIPT).is_file()


def spack(command: str, directory: Path, *words: str) -> List[str]:
    """Return the words of a Spack command on an environment."""
    return [command, "--color=never", "--env-dir", str(directory), *words]


def write(directory: Path, texts: Dict[str, str]) -> None:
    """Write the contents of files, by name, into a directory."""
    for name, text in texts.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def _environment() -> Dict[str, str]:
    # The output is searched for English messages. For a package that needs a licence file, Spack opens an editor, and
    # waits until it is closed.
    return {**os.environ, "LC_ALL": "C", "VISUAL": "true"}


def main() -> None:
    """Print the path of the environment, or one error; the status ``contract.UNSUPPORTED`` means that a check skips."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, required=True, help="directory with its spack.yaml")
    parser.add_argument("--spack", default="spack", help="command of Spack (%(default)s)")
    parser.add_argument("--site", type=Path, help="the site's file, which the environment includes")
    parser.add_argument("--target", required=True, help="processor that is compiled for, one of archspec's names")
    parser.add_argument("--architecture", required=True, help="architecture of the partition, as uname -m prints it")
    parser.add_argument("--cache", type=Path, required=True, help="directory of the environments, and of their tree")
    parser.add_argument("--link", type=Path, required=True, help="make this a symbolic link to the environment")
    parser.add_argument("--program", help="program that the view must have")
    parser.add_argument("name", help="name of the environment")
    arguments = parser.parse_args()

    def get() -> Path:
        parts = Parts(arguments.environment.resolve(), arguments.site, arguments.target, arguments.spack)
        lock = Lock(arguments.name, parts, arguments.cache.resolve(), arguments.architecture)
        environment = Environment(arguments.name, lock)
        environment.ensure()
        if arguments.program and not (environment.path / contract.SPACK_VIEW / arguments.program).is_file():
            raise UnsupportedError(
                f"no software: the environment {arguments.name} does not build {arguments.program}: see the specs in "
                f"{arguments.environment / NAME}"
            )
        # Of a program this is contract.SPACK_RECORD; a library that is loaded into it has a link of its own.
        record = arguments.link.parent / f"{arguments.link.name}.json"
        record.write_text(json.dumps(environment.facts()))
        return environment.path

    cache.deliver(get, arguments.link)
