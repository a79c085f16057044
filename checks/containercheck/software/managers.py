"""Provide programs and libraries that a package manager, Spack or EasyBuild, installs into the cache.

ReFrame's own build systems for them do not serve: that of EasyBuild finds no module that was installed before, and
loads none; that of Spack installs below the stage directory, or leaves the tree and the target to Spack's
configuration.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
from pathlib import Path

from reframe.core.runtime import runtime

from containercheck.job import contract
from containercheck.site import node_commands
from containercheck.site.extras import path_of
from containercheck.site.sites import Site
from containercheck.software.provision import (
    EASYCONFIGS,
    ENVIRONMENTS,
    Misconfigured,
    Provision,
    Unavailable,
    Wanted,
    architecture_of,
)

#: File name of an easyconfig, of which its module has name and version.
_NAMED = re.compile(r"(?P<name>.+?)-(?P<version>(?:v?\d|system).*)\.eb")


def _command_of(tool: str, named: str, wanted: Wanted, site: Site) -> str:
    """Return the command of a tool that builds software.

    :param tool: its name; the site's extra of that name, in lower case, is its command.
    :param named: that extra.
    :raises Unavailable: it is not there, as far as that is known before the build step.
    :raises Misconfigured: the same, if the tool or software that it builds was named.
    """
    command = str(path_of(named)) if os.sep in named else named
    # The project's checks use Spack, by the command of that name, unless the site names another.
    problem = Misconfigured if wanted.of_site or named != "spack" else Unavailable
    # Otherwise the build step looks for it, elsewhere or after modules were loaded.
    is_known = not (wanted.dry and not site.is_here) and not site.builds_on_node and not wanted.modules
    if is_known and shutil.which(command) is None:
        raise problem(
            f"no software: {wanted.check} comes from {tool}, and {command} is not on the PATH: name it in the site's "
            f"extras, {tool.lower()}; or modules or a program of the site's, in software"
        )
    return command


def provide_spack(wanted: Wanted, site: Site) -> Provision:
    """Return the program of an environment, which the build step concretises and installs into the cache.

    :raises Unavailable: there is no Spack, or the partition's processor is not known.
    :raises Misconfigured: there is no such environment, or no Spack at the site's path.
    """
    parts = _environment_of(wanted, site)
    if parts is None:
        return Provision()
    view = f"{contract.SPACK}/{contract.SPACK_VIEW}"
    return Provision(
        program=f"./{view}/{parts['program']}",
        build=(node_commands.in_build(site, "spack", link=contract.SPACK, **parts),),
        # Programs that it needs, and those that make its input, must come from the same environment.
        activate=(f'export PATH="$PWD/{view}/bin:$PATH"',),
    )


def _spack_parts(site: Site, command: str, directory: Path, program: str = "") -> dict[str, object]:
    """Return the parts of an environment of Spack.

    :param program: program that the environment must have, by its path in the view.
    """
    return {
        "environment": directory,
        "architecture": architecture_of(site),
        "target": site.target,
        "program": program,
        "command": command,
        "directory": site.cache("spacks"),
        "site_file": path_of(site.spack_site) if site.spack_site else None,
    }


def provide_library(wanted: Wanted, site: Site) -> Provision:
    """Return the commands that set ``<NAME>_HOME`` to the directory of a library in the job.

    The site's ``environ`` or modules set it, or the environment of the session if its jobs run here. Otherwise the
    build step installs an environment of Spack.

    :raises Unavailable: none of them does, and there is no Spack.
    """
    if wanted.library is None:
        return Provision()
    name = home_of(wanted.library)
    if name in wanted.environ or wanted.own_modules:
        # The job looks whether modules set it.
        return Provision()
    if site.is_here and os.environ.get(name):
        return Provision(activate=(f"export {name}={shlex.quote(os.environ[name])}",))
    command = str(path_of(site.spack)) if os.sep in site.spack else site.spack
    if not (site.builds_on_node or shutil.which(command)):
        raise Unavailable(
            f"no software: {wanted.check} needs {wanted.library.upper()}: set {name} to the directory that it is "
            f"installed in (site's extras, software: {wanted.check}: environ, or modules that set it), or have Spack"
        )
    link = f"{contract.SPACK}-{wanted.library}"
    parts = _spack_parts(site, command, ENVIRONMENTS / wanted.library)
    build = node_commands.in_build(site, "spack", link=link, **parts)
    return Provision(build=(build,), activate=(f'export {name}="$PWD/{link}/{contract.SPACK_VIEW}"',))


def home_of(library: str) -> str:
    """Return the variable that names a library's directory.

    >>> home_of("dlb")
    'DLB_HOME'
    """
    return f"{library.upper()}_HOME"


def tree_of(wanted: Wanted, site: Site) -> dict[str, object] | None:
    """Return the parts of the tree that bare runs, for an image; None if it comes from neither Spack nor EasyBuild.

    :raises Unavailable: there is no Spack, or the partition's processor is not known.
    :raises Misconfigured: the site names an environment, an easyconfig, Spack or EasyBuild that does not exist.
    """
    if wanted.easybuild is not None:
        return {"kind": "easybuild", **_easybuild_parts(wanted, wanted.easybuild, site)}
    parts = _environment_of(wanted, site)
    return parts and {"kind": "spack", "packed": True, **parts}


def _environment_of(wanted: Wanted, site: Site) -> dict[str, object] | None:
    """Return the parts of the bare program's environment of Spack; None if it comes from none.

    :raises Unavailable: there is no Spack, or the partition's processor is not known.
    :raises Misconfigured: there is no such environment, or no Spack at the site's path.
    """
    # EasyBuild, set with -S, takes precedence over the check's Spack.
    if wanted.spack is None or wanted.easybuild:
        return None
    directory = path_of(wanted.spack) if os.sep in wanted.spack else ENVIRONMENTS / wanted.spack
    if not (directory / "spack.yaml").is_file():
        raise Misconfigured(f"no software: there is no {directory}/spack.yaml")
    command = _command_of("Spack", site.spack, wanted, site)
    gpus = gpu_variants(site) if wanted.gpu and site.gpus else ""
    parts = _spack_parts(site, command, directory, f"{wanted.view_directory}/{wanted.executable}")
    return {**parts, **({"gpus": gpus} if gpus else {})}


def gpu_variants(site: Site) -> str:
    """Return Spack's variants for the GPUs of a partition; empty for GPUs of an unknown architecture.

    ``sm_70`` of the site file is ``+cuda cuda_arch=70``, ``gfx90a`` is ``~cuda +rocm amdgpu_target=gfx90a``.
    """
    if site.gpu_arch.startswith("gfx"):
        return f"~cuda +rocm amdgpu_target={site.gpu_arch}"
    match = re.fullmatch(r"sm_(\d+\w?)", site.gpu_arch)
    return f"+cuda cuda_arch={match[1]}" if match else ""


def provide_easybuild(wanted: Wanted, site: Site) -> Provision:
    """Return a program and the commands that load its module; the build step installs it into the cache.

    The job checks that the program is the module's.

    :raises Misconfigured: there is no such easyconfig, no EasyBuild, or no modules system.
    """
    if wanted.easybuild is None:
        return Provision()
    _easyconfig_of(wanted.easybuild)
    if runtime().modules_system.name == "nomod":
        raise Misconfigured(
            f"no software: {wanted.check} comes from EasyBuild, and {site.partition} loads no modules: write the "
            "system's modules_system into the site file"
        )
    build = node_commands.in_build(
        site, "easybuild", link=contract.EASYBUILD, **_easybuild_parts(wanted, wanted.easybuild, site)
    )
    activate = tuple(_loading(wanted, module_of(wanted.easybuild)))
    return Provision(program=wanted.executable, build=(build,), activate=activate)


def _easybuild_parts(wanted: Wanted, named: str, site: Site) -> dict[str, object]:
    """Return the parts of the software of an easyconfig.

    :param named: the easyconfig, as it is named.
    """
    easyconfig, robot = _easyconfig_of(named)
    return {
        "name": wanted.check,
        "easyconfig": easyconfig,
        "robot": list(map(str, robot)),
        "site_file": path_of(site.easybuild_site) if site.easybuild_site else None,
        "command": _command_of("EasyBuild", site.easybuild, wanted, site),
        "compiled_for": compiled_for(site),
        "program": wanted.executable,
        "target": site.target,
        "architecture": architecture_of(site),
        "directory": site.cache("easybuilds"),
    }


def module_of(easyconfig: str) -> str:
    """Return the module of an easyconfig, by EasyBuild's default naming scheme: ``HPCC/1.5.0-gompi-system``.

    :raises Misconfigured: the name of the file is not one of EasyBuild's.
    """
    match = _NAMED.fullmatch(Path(easyconfig).name)
    if not match:
        raise Misconfigured(f"no software: {easyconfig} is not called as an easyconfig is: <name>-<version>.eb")
    return f"{match['name']}/{match['version']}"


def compiled_for(site: Site) -> str:
    """Return EasyBuild's option for the processor; empty for the processor of the machine that compiles.

    EasyBuild compiles for that one by default. For another one it takes flags by compiler, and GCC's are given.
    """
    from archspec.cpu import TARGETS, UnsupportedMicroarchitecture, host

    if site.is_here or site.builds_on_node or site.arch not in TARGETS or site.arch == host().name:
        return ""
    if TARGETS[site.arch].family.name != platform.machine():
        return ""
    try:
        # Flags of the oldest GCC in toolchains that are still supported.
        return f"GCC:{TARGETS[site.arch].optimization_flags('gcc', '12.3').lstrip('-')}"
    except UnsupportedMicroarchitecture:
        return ""


def _easyconfig_of(easyconfig: str) -> tuple[str, list[Path]]:
    """Return the path of an easyconfig, or its name if it is EasyBuild's; and the directories of its dependencies.

    :raises Misconfigured: there is no such file.
    """
    path = path_of(easyconfig) if os.sep in easyconfig else EASYCONFIGS / easyconfig
    if path.is_file():
        return str(path), list(dict.fromkeys([path.resolve().parent, EASYCONFIGS]))
    if os.sep in easyconfig:
        raise Misconfigured(f"no software: there is no easyconfig {path}")
    return easyconfig, [EASYCONFIGS]


def _loading(wanted: Wanted, module: str) -> list[str]:
    """Return the commands that load a module, and check that the program on the PATH is the module's."""
    trees = (f"{contract.EASYBUILD}/{contract.EASYBUILD_DEPENDENCIES}", contract.EASYBUILD)
    use = [f'module use "$PWD/{tree}/{contract.EASYBUILD_MODULES}"' for tree in trees]
    error = f"error: the module {module} is loaded, and the PATH has another {wanted.executable} than its, or none:"
    program = f'"$(readlink -f "$(command -v {shlex.quote(wanted.executable)})")"'
    look = (
        f'case {program} in "$(readlink -f {contract.EASYBUILD})"/*) ;; '
        f"*) echo {shlex.quote(error)} {program} >&2; exit 1;; esac"
    )
    return [*use, *runtime().modules_system.emit_load_commands(module), look]
