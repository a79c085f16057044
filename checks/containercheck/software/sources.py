"""Provide programs compiled from this project's sources, and pinned files from PyPI, Maven and the web."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from containercheck.job import contract, texts
from containercheck.job.build import machine
from containercheck.site import node_commands
from containercheck.site.extras import path_of
from containercheck.site.sites import Site
from containercheck.software.provision import (
    CHECKS,
    Misconfigured,
    Provision,
    Unavailable,
    Wanted,
    architecture_of,
    compiler_of,
)

#: Remedy if there is no compiler of MPI; with the family.
_NO_COMPILER = (
    "install an MPI with its compilers (Debian and Ubuntu: lib{}-dev), or load its module: modules of the site's "
    "environment"
)
#: Option of MPICH's compiler that links the MPI into the program.
_STATIC = "-static-mpi"


def provide_compiled(wanted: Wanted, site: Site) -> Provision:
    """Return the program that is built from a source below ``checks/src``.

    :raises Unavailable: there is no compiler; or, for C++, the partition's architecture is not known.
    """
    if wanted.source is None:
        return Provision()
    path = CHECKS / "src" / wanted.source
    if path.suffix == ".cpp":
        return _from_cache(wanted, path, site)
    program, source = f"bin/{wanted.executable}", shlex.quote(str(path))
    if path.suffix == ".py":
        return Provision(program=f"./{program}", build=("mkdir -p bin", f"install {source} {program}"))
    compiler, install = compiler_of(wanted, site), _NO_COMPILER.format(wanted.mpi_family or site.mpi_family)
    reason = f"no software: {wanted.executable} is built from source, and no {compiler} is on the PATH: {install}"
    if site.is_here and not wanted.modules and shutil.which(compiler) is None:
        raise Unavailable(reason)
    options = shlex.join(wanted.compile_options)

    def command(name: str) -> str:
        return f"{compiler} -O2 -Wall -o {name} {source} {options}".strip()

    static = program + contract.STATIC
    linked = (_linked_statically(command(f"{static} {_STATIC}"), static),) if wanted.static_mpi else ()
    return Provision(
        program=f"./{program}", build=(_require(compiler, reason), "mkdir -p bin", command(program), *linked)
    )


def _require(compiler: str, reason: str) -> str:
    """Return the command that ends the build step, on the machine that compiles, if there is no such compiler.

    The modules were loaded before it.
    """
    complain = f"echo {shlex.quote(f'error: {reason}')} >&2"
    return f"{{ {node_commands.unless_found(compiler, complain, contract.UNSUPPORTED)}; }}"


def _linked_statically(command: str, program: str) -> str:
    """Return the command that links MPI into a program, and exits with the reason if that is not possible.

    :param command: command that links it.
    """
    # A compiler may not know the option, and link the library all the same.
    verify = f"! ldd {program} | grep -q 'libmpi[^ ]*[.]so'"
    reason = f"error: no software: the compiler's {_STATIC} links no MPI: install MPICH's libmpich.a (libmpich-dev)"
    complain = f"{{ echo {shlex.quote(reason)} >&2; exit {contract.UNSUPPORTED}; }}"
    return f"{{ {{ {command} && {verify}; }} || {complain}; }}"


def _from_cache(wanted: Wanted, path: Path, site: Site) -> Provision:
    """Return a program in C++, from the cache: with a large library it takes a minute to compile."""
    command = node_commands.in_build(
        site,
        "compile",
        name=wanted.executable,
        source=path,
        options=wanted.compile_options,
        headers=wanted.headers,
        family=site.mpi_family,
        architecture=architecture_of(site),
        directory=site.cache("programs"),
        link=wanted.executable,
    )
    return Provision(program=f"./{wanted.executable}", build=(command,))


def provide_mpi_times(wanted: Wanted, site: Site) -> Provision:
    """Return the library, for a check that asks for the time in MPI.

    The image's C library must not be older than that of the machine that compiles; else the run reports that the
    library cannot be preloaded.
    """
    if not wanted.mpi_times:
        return Provision()
    compiler = compiler_of(wanted, site)
    reason = f"no software: the time in MPI is measured by a library, and no {compiler} is on the PATH"
    source = CHECKS / "src" / "mpitimes" / "mpitimes.c"
    words = [compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", contract.MPI_TIMES_LIBRARY, str(source), "-ldl"]
    return Provision(build=(_require(compiler, reason), shlex.join(words)))


def requirements_of(wanted: Wanted, site: Site) -> Path:
    """Return the path of the pinned requirements: those with CUDA's libraries, if the nodes have GPUs for them."""
    path = CHECKS / "src" / (wanted.requirements or "")
    with_cuda = path.with_name("requirements-cuda.txt")
    return with_cuda if wanted.gpu and site.gpus and site.gpu_arch.startswith("sm_") and with_cuda.exists() else path


def provide_environment(wanted: Wanted, site: Site) -> Provision:
    """Return a program from requirements below ``checks/src``; the environment is named after their directory.

    :raises Unavailable: the partition's architecture is not known, or has none of the pinned files.
    """
    if wanted.requirements is None:
        return Provision()
    path = requirements_of(wanted, site)
    if path.exists() and (problem := machine.not_for(path.parent.name, path, architecture_of(site))):
        raise Unavailable(f"no software: {problem}")
    build = node_commands.in_build(
        site,
        "venv",
        name=path.parent.name,
        requirements=path,
        architecture=architecture_of(site),
        directory=site.cache("venvs"),
        link="venv",
    )
    return Provision(program=wanted.executable, build=(build,), activate=(". venv/bin/activate",))


def provide_jars(wanted: Wanted, site: Site) -> Provision:
    """Return the jars of a list below ``checks/src``; they are named after its directory.

    :raises Unavailable: there is no Maven.
    """
    if wanted.artifacts is None:
        return Provision()
    if not site.builds_on_node and shutil.which("mvn") is None:
        raise Unavailable("no software: jars come through Maven, and no mvn is on the PATH (Debian and Ubuntu: maven)")
    path = CHECKS / "src" / wanted.artifacts
    name, directory = path.parent.name, site.cache("jars")
    build = node_commands.in_build(site, "jars", name=name, artifacts=path, directory=directory, link="jars")
    return Provision(build=(build,))


def provide_input(wanted: Wanted, site: Site) -> Provision:
    """Return the published input: a path, or a download from a pinned address, in the cache.

    :raises Misconfigured: the path does not exist.
    """
    reference = site.input_of(wanted.check, wanted.published)
    if not reference:
        return Provision()
    provenance = {"input": texts.without_credentials(reference)}
    if "://" in reference:
        directory = site.cache("inputs")
        fetch = node_commands.in_build(site, "download", reference=reference, directory=directory, link="published")
        return Provision(published="published", build=(fetch,), provenance=provenance)
    path = path_of(reference)
    if not path.exists():
        raise Misconfigured(f"no input: {path}, set as 'published' or in the site's extras, does not exist")
    return Provision(published=str(path.absolute()), provenance=provenance)
