"""Installs an environment of Spack into a cache: concretised once, installed once, used through its view.

    python3 checks/containercheck spack --environment spack-envs/hpcg --site /site/spack.yaml \\
        --target skylake_avx512 --architecture x86_64 --cache ~/.cache/containercheck/spacks --link spack hpcg

makes ``spack`` a link to the installed environment, and prints its path. Beside its ``spack.yaml`` lie the two files
that this includes: ``site.yaml``, the site's (its compilers and its MPI as externals, its mirrors, build caches and
upstreams), and ``partition.yaml``, written here: the target that everything is compiled for, and the tree that all
environments of the cache are installed into. The programs are in ``.spack-env/view/bin``.

The lock file is a thing of its own, so that an installation that failed goes on from what was concretised. Both are
keyed by the content of these files and by what Spack says of its version; what else it is configured with, for all of
its users or for one, counts when it concretises.

Standard library only, Python 3.6 or newer.
"""

import argparse
import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from containercheck.node import contract
from containercheck.node.build import cache, file_trees, ownership, spack_lock, tools
from containercheck.node.build.cache import CacheError, UnsupportedError
from containercheck.node.build.spack_log import SpackLogged

#: The environment's own file, what Spack makes of it, and the files that it includes.
NAME, LOCK, SITE, PARTITION = "spack.yaml", "spack.lock", "site.yaml", "partition.yaml"
#: In each prefix: what Spack installed there.
_RECEIPT = Path(".spack", "spec.json")


class Parts(NamedTuple):
    """What an environment is made of.

    ``directory`` has its file, and packages of its own beside it, if any; ``site`` is the site's file, if it has one,
    ``target`` what archspec calls the processor that is compiled for, and ``command`` that of Spack.
    """

    directory: Path
    site: Optional[Path]
    target: str
    command: str

    def texts(self, tree: Path) -> Dict[str, str]:
        """Return the texts of its files, by name.

        :param tree: that Spack installs into.
        :raises CacheError: one of them cannot be read.
        """
        own = sorted(path for path in self.directory.rglob("*") if path.is_file() and path.name != LOCK)
        found = {str(path.relative_to(self.directory)): path for path in own if path.suffix != ".pyc"}
        found[NAME] = self.directory / NAME
        if self.site:
            found[SITE] = self.site
        # JSON is YAML too, whatever is in the path. The site's own words come first, and so this is what is usual.
        usual = {
            "config": {"install_tree": {"root": str(tree)}},
            "packages": {"all": {"require": [f"target={self.target}"]}},
        }
        texts = {SITE: "config: {}\n", PARTITION: json.dumps(usual, indent=1) + "\n"}
        for name, path in found.items():
            try:
                texts[name] = path.read_text()
            except OSError as error:
                raise CacheError(f"no software: Spack's file {path} cannot be read: {error.strerror}") from None
        return texts


class Lock(SpackLogged, cache.FileEntry):
    """What Spack makes of an environment on a machine: each package with its version, options and dependencies.

    :param directory: of the cache.
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
        """Find its place in the cache.

        :raises CacheError: a file cannot be read, or Spack does not run.
        :raises UnsupportedError: there is no Spack.
        """
        self.parts, self.texts = parts, parts.texts(directory / "tree")
        facts = [sorted(self.texts.items()), tools.version_of("Spack", parts.command, name)]
        self.key = hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
        super().__init__(name, directory / f"{name}-{parts.target}-{self.key}.lock", architecture)

    def move(self, directory: Path) -> None:
        """Have another cache, in whose tree the packages lie: it is another lock then."""
        self.__init__(self.name, self.parts, directory, self.architecture)  # type: ignore[misc]

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Concretise.

        :raises CacheError: that fails, or is for another processor.
        """
        write(work, self.texts)
        self.run([spack(self.parts.command, work, "concretize")], env=_environment())
        for name, target in spack_lock.targets(read(work / LOCK)).items():
            # Where a package has a 'require' of its own, Spack forgets that for all.
            if target != self.parts.target:
                why = f"{name} would be for {target}, not {self.parts.target}"
                raise CacheError(self.failed(f"{why}: say 'prefer' where the site's Spack file says 'require' of it"))
        return work / LOCK, self.known(work / LOCK)


