"""Install an environment of Spack into a cache, and list its parts that an image needs.

Next to its ``spack.yaml`` are two files that this includes. ``site.yaml`` is the site's: its compilers and its MPI as
externals, its mirrors, build caches and upstreams. This module writes ``partition.yaml``: the target of all
compilations, and the tree into which all environments of the cache are installed. The programs are in
``.spack-env/view/bin``.

The key is a digest of these files and of Spack's version. Other configuration of Spack, for all users or for one,
counts only when Spack concretises.

Standard library only, Python 3.6 or newer.
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Optional, Set, Tuple

from containercheck.job import contract, processes, texts
from containercheck.job.build import cache, file_trees, packing
from containercheck.job.build.cache import CacheError, UnsupportedError
from containercheck.job.build.packing import VIEW, UnpackableError

#: Names of the environment's own file, of its lock file, and of the files that it includes.
NAME, LOCK, SITE, PARTITION = "spack.yaml", "spack.lock", "site.yaml", "partition.yaml"
#: Variant of programs that use GPUs, in an environment's file for processors only.
_NO_GPUS = "~cuda"
#: File in the prefix of each package that Spack installed.
_RECEIPT = Path(".spack", "spec.json")
#: Beginning of a line of Spack's output without information.
_NOISE = r"^\s*(?:==> )?(?:Error: )?(?:[\w.]+Error: )?(?:\d+\. )?"
#: Parts of lines with more information than the first error, the most informative one first.
_TELLING = (
    "is not compatible with this machine",
    "contains unknown targets",
    "No version exists that satisfies",
    "does not exist",
    "Timed out waiting for a",
)
#: Patterns of lines that name an error, the most informative first, and the match that counts. After those above come
#: lines that Spack quotes from a build's output (its older installer with line numbers); the last line of an exception
#: of Spack's, such as for a source that cannot be fetched; errors of Spack itself.
_REASONS = [
    *((_NOISE + rf"(.*{words}.*?(?::\n.*|$))", 0) for words in _TELLING),
    (r"^ *>+ +(?:\d+ +)?(?!==>)(.*(?i:\berror\b).*)", 0),
    (r"^ *>+ +(?:\d+ +)?(?!==>)(.*)", -1),
    (r"^ *(?:\w+\.)+\w*Error: (\S.*)", -1),
    (r"^(?:==> )?Error: (.*)", 0),
]
#: Types of dependencies that a program needs at run time.
_RUN_TIME = {"link", "run"}


class SpackEnvironment(packing.Tree):
    """Install an environment, with its lock file.

    :param environment: directory with the environment's file and its own packages, if any; the entry has its name.
    :param directory: directory of the cache.
    :param target: processor that is compiled for, one of archspec's names.
    :param command: command of Spack.
    :param site_file: the site's file, if it has one.
    :param program: program that the view must have, by its path there; empty for no particular one.
    :param packed: whether the environment is for an image, which has no libraries of the site's own.
    :param gpus: variants in place of ``~cuda`` in the environment's file, for a program that uses GPUs.
    """

    kind, folder = "cache of Spack's environments", "spacks"
    doing, done = "installing", "installed"

    def __init__(
        self,
        environment: cache.AnyPath,
        directory: cache.AnyPath,
        architecture: str,
        target: str,
        command: str = "spack",
        site_file: Optional[cache.AnyPath] = None,
        program: str = "",
        packed: bool = False,
        gpus: str = "",
    ) -> None:
        """Determine the path in the cache.

        :raises CacheError: Spack does not run.
        :raises OSError: a file cannot be read.
        :raises UnsupportedError: there is no Spack.
        """
        self._source, self._site = Path(environment).resolve(), site_file
        self.processor, self._command, self.program, self._packed = target, command, program, packed
        self._gpus = gpus
        super().__init__(self._source.name, directory, self._source.name, architecture)
        self.move(self.path.parent)

    def move(self, directory: Path) -> None:
        """Use another cache; its tree gives the environment another key."""
        self.texts = self._texts(directory / "tree")
        self.key = cache.key_of(sorted(self.texts.items()), cache.version_of("Spack", self._command, self.name))
        self.path = directory / f"{self.name}-{self.processor}-{self.key}"

    def _texts(self, tree: Path) -> Dict[str, str]:
        """Return the contents of the environment's files, by name.

        :param tree: directory that Spack installs into.
        :raises OSError: a file cannot be read.
        """
        files = sorted(path for path in self._source.rglob("*") if path.is_file() and path.name != LOCK)
        paths = {str(path.relative_to(self._source)): path for path in files if path.suffix != ".pyc"}
        paths[NAME] = self._source / NAME
        if self._site:
            paths[SITE] = Path(self._site)
        # JSON is YAML too, and quotes any path. The site's file is included first, and so takes precedence.
        defaults = {
            "config": {"install_tree": {"root": str(tree)}},
            "packages": {"all": {"require": [f"target={self.processor}"]}},
        }
        contents = {SITE: "config: {}\n", PARTITION: json.dumps(defaults, indent=1) + "\n"}
        contents.update((name, texts.utf8(path)) for name, path in paths.items())
        contents[NAME] = contents[NAME].replace(_NO_GPUS, self._gpus or _NO_GPUS)
        return contents

    @property
    def target(self) -> Path:
        """Return the directory of the environment.

        :raises UnsupportedError: its view does not have the program.
        """
        if self.program and not (self.path / contract.SPACK_VIEW / self.program).is_file():
            raise UnsupportedError(
                f"no software: the environment {self.name} does not build {self.program}: see the specs in "
                f"{self._source / NAME}"
            )
        return self.path

    def intact(self, record: Dict[str, Any]) -> bool:
        """Return whether all installed packages are still there, because Spack does not check that."""
        receipts = [Path(prefix) / _RECEIPT for prefix in record["prefixes"]]
        # The site's own installation, on which its users build, is not checked.
        file_trees.require_all(self.path.parent, receipts)
        return self.path.is_dir() and all(receipt.is_file() for receipt in receipts)

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Concretise and install the environment at its final path, because the view has that path in it.

        :raises CacheError: Spack fails, or chooses another processor.
        """
        self.path.mkdir()
        self.concretise()
        if self._packed:
            # Checked before the installation, which may take hours.
            self.refuse_outside()
        # Until a reindex, Spack takes packages that were removed, by hand or by cleaning, for installed.
        install = self._spack("install", "--only-concrete", "--fail-fast")
        self.run([self._spack("reindex"), install], env=_environment())
        prefixes = sorted(self.prefixes().values())
        return self.path, {"bytes": sum(file_trees.size_of(Path(path)) for path in prefixes), "prefixes": prefixes}

    def concretise(self) -> None:
        """Write the environment's files and its lock file: each package with version, options and dependencies.

        :raises CacheError: Spack fails, or chooses another processor.
        """
        for name, text in self.texts.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text)
        self.run([self._spack("concretize")], env=_environment())
        for package in roots(self.locked()).values():
            # Generic processors are names; those of a vendor are dictionaries.
            target = package["arch"]["target"]
            target = target if isinstance(target, str) else target["name"]
            # A package's own 'require' replaces the one for all packages.
            if target != self.processor:
                reason = f"{package['name']} would be for {target}, not {self.processor}"
                advice = "write 'prefer' in place of 'require' for it in the site's Spack file"
                raise CacheError(self.failed(f"{reason}: {advice}"))

    def facts(self) -> Dict[str, Any]:
        """Return the packages that the environment names, with version and hash, the target, and the lock's SHA-256.

        :raises CacheError: the environment has been removed.
        """
        packages = roots(self.locked()).items()
        specs = sorted(f"{package['name']}@{package['version']}/{digest[:7]}" for digest, package in packages)
        return {"specs": specs, "target": self.processor, "lock": file_trees.digest_of(self.path / LOCK)}

    def prefixes(self) -> Dict[str, str]:
        """Return the prefixes of the packages, by their hashes, without external packages.

        :raises CacheError: Spack fails.
        """
        packages = self.locked()["concrete_specs"].items()
        installed = {digest for digest, package in packages if "external" not in package}
        command = self._spack("find", "--format", "{hash} {prefix}")
        status, output = processes.answer_of(command, 600.0, env=_environment(), stderr=subprocess.STDOUT)
        if status != 0:
            raise CacheError(self.failed(output.strip()))
        lines = (line.strip().partition(" ") for line in output.splitlines())
        return {digest: prefix for digest, _, prefix in lines if digest in installed}

    def locked(self) -> Dict[str, Any]:
        """Return the content of the environment's lock file.

        :raises CacheError: the file cannot be read.
        """
        return cache.read_json(self.path / LOCK)

    def refuse_outside(self) -> None:
        """Refuse an environment that needs libraries of the site's own.

        :raises UnpackableError: it needs such libraries.
        """
        libraries = ", ".join(f"{name} ({path})" for name, path in outside(self.locked()).items())
        if libraries:
            raise UnpackableError(
                f"no image can have libraries outside of Spack and of the operating system: {libraries}\n"
                "let Spack install them, or name a ready image in the site's extras, images"
            )

    def program_path(self) -> str:
        """Return the path of the program in the view."""
        return self.program

    def directories(self) -> Dict[str, str]:
        """Return the packages that are needed at run time, by prefix, and the view.

        :raises UnpackableError: libraries of the site's own are needed.
        :raises CacheError: Spack fails, or a package is not installed.
        """
        # It may have been installed for the bare program.
        self.refuse_outside()
        content, prefixes = self.locked(), self.prefixes()
        names = {}
        for digest in needed(content):
            if digest not in prefixes:
                raise CacheError(self.failed(f"{digest}, which its lock has, is not installed"))
            names[prefixes[digest]] = f"{content['concrete_specs'][digest]['name']}-{digest[:7]}"
        return {**names, str(self.path / contract.SPACK_VIEW): VIEW}

    def _spack(self, *words: str) -> List[str]:
        return [self._command, "--color=never", "--env-dir", str(self.path), *words]

    def last_words(self) -> str:
        """Return the line of Spack's output that names the error."""
        text = "\n".join(self.lines())
        for pattern, place in _REASONS:
            named = re.findall(pattern, text, re.MULTILINE)
            if named:
                return " ".join(named[place].split())
        return super().last_words()


