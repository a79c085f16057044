"""Builds images from the definition files in ``images/`` into a cache, or takes a ready one.

    python3 checks/containercheck image --recipes images --architecture x86_64 --release trixie --mpi openmpi \\
        --runtime apptainer --cache ~/.cache/containercheck/images --jar-cache ~/.cache/containercheck/jars \\
        --link image.sif hpcc
    python3 checks/containercheck image ... --spack spack --target x86_64 \\
        --spack-cache ~/.cache/containercheck/spacks --link image.sif hpcg
    python3 checks/containercheck image --ready /shared/images/hpcc.sif --link image.sif

makes ``image.sif`` a link to an image that is complete and intact, writes which one it is beside the link
(``image.json``), and prints its path. An image is keyed by the content of what it is built from (definition
file, the files that it copies, the image below it), by the release of Debian, the family of MPI and the architecture.
It is built under another name and gets its own by an atomic rename. The bottommost recipe gets the release as
``{{ RELEASE }}`` and the mirror as ``{{ MIRROR }}``; any may take the family as ``{{ MPI }}``, and as ``{{ SIMD }}``
the instruction set with which GROMACS runs on every machine of the architecture. A label ``MPI`` says that a recipe is
for one family only, a label ``RELEASE`` that it is for one release. ``--argument KERNELS=AVX_512``, say, is for those
that take it. Recipes that use pip find this machine's settings of pip in ``/mnt/pip.conf``; the default of an argument
``JARS`` is a list of pinned jars, which they are given as the directory ``{{ JARS }}``; that of an argument ``SPACK``
is an environment of Spack, which is installed for the target, counts in the key, and is given as an archive (see
:mod:`packing`).

Standard library only, Python 3.6 or newer.
"""

import argparse
import hashlib
import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from containercheck.node import architectures, contract, mpi
from containercheck.node.build import cache, file_trees, image_architecture, jars, machine, pip_settings, spack_packing
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

#: Where a build finds pip's settings: a directory that every distribution has, because a bind needs one that is there.
PIP_DIRECTORY = "/mnt"
#: What the errors of our own scripts begin with.
_OURS = "error: "


def _simd(architecture: str) -> str:
    return f"SIMD={architectures.portable_kernels(architecture)}"


def key_of(
    recipes: Path,
    name: str,
    architecture: str,
    release: str,
    family: str,
    source: Optional[spack_packing.Source] = None,
    told: Sequence[str] = (),
) -> str:
    """Return the key of an image: a digest of all that it is built from and for.

    :raises CacheError: a file that the recipe names is missing.
    :raises UnsupportedError: it installs an environment of Spack, and there is no Spack.
    """
    text = read_recipe(recipes, name)
    facts = [architecture, release, COMPRESSION, *([family] if takes(text, "MPI") else [])]
    facts += [*taken(text, [_simd(architecture), *told]), text]
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
        digest.update(key_of(recipes, base, architecture, release, family, source, told).encode())
    return digest.hexdigest()[:12]


def _source(source: Optional[spack_packing.Source], name: str) -> spack_packing.Source:
    if source is None:
        raise CacheError(f"{name}.def installs an environment of Spack: say --spack, --target and --spack-cache")
    return source


