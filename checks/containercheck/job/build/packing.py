"""Pack the tree of an installed program for an image: the same files that bare runs, of Spack or EasyBuild.

The tree is in a home directory or another directory of the nodes; a container has the host's files there. So in an
image its directories are below :data:`PLACE`. Their programs and libraries may contain the old paths, so each path is
replaced by one of the same length, padded with slashes: repeated slashes count as one. MPI of any origin is not packed:
the image has its own, and a container may use the host's.

Standard library only, Python 3.6 or newer.
"""

import hashlib
import io
import os
import re
import tarfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Tuple

from containercheck.job.build import cache, file_trees
from containercheck.job.build.cache import CacheError

#: Directory of an image with the tree, and the name of the program's own directory in it.
PLACE, VIEW = "/opt/env", "view"
#: Directories of Spack's own data, in each prefix and in a view.
_SPACK_DATA = (".spack", ".spack-view")
#: Endings of files, and names of directories, that only compilers read; most of WRF's tree are such files.
_FOR_COMPILERS = (".a", ".mod", ".o")
_OF_COMPILERS = ("include", "libexec")


class UnpackableError(CacheError):
    """Report a tree of a program that cannot be packed for an image; the message has the reason and the remedy."""


class Tree(cache.Entry):
    """Keep an entry that can be packed: the installed program and the files that it needs at run time.

    :ivar key: digest of the facts that determine the content.
    """

    key: str

    def program_path(self) -> str:
        """Return the path of the program below its own directory, such as ``bin/xhpcg``.

        :raises CacheError: the tree has been removed.
        """
        raise NotImplementedError

    def directories(self) -> Dict[str, str]:
        """Return the name in :data:`PLACE` of each directory that is packed; the program's own is :data:`VIEW`.

        :raises UnpackableError: something that the program needs cannot be packed.
        :raises CacheError: the tree has been removed.
        """
        raise NotImplementedError

    def pack(self, archive: Path) -> Dict[str, Any]:
        """Write an archive (tar) with paths from the image's root, and return the facts of its content.

        ``executable`` has the SHA-256 of the installed program, and that of the packed program. ``libraries`` has that
        of each installed shared library, by that of the packed one.

        :raises UnpackableError: something that the program needs cannot be packed, or a path is too short.
        :raises OSError: a file cannot be read, or the archive cannot be written.
        """
        names = self.directories()
        # A view's path is a link; programs may also contain the path of its target.
        change = replacing(places({**names, **{str(Path(path).resolve()): name for path, name in names.items()}}))
        libraries: Dict[str, str] = {}
        with tarfile.open(str(archive), "w", format=tarfile.GNU_FORMAT) as stream:
            for path, name in sorted(names.items()):
                for installed, packed in _add(stream, str(Path(path).resolve()), f"{PLACE[1:]}/{name}", change):
                    libraries[packed] = installed
        (view,) = (path for path, name in names.items() if name == VIEW)
        content = Path(view, self.program_path()).read_bytes()
        return {**self.facts(), "executable": [*_digests(content, change(content))], "libraries": libraries}


def places(names: Dict[str, str]) -> Dict[str, str]:
    """Return the path in the image, of the same length, for each directory.

    :param names: names in :data:`PLACE`, by directory.
    :raises UnpackableError: a directory's path is shorter than the path in the image.
    """
    image_paths = {}
    for path, name in names.items():
        slashes = len(os.fsencode(path)) - len(PLACE) - len(name)
        if slashes < 1:
            raise UnpackableError(
                f"{path} is too short a path to be replaced by {PLACE}/{name}, the image's\n"
                "set a longer one: caches in the site's extras"
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


def _digests(installed: bytes, packed: bytes) -> Tuple[str, str]:
    return hashlib.sha256(installed).hexdigest(), hashlib.sha256(packed).hexdigest()


def _add(
    archive: tarfile.TarFile, directory: str, name: str, change: Callable[[bytes], bytes]
) -> Iterator[Tuple[str, str]]:
    """Add a directory to the archive under another name, with changed files and links, as root's.

    Yield both digests of each shared library.
    """
    for path in (directory, *_below(directory)):
        entry = archive.gettarinfo(path, name + path[len(directory) :])
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        if entry.issym():
            entry.linkname = os.fsdecode(change(os.fsencode(entry.linkname)))
        if entry.isreg():
            content = Path(path).read_bytes()
            packed = change(content)
            archive.addfile(entry, io.BytesIO(packed))
            if file_trees.SHARED_LIBRARY.search(path):
                yield _digests(content, packed)
        else:
            archive.addfile(entry)


def _below(directory: str) -> Iterator[str]:
    """Yield the paths below a directory, without Spack's own data and files for compilers."""

    def refuse(error: OSError) -> None:
        raise error

    for parent, directories, names in os.walk(directory, onerror=refuse):
        if parent == directory:
            directories[:] = [name for name in directories if name not in (*_SPACK_DATA, *_OF_COMPILERS)]
            names[:] = [name for name in names if name not in _SPACK_DATA]
        yield from (os.path.join(parent, name) for name in sorted(directories))
        yield from (os.path.join(parent, name) for name in sorted(names) if not name.endswith(_FOR_COMPILERS))
