"""Lock directories against a second session: both would remove each other's report, and the files of running jobs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from containercheck.job import locks

#: File in a directory that a session holds locked while it runs.
LOCK = ".session.lock"


class Taken(Exception):
    """Another session runs in a directory; the message names its process, and says what to do."""


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
