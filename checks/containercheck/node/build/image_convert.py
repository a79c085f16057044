"""Converts an image file for runtimes that run OCI images or directories: one recipe, and an image for each runtime.

    python3 checks/containercheck/node convert --source image.sif --builder apptainer --runtime podman \\
        --cache ~/.cache/containercheck/images --link image.oci
    python3 checks/containercheck/node convert --load image.oci --runtime podman

The first makes ``image.oci`` a link to an OCI archive of the same files and variables, reads it into the storage of the
runtime on this machine, and writes name, digests and sizes of both images beside the link (``image.json``). For a
runtime of directories it makes a link to a directory. The second reads the archive into the storage of this node,
unless that has it. Neither needs root: all files of an archive belong to root, as in most images.

The variables are those of the image's environment as its own runtime sets it, for Charliecloud in ``/ch/environment``
(ch-run(1), "--set-env"), for Enroot in ``/etc/environment`` (image-format.md). Archives are made by skopeo and umoci.

Standard library only, Python 3.6 or newer.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Sequence, Tuple, Type

from containercheck.node import container_runtimes, contract
from containercheck.node.build import cache, file_trees, image_build, image_content
from containercheck.node.build.cache import CacheError, UnsupportedError
from containercheck.node.container_runtimes import (
    ENGINE_ARCHIVE,
    OCI,
    OCI_ARCHIVE,
    RUNTIMES,
    SQUASHFS,
    TREE,
    Runtime,
    Storage,
)

#: Directories that binds and runtimes need, of those that an archive of an image lacks.
MOUNT_POINTS = ("dev", "proc", "sys", "tmp", "run", "mnt", "root", "home", contract.WORKDIR[1:], "host")
#: Files that ch-run replaces by its own.
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
#: Number of the way in which images are converted: before it, they had what lay in the host's /var/tmp.
FORMAT = 2
#: Name of an image in an OCI layout of our own.
_TAG = "image"


def variables_of(output: str) -> Dict[str, str]:
    """Return the variables that an image sets, from what ``env -0`` prints in a container with a clean environment.

    >>> variables_of("PS1=$\\0PATH=/opt/bin:/bin\\0LD_LIBRARY_PATH=/.singularity.d/libs\\0APPTAINER_NAME=x.sif")
    {'PATH': '/opt/bin:/bin'}
    """
    variables = {}
    for entry in output.split("\0"):
        name, _, value = entry.partition("=")
        if not name or _OF_THE_RUNTIME.match(name) or name.startswith(_PREFIXES):
            continue
        if name == "LD_LIBRARY_PATH":
            value = ":".join(directory for directory in value.split(":") if directory not in ("", _LIBRARIES))
        if value:
            variables[name] = value
    return {"PATH": PATH, **variables} if "PATH" not in variables else variables


class Converted(cache.Entry):
    """An image that was converted from a file.

    :param source: the file.
    :param facts: its facts, of which ``sha256`` counts.
    :param directory: of the cache.
    :param builder: command of a runtime that runs the file.
    """

    kind, setting = "image cache", "image_cache"
    lacking, instead = "image", ", or name a ready image in the site's extras, images"
    doing, done = "converting to", "converted"
    #: Suffix of the entry.
    suffix = ""

    def __init__(self, source: Path, facts: Dict[str, Any], directory: Path, builder: str) -> None:
        """Find its place; :meth:`ensure` converts it."""
        name = re.sub(r"[^a-z0-9.-]", "-", source.name.split(".")[0].split("-")[0].lower()) or "image"
        super().__init__(f"{name}{self.suffix}", directory / f"{name}-{facts['sha256'][:12]}{self.suffix}")
        self.source, self.source_facts = source, facts
        self._builder = builder

    @property
    def image_name(self) -> str:
        """Return the name of the image in the storage of a runtime."""
        stem = self.path.name[: -len(self.suffix)]
        return f"localhost/containercheck/{stem[:-13]}:{stem[-12:]}"

    def variables(self) -> Dict[str, str]:
        """Return the variables that the image sets.

        :raises CacheError: no container of it starts.
        """
        words = [*image_content.inside(self._builder), "--cleanenv", "--no-home", str(self.source), "env", "-0"]
        try:
            output = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise CacheError(f"the image {self.source} cannot be converted: {error}") from None
        return variables_of(os.fsdecode(output))

    def archive(self, path: Path) -> Dict[str, Any]:
        """Write the files of the image into an archive, and return their bytes as a part of the record.

        :raises CacheError: they cannot be read.
        """
        script = 'out=$1; shift; exec "$@" >"$out"'
        self.run([["sh", "-c", script, "sh", str(path), *image_content.archiving(self._builder, self.source)]])
        with path.open("rb") as stream:
            return {contract.CONTENT_BYTES: image_content.of_archive(stream), "format": FORMAT}

    def facts(self) -> Dict[str, Any]:
        """Return which image it is, and which it was made from, for the provenance of a check.

        :raises CacheError: it is gone again.
        """
        record = self.read_record()
        source = {name: self.source_facts[name] for name in ("path", "sha256", "bytes")}
        known: Dict[str, Any] = {}
        for name in ("recipe", "release", "mpi"):
            known.update({name: self.source_facts[name]} if name in self.source_facts else {})
        known.update(image_content.known(record))
        return {**known, "path": str(self.path), "sha256": record["sha256"], "bytes": record["bytes"], "source": source}


class Tree(Converted):
    """An image that is a directory."""

    suffix = ".tree"

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether all files are there: the mount points that jobs make are none."""
        known = [record["files"], record["bytes"], record.get("format")]
        return [*file_trees.content_of(self.path), FORMAT] == known

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Unpack the file, with its variables; its size is that of its files.

        :raises CacheError: it cannot be read.
        """
        tree, _ = self.unpack(work)
        files, size = file_trees.content_of(tree)
        return tree, {"files": files, "bytes": size, "sha256": file_trees.digest_of_tree(tree), "format": FORMAT}

    def unpack(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Unpack the file, with its variables, and return the directory and the bytes of its files.

        :raises CacheError: it cannot be read.
        """
        archive, tree = work / "files.tar", work / "tree"
        content = self.archive(archive)
        tree.mkdir()
        self.run([["tar", "-C", str(tree), "--no-same-owner", "-xf", str(archive)]])
        for name in (*MOUNT_POINTS, Path(ENVIRONMENT).parent):
            (tree / name).mkdir(exist_ok=True)
        (tree / "etc").mkdir(exist_ok=True)
        for path in (tree / name for name in REPLACED):
            if not os.path.lexists(str(path)):
                path.touch()
        lines = (f"{name}={value}\n" for name, value in sorted(self.variables().items()) if "\n" not in value)
        (tree / ENVIRONMENT).write_text("".join(lines))
        return tree, content