def roots(locked: Dict[str, Any]) -> Dict[str, Dict[str, Any]]:
    """Return the packages that the environment of a lock file names, by their hashes."""
    return {root["hash"]: locked["concrete_specs"][root["hash"]] for root in locked["roots"]}


def needed(locked: Dict[str, Any]) -> List[str]:
    """Return the hashes of the packages that an environment needs at run time, without external packages and MPI."""
    packages = locked["concrete_specs"]
    return sorted(digest for digest in _needed_at_run_time(locked) if "external" not in packages[digest])


def outside(locked: Dict[str, Any]) -> Dict[str, str]:
    """Return the directories of the external libraries that an environment needs at run time, by package.

    MPI and the libraries of the operating system are not among them.
    """
    needs = _needed_at_run_time(locked).items()
    libraries = (locked["concrete_specs"][digest] for digest, types in needs if "link" in types)
    directories = {library["name"]: library["external"]["path"] for library in libraries if "external" in library}
    return {name: path for name, path in sorted(directories.items()) if path.rstrip("/") not in ("", "/usr")}


def _needed_at_run_time(locked: Dict[str, Any]) -> Dict[str, Set[str]]:
    """Return the hashes of the packages that an environment needs at run time, each with the types of its dependence.

    The dependencies of external packages are left out.
    """
    needs: Dict[str, Set[str]] = {digest: set() for digest in roots(locked)}
    todo = list(needs)
    while todo:
        package = locked["concrete_specs"][todo.pop()]
        if "external" in package:
            continue
        for edge in package.get("dependencies", []):
            # Before Spack 0.21 an edge has its types only.
            parameters = edge.get("parameters", {"deptypes": edge.get("type", [])})
            types = _RUN_TIME & set(parameters["deptypes"])
            if not types or "mpi" in parameters.get("virtuals", []):
                continue
            if edge["hash"] not in needs:
                todo.append(edge["hash"])
            needs.setdefault(edge["hash"], set()).update(types)
    return needs


def _environment() -> Dict[str, str]:
    # The output is searched for English messages. For a package that needs a licence file, Spack opens an editor, and
    # waits until it is closed.
    return {**os.environ, "LC_ALL": "C", "VISUAL": "true"}
