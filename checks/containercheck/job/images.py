"""Builds images from the definition files in ``images/`` into a cache (standard library only; run in the build job).

    python3 images.py --recipes images --cache ~/.cache/containercheck/images --runtime apptainer hpcc

prints the path of an image that is complete and intact. An image is keyed by the content of what it is built from
(definition file, the files that it copies, the image below it) and by the architecture. It is built under another name
and gets its own by an atomic rename. Recipes that use pip find this machine's settings of pip in ``/mnt/pip.conf``;
the default of an argument ``JARS`` is a list of pinned jars, which they are given as the directory ``{{ JARS }}``.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import os
import platform
import re
import subprocess
from pathlib import Path

import cache
import jars
import pipsettings
from cache import CacheError

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
        return (recipes / f"{name}.def").read_text()
    except OSError as error:
        raise CacheError(f"no definition file {recipes / name}.def: {error.strerror}") from None


def base_of(text: str) -> str | None:
    """Return the name of the recipe that this one builds upon, or None: the default of its argument ``BASE``."""
    match = re.search(r"^\s*BASE=(\S+)", text, re.MULTILINE)
    return match[1] if match else None


def jar_list(recipes: Path, text: str) -> Path | None:
    """Return the list of jars that a recipe is built with, or None: the default of its argument ``JARS``."""
    match = re.search(r"^\s*JARS=(\S+)", text, re.MULTILINE)
    return recipes.parent / match[1] if match else None


def copied_files(recipes: Path, text: str) -> list[Path]:
    """Return the files of the repository that ``%files`` copies; their paths are relative to the repository."""
    section = re.search(r"^%files\s*\n(.*?)(?=^%|\Z)", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for line in section[1].splitlines()] if section else []
    paths = [recipes.parent / line.split()[0] for line in lines if line and not line.startswith(("#", "{{"))]
    pinned = jar_list(recipes, text)
    return [*paths, pinned] if pinned else paths


def key_of(recipes: Path, name: str) -> str:
    """Return the key of an image: a digest of all that it is built from, and of the architecture.

    :raises CacheError: a file that the recipe names is missing.
    """
    text = read_recipe(recipes, name)
    digest = hashlib.sha256(f"{platform.machine()}\n{COMPRESSION}\n{text}".encode())
    for path in copied_files(recipes, text):
        try:
            digest.update(path.read_bytes())
        except OSError as error:
            raise CacheError(f"{name}.def copies {path}: {error.strerror}") from None
    if base := base_of(text):
        digest.update(key_of(recipes, base).encode())
    return digest.hexdigest()[:12]


def apt_mirror() -> str:
    """Return the package mirror that this machine's own apt uses.

    :raises CacheError: apt is not there, or has none.
    """
    try:
        listing = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(SITE) $(ORIGIN) $(COMPONENT)", "Created-By: Packages"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        listing = ""
    for line in listing.splitlines():
        site, *origin = line.split()
        if origin[:1] == ["Debian"] and not site.rstrip("/").endswith("-security"):
            return site
    raise CacheError("apt on this machine has no Debian mirror: give one with --mirror (site: extras, image_mirror)")


@functools.cache
def compression_options(runtime: str) -> list[str]:
    """Return the options for :data:`COMPRESSION`; none for a runtime that does not have them."""
    try:
        said = subprocess.run([runtime, "build", "--help"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return []
    return COMPRESSION if COMPRESSION[0] in said else []


class Image(cache.Entry):
    """The image of a recipe.

    :param directory: of the cache.
    :param runtime: apptainer or singularity.
    :param mirror: of Debian's packages; None for the one of this machine's apt.
    """

    kind, setting = "image cache", "image_cache"
    #: Directory of the jars that images are built with.
    jar_cache: Path | None = None
    #: The image that it is built upon, and where the jars lie that it is built with, if there are any.
    base: Path | None = None
    jars: Path | None = None

    def __init__(self, recipes: Path, directory: Path, runtime: str, name: str, mirror: str | None) -> None:
        """Find its place in the cache.

        :raises CacheError: a file of the recipe is missing.
        """
        super().__init__(name, directory / f"{name}-{platform.machine()}-{key_of(recipes, name)}.sif")
        self.recipes, self.runtime, self.mirror = recipes, runtime, mirror

    def intact(self, record: dict[str, object]) -> bool:
        """Tell whether size and digest are those of the image that was built."""
        return self.path.stat().st_size == record["bytes"] and cache.digest_of(self.path) == record["sha256"]

    def build(self, work: Path) -> tuple[Path, dict[str, object]]:
        """Run the runtime's build command."""
        built = work / "image.sif"
        recipe = self.recipes / f"{self.name}.def"
        arguments = ["--build-arg", f"BASE={self.base}" if self.base else f"MIRROR={self.mirror or apt_mirror()}"]
        if f"{PIP_DIRECTORY}/pip.conf" in recipe.read_text():
            arguments += ["--bind", f"{pipsettings.copy(work / 'pip', PIP_DIRECTORY)}:{PIP_DIRECTORY}"]
        if self.jars:
            arguments += ["--build-arg", f"JARS={self.jars}"]
        options = ["--fakeroot", *compression_options(self.runtime), *arguments]
        # %files of the recipe are relative to the repository.
        self.run(
            [[self.runtime, "build", *options, str(built), str(recipe)]],
            cwd=self.recipes.parent,
            env={**os.environ, f"{Path(self.runtime).name.upper()}_TMPDIR": str(work)},
        )
        return built, {"recipe": self.name, "bytes": built.stat().st_size, "sha256": cache.digest_of(built)}


def ensure(recipes: Path, directory: Path, runtime: str, name: str, mirror: str | None = None) -> Path:
    """Return an intact image of the recipe ``name``, built now, with those below it, if the cache has none.

    :raises CacheError: it cannot be built; says why.
    """
    text = read_recipe(recipes, name)
    base, pinned = base_of(text), jar_list(recipes, text)
    image = Image(recipes, directory, runtime, name, mirror)
    if image.is_intact():
        return image.path
    # What it needs comes first: one build within another could wait for a measurement that waits for the outer one.
    if base:
        image.base = ensure(recipes, directory, runtime, base, mirror)
    if pinned:
        image.jars = jars.Jars(pinned.parent.name, pinned, image.jar_cache or directory / "jars").ensure()
    return image.ensure()


def main() -> None:
    """Print the path of the image, or one error and exit status 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", type=Path, required=True, help="directory of the definition files")
    parser.add_argument("--cache", type=Path, required=True, help="directory of the built images")
    parser.add_argument("--runtime", default="apptainer", help="apptainer or singularity")
    parser.add_argument("--mirror", help="Debian mirror; by default the one of this machine's apt")
    parser.add_argument("--jar-cache", type=Path, help="directory of the jars that images are built with")
    parser.add_argument("--link", type=Path, help="make this a symbolic link to the image")
    parser.add_argument("name")
    arguments = parser.parse_args()
    if arguments.jar_cache:
        Image.jar_cache = arguments.jar_cache.resolve()
    recipes, directory = arguments.recipes.resolve(), arguments.cache.resolve()
    cache.deliver(
        lambda: ensure(recipes, directory, arguments.runtime, arguments.name, arguments.mirror), arguments.link
    )


if __name__ == "__main__":
    main()
