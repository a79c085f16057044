"""Where a check's software comes from: the bare program, and the image."""

from __future__ import annotations

import ctypes.util
import os
import shlex
import shutil
from pathlib import Path

from reframe.core.systems import SystemPartition

CHECKS = Path(__file__).resolve().parent.parent
RECIPES = CHECKS.parent / "images"
JOB = Path(__file__).resolve().parent / "job"

#: Libraries by which the families of MPI are known, beside the one that the partition's launcher belongs to.
MPI_FAMILIES = {"mpich": ("mpich", "mpi_cray")}
#: Runtimes that can build an image from a definition file.
BUILDERS = ("apptainer", "singularity")


class Unavailable(Exception):
    """Software or an image is not to be had on this partition; the message is the reason for the skip."""


def bare_program(executable: str, source: str | None, modules: list[str]) -> tuple[str, list[str]]:
    """Return the bare program's command and the commands that build it first.

    :param source: C source below ``checks/src``, where the project wrote the program itself.
    :param modules: what the job loads; where there are any, the program is theirs and not looked for here.
    :raises Unavailable: the host does not have it.
    """
    if source is None:
        if not modules and shutil.which(executable) is None:
            raise Unavailable(
                f"no software: {executable} is not on the PATH (ci/setup installs it on Debian and Ubuntu)"
            )
        return executable, []
    if not modules and shutil.which("mpicc") is None:
        raise Unavailable(f"no software: {executable} is built from source, and no mpicc is on the PATH")
    program = f"bin/{executable}"
    return f"./{program}", ["mkdir -p bin", f"mpicc -O2 -Wall -o {program} {shlex.quote(str(CHECKS / 'src' / source))}"]


def python_environment(requirements: str, partition: SystemPartition, python: str) -> tuple[str, str]:
    """Return the command that installs requirements into the cache, and the one that puts them on the job's PATH.

    :param requirements: file below ``checks/src``; its directory gives the environment its name.
    """
    path = CHECKS / "src" / requirements
    words = [python, JOB / "venvs.py", "--requirements", path, "--cache", cache_of(partition, "venv_cache", "venvs")]
    return shlex.join(str(word) for word in [*words, "--link", "venv", path.parent.name]), ". venv/bin/activate"


def fetch_jars(artifacts: str, partition: SystemPartition, python: str) -> str:
    """Return the command that gets pinned jars into the cache, and a link ``jars`` to their directory.

    :param artifacts: file below ``checks/src``; its directory gives the jars their name.
    :raises Unavailable: there is no Maven.
    """
    if shutil.which("mvn") is None:
        raise Unavailable("no software: jars come through Maven, and no mvn is on the PATH (Debian and Ubuntu: maven)")
    path = CHECKS / "src" / artifacts
    words = [python, JOB / "jars.py", "--artifacts", path, "--cache", cache_of(partition, "jar_cache", "jars")]
    return shlex.join(str(word) for word in [*words, "--link", "jars", path.parent.name])


def require_mpi(family: str, partition: SystemPartition, modules: list[str]) -> None:
    """Check that the host has an MPI of this family, as far as that can be told before the job.

    :raises Unavailable: it has none.
    """
    if modules or f"host_{family}" in partition.extras or partition.scheduler.registered_name != "local":
        return
    if not any(ctypes.util.find_library(name) for name in MPI_FAMILIES[family]):
        raise Unavailable(
            f"no software: this machine has no MPI of the {family} family: install {family} (ci/setup does on Debian "
            f"and Ubuntu), or name its library: site's extras, host_{family}"
        )


def ready_image(partition: SystemPartition, recipe: str) -> Path | None:
    """Return the image that the site provides itself, or None if it provides none of this name.

    :raises Unavailable: the site names one that is not there.
    """
    image = partition.extras.get("images", {}).get(recipe)
    if image is None:
        return None
    path = Path(os.path.expandvars(image)).expanduser()
    if not path.exists():
        raise Unavailable(f"no image: {path}, which the site's extras name for {recipe}, does not exist")
    return path


def build_image(partition: SystemPartition, recipe: str, runtime: str, python: str, link: str) -> str:
    """Return the command that gets the image of a recipe into the cache, and a link to it.

    :raises Unavailable: there is no such recipe, or the runtime cannot build.
    """
    if not (RECIPES / f"{recipe}.def").exists():
        raise Unavailable(f"no image: there is no definition file images/{recipe}.def")
    builder = runtime if runtime in BUILDERS else next((name for name in BUILDERS if shutil.which(name)), None)
    if builder is None or shutil.which(builder) is None:
        raise Unavailable(f"no image: {runtime} cannot build {recipe}; name a ready one in the site's extras, images")
    mirror = partition.extras.get("image_mirror")
    cache = cache_of(partition, "image_cache", "images")
    words = [python, JOB / "images.py", "--recipes", RECIPES, "--cache", cache, "--runtime", builder]
    words += ["--jar-cache", cache_of(partition, "jar_cache", "jars")]
    words += ["--mirror", mirror] if mirror else []
    return shlex.join(str(word) for word in [*words, "--link", link, recipe])


def cache_of(partition: SystemPartition, setting: str, name: str) -> Path:
    """Return a directory for what is built once: the site's, or ``name`` below the user's cache directory."""
    configured = partition.extras.get(setting)
    if configured:
        return Path(os.path.expandvars(configured)).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "containercheck" / name
