"""Provide software that the host has: programs on the PATH, modules of the site, and programs without a download.

Of the latter the site gives input, options and the patterns of their output.
"""

from __future__ import annotations

import ctypes.util
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from reframe.core.runtime import runtime

from containercheck.application.declare import Answer, Metric
from containercheck.job import contract, inventory
from containercheck.site import node_commands
from containercheck.site.extras import NAMESPACE, SiteError, Software
from containercheck.site.sites import Site
from containercheck.software.provision import Misconfigured, Provision, Unavailable, Wanted

#: Names of the libraries of a family of MPI, for the loader.
_LIBRARIES = {"mpich": ("mpich", "mpi_cray")}
#: Placeholder for a pattern of a metric, an answer or the rank count that only a site knows; it never matches.
SITES = r"(?!)()"


def provide_program(wanted: Wanted, site: Site) -> Provision:
    """Return the program that the host has, for a check without another source of its program.

    The build step looks for it if modules are loaded, and the job if jobs run elsewhere. A missing program is a reason
    to skip, and an error if it was named.

    :raises Unavailable: the host lacks the program, or the MPI that it needs.
    :raises Misconfigured: the host lacks the program, and the site names it.
    """
    if wanted.mpi_family:
        _require_mpi(wanted.mpi_family, wanted, site)
    if wanted.source or wanted.requirements or wanted.spack or wanted.easybuild:
        return Provision()
    if not site.is_here:
        look = _look_for(wanted, ">&2" if _is_named(wanted) else f">{contract.UNSUPPORTED_WHY}", 1)
        return Provision(program=wanted.executable, activate=(look,))
    if wanted.modules:
        look = _look_for(wanted, ">&2", 1 if _is_named(wanted) else contract.UNSUPPORTED)
        return Provision(program=wanted.executable, build=(f"{{ {look}; }}",))
    if shutil.which(wanted.executable, path=wanted.environ.get("PATH")) is None:
        problem = Misconfigured if _is_named(wanted) else Unavailable
        raise problem(_absent(wanted) % "this machine")
    return Provision(program=wanted.executable)


def _is_named(wanted: Wanted) -> bool:
    """Return whether the program was named: by the site, or by a path, because no check of the project has one."""
    return wanted.of_site or os.sep in wanted.executable


def _absent(wanted: Wanted) -> str:
    """Return the message about a missing program, with %s for the host, and with the remedy."""
    # The message is formatted with %.
    program = wanted.executable.replace("%", "%%")
    missing = (
        f"no software: %s has no {program}" if os.sep in program else f"no software: {program} is not on the PATH of %s"
    )
    entry = f"the site's extras, software: {wanted.check}"
    if _is_named(wanted):
        return f"{missing}; {entry}, names it" if wanted.of_site else f"{missing}, which was named for it"
    install = (
        f"install {' '.join(wanted.debian)} (ci/setup does on Debian and Ubuntu)" if wanted.debian else "install it"
    )
    return f"{missing}: {install}, or name it in {entry}"


def _look_for(wanted: Wanted, into: str, status: int) -> str:
    """Return the command that exits from its shell with the reason if the program is not there.

    :param into: redirection of the reason.
    """
    program = wanted.executable
    error = "error: " if into == ">&2" else ""
    complain = f'printf {shlex.quote(error + _absent(wanted))} "$(uname -n)" {into}'
    return node_commands.unless_found(shlex.quote(program), complain, status, wanted.environ)


def _require_mpi(family: str, wanted: Wanted, site: Site) -> None:
    """Check that this machine has an MPI of the wanted family; the job looks for it on nodes and with modules."""
    if not site.is_here or wanted.modules or getattr(site, f"host_{family}"):
        return
    if not any(ctypes.util.find_library(name) for name in _LIBRARIES[family]):
        raise Unavailable(
            f"no software: this machine has no MPI of the {family} family: install "
            f"{' '.join(wanted.debian) or family} (ci/setup does on Debian and Ubuntu), or name its library: site's "
            f"extras, host_{family}"
        )