class Environment(SpackLogged, cache.Entry):
    """An installed environment, with its lock file.

    :param directory: of the cache.
    """

    broken = "not complete"
    doing, done = "installing", "installed"
    #: Of a compiler that is built too, many times that; the site's tree may lie elsewhere.
    needed_space = 4 << 30
    telling = ("Timed out waiting for a",)

    def __init__(self, name: str, lock: Lock) -> None:
        """Find its place in the cache, beside its lock."""
        super().__init__(name, lock.path.parent / lock.path.stem, lock.architecture)
        self.lock = lock

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether everything that was installed is still there: Spack does not look."""
        # What the site has installed elsewhere, and lets its users build upon, is the site's business.
        ownership.require_below(self.path.parent, (Path(prefix) / _RECEIPT for prefix in record["prefixes"]))
        return self.path.is_dir() and not any(map(_is_gone, record["prefixes"]))

    def move(self, directory: Path) -> None:
        """Have another cache, in whose tree the packages lie: it is another environment then."""
        self.lock.move(directory)
        self.path = directory / self.lock.path.stem

    def prepare(self) -> None:
        """Concretise it.

        :raises CacheError: that fails.
        """
        self.lock.ensure()

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Install it, where it stays: the view knows its place.

        :raises CacheError: that fails.
        """
        self.path.mkdir()
        try:
            write(self.path, {**self.lock.texts, LOCK: self.lock.path.read_text()})
            install = self._spack("install", "--only-concrete", "--fail-fast")
            self.run([install], env=_environment())
            if any(map(_is_gone, self.prefixes().values())):
                # What was removed by hand counts as installed until Spack looks, and as in the view ever after.
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
        """Return what was installed.

        The packages that were asked for, with version and hash, the target, and the lock's SHA-256.

        :raises CacheError: it is gone again.
        """
        found = spack_lock.roots(self.locked()).items()
        specs = sorted("{}@{}/{}".format(one["name"], one["version"], digest[:7]) for digest, one in found)
        return {"specs": specs, "target": self.lock.parts.target, "lock": self.lock.facts()["sha256"]}

    def prefixes(self) -> Dict[str, str]:
        """Return where its packages are, by their hashes, without those that are not Spack's.

        :raises CacheError: Spack does not tell.
        """
        own = {digest for digest, one in self.locked()["concrete_specs"].items() if "external" not in one}
        process = subprocess.run(
            self._spack("find", "--format", "{hash} {prefix}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
        )
        if process.returncode != 0:
            raise CacheError(self.failed(process.stderr.decode(errors="replace").strip()))
        lines = (line.strip().partition(" ") for line in process.stdout.decode().splitlines())
        return {digest: prefix for digest, _, prefix in lines if digest in own}

    def locked(self) -> Dict[str, Any]:
        """Return the content of its lock file.

        :raises CacheError: it cannot be read.
        """
        return read(self.path / LOCK)

    def _spack(self, *words: str) -> List[str]:
        return spack(self.lock.parts.command, self.path, *words)


def read(lock: Path) -> Dict[str, Any]:
    """Return the content of a lock file.

    :raises CacheError: it cannot be read.
    """
    try:
        return json.loads(lock.read_text())
    except (OSError, ValueError) as error:
        raise CacheError(f"{lock} cannot be read: {error}") from None


def _is_gone(prefix: str) -> bool:
    return not (Path(prefix) / _RECEIPT).is_file()


def spack(command: str, directory: Path, *words: str) -> List[str]:
    """Return the words of a command of Spack's on an environment."""
    return [command, "--color=never", "--env-dir", str(directory), *words]


def write(directory: Path, texts: Dict[str, str]) -> None:
    """Write files, by their names in a directory."""
    for name, text in texts.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def _environment() -> Dict[str, str]:
    # Its output is searched for errors. Where a package wants a licence file, it has somebody write one, and waits.
    return {**os.environ, "LC_ALL": "C", "VISUAL": "true"}


def main() -> None:
    """Print the path of the environment, or one error; the status ``contract.UNSUPPORTED`` is a reason to skip."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, required=True, help="directory with its spack.yaml")
    parser.add_argument("--spack", default="spack", help="command; by default that on the PATH")
    parser.add_argument("--site", type=Path, help="the site's file, which the environment includes")
    parser.add_argument("--target", required=True, help="what is compiled for, one of archspec's names")
    parser.add_argument("--architecture", required=True, help="of the partition, as uname -m says it")
    parser.add_argument("--cache", type=Path, required=True, help="directory of the environments, and of their tree")
    parser.add_argument("--link", type=Path, required=True, help="make this a symbolic link to the environment")
    parser.add_argument("--program", help="what has to be there then, in the view")
    parser.add_argument("name", help="what to call it")
    arguments = parser.parse_args()

    def get() -> Path:
        parts = Parts(arguments.environment.resolve(), arguments.site, arguments.target, arguments.spack)
        lock = Lock(arguments.name, parts, arguments.cache.resolve(), arguments.architecture)
        environment = Environment(arguments.name, lock)
        environment.ensure()
        if arguments.program and not (environment.path / contract.SPACK_VIEW / arguments.program).is_file():
            told = f"{arguments.program}: see the specs in {arguments.environment / NAME}"
            raise UnsupportedError(f"no software: the environment {arguments.name} does not build {told}")
        record = arguments.link.parent / contract.SPACK_RECORD
        record.write_text(json.dumps(environment.facts()))
        return environment.path

    cache.deliver(get, arguments.link)
