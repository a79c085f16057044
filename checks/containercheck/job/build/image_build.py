"""Build images from the definition files in ``images/`` into a cache.

The key of an image is a digest of its definition file, the files that this copies, and the image that it builds upon.
It also covers the release of Debian, the family of MPI and the architecture. An image is built under another name; an
atomic rename then gives it its own.

Arguments of recipes (``{{ NAME }}``):

    RELEASE, MIRROR  code name and mirror of Debian, for a recipe that builds upon no other one
    MPI              family of MPI
    SIMD             instruction set with which GROMACS runs on every machine of the architecture
    JARS             directory of pinned jars; the argument's default is their list
    TREE, PROGRAM    archive of the tree that bare runs (see packing), and the path of its program there

A check may give others, such as ``KERNELS=AVX_512``. A recipe with a label ``MPI`` is for one family only; the label
may have the reason too. A recipe with a label ``RELEASE`` is for one release only. Recipes that use pip find this
machine's settings of pip in ``/mnt/pip.conf``.

Standard library only, Python 3.6 or newer.
"""

import os
import re
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from containercheck.job import architectures, mpi, runtime_start, texts
from containercheck.job.build import cache, downloads, easybuild_install, image_files, machine, packing, spack_install
from containercheck.job.build.cache import CacheError, UnsupportedError
from containercheck.job.build.packing import UnpackableError

#: Directory in an image with pip's settings: one that every distribution has, because a bind needs an existing one.
PIP_DIRECTORY = "/mnt"
#: Recipe that packs a tree: for any check with a bare program from Spack or EasyBuild.
OF_TREES = "tree"
#: Kinds of trees, by the name of the program that installs them.
TREES = {"spack": spack_install.SpackEnvironment, "easybuild": easybuild_install.Module}
#: Beginning of the errors of this project's scripts about a tree.
_ERROR = "error: the tree "
#: Warning of debootstrap that it does not check signatures.
_UNSIGNED = "Cannot check Release signature"
#: Option with the value of an argument of a recipe, since Apptainer 1.2 and SingularityCE 4.0.
_ARGUMENT = "--build-arg"
#: Advice for a site, in messages.
_INSTEAD = "name a ready image in the site's extras, images"


class Recipe:
    """Read a definition file in ``images/``.

    :ivar name: name of the recipe.
    :ivar text: text of the file.
    :raises OSError: there is no such file.
    """

    def __init__(self, recipes: Path, name: str) -> None:
        """Read the file in the directory ``recipes``."""
        self._recipes, self.name = recipes, name
        self.text = texts.utf8(recipes / f"{name}.def")

    def _default(self, argument: str) -> Optional[str]:
        match = re.search(rf"^\s*{argument}=(\S+)", self.text, re.MULTILINE)
        return match[1] if match else None

    @property
    def base(self) -> Optional[str]:
        """Return the name of the recipe that this one builds upon, the default of ``BASE``; None for none."""
        return self._default("BASE")

    @property
    def jars(self) -> Optional[Path]:
        """Return the path of the list of jars, the default of ``JARS``; None for none."""
        default = self._default("JARS")
        return self._recipes.parent / default if default else None

    @property
    def is_bootstrapped(self) -> bool:
        """Return whether the recipe installs Debian from packages, by debootstrap."""
        return re.search(r"^Bootstrap:\s*debootstrap\s*$", self.text, re.MULTILINE | re.IGNORECASE) is not None

    def taken(self, arguments: Sequence[str]) -> List[str]:
        """Return those of the arguments, each ``NAME=value``, that the recipe uses: the runtime refuses others."""
        return [
            argument
            for argument in arguments
            if re.search(r"\{\{\s*" + argument.partition("=")[0] + r"\s*\}\}", self.text)
        ]

    def copied_files(self) -> List[Path]:
        """Return the files of the repository that the recipe copies, by ``%files`` or as its list of jars."""
        section = re.search(r"^%files\s*\n(.*?)(?=^%|\Z)", self.text, re.MULTILINE | re.DOTALL)
        lines = [line.strip() for line in section[1].splitlines()] if section else []
        paths = [self._recipes.parent / line.split()[0] for line in lines if line and not line.startswith(("#", "{{"))]
        return [*paths, *filter(None, [self.jars])]

    def content(self) -> List[bytes]:
        """Return the content of the files that the recipe copies.

        :raises OSError: one cannot be read.
        """
        return [path.read_bytes() for path in self.copied_files()]

    def _label(self, name: str) -> Optional[str]:
        match = re.search(r"^%labels\s*\n(?:\s+.*\n)*?\s+" + name + r" (\S.*)$", self.text, re.MULTILINE)
        return match[1] if match else None

    def require(self, architecture: str, release: str, family: str) -> None:
        """Refuse a recipe that cannot give an image for this architecture, release and family.

        :raises UnsupportedError: it is for another one.
        :raises OSError: requirements that it copies cannot be read.
        """
        only_release, (only_family, _, reason) = self._label("RELEASE"), (self._label("MPI") or family).partition(" ")
        if only_release not in (None, release):
            raise UnsupportedError(
                f"no image: {self.name}.def is for {only_release} only, which has its software, and the image would be "
                f"of {release}: {_INSTEAD}"
            )
        if only_family != family:
            title, needed = (mpi.FAMILIES[name].title for name in (only_family, family))
            why = f" {reason}" if reason else ""
            raise UnsupportedError(
                f"no image: {self.name}.def is for {title} only{why}, and the partition's MPI is {needed}: {_INSTEAD}"
            )
        for path in self.copied_files():
            problem = machine.not_for(self.name, path, architecture) if path.name == "requirements.txt" else None
            if problem:
                raise UnsupportedError(f"no image: {problem}")