class SquashFs(Tree):
    """An image that is a file with a SquashFS file system, with its variables where Enroot looks for them."""

    suffix = ".sqsh"

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether the file is the one that was made."""
        return record.get("format") == FORMAT and file_trees.known_digest_of(self.path) == record["sha256"]

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Unpack the file and pack it again.

        :raises CacheError: it cannot be read.
        :raises UnsupportedError: mksquashfs is not on the PATH.
        """
        tree, content = self.unpack(work)
        (tree / "etc" / "environment").write_text((tree / ENVIRONMENT).read_text())
        made = work / f"image{self.suffix}"
        self.run([["mksquashfs", str(tree), str(made), "-quiet", "-no-progress", "-all-root", "-comp", "lz4"]])
        return made, {**cache.FileEntry.known(made), **content}


class Archive(Converted, cache.FileEntry):
    """An image that is an OCI archive. Its digest is that of its manifest, as registries have it.

    :cvar transport: format of the archive, by its name in skopeo.
    """

    suffix, transport = ".oci", OCI_ARCHIVE

    def intact(self, record: Dict[str, Any]) -> bool:
        """Tell whether the file is the one that was made."""
        return record.get("format") == FORMAT and file_trees.known_digest_of(self.path) == record["file_sha256"]

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Make an OCI image of one layer, with its variables.

        :raises CacheError: skopeo or umoci fails.
        :raises UnsupportedError: one of them is not on the PATH.
        """
        for tool in ("skopeo", "umoci"):
            if shutil.which(tool) is None:
                raise UnsupportedError(f"no {self.lacking}: {self.name} is made by {tool}, which is not on the PATH")
        archive, layout, made = work / "files.tar", work / "layout", work / "image.oci"
        content = self.archive(archive)
        copy = ["skopeo", "--insecure-policy", "--tmpdir", str(work), "copy", "--quiet"]
        settings = [f"--config.env={name}={value}" for name, value in sorted(self.variables().items())]
        self.run(
            [
                [*copy, f"tarball:{archive}", f"oci:{layout}:{_TAG}"],
                ["umoci", "config", f"--image={layout}:{_TAG}", "--config.workingdir=/", *settings],
                [*copy, f"oci:{layout}:{_TAG}", f"{self.transport}:{made}:{self.image_name}"],
            ]
        )
        digest, identifier = digests_of(layout)
        known = self.known(made)
        digests = {"file_sha256": known["sha256"], "sha256": digest, "id": identifier}
        return made, {"bytes": known["bytes"], **content, **digests}

    def facts(self) -> Dict[str, Any]:
        """Return which image it is: its name in the storage of a runtime, and there its identifier."""
        return {**super().facts(), "path": self.image_name, "id": self.read_record()["id"], "archive": str(self.path)}


class EngineArchive(Archive):
    """The same image as ``docker save`` writes it: its identifier is the same, that of the image's configuration."""

    suffix, transport = ".engine.tar", ENGINE_ARCHIVE


def kind_for(runtime: Runtime) -> Type[Converted]:
    """Return what an image has to become for a runtime.

    :raises CacheError: nothing, the runtime runs image files.
    """
    if runtime.storage and runtime.storage.archive == ENGINE_ARCHIVE:
        return EngineArchive
    kinds = {OCI: Archive, TREE: Tree, SQUASHFS: SquashFs}
    if runtime.form not in kinds:
        raise CacheError(f"{runtime.command} runs image files as they are")
    return kinds[runtime.form]


