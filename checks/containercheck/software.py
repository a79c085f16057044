"""Where a check's software comes from: the bare program, and the image."""

from __future__ import annotations

import ctypes.util
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from reframe.core.exceptions import ReframeError
from reframe.core.systems import SystemPartition

from containercheck import runtimes, sites

CHECKS = Path(__file__).resolve().parent.parent
RECIPES = CHECKS.parent / "images"
JOB = Path(__file__).resolve().parent / "job"

#: Libraries by which the families of MPI are known, beside the one that the partition's launcher belongs to.
MPI_FAMILIES = {"mpich": ("mpich", "mpi_cray")}
#: Runtimes that can build an image from a definition file.
BUILDERS = ("apptainer", "singularity")
#: File in the stage directory that holds the exit status of a build, if it failed.
BUILD_STATUS = "build.failed"
#: That status where the software does not exist for machines like this one (job/cache.py).
UNSUPPORTED = 3


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


def told_by(program: str, pattern: str) -> str:
    """Return what a program on the PATH tells with ``--version``: the first group of a pattern, or an empty text."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60).stdout
    found = re.search(pattern, said, re.MULTILINE)
    return found[1] if found else ""


def python_environment(requirements: str, partition: SystemPartition, python: str) -> tuple[str, str]:
    """Return the command that installs requirements into the cache, and the one that puts them on the job's PATH.

    :param requirements: file below ``checks/src``; its directory gives the environment its name.
    """
    path = CHECKS / "src" / requirements
    cache = cache_of(partition, "venv_cache", "venvs")
    install = _caching(python, "venvs.py", cache, "venv", "--requirements", path, path.parent.name)
    return install, ". venv/bin/activate"


def fetch_jars(artifacts: str, partition: SystemPartition, python: str) -> str:
    """Return the command that gets pinned jars into the cache, and a link ``jars`` to their directory.

    :param artifacts: file below ``checks/src``; its directory gives the jars their name.
    :raises Unavailable: there is no Maven.
    """
    if shutil.which("mvn") is None:
        raise Unavailable("no software: jars come through Maven, and no mvn is on the PATH (Debian and Ubuntu: maven)")
    path = CHECKS / "src" / artifacts
    cache = cache_of(partition, "jar_cache", "jars")
    return _caching(python, "jars.py", cache, "jars", "--artifacts", path, path.parent.name)


def published_input(reference: str, partition: SystemPartition, python: str) -> tuple[str, list[str]]:
    """Return where the job finds a published input, and the commands that get it into the cache.

    :param reference: a path, or a pinned address as job/downloads.py has it.
    :raises Unavailable: there is nothing at the path.
    """
    if "://" in reference:
        cache = cache_of(partition, "input_cache", "inputs")
        return "published", [_caching(python, "downloads.py", cache, "published", reference)]
    path = sites.path_of(reference)
    if not path.exists():
        raise Unavailable(f"no input: {path}, set as 'published', does not exist")
    return str(path.absolute()), []


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


def require_runtime(partition: SystemPartition) -> str:
    """Return the partition's container runtime, by ReFrame's name for it.

    :raises Unavailable: it has none.
    """
    runtime = runtimes.find(partition)
    if runtime is None:
        raise Unavailable(
            f"no container runtime: none of {', '.join(runtimes.COMMANDS.values())} is on the PATH, and the site file "
            "has no container_platforms"
        )
    return runtime


def image(partition: SystemPartition, recipe: str, runtime: str, python: str) -> tuple[str, list[str]]:
    """Return the image of a recipe, and the commands that get it: the site's, or one that is built into the cache.

    :param runtime: ReFrame's name of the one that will run it.
    :raises Unavailable: the site names one that is not there, there is no such recipe, or the runtime cannot build.
    """
    command = runtimes.command_of(runtime)
    ready = partition.extras.get("images", {}).get(recipe)
    if ready is not None and (command not in BUILDERS or "://" in ready):
        return ready, []  # a name in a registry
    if ready is not None:
        path = sites.path_of(ready)
        if not path.exists():
            raise Unavailable(f"no image: {path}, which the site's extras name for {recipe}, does not exist")
        return str(path), []
    if not (RECIPES / f"{recipe}.def").exists():
        raise Unavailable(f"no image: there is no definition file images/{recipe}.def")
    if command not in BUILDERS or shutil.which(command) is None:
        raise Unavailable(f"no image: {command} cannot build {recipe}; name a ready one in the site's extras, images")
    mirror = partition.extras.get("image_mirror")
    words = ["--recipes", RECIPES, "--runtime", command, "--jar-cache", cache_of(partition, "jar_cache", "jars")]
    words += ["--mirror", mirror] if mirror else []
    cache = cache_of(partition, "image_cache", "images")
    return "image.sif", [_caching(python, "images.py", cache, "image.sif", *words, recipe)]


def require_built(stagedir: Path, stderr: str) -> None:
    """Check that the build succeeded.

    :param stderr: file in the stage directory with what the build said.
    :raises Unavailable: the software does not exist for this machine.
    :raises ReframeError: the build failed.
    """
    status = stagedir / BUILD_STATUS
    if status.exists():
        said = (stagedir / stderr).read_text(errors="replace").strip().removeprefix("error: ")
        if status.read_text().strip() == str(UNSUPPORTED):
            raise Unavailable(said)
        raise ReframeError(said or f"the build failed: see {stagedir}")


def _caching(python: str, program: str, cache: Path, link: str, *words: object) -> str:
    """Return the command with which the job gets something out of a cache, made there if need be, by a link."""
    return shlex.join(str(word) for word in (python, JOB / program, "--cache", cache, "--link", link, *words))


def cache_of(partition: SystemPartition, setting: str, name: str) -> Path:
    """Return a directory for what is built once: the site's, or ``name`` below the user's cache directory."""
    configured = partition.extras.get(setting)
    if configured:
        return sites.path_of(configured)
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "containercheck" / name
