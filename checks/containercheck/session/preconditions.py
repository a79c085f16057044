"""Check the needs of a session before ReFrame runs a check: a system, writable directories of its own.

Each error is one line: what is wrong, where, and what to do.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from containercheck.job import locks
from containercheck.results.formatting import say, typed
from containercheck.session import reframe_process
from containercheck.session.reframe_process import Configuration, ReframeFailed, Workplace
from containercheck.session.usage import UsageError
from containercheck.site import jobs

#: ReFrame's message where the requested system is in no configuration file (reframe/core/config.py).
_NO_SYSTEM = re.compile(r"could not find a configuration entry for the requested system: '([^':]*)")
#: Commands that submit jobs.
SUBMITTERS = ("sbatch", "qsub", "bsub", "flux")
#: File in a directory that a session holds locked while it runs.
LOCK = ".session.lock"


def require(arguments: Sequence[str], place: Workplace, anywhere: bool = False) -> tuple[Workplace, Path]:
    """Check the surroundings of a session, and return its place with what they ask for, and ReFrame's stage directory.

    :param anywhere: whether it may be a login node: nothing is measured, or the last session was measured there.
    :raises UsageError: the session cannot work; the message says why, and what to do.
    """
    try:
        configured = reframe_process.configuration(arguments, place)
    except ReframeFailed as error:
        missing = _NO_SYSTEM.search(str(error))
        hint = "name the file that has it, -C FILE or RFM_CONFIG_FILES=FILE, or correct its name"
        # Lmod's variables are set by the profile of a login shell, which cron does not read.
        login = ": use a login shell, bash -lc" if "LMOD_CMD" in str(error) else ""
        raise UsageError(f"no system {missing[1]!r}: {hint}" if missing else f"{error}{login}") from None
    place = replace(place, report_file=place.report_file or configured.report)
    if configured.system["name"] == reframe_process.BUILTIN:
        _refuse_wrong_host(arguments, configured, anywhere)
    if job := jobs.outer_job():
        say(f"started inside {job}: its variables are for runs in its allocation only")
    return place, configured.stage


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
            raise UsageError(
                f"cannot write into {directory}: {error.strerror}; give the session places of its own: RFM_PREFIX=DIR "
                "RFM_REPORT_FILE=DIR/report.json"
            ) from None


def _refuse_wrong_host(arguments: Sequence[str], configured: Configuration, anywhere: bool) -> None:
    """Refuse a session that names no system, where no system of a site file is for this host.

    Without a site file it is refused where a scheduler is.
    ReFrame would choose its own system, and run everything on this machine: a login node, for example.

    :raises UsageError: it is so.
    """
    if any(word.startswith("--system") for word in arguments) or os.environ.get("RFM_SYSTEM"):
        return
    if configured.systems:
        raise UsageError(
            f"no system of {' and '.join(configured.files)} is for this host, {socket.gethostname()}: name it, "
            f"--system={' or --system='.join(configured.systems)}; or add the host to its hostnames"
        )
    if submitter() and not anywhere:
        raise UsageError(
            f"{submitter()} is here, and no site file says which nodes to measure: write one with {typed('site')}, or "
            "measure this machine all the same with --here"
        )


def submitter() -> str:
    """Return the command on the PATH that submits jobs; empty where no scheduler is."""
    return next(filter(shutil.which, SUBMITTERS), "")


class Taken(Exception):
    """Another session runs in a directory; the message names its process, and says what to do."""


def runs_in(directory: Path) -> str:
    """Return the process whose session runs in a directory; empty for none."""
    if (directory / LOCK).exists():
        try:
            with locks.flocked(directory / LOCK, shared=True, waiting="", patience=0):
                pass
        except locks.HeldError as error:
            return error.holder
    return ""


@contextlib.contextmanager
def held(directories: Iterable[Path]) -> Iterator[None]:
    """Lock these directories for this session, and make those that are missing.

    :raises Taken: another session holds one of them; this does not wait for it.
    :raises OSError: a directory cannot be made or written to.
    """
    with contextlib.ExitStack() as stack:
        for directory in sorted({path.resolve() for path in directories}):
            directory.mkdir(parents=True, exist_ok=True)
            try:
                stack.enter_context(locks.flocked(directory / LOCK, shared=False, waiting="", patience=0))
            except locks.HeldError as error:
                raise Taken(
                    f"another session writes into {directory} (held by {error.holder}): have that ended, or give this "
                    "session places of its own, RFM_PREFIX=DIR RFM_REPORT_FILE=DIR/report.json before the command"
                ) from None
        yield
