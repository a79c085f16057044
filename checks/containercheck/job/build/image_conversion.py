"""Convert image files for runtimes that run OCI images or directories.

For an engine, the image is an archive of the same files and variables. The build step on this machine reads it into the
engine's storage, or each node of the job does, unless it has the image. For a runtime of directories it is a directory.
Neither needs root: all files of an archive belong to root, as in most images. The variables are those of the image's
environment as its own runtime sets it: for Charliecloud in ``/ch/environment`` (ch-run(1), "--set-env"), for Enroot in
``/etc/environment`` (image-format.md).

Standard library only, Python 3.6 or newer.
"""

import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Dict, Tuple, Type

from containercheck.job import architectures, container_runtimes, contract, processes, texts
from containercheck.job.build import cache, file_trees, image_files
from containercheck.job.build.cache import CacheError
from containercheck.job.container_runtimes import OCI, RUNTIMES, SQUASHFS, TREE, Runtime, Storage

#: Directories that binds and runtimes need, of those that an archive of an image lacks.
MOUNT_POINTS = ("dev", "proc", "sys", "tmp", "run", "mnt", "root", "home", contract.WORKDIR[1:], "host", "etc", "ch")
#: Files that ch-run replaces.
REPLACED = ("etc/passwd", "etc/group", "etc/hosts", "etc/resolv.conf")
#: File with the variables of an image that is a directory.
ENVIRONMENT = "ch/environment"
#: Search path of an image that sets none.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Variables that a runtime sets in every container, besides those that begin like its settings.
_OF_THE_RUNTIME = re.compile(r"(PROMPT_COMMAND|PS1|PWD|OLDPWD|HOME|USER|TERM|LANG|SHLVL|_)$")
_PREFIXES = tuple({runtime.settings for runtime in RUNTIMES if runtime.settings})
#: Directory that Apptainer adds to the LD_LIBRARY_PATH of every container.
_LIBRARIES = f"/{container_runtimes.METADATA}/libs"
#: Number of the way in which images are converted: before 3, they had setuid programs of root.
FORMAT = 4


def variables_of(output: str) -> Dict[str, str]:
    """Return the variables that an image sets, from the output of ``env -0`` in a container with a clean environment.

    >>> variables_of("PS1=$\\0PATH=/opt/bin:/bin\\0LD_LIBRARY_PATH=/.singularity.d/libs\\0APPTAINER_NAME=x.sif")
    {'PATH': '/opt/bin:/bin'}
    """
    variables = {"PATH": PATH}
    for entry in output.split("\0"):
        name, _, value = entry.partition("=")
        if not name or _OF_THE_RUNTIME.match(name) or name.startswith(_PREFIXES):
            continue
        if name == "LD_LIBRARY_PATH":
            value = ":".join(directory for directory in value.split(":") if directory not in ("", _LIBRARIES))
        if value:
            variables[name] = value
    return variables