def digests_of(layout: Path) -> Tuple[str, str]:
    """Return the digests of the manifest and of the configuration of our image in an OCI layout, without algorithm."""
    index = json.loads((layout / "index.json").read_text())
    tag = "org.opencontainers.image.ref.name"
    digest = next(entry["digest"] for entry in index["manifests"] if entry.get("annotations", {}).get(tag) == _TAG)
    manifest = json.loads((layout / "blobs" / digest.replace(":", "/")).read_text())
    return digest.partition(":")[2], manifest["config"]["digest"].partition(":")[2]


def load(runtime: Runtime, facts: Dict[str, Any], command: str = "") -> None:
    """Read an archive into the storage of a runtime, unless it has the image.

    :param command: the runtime as it is typed; by default its usual command.
    :raises CacheError: the runtime does not take it.
    """
    storage, name = runtime.storage, facts["path"]
    if storage is None or not storage.load:
        raise CacheError(
            f"{runtime.command} reads no archives: push {facts['archive']} to a registry, and name it there"
        )
    typed = command or storage.look[0]
    if _has(storage, typed, facts):
        return
    values = {"archive": facts["archive"], "name": name, "reference": name[len(storage.loaded) :]}
    lines = []
    for words in filter(None, (storage.load, storage.finish)):
        call = [typed, *(word.format(**values) for word in words[1:])]
        try:
            process = subprocess.run(call, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except OSError as error:
            raise CacheError(f"{name} cannot be loaded: {call[0]}: {error.strerror}") from None
        lines += os.fsdecode(process.stdout).split("\n")
        if process.returncode != 0:
            break
    if process.returncode != 0 or not _has(storage, typed, facts):
        why = next((line for line in reversed(lines) if line.strip()), "it printed nothing")
        raise CacheError(f"{runtime.command} does not load {name} on {os.uname().nodename}: {why}")


def _has(storage: Storage, command: str, facts: Dict[str, Any]) -> bool:
    """Tell whether a storage has an image of ours: of one that lists what it has, by name and tag.

    The tag is the beginning of the digest of the file that it was made from.
    """
    look = (command, *storage.look[1:])
    if not storage.lists_digests:
        return _printed((*look, facts["path"])).strip().rpartition(":")[2] == facts["id"]
    name, _, tag = facts["path"].rpartition(":")
    return any(line.split()[:2] == [name, tag] for line in _printed(look).splitlines())


def _printed(words: Sequence[str]) -> str:
    try:
        process = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError:
        return ""
    return os.fsdecode(process.stdout) if process.returncode == 0 else ""


def main() -> None:
    """Print the image, or one error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--source", type=Path, help="link to the image file, with its record beside it")
    what.add_argument("--load", type=Path, help="link to an archive, with its record beside it")
    parser.add_argument("--runtime", required=True, help="command of the runtime that the image is for")
    parser.add_argument("--way", default="", help="how the runtime is to run the image, where it has several ways")
    parser.add_argument("--command", default="", help="the runtime as it is typed, if that is not its usual command")
    parser.add_argument("--builder", help="command of a runtime that runs the image file")
    parser.add_argument("--cache", type=Path, help="directory of the images")
    parser.add_argument("--link", type=Path, help="make this a symbolic link to the image")
    parser.add_argument("--no-load", action="store_true", help="load it into no storage: each node does that")
    arguments = parser.parse_args()
    runtime = container_runtimes.by_command(arguments.runtime).in_way(arguments.way)
    if arguments.load:
        try:
            load(runtime, json.loads(arguments.load.with_suffix(".json").read_text()), arguments.command)
        except (CacheError, OSError, ValueError, KeyError) as error:
            Path(contract.UNPREPARED).touch()
            sys.exit(f"error: {error}")
        return
    missing = [name for name in ("builder", "cache", "link") if getattr(arguments, name) is None]
    if missing:
        parser.error(f"a conversion needs {', '.join(f'--{name}' for name in missing)}")

    def get() -> Dict[str, Any]:
        facts = json.loads(arguments.source.with_suffix(".json").read_text())
        source = arguments.source.resolve()
        entry = kind_for(runtime)(source, facts, arguments.cache.resolve(), arguments.builder)
        entry.ensure()
        converted = entry.facts()
        if runtime.storage:
            converted["path"] = runtime.storage.loaded_name(converted["path"])
        if runtime.form == OCI and not arguments.no_load:
            load(runtime, converted, arguments.command)
        return converted

    def deliver_path() -> Path:
        facts = get()
        image_build.write_record(arguments.link, facts)
        if runtime.form == OCI:
            Path(contract.image_name_file(str(arguments.link))).write_text(facts["path"] + "\n")
        return Path(facts.get("archive", facts["path"]))

    cache.deliver(deliver_path, arguments.link)


if __name__ == "__main__":
    main()
