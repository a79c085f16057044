"""Builds images from the definition files in ``images/`` into a cache, or takes a ready one.

    python3 checks/containercheck image --recipes images --architecture x86_64 --release trixie --mpi openmpi \\
        --runtime apptainer --cache ~/.cache/containercheck/images --jar-cache ~/.cache/containercheck/jars \\
        --link image.sif hpcc
    python3 checks/containercheck image --ready /shared/images/hpcc.sif --link image.sif

makes ``image.sif`` a link to an image that is complete and intact, writes which one it is beside the link
(``image.json``), and prints its path. An image is keyed by the content of what it is built from (definition
file, the files that it copies, the image below it), by the release of Debian, the family of MPI and the architecture.
It is built under another name and gets its own by an atomic rename. The bottommost recipe gets the release as
``{{ RELEASE }}`` and the mirror as ``{{ MIRROR }}``; any may take the family as ``{{ MPI }}``, and as ``{{ SIMD }}``
the instruction set with which GROMACS runs on every machine of the architecture. A label ``MPI`` says that a recipe is
for one family only, a label ``RELEASE`` that it is for one release. Recipes that use pip find this machine's settings
of pip in ``/mnt/pip.conf``; the default of an argument ``JARS`` is a list of pinned jars, which they are given as the
directory ``{{ JARS }}``.

Standard library only, Python 3.6 or newer.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from containercheck import architectures, contract, mpi, pins
from containercheck.build import architecture, cache, files, jars, machine, pipsettings
from containercheck.build.cache import CacheError, UnsupportedError

#: Where a build finds pip's settings: a directory that every distribution has, because a bind needs one that is there.
PIP_DIRECTORY = "/mnt"
#: Of images. Programs and libraries are read page by page while they run; unpacking gzip, the default, then costs
#: OpenFOAM 0.7 s more at each start.
COMPRESSION = ["--mksquashfs-args", "-comp lz4"]


def read_recipe(recipes: Path, name: str) -> str:
    """Return the text of a definition file.

    :raises CacheError: there is no such file.
    """
    try:
        return (recipes / f"{name}.def").read_text(encoding="utf-8")
    except OSError as error:
        raise CacheError(f"no definition file {recipes / name}.def: {error.strerror}") from None


def base_of(text: str) -> Optional[str]:
    """Return the name of the recipe that this one builds upon, or None: the default of its argument ``BASE``."""
    match = re.search(r"^\s*BASE=(\S+)", text, re.MULTILINE)
    return match[1] if match else None


def jar_list(recipes: Path, text: str) -> Optional[Path]:
    """Return the list of jars that a recipe is built with, or None: the default of its argument ``JARS``."""
    match = re.search(r"^\s*JARS=(\S+)", text, re.MULTILINE)
    return recipes.parent / match[1] if match else None


def takes(text: str, argument: str) -> bool:
    """Tell whether a recipe uses an argument: the runtime refuses what it does not."""
    return re.search(r"\{\{\s*" + argument + r"\s*\}\}", text) is not None


def copied_files(recipes: Path, text: str) -> List[Path]:
    """Return the files of the repository that ``%files`` copies; their paths are relative to the repository."""
    section = re.search(r"^%files\s*\n(.*?)(?=^%|\Z)", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for line in section[1].splitlines()] if section else []
    paths = [recipes.parent / line.split()[0] for line in lines if line and not line.startswith(("#", "{{"))]
    pinned = jar_list(recipes, text)
    return [*paths, pinned] if pinned else paths


def label_of(text: str, name: str) -> Optional[str]:
    """Return a label of a recipe, or None: ``MPI`` is the only family that it is for, ``RELEASE`` the only release."""
    match = re.search(r"^%labels\s*\n(?:\s+.*\n)*?\s+" + name + r" (\S+)$", text, re.MULTILINE)
    return match[1] if match else None


def key_of(recipes: Path, name: str, architecture: str, release: str, family: str) -> str:
    """Return the key of an image: a digest of all that it is built from and for.

    :raises CacheError: a file that the recipe names is missing.
    """
    text = read_recipe(recipes, name)
    facts = [architecture, release, COMPRESSION, *([family] if takes(text, "MPI") else []), text]
    facts += [architectures.portable_kernels(architecture)] if takes(text, "SIMD") else []
    digest = hashlib.sha256("\n".join(map(str, facts)).encode())
    for path in copied_files(recipes, text):
        try:
            digest.update(path.read_bytes())
        except OSError as error:
            raise CacheError(f"{name}.def copies {path}: {error.strerror}") from None
    base = base_of(text)
    if base:
        digest.update(key_of(recipes, base, architecture, release, family).encode())
    return digest.hexdigest()[:12]


def compression_options(runtime: str) -> List[str]:
    """Return the options for :data:`COMPRESSION`; none for a runtime that does not have them."""
    try:
        said = subprocess.run([runtime, "build", "--help"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    except OSError:
        return []
    return COMPRESSION if COMPRESSION[0].encode() in said else []


def builder_of(runtime: str) -> str:
    """Return what a runtime says of its version, as a part of a file's name.

    :raises CacheError: it does not run.
    """
    try:
        said = subprocess.run([runtime, "--version"], stdout=subprocess.PIPE, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError) as error:
        raise CacheError(f"{runtime} --version fails: {error}") from None
    return re.sub(r"[^\w.]+", "-", said.strip())


class Workshop(NamedTuple):
    """What images are built with, and for which machines.

    ``recipes`` is the directory of the definition files, ``images`` and ``jars`` are the caches, ``runtime`` is
    apptainer or singularity, ``release`` the code name of the images' Debian, ``family`` that of their MPI, ``mirror``
    that of Debian's packages or None for the one of this machine's apt; ``builder`` the version of a runtime whose
    images are its own, empty where it does not matter who built them.
    """

    recipes: Path
    images: Path
    jars: Path
    runtime: str
    architecture: str
    release: str
    family: str
    mirror: Optional[str]
    builder: str = ""


class Image(cache.FileEntry):
    """The image of a recipe."""

    kind, setting = "image cache", "image_cache"
    lacking, instead = "image", ", or name a ready image in the site's extras, images"

    def __init__(self, workshop: Workshop, name: str) -> None:
        """Find its place in the cache.

        :raises CacheError: a file of the recipe is missing.
        """
        key = key_of(workshop.recipes, name, workshop.architecture, workshop.release, workshop.family)
        builder = f"-{workshop.builder}" if workshop.builder else ""
        path = workshop.images / f"{name}-{workshop.release}-{workshop.architecture}-{key}{builder}.sif"
        super().__init__(name, path, workshop.architecture)
        self.workshop = workshop
        self.text = read_recipe(workshop.recipes, name)
        #: The recipe's arguments; known once what it is built from is there.
        self.arguments: List[str] = []

    def prepare(self) -> None:
        """Get the image that it is built upon, or a mirror, and the jars.

        :raises CacheError: one of them cannot be had.
        :raises UnsupportedError: the recipe is for another family of MPI, release or architecture.
        """
        base, pinned = base_of(self.text), jar_list(self.workshop.recipes, self.text)
        release = label_of(self.text, "RELEASE")
        if release not in (None, self.workshop.release):
            raise UnsupportedError(
                f"no image: {self.name}.def is for {release} only, which has its software, and the image would be of "
                f"{self.workshop.release}: name a ready image in the site's extras, images"
            )
        only = label_of(self.text, "MPI")
        if only not in (None, self.workshop.family):
            raise UnsupportedError(
                f"no image: {self.name}.def is for {mpi.FAMILIES[only].title} only, and the partition's MPI is "
                f"{mpi.FAMILIES[self.workshop.family].title}: name a ready image in the site's extras, images"
            )
        for path in copied_files(self.workshop.recipes, self.text):
            problem = path.name == "requirements.txt" and pins.not_for(self.name, path, self.workshop.architecture)
            if problem:
                raise UnsupportedError(f"no image: {problem}")
        self.arguments = [f"MPI={self.workshop.family}"] if takes(self.text, "MPI") else []
        if takes(self.text, "SIMD"):
            self.arguments.append(f"SIMD={architectures.portable_kernels(self.workshop.architecture)}")
        if base:
            self.arguments.append(f"BASE={Image(self.workshop, base).ensure()}")
        else:
            self.arguments += [f"RELEASE={self.workshop.release}"] if takes(self.text, "RELEASE") else []
            if takes(self.text, "MIRROR"):
                self.arguments.append(f"MIRROR={self.workshop.mirror or machine.mirror()}")
        if pinned:
            self.arguments.append(f"JARS={jars.Jars(pinned.parent.name, pinned, self.workshop.jars).ensure()}")

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Run the runtime's build command.

        :raises CacheError: it fails.
        """
        built, runtime = work / "image.sif", self.workshop.runtime
        options = ["--fakeroot", *compression_options(runtime)]
        for argument in self.arguments:
            options += ["--build-arg", argument]
        if f"{PIP_DIRECTORY}/pip.conf" in self.text:
            options += ["--bind", f"{pipsettings.copy(work / 'pip', PIP_DIRECTORY)}:{PIP_DIRECTORY}"]
        # %files of the recipe are relative to the repository.
        self.run(
            [[runtime, "build", *options, str(built), str(self.workshop.recipes / f"{self.name}.def")]],
            cwd=self.workshop.recipes.parent,
            env={**os.environ, f"{Path(runtime).name.upper()}_TMPDIR": str(work)},
        )
        return built, self.known(built)

    def facts(self) -> Dict[str, Any]:
        """Return which image it is, for a check's provenance; it must be there.

        :raises CacheError: it is gone again.
        """
        return {**super().facts(), "recipe": self.name, "release": self.workshop.release, "mpi": self.workshop.family}