class Converted(image_files.ImageEntry):
    """Convert an image from a file.

    :param source: link to the file, with its facts next to the link.
    :param runtime: the runtime that the image is for.
    :param directory: of the cache.
    :param builder: command of a runtime that runs the file.
    :param command: the runtime as it is typed; by default its usual command.
    :param loads: whether an archive is read into the storage of this machine.
    """

    doing, done = "converting to", "converted"
    #: Suffix of the entry.
    suffix = ""

    def __init__(
        self,
        source: cache.AnyPath,
        runtime: Runtime,
        directory: cache.AnyPath,
        builder: str,
        command: str = "",
        loads: bool = True,
    ) -> None:
        """Determine the path in the cache.

        :raises CacheError: there are no facts next to the link.
        """
        self.source, self.runtime, self._builder = Path(source).resolve(), runtime, builder
        self._command, self._loads = command, loads
        self.source_facts = cache.read_json(Path(source).with_suffix(".json"))
        name = re.sub(r"[^a-z0-9.-]", "-", self.source.name.split(".")[0].split("-")[0].lower()) or "image"
        super().__init__(name, directory, f"{name}-{self.source_facts['sha256'][:12]}-{FORMAT}{self.suffix}")

    def variables(self) -> Dict[str, str]:
        """Return the variables that the image sets.

        :raises CacheError: no container of it starts.
        """
        words = [*image_files.inside(self._builder), "--cleanenv", "--no-home", str(self.source), "env", "-0"]
        status, output = processes.answer_of(words, image_files.ANSWER_LIMIT)
        if status != 0:
            raise CacheError(f"the image {self.source} cannot be converted: `env` does not run in it ({words[0]})")
        return variables_of(output)

    def archive(self, path: Path) -> None:
        """Write the files of the image into an archive.

        :raises CacheError: they cannot be read.
        """
        script = 'out=$1; shift; exec "$@" >"$out"'
        words = ["sh", "-c", script, "sh", str(path), *image_files.archiving(self._builder, self.source)]
        self.run([words], timeout=image_files.LIMIT)

    def unpack(self, work: Path) -> Path:
        """Unpack the file, with its variables, and return the directory.

        :raises CacheError: it cannot be read.
        """
        archive, tree = work / "files.tar", work / "tree"
        self.archive(archive)
        tree.mkdir()
        # As root, tar would give files all their modes, also setuid.
        unpack = ["tar", "-C", str(tree), "--no-same-owner", "--no-same-permissions", "-xf", str(archive)]
        self.run([unpack], timeout=image_files.LIMIT)
        for name in MOUNT_POINTS:
            (tree / name).mkdir(exist_ok=True)
        for path in (tree / name for name in REPLACED):
            if not os.path.lexists(str(path)):
                path.touch()
        lines = (f"{name}={value}\n" for name, value in sorted(self.variables().items()) if "\n" not in value)
        (tree / ENVIRONMENT).write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
        return tree

    def facts(self) -> Dict[str, Any]:
        """Return the facts of the image and of its source, for the provenance of a check.

        :raises CacheError: the image has been removed.
        """
        source = {name: self.source_facts[name] for name in ("path", "sha256", "bytes")}
        names = ("recipe", "release", "mpi")
        recipe = {name: self.source_facts[name] for name in names if name in self.source_facts}
        return {**recipe, **super().facts(), "source": source}


class Tree(Converted):
    """Convert to a directory; the size of the image is that of its files."""

    suffix = ".tree"

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Unpack the file.

        :raises CacheError: it cannot be read.
        """
        tree = self.unpack(work)
        return tree, self.content_of(tree)


class SquashFs(Converted):
    """Convert to a file with a SquashFS file system; its variables are in the file that Enroot reads."""

    suffix = ".sqsh"

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Unpack the file and pack it again.

        :raises CacheError: it cannot be read.
        :raises UnsupportedError: mksquashfs is not on the PATH.
        """
        tree = self.unpack(work)
        (tree / "etc" / "environment").write_bytes((tree / ENVIRONMENT).read_bytes())
        built = work / f"image{self.suffix}"
        pack = ["mksquashfs", str(tree), str(built), "-quiet", "-no-progress", "-all-root", "-comp", "lz4"]
        self.run([pack], timeout=image_files.LIMIT)
        return built, self.content_of(built)


