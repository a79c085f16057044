"""Packs an installed environment of Spack for an image: what its programs need while they run, for another place.

The environment lies in somebody's home, or wherever nodes see it, and there a container has the host's directories. In
an image its packages lie below :data:`PLACE`. Their programs and libraries have the old places written into them, so a
place is replaced by one of the same length, with more slashes where it would be shorter: repeated ones are one.

What is packed are the very files that the bare run has, where that is compiled for the same target. MPI is not among
them, whoever built it: the image has its own, and a container may bring in the host's.

Standard library only, Python 3.6 or newer.
"""

import io
import os
import re
import tarfile
from pathlib import Path
from typing import Callable, Dict, Iterator, NamedTuple, Optional

from containercheck.node import contract
from containercheck.node.build import spack_install, spack_lock
from containercheck.node.build.cache import CacheError

#: Directory of an image with the packages, and the name of the environment's view in there.
PLACE, VIEW = "/opt/env", "view"
#: In each prefix and in a view: names of what Spack knows of it.
_KNOWN = (".spack", ".spack-view")
#: Endings of files that only compilers read: in the tree that WRF is built in they are most of it.
_FOR_COMPILERS = (".a", ".mod", ".o")


class Source(NamedTuple):
    """Where the environments of images come from.

    ``command`` is Spack's, ``site`` the site's file, if it has one, ``target`` what archspec calls the processor that
    is compiled for, and ``cache`` the directory of the environments. ``directory`` is that of the environment which
    takes the place of the recipes' own: the bare program's, if it comes from one.
    """

    command: str
    site: Optional[Path]
    target: str
    cache: Path
    directory: Optional[Path] = None

    def environment(self, directory: Path, architecture: str) -> spack_install.Environment:
        """Return the environment of a recipe.

        :param directory: that the recipe names.
        :raises CacheError: one of its files cannot be read, or Spack does not run.
        :raises UnsupportedError: there is no Spack.
        """
        directory = (self.directory or directory).resolve()
        parts = spack_install.Parts(directory, self.site, self.target, self.command)
        return spack_install.Environment(
            directory.name, spack_install.Lock(directory.name, parts, self.cache, architecture)
        )


def places(names: Dict[str, str]) -> Dict[str, str]:
    """Return the path in the image for each directory, of the same length.

    :param names: what each is called in :data:`PLACE`.
    :raises CacheError: the path of one is too short for that.
    """
    found = {}
    for path, name in names.items():
        slashes = len(os.fsencode(path)) - len(PLACE) - len(name)
        if slashes < 1:
            raise CacheError(
                f"{path} is too short a path to be replaced by {PLACE}/{name}, the image's\n"
                "set a longer one: spack_cache in the site's extras, or install_tree in the site's Spack file"
            )
        found[path] = PLACE + "/" * slashes + name
    return found


def replacing(new: Dict[str, str]) -> Callable[[bytes], bytes]:
    """Return the function that replaces paths in the content of a file.

    :param new: path by old path, of the same length.
    """
    changed = {os.fsencode(old): os.fsencode(path) for old, path in new.items()}
    # A path may be the beginning of another one.
    pattern = re.compile(b"|".join(map(re.escape, sorted(changed, key=len, reverse=True))))
    return lambda content: pattern.sub(lambda match: changed[match.group()], content)


def refuse_outside(environment: spack_install.Environment) -> None:
    """Refuse an environment that needs libraries of the site's own; it is concretised for that, and not installed.

    :raises CacheError: it does, or cannot be concretised.
    """
    found = spack_lock.outside(spack_install.read(environment.lock.ensure()))
    others = ", ".join(f"{name} ({path})" for name, path in found.items())
    if others:
        raise CacheError(
            f"no image can have what is outside of Spack and of the operating system: {others}\n"
            "leave it to Spack, or name a ready image in the site's extras, images"
        )


def pack(environment: spack_install.Environment, archive: Path) -> None:
    """Write an archive (tar) of an installed environment, whose paths begin in the image's root.

    :raises CacheError: Spack does not tell where its packages are, or a path is too short.
    :raises OSError: a file cannot be read, or the archive cannot be written.
    """
    content, prefixes = environment.locked(), environment.prefixes()
    names = {}
    for digest in spack_lock.needed(content):
        if digest not in prefixes:
            raise CacheError(environment.failed(f"{digest}, which its lock has, is not installed"))
        names[prefixes[digest]] = f"{content['concrete_specs'][digest]['name']}-{digest[:7]}"
    # The view's own path is a link to where Spack put it.
    view = environment.path / contract.SPACK_VIEW
    new = places({**names, str(view): VIEW, str(view.resolve()): VIEW})
    with tarfile.open(str(archive), "w", format=tarfile.GNU_FORMAT) as stream:
        for path, name in sorted({**names, str(view.resolve()): VIEW}.items()):
            _add(stream, path, f"{PLACE[1:]}/{name}", replacing(new))


def _add(archive: tarfile.TarFile, directory: str, name: str, change: Callable[[bytes], bytes]) -> None:
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
    def refuse(error: OSError) -> None:
        raise error

    for place, directories, names in os.walk(directory, onerror=refuse):
        if place == directory:
            for found in (directories, names):
                found[:] = [name for name in found if name not in _KNOWN]
        yield from (os.path.join(place, name) for name in sorted(directories))
        yield from (os.path.join(place, name) for name in sorted(names) if not name.endswith(_FOR_COMPILERS))
