"""What a session needs before ReFrame runs a check: a system, directories that can be written, no job around it.

Each error is one line: what is wrong, where, and what to do.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from containercheck.results.formatting import say, typed
from containercheck.session import reframe_process
from containercheck.session.reframe_process import ReframeFailed, Workplace
from containercheck.session.usage import UsageError
from containercheck.site import schedulers

#: ReFrame's own system, which it chooses where no system of a site file has a matching host name.
BUILTIN = "generic"
#: ReFrame's message where the requested system is in no configuration file (reframe/core/config.py).
_NO_SYSTEM = re.compile(r"could not find a configuration entry for the requested system: '([^':]*)")
#: File systems on which root has no rights of its own, as servers map it to nobody (exports(5), root_squash).
_SQUASHED = ("nfs", "nfs4")
#: Commands that submit jobs.
SUBMITTERS = ("sbatch", "qsub", "bsub", "flux")
#: Mounted file systems of this process (proc(5)).
MOUNTS = Path("/proc/self/mountinfo")


def require(arguments: Sequence[str], place: Workplace, anywhere: bool = False) -> tuple[Workplace, Path]:
    """Check the surroundings of a session, and return its place with what they ask for, and ReFrame's stage directory.

    :param anywhere: whether it may be a login node: nothing is measured, or the last session was measured there.
    :raises UsageError: the session cannot work; the message says why, and what to do.
    """
    try:
        system = reframe_process.configured(arguments, place, reframe_process.SYSTEM)
    except ReframeFailed as error:
        raise UsageError(_explained(str(error), arguments, place)) from None
    stage = reframe_process.named_stage(arguments, place)
    place = replace(place, report_file=place.report_file or reframe_process.named_report(arguments, place))
    if system["name"] == BUILTIN:
        _refuse_wrong_host(arguments, place, anywhere)
    if job := schedulers.outer_job():
        say(f"started inside {job}: its variables are for runs in its allocation only")
    return place, stage


def require_writable(directories: Iterable[Path]) -> None:
    """Check that files can be made in directories, which are made where they are missing.

    :raises UsageError: in one of them they cannot.
    """
    for directory in directories:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory):
                pass
        except OSError as error:
            raise UsageError(cannot_write(directory, error)) from None


def cannot_write(directory: Path, error: OSError, mounts: Path = MOUNTS) -> str:
    """Return that a directory cannot be written, and what to do.

    :param mounts: file with the mounted file systems.
    """
    why = f"cannot write into {directory}: {error.strerror}"
    if os.geteuid() == 0 and file_system(directory, mounts) in _SQUASHED:
        return f"{why}: it is on NFS, where root has no rights; run this as an ordinary user"
    return f"{why}; give the session places of its own: RFM_PREFIX=DIR RFM_REPORT_FILE=DIR/report.json"


def file_system(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the type of the file system of a path, such as ``nfs4``; empty where that is not known."""
    kinds: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in mounts.read_text(errors="replace").splitlines():
            # "36 35 98:0 /root /mount/point options [fields] - type source options" (proc(5)).
            before, _, after = line.partition(" - ")
            if len(before.split()) > 4 and after:
                kinds[before.split()[4].replace("\\040", " ")] = after.split()[0]
    return next((kinds[str(parent)] for parent in (path, *path.parents) if str(parent) in kinds), "")


def _explained(message: str, arguments: Sequence[str], place: Workplace) -> str:
    """Return ReFrame's message on the configuration, with what to do where it is about the system."""
    missing = _NO_SYSTEM.search(message)
    if not missing:
        return message
    names = [system["name"] for system in systems_of(site_files(arguments, place))]
    if not names:
        return f"no system {missing[1]!r}: name the file that has it, -C FILE or RFM_CONFIG_FILES=FILE"
    near = difflib.get_close_matches(missing[1], names, 1)
    meant = f"did you mean {near[0]!r}?" if near else f"the site's file has {', '.join(names)}"
    return f"no system {missing[1]!r}: {meant}"


def _refuse_wrong_host(arguments: Sequence[str], place: Workplace, anywhere: bool) -> None:
    """Refuse a session that names no system, where no system of a site file is for this host.

    Without a site file it is refused where a scheduler is.
    ReFrame would choose its own system, and run everything on this machine: a login node, for example.

    :raises UsageError: it is so.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--system")
    if parser.parse_known_args(arguments)[0].system or os.environ.get("RFM_SYSTEM"):
        return
    files = site_files(arguments, place)
    names = [system["name"] for system in systems_of(files)]
    if names:
        raise UsageError(
            f"no system of {' and '.join(map(str, files))} is for this host, {socket.gethostname()}: name it, "
            f"--system={names[0]}{' (or ' + ', '.join(names[1:]) + ')' if names[1:] else ''}; or add the host to its "
            "hostnames"
        )
    if submitter() and not anywhere:
        raise UsageError(
            f"{submitter()} is here, and no site file says which nodes to measure: write one with {typed('site')}, or "
            "measure this machine all the same with --here"
        )


def submitter() -> str:
    """Return the command on the PATH that submits jobs; empty where no scheduler is."""
    return next(filter(shutil.which, SUBMITTERS), "")


def site_files(arguments: Sequence[str], place: Workplace) -> list[Path]:
    """Return the configuration files of the site, of ``-C`` and ``RFM_CONFIG_FILES``, without the common one."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-C", "--config-file", action="append", default=[])
    named = [word for text in parser.parse_known_args(arguments)[0].config_file for word in text.split(":")]
    files = [*os.environ.get("RFM_CONFIG_FILES", "").split(":"), *named]
    paths = [Path(place.directory, os.path.expandvars(name)).expanduser() for name in files if name]
    return [path for path in paths if path.resolve() != Path(place.config).resolve()]


def systems_of(files: Iterable[Path]) -> list[Mapping[str, Any]]:
    """Return the systems in configuration files; of a file that ReFrame cannot load, none."""
    from reframe.core import config
    from reframe.core.exceptions import ReframeError

    systems: list[Mapping[str, Any]] = []
    for path in files:
        with contextlib.suppress(ReframeError, OSError):
            systems += [system for system in config.load_config(str(path))["systems"] if system["name"] != BUILTIN]
    return systems
