"""Lock directories against a second session: both would remove each other's report, and the files of running jobs."""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import os
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from containercheck.node import locks
from containercheck.results.formatting import speaker, typed

#: File in a directory that a session holds locked while it runs; it names the session.
LOCK = ".session.lock"
#: Errors of flock where another process has the lock. On a file system without locks, nothing is locked.
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)


class Taken(Exception):
    """Another session runs in a directory; the message names it, and says what to do."""


@contextlib.contextmanager
def held(directories: Iterable[Path], argv: Iterable[str]) -> Iterator[None]:
    """Lock these directories for this session, and make those that are missing.

    :param argv: arguments of the session, for the message of another one.
    :raises Taken: another session holds one of them; this does not wait for it.
    :raises OSError: a directory cannot be made or written to.
    """
    now = datetime.datetime.now().isoformat(sep=" ", timespec="seconds")
    words = f"{typed(speaker())} {shlex.join(argv)}".rstrip()
    with contextlib.ExitStack() as files:
        for directory in sorted({path.resolve() for path in directories}):
            directory.mkdir(parents=True, exist_ok=True)
            file = files.enter_context((directory / LOCK).open("a+", encoding="utf-8"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in locks.NO_LOCKS:
                    continue
                if error.errno not in _TAKEN:
                    raise
                file.seek(0)
                raise Taken(_taken_message(file.read().strip(), directory)) from None
            file.truncate(0)
            file.write(f"{words}, since {now}, process {os.getpid()} on {os.uname().nodename}\n")
            file.flush()
        yield


def _taken_message(who: str, directory: Path) -> str:
    return (
        f"another session writes into {directory} ({who or 'it has just begun'}): wait for its end or stop it; or "
        "give this one places of its own, RFM_PREFIX=DIR RFM_REPORT_FILE=DIR/report.json before the command"
    )
