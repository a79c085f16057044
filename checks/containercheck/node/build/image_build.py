"""Builds images from the definition files in ``images/`` into a cache, or checks a ready image.

    python3 checks/containercheck image --recipes images --architecture x86_64 --release trixie --mpi openmpi \\
        --runtime apptainer --cache ~/.cache/containercheck/images --jar-cache ~/.cache/containercheck/jars \\
        --link image.sif hpcc
    python3 checks/containercheck image ... --spack spack --target x86_64 \\
        --spack-cache ~/.cache/containercheck/spacks --link image.sif hpcg
    python3 checks/containercheck image --ready /shared/images/hpcc.sif --link image.sif

makes ``image.sif`` a link to an image that is complete and intact, writes path, digest and size of the image, and the
bytes of its files, beside the link (``image.json``), and prints its path. The key of an image is a digest of its
definition file, of the files that this copies, of the image that it builds upon, of the release of Debian, the family
of MPI and the architecture. An image is built under another name and gets its own by an atomic rename.

Arguments of recipes (``{{ NAME }}``):

    RELEASE, MIRROR  code name and mirror of Debian, for a recipe that builds upon no other
    MPI              family of MPI
    SIMD             instruction set with which GROMACS runs on every machine of the architecture
    JARS             directory of pinned jars; the argument's default is their list
    SPACK            archive of an environment of Spack (see spack_packing), which is installed for the target and
                     counts in the key; the argument's default is the directory of the environment

Others are given by ``--argument``, as in ``--argument KERNELS=AVX_512``. A label ``MPI`` says that a recipe is for one
family only, a label ``RELEASE`` that it is for one release only. Recipes that use pip find this machine's settings of
pip in ``/mnt/pip.conf``.

Standard library only, Python 3.6 or newer.
"""

import argparse
import hashlib
import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from containercheck.node import architectures, contract, mpi
from containercheck.node.build import (
    cache,
    file_trees,
    image_architecture,
    image_content,
    jars,
    machine,
    pip_settings,
    spack_packing,
)
from containercheck.node.build.cache import CacheError, UnsupportedError
from containercheck.node.build.image_builder import COMPRESSION, build_environment, builder_of, compression_options
from containercheck.node.build.recipes import (
    base_of,
    copied_files,
    environment_of,
    is_bootstrapped,
    jar_list,
    not_for,
    read_recipe,
    taken,
    takes,
)

#: Directory in an image with pip's settings: one that every distribution has, because a bind needs an existing one.
PIP_DIRECTORY = "/mnt"
#: Beginning of the errors of this project's scripts.
_ERROR = "error: "


def _simd(architecture: str) -> str:
    """Return the argument ``SIMD`` of recipes."""
    return f"SIMD={architectures.portable_kernels(architecture)}"


def key_of(
    recipes: Path,
    name: str,
    architecture: str,
    release: str,
    family: str,
    source: Optional[spack_packing.Source] = None,
    extra_arguments: Sequence[str] = (),
) -> str:
    """Return the key of an image: a digest of everything that determines its content.

    :raises CacheError: a file that the recipe names is missing.
    :raises UnsupportedError: the recipe installs an environment of Spack, and there is no Spack.
    """
    text = read_recipe(recipes, name)
    facts = [architecture, release, COMPRESSION, *([family] if takes(text, "MPI") else [])]
    facts += [*taken(text, [_simd(architecture), *extra_arguments]), text]
    digest = hashlib.sha256("\n".join(map(str, facts)).encode())
    for path in copied_files(recipes, text):
        try:
            digest.update(path.read_bytes())
        except OSError as error:
            raise CacheError(f"{name}.def copies {path}: {error.strerror}") from None
    base, environment = base_of(text), environment_of(recipes, text)
    if environment:
        digest.update(_source(source, name).environment(environment, architecture).lock.key.encode())
    if base:
        digest.update(key_of(recipes, base, architecture, release, family, source, extra_arguments).encode())
    return digest.hexdigest()[:12]


def _source(source: Optional[spack_packing.Source], name: str) -> spack_packing.Source:
    """Return the source of Spack's environments, or refuse a recipe that needs one where none is given."""
    if source is None:
        raise CacheError(f"{name}.def installs an environment of Spack: say --spack, --target and --spack-cache")
    return source


