"""Provider: images, the site's own or built from a recipe into the cache."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from typing import Any

from reframe.core.exceptions import ReframeError

from containercheck.job import architectures, container_runtimes, contract, launch, texts
from containercheck.job.build.cache import CacheError
from containercheck.job.build.image_build import Recipe
from containercheck.job.container_runtimes import OCI, REGISTRY_SCHEME, RUNTIMES, SIF, SQUASHFS, TREE, Runtime, Storage
from containercheck.job.project import RECIPES
from containercheck.sides.sides import Candidate
from containercheck.site import hosts, node_commands
from containercheck.site.sites import RELEASES, Site, path_of
from containercheck.software import managers
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
            f"container_platforms: install {RUNTIMES[0].name}, or name there what the nodes have"
        )
    _refuse_place(wanted)
    candidates = [candidate for candidate in wanted.candidates if candidate.has_own_image]
    if not candidates:
        return _image(wanted, site, LINK)
    images = {
        candidate.name: _image(
            replace(wanted, runtime=candidate.runtime or wanted.runtime),
            site,
            contract.image_file(candidate.name),
            candidate,
        )
        for candidate in candidates
    }
    return Provision(
        image=images[candidates[0].name].image,
        images={name: image.image for name, image in images.items()},
        build=tuple(line for image in images.values() for line in image.build),
        activate=tuple(line for image in images.values() for line in image.activate),
    )


def _refuse_place(wanted: Wanted) -> None:
    """Check that all runtimes can have their images where the check wants them.

    :raises Unavailable: one cannot.
    """
    used = [wanted.runtime, *(candidate.runtime for candidate in wanted.candidates)]
    for runtime in filter(None, used):
        if (wanted.unpacked or wanted.copied) and runtime.form != SIF:
            raise Unavailable(f"no image: {runtime.title} keeps images in its own way, not where the check wants it")
        if wanted.nodes > 1 and runtime.storage and runtime.storage.per_node and not wanted.each_node:
            raise Unavailable(
                f"no image: {runtime.command} keeps images on each node, and only a job of Slurm's brings them to all"
            )


def _image(wanted: Wanted, site: Site, link: str, candidate: Candidate | None = None) -> Provision:
    """Return one image.

    :param candidate: the candidate that the image is for; None for the check's image.
    """
    recipe, command = wanted.recipe, wanted.runtime.command
    if candidate and candidate.image:
        return _ready(candidate.image, f"is compared as {candidate.name}", wanted, site, link)
    arguments = candidate.arguments if candidate else None
    # Two MPIs are compared by images of one build each: a ready one next to a built one would be another comparison.
    family = candidate.mpi if candidate else None
    ready = wanted.image or (site.images or {}).get(recipe)
    if ready is not None and arguments is None and family is None:
        named_as = f"the site's extras, or --image, name for {wanted.check if wanted.image else recipe}"
        return _ready(ready, named_as, wanted, site, link)
    try:
        definition = Recipe(RECIPES, recipe)
    except CacheError:
        raise Misconfigured(
            f"no image: there is no definition file images/{recipe}.def, which {wanted.check} names as its recipe"
        ) from None
    # A candidate that is named by its path has its image built by another runtime, where it does not build.
    is_needed = wanted.runtime.builds or not (candidate and candidate.command)
    # Otherwise the build step looks for the runtime, elsewhere or after the runtime's modules were loaded.
    if site.is_here and is_needed and not wanted.runtime_modules and shutil.which(command) is None:
        # A runtime that the site does not name was found on the PATH.
        raise Misconfigured(
            f"no container runtime: the site file's container_platforms name {wanted.runtime.name}, and no {command} "
            "is on the PATH"
        )
    if not wanted.runtime.builds:
        converter = _builder(wanted.runtime)
        if converter is None:
            storage = wanted.runtime.storage
            filled = f", and {storage.filled_by}" if storage and storage.filled_by else ""
            instead = "" if arguments is not None else "; name a ready one in the site's extras, images"
            raise Unavailable(f"no image: {command} cannot build {recipe}{filled}{instead}")
        unnamed = candidate and replace(candidate, command=None, builds=False)
        source = _image(replace(wanted, runtime=converter), site, link, unnamed)
        return _converted(source, wanted, converter, site, candidate.command if candidate else None)
    builder = ["--runtime", candidate.command, "--own"] if candidate and candidate.builds else ["--runtime", command]
    words = ["--recipes", RECIPES, *builder, "--architecture", architecture_of(site)]
    words += [f"--argument={name}={value}" for name, value in (arguments or {}).items()]
    words += ["--release", _release(wanted, site), "--mpi", family or site.mpi_family]
    words += ["--cache", site.cache("image_cache"), "--jar-cache", site.cache("jar_cache"), "--link", link]
    words += ["--mirror", site.image_mirror] if site.image_mirror else []
    words += managers.spack_for_image(wanted, site) if definition.environment else []
    return Provision(image=link, build=(node_commands.in_build(site, "image", *words, recipe),))


def _builder(runtime: Runtime) -> Runtime | None:
    """Return the runtime of this machine that builds images which can be converted for another one; None for none."""
    if runtime.form == OCI and not (runtime.storage and runtime.storage.load):
        return None
    return next((builder for builder in container_runtimes.on_path() if builder.builds), None)


def _converted(
    source: Provision, wanted: Wanted, builder: Runtime, site: Site, command: str | None = None
) -> Provision:
    """Return an image file as what the wanted runtime runs: a directory, or an image in its storage.

    :param builder: the runtime that runs the file.
    :param command: the runtime as it is typed; its storage may be another one than the usual command's.
    """
    runtime, file = wanted.runtime, str(source.image)
    link = file[: -len(SUFFIXES[SIF])] + SUFFIXES[runtime.form]
    words: list[Any] = ["convert", "--source", file, "--builder", builder.command, "--runtime", runtime.command]
    words += ["--way", runtime.way.name] if runtime.way.name else []
    typed = ["--command", command] if command and runtime.storage else []
    words += [*typed, "--cache", site.cache("image_cache"), "--link", link]
    if runtime.form in (TREE, SQUASHFS):
        return replace(source, image=link, build=(*source.build, node_commands.in_build(site, *words)))
    name = launch.content_of(contract.image_name_file(link))
    if site.is_here:
        return replace(source, image=name, build=(*source.build, node_commands.in_build(site, *words)))
    convert = node_commands.in_build(site, *words, "--no-load")
    place = _on_each_node(wanted) if runtime.storage and runtime.storage.per_node else []
    words = [*place, "convert", "--load", link, "--runtime", runtime.command, *typed]
    load = f"{node_commands.in_job(site, *words)} || exit 1"
    return replace(source, image=name, build=(*source.build, convert), activate=(*source.activate, load))


def _on_each_node(wanted: Wanted) -> list[str]:
    """Return the program that runs another one on each node of a job; empty where that has one node."""
    return ["each-node"] if wanted.nodes > 1 else []


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


def _ready(ready: str, named_as: str, wanted: Wanted, site: Site, link: str) -> Provision:
    """Return a ready image, a path or a name in a registry.

    :param named_as: clause for messages: who names it.
    """
    runtime = wanted.runtime
    architecture = ["--architecture", site.architecture] if site.architecture else []
    words = ["pull", "--runtime", runtime.command, "--cache", site.cache("image_cache")]
    is_file = ready.startswith(("/", "~")) and path_of(ready).is_file()
    if runtime.form != SIF and is_file:
        builder = _builder(runtime)
        if builder is None:
            raise Unavailable(f"no image: {runtime.command} does not run {ready}, and it cannot be converted here")
        source = _ready(ready, named_as, replace(wanted, runtime=builder), site, link)
        return _converted(source, wanted, builder, site)
    if runtime.storage:
        return _stored(ready, runtime.storage, words, site, _on_each_node(wanted))
    if "://" in ready:
        return Provision(
            image=link, build=(node_commands.in_build(site, *words, *architecture, "--link", link, ready),)
        )
    path = path_of(ready)
    if not path.exists():
        raise Misconfigured(f"no image: {path}, which {named_as}, does not exist")
    words = ["--ready", path, "--link", link, *architecture]
    return Provision(image=link, build=(node_commands.in_build(site, "image", *words),))


def _stored(ready: str, storage: Storage, words: list[Any], site: Site, each_node: list[str]) -> Provision:
    """Return an image that the runtime stores itself.

    :param words: the program that pulls it, with options.
    :param each_node: the program that runs another one on each node, where there are several.
    """
    name = re.sub(f"^{REGISTRY_SCHEME}:(//)?", "", ready)
    image = storage.run.format(name=name, identifier=launch.content_of(contract.IMAGE_ID))
    provenance = {"image": texts.without_credentials(name)}
    if storage.is_loaded(name):
        return Provision(image=image, provenance=provenance)
    if storage.per_node and not site.is_here:
        pull = f"{node_commands.in_job(site, *each_node, *words, name)} || exit 1"
        return Provision(image=image, activate=(pull,), provenance=provenance)
    return Provision(image=image, build=(node_commands.in_build(site, *words, name),), provenance=provenance)


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