class Workshop(NamedTuple):
    """Hold the tools and directories for building images, and describe the machines of the images.

    :ivar recipes: directory of the definition files.
    :ivar images, jars: the caches.
    :ivar runtime: apptainer or singularity.
    :ivar release: code name of the images' Debian.
    :ivar family: family of their MPI.
    :ivar mirror: mirror of Debian's packages; None for that of this machine's apt.
    :ivar tree: the tree that bare runs, for the recipe :data:`OF_TREES`, which packs it.
    :ivar arguments: values for recipes that use them.
    """

    recipes: Path
    images: Path
    jars: Path
    runtime: str
    architecture: str
    release: str
    family: str
    mirror: Optional[str] = None
    tree: Optional[packing.Tree] = None
    arguments: Sequence[str] = ()


class Image(image_files.ImageEntry):
    """Build the image of a recipe."""

    def __init__(self, workshop: Workshop, name: str) -> None:
        """Determine the path in the cache.

        :raises OSError: a file of the recipe is missing.
        """
        self.workshop, self.tree = workshop, workshop.tree
        self.recipe = Recipe(workshop.recipes, OF_TREES if self.tree else name)
        self.base = Image(workshop._replace(tree=None), self.recipe.base) if self.recipe.base else None
        simd = f"SIMD={architectures.portable_kernels(workshop.architecture)}"
        #: Arguments of the recipe; :meth:`prepare` adds those that have to be built first.
        self.arguments = self.recipe.taken([f"MPI={workshop.family}", simd, *workshop.arguments])
        self.key: str = cache.key_of(
            (workshop.architecture, workshop.release, image_files.COMPRESSION),
            (self.arguments, self.recipe.text, self.recipe.content()),
            self.tree.key if self.tree else "",
            self.base.key if self.base else "",
        )
        file = f"{name}-{workshop.release}-{workshop.architecture}-{self.key}.sif"
        super().__init__(name, workshop.images, file, workshop.architecture)

    def prepare(self) -> None:
        """Provide the image that the recipe builds upon, or a mirror, and its jars or its tree.

        :raises CacheError: one of them cannot be provided.
        :raises UnsupportedError: the recipe is for another family of MPI, release or architecture, or the runtime is
            too old.
        """
        shop = self.workshop
        self.recipe.require(shop.architecture, shop.release, shop.family)
        options = image_files.build_help(shop.runtime)
        if options and _ARGUMENT not in options:
            known = f"{runtime_start.identify(shop.runtime)[1]} is too old to build {self.name}: it has no {_ARGUMENT}"
            raise UnsupportedError(f"no image: {known}; {_INSTEAD}")
        if self.recipe.is_bootstrapped:
            machine.require_keyring()
        if self.base:
            self.arguments.append(f"BASE={self.base.ensure()}")
        else:
            self.arguments += self.recipe.taken([f"RELEASE={shop.release}"])
            if self.recipe.taken(["MIRROR"]):
                self.arguments.append(f"MIRROR={shop.mirror or machine.mirror()}")
        if self.recipe.jars:
            jars = downloads.Jars(self.recipe.jars.parent.name, self.recipe.jars, shop.jars)
            self.arguments.append(f"JARS={jars.ensure()}")
        if self.tree:
            self.tree.ensure()

    def build(self, work: Path) -> Tuple[Path, Dict[str, Any]]:
        """Run the runtime's build command.

        :raises CacheError: the command fails.
        """
        built, runtime = work / "image.sif", self.workshop.runtime
        # Without force, help and labels of the image that it builds upon stay.
        options = ["--fakeroot", "--force", *image_files.compression_options(runtime)]
        arguments = list(self.arguments)
        installed = {}
        if self.tree:
            archive = work / "tree.tar"
            installed = {"tree": self.tree.pack(archive)}
            arguments += [f"TREE={archive}", f"PROGRAM={self.tree.program_path()}"]
        for argument in arguments:
            options += [_ARGUMENT, argument]
        if f"{PIP_DIRECTORY}/pip.conf" in self.recipe.text:
            options += ["--bind", f"{machine.copy_pip_settings(work / 'pip', PIP_DIRECTORY)}:{PIP_DIRECTORY}"]
        # Paths in %files of a recipe are relative to the repository.
        self.run(
            [[runtime, "build", *options, str(built), str(self.workshop.recipes / f"{self.recipe.name}.def")]],
            cwd=self.workshop.recipes.parent,
            env={**os.environ, **image_files.build_environment(runtime, work)},
        )
        if any(_UNSIGNED in line for line in self.lines()):
            raise CacheError(self.failed("its packages' signatures were not checked"))
        return built, {**self.content_of(built), **installed}

    def last_words(self) -> str:
        """Return the recipe's own error about its tree, if there is one; else the last error."""
        errors = (line[len("error: ") :] for line in self.lines() if line.startswith(_ERROR))
        return next(errors, None) or super().last_words()

    def facts(self) -> Dict[str, Any]:
        """Return path, digest, sizes and recipe of the image, for the provenance of a check; it must be in the cache.

        :raises CacheError: the image has been removed.
        """
        shop, record = self.workshop, self.read_record()
        installed = {"tree": record["tree"]} if self.tree else {}
        arguments = {"arguments": list(shop.arguments)} if shop.arguments else {}
        recipe = {"recipe": self.name, "release": shop.release, "mpi": shop.family}
        return {**super().facts(), **recipe, **arguments, **installed}


def image_of(name: str, tree: Optional[Dict[str, Any]] = None, instead: bool = False, **workshop: Any) -> Image:
    """Return the image of a recipe, or of the tree that bare runs.

    :param tree: parts of the tree, with its kind of :data:`TREES`; None for the recipe's own software.
    :param instead: whether the recipe's own software is accepted if the tree cannot be packed.
    :param workshop: fields of a :class:`Workshop`.
    :raises CacheError: see :class:`Image`, or the tree cannot be installed.
    """
    directories = {field: Path(workshop[field]).resolve() for field in ("recipes", "images", "jars")}
    shop = Workshop(**{**workshop, **directories})
    if tree is None:
        return Image(shop, name)
    parts = dict(tree)
    image = Image(shop._replace(tree=TREES[parts.pop("kind")](**parts)), name)
    if instead and image.tree and not image.is_intact():
        try:
            image.tree.ensure()
            image.tree.directories()
        except UnpackableError as error:
            print(f"{name}: the image has another build than bare runs: {error}", flush=True)
            return Image(shop, name)
    return image