class Workshop(NamedTuple):
    """Tools and directories for building images, and the machines that the images are for.

    ``recipes`` is the directory of the definition files, ``images`` and ``jars`` are the caches, ``runtime`` is
    apptainer or singularity, ``release`` the code name of the images' Debian, ``family`` the family of their MPI,
    ``mirror`` the mirror of Debian's packages, None for that of this machine's apt; ``builder`` is the version of the
    runtime whose images are kept apart from those of other versions, empty where all share them; ``source`` is where
    environments of Spack come from, None for recipes that install none; ``extra_arguments`` are for recipes that use
    them.
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
    source: Optional[spack_packing.Source] = None
    extra_arguments: Sequence[str] = ()


class Image(cache.FileEntry):
    """The image of a recipe."""

    kind, setting = "image cache", "image_cache"
    lacking, instead = "image", ", or name a ready image in the site's extras, images"

    def __init__(self, workshop: Workshop, name: str) -> None:
        """Determine the path in the cache.

        :raises CacheError: a file of the recipe is missing.
        :raises UnsupportedError: the recipe installs an environment of Spack, and there is no Spack.
        """
        facts = (workshop.architecture, workshop.release, workshop.family)
        key = key_of(workshop.recipes, name, *facts, workshop.source, workshop.extra_arguments)
        builder = f"-{workshop.builder}" if workshop.builder else ""
        path = workshop.images / f"{name}-{workshop.release}-{workshop.architecture}-{key}{builder}.sif"
        super().__init__(name, path, workshop.architecture)
        self.workshop = workshop
        self.text = read_recipe(workshop.recipes, name)
        directory = environment_of(workshop.recipes, self.text)
        #: Environment of Spack that the recipe installs; None for a recipe that installs none.
        self.environment = (
            _source(workshop.source, name).environment(directory, workshop.architecture) if directory else None
        )
        #: Arguments of the recipe, which :meth:`prepare` sets.
        self.arguments: List[str] = []

    def prepare(self) -> None:
        """Provide the image that the recipe builds upon, or a mirror, and its jars or its environment.

        :raises CacheError: one of them cannot be provided.
        :raises UnsupportedError: the recipe is for another family of MPI, release or architecture.
        """
        shop = self.workshop
        problem = not_for(shop.recipes, self.name, self.text, shop.architecture, shop.release, shop.family)
        if problem:
            raise UnsupportedError(f"no image: {problem}")
        base, pinned = base_of(self.text), jar_list(shop.recipes, self.text)
        self.arguments = taken(self.text, [f"MPI={shop.family}", _simd(shop.architecture), *shop.extra_arguments])
        if is_bootstrapped(self.text):
            machine.require_keyring()
        if base:
            self.arguments.append(f"BASE={Image(self.workshop, base).ensure()}")
        else:
            self.arguments += [f"RELEASE={self.workshop.release}"] if takes(self.text, "RELEASE") else []
            if takes(self.text, "MIRROR"):
                self.arguments.append(f"MIRROR={self.workshop.mirror or machine.mirror()}")
        if pinned:
            self.arguments.append(f"JARS={jars.Jars(pinned.parent.name, pinned, self.workshop.jars).ensure()}")
        if self.environment:
            spack_packing.refuse_outside(self.environment)
            self.environment.ensure()

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Run the runtime's build command.

        :raises CacheError: the command fails.
        """
        built, runtime = work / "image.sif", self.workshop.runtime
        options, arguments = ["--fakeroot", *compression_options(runtime)], list(self.arguments)
        if self.environment:
            archive = work / "environment.tar"
            spack_packing.pack(self.environment, archive)
            arguments.append(f"SPACK={archive}")
        for argument in arguments:
            options += ["--build-arg", argument]
        if f"{PIP_DIRECTORY}/pip.conf" in self.text:
            options += ["--bind", f"{pip_settings.copy(work / 'pip', PIP_DIRECTORY)}:{PIP_DIRECTORY}"]
        # Paths in %files of a recipe are relative to the repository.
        self.run(
            [[runtime, "build", *options, str(built), str(self.workshop.recipes / f"{self.name}.def")]],
            cwd=self.workshop.recipes.parent,
            env={**os.environ, **build_environment(runtime, work)},
        )
        if any(machine.UNSIGNED in line for line in self.lines()):
            raise CacheError(self.failed("its packages' signatures were not checked"))
        installed = {"spack": self.environment.facts()} if self.environment else {}
        return built, {**self.known(built), **image_content.of_image(runtime, built), **installed}

    def last_words(self) -> str:
        """Return the recipe's own error about its environment, if there is one; else the last error."""
        errors = (line[len(_ERROR) :] for line in self.lines() if line.startswith(f"{_ERROR}the environment "))
        return next(errors, None) or super().last_words()

    def facts(self) -> Dict[str, Any]:
        """Return path, digest, sizes and recipe of the image, for the provenance of a check; it must be in the cache.

        :raises CacheError: the image has been removed.
        """
        shop, record = self.workshop, self.read_record()
        installed = {"spack": record["spack"]} if self.environment else {}
        arguments = {"arguments": list(shop.extra_arguments)} if shop.extra_arguments else {}
        recipe = {"recipe": self.name, "release": shop.release, "mpi": shop.family}
        return {**super().facts(), **image_content.known(record), **recipe, **arguments, **installed}