class Workshop(NamedTuple):
    """What images are built with, and for which machines.

    ``recipes`` is the directory of the definition files, ``images`` and ``jars`` are the caches, ``runtime`` is the
    command of one that builds, ``release`` the code name of the images' Debian, ``family`` that of their MPI,
    ``mirror`` that of Debian's packages or None for the one of this machine's apt; ``builder`` the version of a runtime
    whose images are its own, empty where it does not matter who built them; ``source`` that of environments of Spack,
    None for recipes that install none; ``told`` are arguments for those that take them.
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
    told: Sequence[str] = ()


class Image(cache.FileEntry):
    """The image of a recipe."""

    kind, setting = "image cache", "image_cache"
    lacking, instead = "image", ", or name a ready image in the site's extras, images"

    def __init__(self, workshop: Workshop, name: str) -> None:
        """Find its place in the cache.

        :raises CacheError: a file of the recipe is missing.
        :raises UnsupportedError: it installs an environment of Spack, and there is no Spack.
        """
        facts = (workshop.architecture, workshop.release, workshop.family)
        key = key_of(workshop.recipes, name, *facts, workshop.source, workshop.told)
        builder = f"-{workshop.builder}" if workshop.builder else ""
        path = workshop.images / f"{name}-{workshop.release}-{workshop.architecture}-{key}{builder}.sif"
        super().__init__(name, path, workshop.architecture)
        self.workshop = workshop
        self.text = read_recipe(workshop.recipes, name)
        named = environment_of(workshop.recipes, self.text)
        #: The environment of Spack that it installs.
        self.environment = _source(workshop.source, name).environment(named, workshop.architecture) if named else None
        #: The recipe's arguments; known once what it is built from is there.
        self.arguments: List[str] = []

    def prepare(self) -> None:
        """Get the image that it is built upon, or a mirror, and the jars or the environment.

        :raises CacheError: one of them cannot be had.
        :raises UnsupportedError: the recipe is for another family of MPI, release or architecture.
        """
        shop = self.workshop
        problem = not_for(shop.recipes, self.name, self.text, shop.architecture, shop.release, shop.family)
        if problem:
            raise UnsupportedError(f"no image: {problem}")
        base, pinned = base_of(self.text), jar_list(shop.recipes, self.text)
        self.arguments = taken(self.text, [f"MPI={shop.family}", _simd(shop.architecture), *shop.told])
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

        :raises CacheError: it fails.
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
        # %files of the recipe are relative to the repository.
        self.run(
            [[runtime, "build", *options, str(built), str(self.workshop.recipes / f"{self.name}.def")]],
            cwd=self.workshop.recipes.parent,
            env={**os.environ, **build_environment(runtime, work)},
        )
        if any(machine.UNSIGNED in line for line in self.lines()):
            raise CacheError(self.failed("its packages' signatures were not checked"))
        installed = {"spack": self.environment.facts()} if self.environment else {}
        return built, {**self.known(built), **installed}

    def last_words(self) -> str:
        """Return what is wrong with the environment, where its recipe says that; else the last error."""
        said = (line[len(_OURS) :] for line in self.lines() if line.startswith(f"{_OURS}the environment "))
        return next(said, None) or super().last_words()

    def facts(self) -> Dict[str, Any]:
        """Return which image it is, for a check's provenance; it must be there.

        :raises CacheError: it is gone again.
        """
        installed = {"spack": self.read_record()["spack"]} if self.environment else {}
        told = {"arguments": list(self.workshop.told)} if self.workshop.told else {}
        made = {"recipe": self.name, "release": self.workshop.release, "mpi": self.workshop.family}
        return {**super().facts(), **made, **told, **installed}


def ready(path: Path, wanted: Optional[str] = None) -> Dict[str, Any]:
    """Return which image a site's own is: path, digest and size; a directory, an unpacked image, has neither of these.

    :param wanted: architecture of the machines that are to run it; None for any.
    :raises CacheError: it is not there, cannot be read, or is for another architecture.
    """
    try:
        # The digest is that of the file which the check runs, whatever a link in its path leads to tomorrow.
        path = path.resolve(strict=True)
        image_architecture.require(path, wanted)
        if path.is_dir():
            return {"path": str(path), "sha256": None, "bytes": None}
        return file_trees.facts_of(path, file_trees.known_digest_of(path))
    except FileNotFoundError:
        raise CacheError(f"no image: {path}, which the site's extras name, does not exist") from None
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
        recipe.add_argument("--runtime", help="command of the container runtime that builds it"),
        recipe.add_argument("--architecture", help="of the partition, as uname -m says it"),
        recipe.add_argument("--release", help="code name of the image's Debian"),
        recipe.add_argument("--mpi", choices=mpi.FAMILIES, help="family of the image's MPI"),
    ]
    recipe.add_argument("--own", action="store_true", help="take no image that another version of the runtime built")
    recipe.add_argument("--argument", action="append", default=[], help="NAME=value, for recipes that take it")
    recipe.add_argument("--mirror", help="Debian mirror; by default the one of this machine's apt")
    recipe.add_argument("--spack", help="command of Spack, for a recipe that installs an environment")
    recipe.add_argument("--spack-site", type=Path, help="the site's file, which the environment includes")
    recipe.add_argument("--spack-cache", type=Path, help="directory of the environments, and of their tree")
    recipe.add_argument("--target", help="what the environment is compiled for, one of archspec's names")
    recipe.add_argument("--environment", type=Path, help="directory of the one that takes the place of the recipe's")
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
            of_spack = (arguments.spack, arguments.spack_site, arguments.target, arguments.spack_cache.resolve())
            source = spack_packing.Source(*of_spack, arguments.environment)
        recipes, images, jars = directories
        workshop = Workshop(recipes, images, jars, *words)._replace(source=source, told=arguments.argument)
        image = Image(workshop, arguments.name)
        image.ensure()
        return image.facts()

    deliver(get, arguments.link)
