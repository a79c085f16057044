"""Provider: what EasyBuild installs, from ``easyconfigs/``, from the site's easyconfigs or from EasyBuild's own."""

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

#: How an easyconfig is called: its module is the name, and what follows.
_NAMED = re.compile(r"(?P<name>.+?)-(?P<version>(?:v?\d|system).*)\.eb")


def provide(wanted: Wanted, site: Site) -> Provision:
    """Return a program and the commands that load its module; the build step installs it into the cache.

    ReFrame's own build system for EasyBuild finds no module where it was installed before, and loads none: it is named
    here, and that the program is the module's is looked at in the job.

    :raises Misconfigured: there is no such easyconfig, no EasyBuild, or nothing that modules are loaded with.
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
    """Return the module of an easyconfig, as EasyBuild calls it by default: ``HPCC/1.5.0-gompi-system``.

    :raises Misconfigured: the file is not called as EasyBuild wants it.
    """
    found = _NAMED.fullmatch(Path(easyconfig).name)
    if not found:
        raise Misconfigured(f"no software: {easyconfig} is not called as an easyconfig is: <name>-<version>.eb")
    return f"{found['name']}/{found['version']}"


def compiled_for(site: Site) -> str:
    """Return what EasyBuild is told of the processor: nothing where it is that of the machine that compiles.

    That is what EasyBuild compiles for by itself. Its word for another one is by compiler, and GCC's is given.
    """
    from archspec.cpu import TARGETS, UnsupportedMicroarchitecture, host

    if site.is_here or site.builds_on_node or site.arch not in TARGETS or site.arch == host().name:
        return ""
    if TARGETS[site.arch].family.name != platform.machine():
        return ""
    try:
        # Of the oldest GCC that toolchains have which are still supported.
        return f"GCC:{TARGETS[site.arch].optimization_flags('gcc', '12.3').lstrip('-')}"
    except UnsupportedMicroarchitecture:
        return ""


def _find(named: str) -> tuple[str, list[Path]]:
    """Return a file, or the name of one that EasyBuild has; and the directories that it depends on, beside its own.

    :raises Misconfigured: there is no such file.
    """
    path = path_of(named) if os.sep in named else EASYCONFIGS / named
    if path.is_file():
        return str(path), list(dict.fromkeys([path.resolve().parent, EASYCONFIGS]))
    if os.sep in named:
        raise Misconfigured(f"no software: there is no easyconfig {path}")
    return named, [EASYCONFIGS]


def _load(wanted: Wanted, module: str) -> list[str]:
    """Return the commands that load a module, and look whether the program is of what it has."""
    trees = (f"{contract.EASYBUILD}/{contract.EASYBUILD_DEPENDENCIES}", contract.EASYBUILD)
    use = [f'module use "$PWD/{tree}/{contract.EASYBUILD_MODULES}"' for tree in trees]
    said = f"error: the module {module} is loaded, and the PATH has another {wanted.executable} than its, or none:"
    program = f'"$(readlink -f "$(command -v {shlex.quote(wanted.executable)})")"'
    look = (
        f'case {program} in "$(readlink -f {contract.EASYBUILD})"/*) ;; '
        f"*) echo {shlex.quote(said)} {program} >&2; exit 1;; esac"
    )
    return [*use, *runtime().modules_system.emit_load_commands(module), look]
