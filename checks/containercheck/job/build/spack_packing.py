"""Packs the run-time part of an installed environment of Spack for an image, with the image's paths in its files.

The environment lies in a home directory or another directory of the nodes, where a container has the host's files. In
an image its packages lie below :data:`PLACE`. Their programs and libraries contain the old paths, so each path is
replaced by one of the same length, padded with slashes: repeated slashes count as one.

The packed files are those of the bare run, if that is compiled for the same target. MPI is not packed, whether Spack
built it or not: the image has its own, and a container may use the host's.

Standard library only, Python 3.6 or newer.
"""

import io
import os
import re
import tarfile
from pathlib import Path
from typing import Callable, Dict, Iterator, NamedTuple, Optional

from containercheck.job import contract
from containercheck.job.build import spack_install
from containercheck.job.build.cache import CacheError
from containercheck.job.build.spack_install import Environment

#: Directory of an image with the packages, and the name of the environment's view in it.
PLACE, VIEW = "/opt/env", "view"
#: Directories of Spack's own data, in each prefix and in a view.
_SPACK_DATA = (".spack", ".spack-view")
#: Endings of files that only compilers read; most of WRF's tree are such files.
_FOR_COMPILERS = (".a", ".mod", ".o")


class Source(NamedTuple):
    """The installation of Spack that provides the environments of images.

    ``command`` is the command of Spack, ``site`` the site's file, if it has one, ``target`` archspec's name of the
    processor that is compiled for, and ``cache`` the directory of the environments. ``directory`` is that of an
    environment that replaces the recipes' own: the bare program's, if it comes from one.
    """

    command: str
    site: Optional[Path]
    target: str
    cache: Path
    directory: Optional[Path] = None

    def environment(self, directory: Path, architecture: str) -> Environment:
        """Return the environment of a recipe.

        :param directory: directory that the recipe names.
        :raises CacheError: a file of the environment cannot be read, or Spack does not run.
        :raises UnsupportedError: there is no Spack.
        """
        directory = (self.directory or directory).resolve()
        parts = spack_install.Parts(directory, self.site, self.target, self.command)
        return Environment(directory.name, parts, self.cache, architecture, packed=True)


def places(names: Dict[str, str]) -> Dict[str, str]:
    """Return the path in the image, of the same length, for each directory.

    :param names: names in :data:`PLACE`, by directory.
    :raises CacheError: a directory's path is shorter than the path in the image.
    """
    image_paths = {}
    for path, name in names.items():
        slashes = len(os.fsencode(path)) - len(PLACE) - len(name)
        if slashes < 1:
            raise CacheError(
                f"{path} is too short a path to be replaced by {PLACE}/{name}, the image's\n"
                "set a longer one: spack_cache in the site's extras, or install_tree in the site's Spack file"
            )
        image_paths[path] = PLACE + "/" * slashes + name
    return image_paths


def replacing(new: Dict[str, str]) -> Callable[[bytes], bytes]:
    """Return a function that replaces paths in the content of a file.

    :param new: new path by old path, of the same length.
    """
    replacements = {os.fsencode(old): os.fsencode(path) for old, path in new.items()}
    # Longer paths first: a path may be the beginning of another one.
    pattern = re.compile(b"|".join(map(re.escape, sorted(replacements, key=len, reverse=True))))
    return lambda content: pattern.sub(lambda match: replacements[match.group()], content)


def pack(environment: Environment, archive: Path) -> None:
    """Write an archive (tar) of an installed environment, whose paths begin in the image's root.

    :raises CacheError: Spack fails, or a path is too short.
    :raises OSError: a file cannot be read, or the archive cannot be written.
    """
    # It may have been installed for the bare program.
    environment.refuse_outside()
    content, prefixes = environment.locked(), environment.prefixes()
    names = {}
    for digest in spack_install.needed(content):
        if digest not in prefixes:
            raise CacheError(environment.failed(f"{digest}, which its lock has, is not installed"))
        names[prefixes[digest]] = f"{content['concrete_specs'][digest]['name']}-{digest[:7]}"
    # The view's path is a link, whose target programs may contain too.
    view = environment.path / contract.SPACK_VIEW
    new = places({**names, str(view): VIEW, str(view.resolve()): VIEW})
    with tarfile.open(str(archive), "w", format=tarfile.GNU_FORMAT) as stream:
        for path, name in sorted({**names, str(view.resolve()): VIEW}.items()):
            _add(stream, path, f"{PLACE[1:]}/{name}", replacing(new))


def _add(archive: tarfile.TarFile, directory: str, name: str, change: Callable[[bytes], bytes]) -> None:
    """Add a directory to the archive under another name, with changed files and links, as root's."""
    for path in (directory, *_below(directory)):
        entry = archive.gettarinfo(path, name + path[len(directory) :])
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        if entry.issym():
            entry.linkname = os.fsdecode(change(os.fsencode(entry.linkname)))
        if entry.isreg():
            archive.addfile(entry, io.BytesIO(change(Path(path).read_bytes())))
        else:
            archive.addfile(entry)


def _below(directory: str) -> Iterator[str]:
    """Yield the paths below a directory, without Spack's own data and files for compilers."""

    def refuse(error: OSError) -> None:
        raise error

    for parent, directories, names in os.walk(directory, onerror=refuse):
        if parent == directory:
            for listing in (directories, names):
                listing[:] = [name for name in listing if name not in _SPACK_DATA]
        yield from (os.path.join(parent, name) for name in sorted(directories))
        yield from (os.path.join(parent, name) for name in sorted(names) if not name.endswith(_FOR_COMPILERS))
