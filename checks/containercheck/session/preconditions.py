"""Check the needs of a session before ReFrame runs a check: a system, and writable directories without another session.

Each error is one line with the problem, its place and a remedy.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from containercheck import reframe_internals
from containercheck.job import locks
from containercheck.results.formatting import typed
from containercheck.session import reframe_process
from containercheck.session.reframe_process import Configuration, ReframeFailed, Workplace
from containercheck.session.usage import UsageError

#: ReFrame's message if the requested system is not in a configuration file (reframe/core/config.py).
_NO_SYSTEM = re.compile(r"could not find a configuration entry for the requested system: '([^':]*)")
#: Commands that submit jobs.
SUBMITTERS = ("sbatch", "qsub", "bsub", "flux")
#: File in a directory that a session holds locked while it runs.
LOCK = ".session.lock"


def require(arguments: Sequence[str], place: Workplace, anywhere: bool = False) -> Workplace:
    """Check the environment of a session; return its place with the configured report and stage directory.

    :param anywhere: whether a login node is allowed: nothing is measured, or the last session was measured there.
    :raises UsageError: the session cannot work; the message has the reason and a remedy.
    """
    try:
        configured = reframe_process.configuration(arguments, place)
    except ReframeFailed as error:
        missing = _NO_SYSTEM.search(str(error))
        hint = "name the file that has it, -C FILE or RFM_CONFIG_FILES=FILE, or correct its name"
        # Lmod's variables are set by the profile of a login shell, which cron does not read.
        login = ": use a login shell, bash -lc" if "LMOD_CMD" in str(error) else ""
        raise UsageError(f"no system {missing[1]!r}: {hint}" if missing else f"{error}{login}") from None
    place = replace(place, report_file=place.report_file or configured.report, stage_directory=configured.stage)
    if configured.system["name"] == reframe_process.BUILTIN:
        _refuse_wrong_host(arguments, configured, anywhere)
    return place


def _refuse_wrong_host(arguments: Sequence[str], configured: Configuration, anywhere: bool) -> None:
    """Refuse a session without a system on its command line if no system of the site file is for this host.

    Without a site file, the session is refused if there is a scheduler. ReFrame would choose its built-in system and
    run everything on this machine, which may be a login node.

    :raises UsageError: the session is refused.
    """
    if reframe_internals.options_of(arguments).system or os.environ.get("RFM_SYSTEM"):
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
    """Return the command on the PATH that submits jobs; empty without a scheduler."""
    return next(filter(shutil.which, SUBMITTERS), "")


@contextlib.contextmanager
def held(directories: Iterable[Path]) -> Iterator[None]:
    """Lock these directories for this session, and make missing ones.

    :raises UsageError: a directory is not writable, or another session holds it. This function does not wait for it.
    """
    others = "name other directories with RFM_PREFIX=DIR RFM_REPORT_FILE=DIR/report.json before the command"
    with contextlib.ExitStack() as stack:
        for directory in sorted({path.resolve() for path in directories}):
            try:
                directory.mkdir(parents=True, exist_ok=True)
                stack.enter_context(locks.flocked(directory / LOCK, shared=False, waiting="", patience=0))
            except locks.HeldError as error:
                raise UsageError(
                    f"another session writes into {directory} (held by {error.holder}): end it, or {others}"
                ) from None
            except OSError as error:
                raise UsageError(f"cannot write into {directory}: {error.strerror or error}; {others}") from None
        yield
