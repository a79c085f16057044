"""Provide images: the site's own, or built from a recipe into the cache."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass, replace

from reframe.core.exceptions import ReframeError

from containercheck.job import architectures, container_runtimes, contract, launch, texts
from containercheck.job.container_runtimes import OCI, REGISTRY_SCHEME, RUNTIMES, SIF, SQUASHFS, TREE, Runtime, Storage
from containercheck.job.contract import RECIPES
from containercheck.sides.sides import Candidate
from containercheck.site import hosts, node_commands
from containercheck.site.extras import path_of
from containercheck.site.sites import RELEASES, Site
from containercheck.software import managers, sources
from containercheck.software.provision import Misconfigured, Provision, Unavailable, Wanted, architecture_of

#: Name of the link to the image in the stage directory.
LINK = "image.sif"
#: Suffix of links to images, by form.
SUFFIXES = {SIF: ".sif", OCI: ".oci", TREE: ".tree", SQUASHFS: ".sqsh"}


def provide_image(wanted: Wanted, site: Site) -> Provision:
    """Return the image of a recipe: the site's, or one that is built into the cache.

    :raises Unavailable: there is no runtime, it cannot build the image, or the partition's architecture or its hosts' C
        library is not known.
    :raises Misconfigured: an image, a recipe or a runtime is named that is not there.
    """
    if wanted.recipe is None:
        return Provision()
    if wanted.runtime is None:
        commands = ", ".join(runtime.command for runtime in RUNTIMES)
        raise Unavailable(
            f"no container runtime: none of {commands} is on the PATH, and the site file has no "
            f"container_platforms: install {RUNTIMES[0].name}, or name there the runtime of the nodes"
        )
    _refuse_place(wanted)
    candidates = [candidate for candidate in wanted.candidates if candidate.has_own_image]
    if not candidates:
        return _Image(wanted, site, wanted.recipe, wanted.runtime, LINK).provide()
    images = {}
    for candidate in candidates:
        runtime, link = candidate.runtime or wanted.runtime, contract.image_file(candidate.name)
        images[candidate.name] = _Image(wanted, site, wanted.recipe, runtime, link, candidate).provide()
    return Provision(
        image=images[candidates[0].name].image,
        images={name: image.image or "" for name, image in images.items()},
        build=tuple(line for image in images.values() for line in image.build),
        activate=tuple(line for image in images.values() for line in image.activate),
    )


def _refuse_place(wanted: Wanted) -> None:
    """Check that all runtimes can have their images in the place that the check wants.

    :raises Unavailable: one cannot.
    """
    used = [wanted.runtime, *(candidate.runtime for candidate in wanted.candidates)]
    for runtime in filter(None, used):
        if wanted.copied and runtime.form != SIF:
            raise Unavailable(f"no image: {runtime.title} keeps images in its own way, and cannot use the check's copy")
        if wanted.nodes > 1 and runtime.storage and runtime.storage.per_node and not wanted.each_node:
            raise Unavailable(
                f"no image: {runtime.command} keeps images on each node, and only Slurm, or mpirun over ssh with a "
                "list of nodes, brings them to all"
            )


@dataclass(frozen=True)
class _Image:
    """Provide one image of a check: the check's own, or that of a candidate.

    :ivar runtime: runtime that the image is for.
    :ivar link: name of the link to the image file.
    :ivar candidate: candidate that the image is for; one without a name for the check's own image.
    """

    wanted: Wanted
    site: Site
    recipe: str
    runtime: Runtime
    link: str
    candidate: Candidate = Candidate("")

    def provide(self) -> Provision:
        """Return the image: a ready one, or the recipe's."""
        candidate, wanted = self.candidate, self.wanted
        if candidate.image:
            return self._ready(candidate.image, f"is compared as {candidate.name}")
        ready = wanted.image or (self.site.images or {}).get(self.recipe)
        # Two MPIs are compared by images of one build each: a ready one and a built one would be another comparison.
        if ready is None or candidate.arguments is not None or candidate.mpi is not None:
            return self._of_recipe()
        return self._ready(
            ready, f"the site's extras, or --image, name for {wanted.check if wanted.image else self.recipe}"
        )

    def _of_recipe(self) -> Provision:
        """Return the image of the recipe: built by the runtime, or converted from the build of another one."""
        candidate, runtime, site = self.candidate, self.runtime, self.site
        has_file, tree = (RECIPES / f"{self.recipe}.def").is_file(), self._tree()
        if tree is None and not has_file:
            raise Misconfigured(
                f"no image: there is no definition file images/{self.recipe}.def, which {self.wanted.check} names as "
                "its recipe"
            )
        # If a candidate's runtime is named by its path and does not build images, another runtime builds its image.
        is_needed = runtime.builds or not candidate.command
        # Otherwise the build step looks for the runtime, elsewhere or after the runtime's modules were loaded.
        if site.is_here and is_needed and not self.wanted.runtime_modules and shutil.which(runtime.command) is None:
            # A runtime that the site does not name was found on the PATH.
            raise Misconfigured(
                f"no container runtime: the site file's container_platforms name {runtime.name}, and no "
                f"{runtime.command} is on the PATH"
            )
        if not runtime.builds:
            builder = self._builder()
            if builder is None:
                instead = "" if candidate.arguments is not None else "; name a ready one in the site's extras, images"
                raise Unavailable(f"no image: {runtime.command} cannot build {self.recipe}{instead}")
            unnamed = replace(candidate, command=None)
            return self._converted(replace(self, runtime=builder, candidate=unnamed)._of_recipe(), builder)
        arguments = [f"{name}={value}" for name, value in (candidate.arguments or {}).items()]
        if requirements := self.wanted.requirements and sources.requirements_of(self.wanted, site).name:
            arguments.append(f"REQUIREMENTS={requirements}")
        build = node_commands.in_build(
            site,
            "image",
            name=self.recipe,
            recipes=RECIPES,
            images=site.cache("images"),
            jars=site.cache("jars"),
            runtime=runtime.command,
            architecture=architecture_of(site),
            release=_release(self.wanted, site),
            family=candidate.mpi or (tree and self.wanted.mpi_family) or site.mpi_family,
            mirror=site.image_mirror,
            arguments=arguments,
            tree=tree,
            instead=has_file and self.wanted.stack is None,
            link=self.link,
        )
        return Provision(image=self.link, build=(build,))

    def _tree(self) -> dict[str, object] | None:
        """Return the tree for the image; None for the recipe's own software.

        Images of other arguments are compared with each other, and have the recipe's software. So does an image of a
        requested release: software that was compiled on the host may need a newer C library.
        """
        wanted, candidate = self.wanted, self.candidate
        if wanted.stack == "debian" or candidate.arguments is not None or candidate.mpi is not None:
            return None
        if wanted.release and wanted.stack is None and (RECIPES / f"{self.recipe}.def").is_file():
            return None
        return managers.tree_of(replace(wanted, spack=wanted.spack or wanted.default_spack), self.site)

    def _builder(self) -> Runtime | None:
        """Return the runtime of this machine that builds images which can be converted for this one; None for none."""
        storage = self.runtime.storage
        if self.runtime.form == OCI and not (storage and storage.load):
            return None
        return next((builder for builder in container_runtimes.on_path() if builder.builds), None)

    def _converted(self, source: Provision, builder: Runtime) -> Provision:
        """Return an image file in the runtime's form: a directory, or an image in its storage.

        :param builder: runtime that runs the file.
        """
        runtime, site = self.runtime, self.site
        link = self.link[: -len(SUFFIXES[SIF])] + SUFFIXES[runtime.form]
        in_storage = runtime.form not in (TREE, SQUASHFS)
        # The storage of a runtime that is named by its path may be another one than the usual command's.
        command = (self.candidate.command or "") if runtime.storage else ""
        convert = node_commands.in_build(
            site,
            "convert",
            source=self.link,
            builder=builder.command,
            runtime=runtime.command,
            way=runtime.way.name,
            command=command,
            loads=self._loads_in_build,
            directory=site.cache("images"),
            link=link,
        )
        source = replace(source, build=(*source.build, convert))
        if not in_storage:
            return replace(source, image=link)
        source = replace(source, image=launch.content_of(contract.image_name_file(link)))
        if self._loads_in_build:
            return source
        words = [*self._on_each_node(), "load", link, runtime.command, *filter(None, [command])]
        return replace(source, activate=(*source.activate, f"{node_commands.in_job(site, *words)} || exit 1"))

    @property
    def _loads_in_build(self) -> bool:
        """Whether the build step loads images into the runtime's storage, as its machine is the only one of the job."""
        return self.site.is_here and not self._on_each_node()

    def _on_each_node(self) -> list[str]:
        """Return the program that runs another one on each node of a job, if each node has its own images."""
        storage = self.runtime.storage
        return ["each-node"] if self.wanted.nodes > 1 and storage and storage.per_node else []

    def _ready(self, ready: str, named_as: str) -> Provision:
        """Return a ready image, a path or a name in a registry.

        :param named_as: clause for messages: the place that names it.
        """
        runtime, site = self.runtime, self.site
        path = path_of(ready)
        if runtime.form != SIF and ready.startswith(("/", "~")) and path.is_file():
            builder = self._builder()
            if builder is None:
                raise Unavailable(f"no image: {runtime.command} does not run {ready}, and it cannot be converted here")
            return self._converted(replace(self, runtime=builder)._ready(ready, named_as), builder)
        if runtime.storage:
            return self._stored(ready, runtime.storage)
        if "://" in ready:
            build = node_commands.in_build(site, "pull", architecture=site.architecture, **self._pulled(ready))
        else:
            if not path.exists():
                raise Misconfigured(f"no image: {path}, which {named_as}, does not exist")
            build = node_commands.in_build(site, "ready", image=path, architecture=site.architecture, link=self.link)
        return Provision(image=self.link, build=(build,))

    def _pulled(self, reference: str) -> dict[str, object]:
        """Return the parts of an image of a registry."""
        parts = {"reference": reference, "runtime": self.runtime.command, "key": self.site.image_key}
        return {**parts, "directory": self.site.cache("images"), "link": self.link}

    def _stored(self, ready: str, storage: Storage) -> Provision:
        """Return an image that the runtime stores itself."""
        name = re.sub(f"^{REGISTRY_SCHEME}:(//)?", "", ready)
        image = storage.run.format(name=name, identifier=launch.content_of(contract.IMAGE_ID))
        found = Provision(image=image, provenance={"image": texts.without_credentials(name)})
        parts = self._pulled(name)
        if storage.per_node and not self._loads_in_build:
            words = [*self._on_each_node(), "pull", node_commands.as_json(parts)]
            return replace(found, activate=(f"{node_commands.in_job(self.site, *words)} || exit 1",))
        return replace(found, build=(node_commands.in_build(self.site, "pull", **parts),))