def ready(path: Path, architecture: Optional[str] = None) -> Dict[str, Any]:
    """Return path, digest and size of a site's own image; the size is None for an unpacked image.

    :param architecture: architecture of the machines that are to run it; None for any.
    :raises CacheError: the image does not exist, cannot be read, or is for another architecture.
    """
    try:
        # The digest must be that of the file that the check runs, even if a link in its path is changed later.
        path = path.resolve(strict=True)
        image_architecture.require(path, architecture)
        return {"bytes": None, **file_trees.facts_of(path, file_trees.known_digest_of(path))}
    except FileNotFoundError:
        raise CacheError(f"no image: {path}, which the site's extras name, does not exist") from None
    except (OSError, RuntimeError) as error:  # the latter for a loop of links
        raise CacheError(f"the image {path}, which the site's extras name, cannot be read: {error}") from None


def deliver(get: Callable[[], Dict[str, Any]], link: Optional[Path]) -> None:
    """Print the path of an image, link it, and write its facts beside the link.

    :param get: function that returns the facts; see :func:`cache.deliver` for the errors that it may raise.
    :param link: path of the link; None for an image that is no file.
    """

    def get_path() -> Path:
        facts = get()
        write_record(link, facts)
        return Path(facts["path"])

    cache.deliver(get_path, link)


def write_record(link: Optional[Path], facts: Dict[str, Any]) -> None:
    """Write the facts of an image beside the link to it.

    :param link: path of the link; None for an image that is no file.
    """
    record = link.with_suffix(".json") if link else Path(contract.IMAGE_RECORD)
    new = record.parent / f".{record.name}-{os.getpid()}"
    new.write_text(json.dumps(facts, indent=1) + "\n")
    new.replace(record)


def main() -> None:
    """Print the path of the image, or one error; the exit status ``contract.UNSUPPORTED`` means that a check skips."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--link", type=Path, required=True, help="make this a symbolic link to the image")
    image = parser.add_mutually_exclusive_group(required=True)
    image.add_argument("--ready", type=Path, help="use this image, a file or a directory, for --architecture if given")
    image.add_argument("name", nargs="?", help="build the image of this recipe")
    recipe = parser.add_argument_group("for the image of a recipe")
    options = [
        recipe.add_argument("--recipes", type=Path, help="directory of the definition files"),
        recipe.add_argument("--cache", type=Path, help="directory of the built images"),
        recipe.add_argument("--jar-cache", type=Path, help="directory of the jars that images are built with"),
        recipe.add_argument("--runtime", help="command of the runtime that builds the image"),
        recipe.add_argument("--architecture", help="architecture of the partition, as uname -m prints it"),
        recipe.add_argument("--release", help="code name of the image's Debian"),
        recipe.add_argument("--mpi", choices=mpi.FAMILIES, help="family of the image's MPI"),
    ]
    recipe.add_argument("--own", action="store_true", help="use no image that another version of the runtime built")
    recipe.add_argument("--argument", action="append", default=[], help="NAME=value, for recipes that use it")
    recipe.add_argument("--mirror", help="Debian mirror; by default that of this machine's apt")
    recipe.add_argument("--spack", help="command of Spack, for a recipe that installs an environment")
    recipe.add_argument("--spack-site", type=Path, help="the site's file, which the environment includes")
    recipe.add_argument("--spack-cache", type=Path, help="directory of the environments, and of their tree")
    recipe.add_argument("--target", help="processor that the environment is compiled for, one of archspec's names")
    recipe.add_argument("--environment", type=Path, help="directory of an environment that replaces the recipe's")
    arguments = parser.parse_args()
    missing = [option.option_strings[0] for option in options if getattr(arguments, option.dest) is None]
    if arguments.name and missing:
        parser.error(f"the image of a recipe needs {', '.join(missing)}")

    def get() -> Dict[str, Any]:
        if arguments.ready:
            return ready(arguments.ready, arguments.architecture)
        directories = (path.resolve() for path in (arguments.recipes, arguments.cache, arguments.jar_cache))
        words = [
            arguments.runtime,
            arguments.architecture,
            arguments.release,
            arguments.mpi,
            arguments.mirror,
        ]
        words += [builder_of(arguments.runtime) if arguments.own else ""]
        source = None
        if arguments.spack and arguments.target and arguments.spack_cache:
            source = spack_packing.Source(
                arguments.spack,
                arguments.spack_site,
                arguments.target,
                arguments.spack_cache.resolve(),
                arguments.environment,
            )
        parts: List[Any] = [*directories, *words, source, arguments.argument]
        entry = Image(Workshop(*parts), arguments.name)
        entry.ensure()
        return entry.facts()

    deliver(get, arguments.link)
