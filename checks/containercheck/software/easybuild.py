"""Provider: installations by EasyBuild, from ``easyconfigs/``, from the site's easyconfigs or from EasyBuild's own."""

from __future__ import annotations

import os
import platform
import re
import shlex
from pathlib import Path

from reframe.core.runtime import runtime

from containercheck.node import contract
from containercheck.site import node_commands
from containercheck.site.sites import Site, path_of
from containercheck.software.provision import (
    EASYCONFIGS,
    Misconfigured,
    Provision,
    Wanted,
    architecture_of,
    command_of,
)

#: File name of an easyconfig, of which its module has name and version.
_NAMED = re.compile(r"(?P<name>.+?)-(?P<version>(?:v?\d|system).*)\.eb")


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return a program and the commands that load its module; the build step installs it into the cache.

    ReFrame's own build system for EasyBuild finds no module that was installed before, and loads none: so this provider
    names the module, and the job checks that the program is the module's.

    :raises Misconfigured: there is no such easyconfig, no EasyBuild, or no modules system.
    """
    if wanted.easybuild is None:
        return Provision()
    easyconfig, robot = _find(wanted.easybuild)
    if runtime().modules_system.name == "nomod":
        raise Misconfigured(
            f"no software: {wanted.check} comes from EasyBuild, and {site.partition} loads no modules: write the "
            "system's modules_system into the site file"
        )
    command = command_of("EasyBuild", site.easybuild, wanted, site)
    words: list[object] = ["--easyconfig", easyconfig, *(f"--robot={path}" for path in robot), "--easybuild", command]
    words += ["--architecture", architecture_of(site), "--target", site.target]
    words += [f"--compiled-for={flags}"] if (flags := compiled_for(site)) else []
    words += ["--cache", site.cache("easybuild_cache"), "--link", contract.EASYBUILD]
    words += ["--site", path_of(site.easybuild_site)] if site.easybuild_site else []
    words += ["--program", wanted.executable, wanted.check]
    return Provision(
        program=wanted.executable,
        build=(node_commands.in_build(site, "easybuild", *words),),
        activate=tuple(_load(wanted, module_of(easyconfig))),
    )


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


def _find(easyconfig: str) -> tuple[str, list[Path]]:
    """Return the path of an easyconfig, or its name if it is EasyBuild's; and the directories of its dependencies.

    :raises Misconfigured: there is no such file.
    """
    path = path_of(easyconfig) if os.sep in easyconfig else EASYCONFIGS / easyconfig
    if path.is_file():
        return str(path), list(dict.fromkeys([path.resolve().parent, EASYCONFIGS]))
    if os.sep in easyconfig:
        raise Misconfigured(f"no software: there is no easyconfig {path}")
    return easyconfig, [EASYCONFIGS]


def _load(wanted: Wanted, module: str) -> list[str]:
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