def _release(wanted: Wanted, site: Site) -> str:
    """Return the image's release of Debian: the requested one, the site's, or the one that fits its hosts."""
    if wanted.release and wanted.release not in RELEASES:
        raise ReframeError(f"release is {wanted.release!r}, and must be one of {', '.join(RELEASES)}")
    if release := wanted.release or site.release:
        return release
    if wanted.dry and not site.is_here:
        return [*RELEASES][0]
    try:
        return hosts.release_for(hosts.libc_of(site))
    except hosts.UnseenError as error:
        raise ReframeError(f"no image: {error}") from None
    except hosts.UnknownError as error:
        raise ReframeError(
            f"no image: the C library of {site.partition} is not known ({error}): name the images' release, one of "
            f"{', '.join(RELEASES)}, in the site's extras, release"
        ) from None


def portable_kernels(site: Site) -> str:
    """Return the instruction set of the portable image for a partition."""
    return architectures.portable_kernels(site.architecture)


def native_kernels(site: Site) -> str:
    """Return the widest instruction set of a partition's processors.

    :raises Unavailable: the processors are not known, or have no wider one than the portable image.
    """
    from archspec.cpu import TARGETS

    processor = TARGETS.get(site.target)
    # The name of an architecture stands for the instructions that all its processors have.
    if processor is None or processor.family == processor:
        raise Unavailable(
            f"instruction set unknown: write 'arch' of {site.partition} into the site file, under 'processor', as "
            "archspec calls it, for example skylake_avx512"
        )
    sets = architectures.KERNELS_BY_FEATURE
    widest = next((name for feature, name in sets.items() if feature in processor), portable_kernels(site))
    if widest == portable_kernels(site):
        raise Unavailable(f"nothing to compare: {site.target} has {widest}, which the portable image is built for")
    return widest