def ready(path: Path, wanted: Optional[str] = None) -> Dict[str, Any]:
    """Return which image a site's own is: path, digest and size; a directory, an unpacked image, has neither of these.

    :param wanted: architecture of the machines that are to run it; None for any.
    :raises CacheError: it cannot be read, or is for another architecture.
    :raises UnsupportedError: it is not there.
    """
    try:
        # The digest is that of the file which the check runs, whatever a link in its path leads to tomorrow.
        path = path.resolve(strict=True)
        architecture.require(path, wanted)
        if path.is_dir():
            return {"path": str(path), "sha256": None, "bytes": None}
        return {"path": str(path), "sha256": files.digest_of(path), "bytes": path.stat().st_size}
    except FileNotFoundError:
        raise UnsupportedError(f"no image: {path}, which the site's extras name, does not exist") from None
    except (OSError, RuntimeError) as error:  # the latter for a loop of links
        raise CacheError(f"the image {path}, which the site's extras name, cannot be read: {error}") from None


def deliver(get: Callable[[], Dict[str, Any]], link: Optional[Path]) -> None:
    """Print the path of an image, link it, and write beside the link which one it is.

    :param get: returns its facts; see :func:`cache.deliver` for what it may raise.
    :param link: None for an image that is no file.
    """

    def get_path() -> Path:
        facts = get()
        record = link.with_suffix(".json") if link else Path(contract.IMAGE_RECORD)
        new = record.parent / f".{record.name}-{os.getpid()}"
        new.write_text(json.dumps(facts, indent=1) + "\n")
        new.replace(record)
        return Path(facts["path"])

    cache.deliver(get_path, link)