def ask_program(program: str, pattern: str) -> str:
    """Return the first group of a pattern in a program's output with ``--version``; empty if it is not there."""
    _, output = inventory.output_of([program, "--version"])
    match = re.search(pattern, output, re.MULTILINE)
    return match[1] if match else ""


def provide_modules(wanted: Wanted, site: Site) -> Provision:
    """Return the commands that load the modules that the site names; a missing one is an error.

    ReFrame would fail too. If jobs run elsewhere, nodes may have other modules than the machine that builds. Then a
    missing module is not an error, and the job looks for the program.
    """
    build = []
    for name in wanted.own_modules:
        load = " && ".join(runtime().modules_system.emit_load_commands(name))
        error = shlex.quote(f"error: no software: no module {name}")
        otherwise = f"{{ echo {error} >&2; exit 1; }}" if site.is_here else "true"
        # Without a modules system there is no command.
        build += [f"{{ {load} || {otherwise}; }}"] if load else []
    return Provision(build=tuple(build))


def require_licensed(check: str, site: Site, published: str, needs_image: bool) -> None:
    """Check that the site has a program, its input, and an image if the check needs one.

    :param published: the requested input.
    :param needs_image: whether the check runs in a container, and only the program's entry could name an image.
    :raises Unavailable: the site has no such program, or no image; the message names the key of the site file.
    :raises Misconfigured: its program is named, and no input.
    """
    software, where = site.software_of(check), _place(check, site)
    if software == Software():
        raise Unavailable(f"no software: {check} cannot be downloaded: name program, options and input in {where}")
    if not site.input_of(check, published):
        raise Misconfigured(f"no input: that of {check} cannot be downloaded: name it in {where}, input")
    if needs_image and not software.image and not software.binds:
        raise Unavailable(f"no image: {check} cannot be built: name a ready one, or a tree to bind, in {where}")


def refuse_patterns(check: str, site: Site) -> None:
    """Refuse options and patterns for a check that has its own.

    :raises SiteError: the site gives some.
    """
    software = site.software_of(check)
    if software.options or software.patterns:
        raise SiteError(f"{_place(check, site)}: it knows its own options and patterns: leave them out")


def filled_in(
    check: str, site: Site, metrics: Sequence[Metric], answers: Sequence[Answer], rank_count: Answer | None
) -> tuple[list[Metric], list[Answer], Answer | None]:
    """Return metrics, answers and the rank count with the patterns that the site gives by name.

    An answer without a pattern is left out.

    :raises SiteError: a pattern is given for something that the check does not have.
    :raises Misconfigured: a metric or the rank count has no pattern.
    """
    given, where = site.software_of(check).patterns, f"{_place(check, site)}, patterns"
    counts = [rank_count] if rank_count else []
    all_facts: tuple[Any, ...] = (*metrics, *answers, *counts)
    known = sorted(fact.name for fact in all_facts)
    if unknown := sorted(given.keys() - set(known)):
        raise SiteError(f"{where}: {check} has no {', '.join(unknown)}; it has {', '.join(known)}")

    def with_patterns(facts: Iterable[Any]) -> list[Any]:
        return [replace(fact, pattern=given.get(fact.name, fact.pattern)) for fact in facts]

    metrics, answers, counts = (with_patterns(facts) for facts in (metrics, answers, counts))
    if lacking := [fact.name for fact in (*metrics, *counts) if fact.pattern == SITES]:
        raise Misconfigured(f"no pattern of {', '.join(lacking)}: only a site knows the output of {check}: {where}")
    rank_count = counts[0] if counts else None
    return list(metrics), [answer for answer in answers if answer.pattern != SITES], rank_count


def copy_command(path: str) -> str:
    """Return the command that copies an input, a file or the content of a directory, into the working directory."""
    quoted = shlex.quote(path)
    return f"if [ -d {quoted} ]; then cp -r {quoted}/. .; else cp {quoted} .; fi"


def _place(check: str, site: Site) -> str:
    return f"site file, extras of {site.partition}: {NAMESPACE}: software: {check}"