class Archive(Converted):
    """Convert to an archive as ``docker save`` writes it, which all engines read (moby, image/spec/spec.md)."""

    suffix = ".engine.tar"

    @property
    def image_name(self) -> str:
        """Return the name of the image in the storage of a runtime."""
        return f"localhost/containercheck/{self.name}:{self.source_facts['sha256'][:12]}"

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Make an image of one layer, with its variables; its identifier is the digest of its configuration.

        :raises CacheError: the file cannot be read.
        """
        layer, built = work / "layer.tar", work / "image.tar"
        self.archive(layer)
        architecture = image_files.read_architecture(self.source) or platform.machine()
        variables = [f"{name}={value}" for name, value in sorted(self.variables().items())]
        configuration = {
            "architecture": architectures.engine_name(architecture),
            "os": "linux",
            "config": {"Env": variables, "WorkingDir": "/"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{file_trees.digest_of(layer)}"]},
        }
        text = json.dumps(configuration, sort_keys=True).encode()
        identifier = hashlib.sha256(text).hexdigest()
        manifest = [{"Config": f"{identifier}.json", "RepoTags": [self.image_name], "Layers": [layer.name]}]
        with tarfile.open(str(built), "w", format=tarfile.GNU_FORMAT) as archive, layer.open("rb") as stream:
            for name, data in ((f"{identifier}.json", text), ("manifest.json", json.dumps(manifest).encode())):
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
            entry = tarfile.TarInfo(layer.name)
            entry.size = layer.stat().st_size
            archive.addfile(entry, stream)
        return built, {**self.content_of(built), "id": identifier}

    def facts(self) -> Dict[str, Any]:
        """Return the facts of the image, with its name in the storage of a runtime, and there its identifier."""
        return {**super().facts(), "path": self.image_name, "id": self.read_record()["id"], "archive": str(self.path)}

    def hand_over(self, link: Path) -> None:
        """Read the archive into the storage of the runtime, if it has one here, and write the name that it has there.

        :raises CacheError: the runtime does not take the archive.
        """
        facts = self.facts()
        if self._loads:
            load(self.runtime, facts, self._command)
        Path(contract.image_name_file(str(link))).write_text(facts["path"] + "\n")
        super().hand_over(link)


def load(runtime: Runtime, facts: Dict[str, Any], command: str = "") -> None:
    """Read an archive into the storage of a runtime, unless it has the image.

    :param command: the runtime as it is typed; by default its usual command.
    :raises CacheError: the runtime does not take it.
    """
    storage, name = runtime.storage, facts["path"]
    if storage is None or not storage.load:
        raise CacheError(f"{runtime.command} reads no archives: push {facts['archive']} to a registry, and name it")
    typed = command or storage.look[0]
    if _has(storage, typed, facts):
        return
    call = [typed, *(word.format(archive=facts["archive"]) for word in storage.load[1:])]
    status, output = processes.answer_of(call, image_files.LIMIT, stderr=subprocess.STDOUT)
    if status != 0 or not _has(storage, typed, facts):
        reason = next((line for line in reversed(output.split("\n")) if line.strip()), "it printed nothing")
        raise CacheError(f"{runtime.command} does not load {name} on {os.uname().nodename}: {reason}")


def _has(storage: Storage, command: str, facts: Dict[str, Any]) -> bool:
    """Return whether a storage has an image."""
    words = [command, *storage.look[1:], facts["path"]]
    status, output = processes.answer_of(words, image_files.ANSWER_LIMIT, stderr=subprocess.DEVNULL)
    return status == 0 and output.strip().rpartition(":")[2] == facts["id"]


def image_of(source: str, runtime: str, way: str = "", **parts: Any) -> Converted:
    """Return the image that is converted from a file for a runtime.

    :param runtime: its command.
    :param way: how the runtime runs the image, if it has several ways.
    :param parts: see :class:`Converted`.
    :raises CacheError: the runtime runs image files.
    """
    row = container_runtimes.by_command(runtime).in_way(way)
    kinds: Dict[str, Type[Converted]] = {OCI: Archive, TREE: Tree, SQUASHFS: SquashFs}
    if row.form not in kinds:
        raise CacheError(f"{row.command} runs image files as they are")
    return kinds[row.form](source, row, **parts)


def main_load() -> None:
    """Read an archive into the storage of this node, or print one error: ``load LINK RUNTIME [COMMAND]``.

    ``COMMAND`` is the runtime as it is typed, if that is not its usual command.
    """
    link, runtime, *command = sys.argv[1:]
    try:
        load(container_runtimes.by_command(runtime), cache.read_json(Path(link).with_suffix(".json")), *command)
    except (CacheError, OSError, KeyError) as error:
        Path(contract.UNPREPARED).touch()
        sys.exit(f"error: {texts.sanitized(str(error))}")