def main() -> None:
    """Print the path of the image, or one error; the exit status ``contract.UNSUPPORTED`` is a reason to skip."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--link", type=Path, required=True, help="make this a symbolic link to the image")
    one = parser.add_mutually_exclusive_group(required=True)
    one.add_argument("--ready", type=Path, help="this image, file or directory; --architecture may say for what")
    one.add_argument("name", nargs="?", help="the image of this recipe")
    recipe = parser.add_argument_group("for the image of a recipe")
    options = [
        recipe.add_argument("--recipes", type=Path, help="directory of the definition files"),
        recipe.add_argument("--cache", type=Path, help="directory of the built images"),
        recipe.add_argument("--jar-cache", type=Path, help="directory of the jars that images are built with"),
        recipe.add_argument("--runtime", help="apptainer or singularity"),
        recipe.add_argument("--architecture", help="of the partition, as uname -m says it"),
        recipe.add_argument("--release", help="code name of the image's Debian"),
        recipe.add_argument("--mpi", choices=mpi.FAMILIES, help="family of the image's MPI"),
    ]
    recipe.add_argument("--own", action="store_true", help="take no image that another version of the runtime built")
    recipe.add_argument("--mirror", help="Debian mirror; by default the one of this machine's apt")
    arguments = parser.parse_args()
    missing = [option.option_strings[0] for option in options if getattr(arguments, option.dest) is None]
    if arguments.name and missing:
        parser.error(f"the image of a recipe needs {', '.join(missing)}")

    def get() -> Dict[str, Any]:
        if arguments.ready:
            return ready(arguments.ready, arguments.architecture)
        directories = (path.resolve() for path in (arguments.recipes, arguments.cache, arguments.jar_cache))
        words = [arguments.runtime, arguments.architecture, arguments.release, arguments.mpi, arguments.mirror]
        words += [builder_of(arguments.runtime)] if arguments.own else []
        image = Image(Workshop(*directories, *words), arguments.name)
        image.ensure()
        return image.facts()

    deliver(get, arguments.link)
