"""Read ReFrame's results database with sqlite3 and json, one session at a time.

ReFrame 4.10 finds sessions with a regular expression that ends at the first ``}``. After one session with this
character on its command line, all of ReFrame's queries fail. This module leaves out only sessions that cannot be read.
A caller that keeps a part of each session never has all sessions in memory.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import sqlite3
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from containercheck.results.formatting import CommandError, typed
from containercheck.results.row import require_readable

#: Most seconds to wait for a writer.
BUSY = 60.0
#: Suffixes of the files that a killed writer may leave next to the database.
JOURNALS = ("-journal", "-wal", "-shm")
#: Keys that every test case has.
NEEDED = {"name", "result", "partition", "environ", "unique_name"}


class DatabaseError(CommandError):
    """The database cannot be read; the message is one line with the error, the path and a remedy."""


class Damaged(DatabaseError):
    """The file is damaged."""


@dataclass(frozen=True)
class StoredSession:
    """A session of ReFrame, as stored.

    :ivar info: ReFrame's ``session_info``, with the additions of ``--session-extras``.
    :ivar testcases: test cases of all its runs, in their order, as ReFrame wrote them.
    """

    info: Mapping[str, Any]
    testcases: tuple[Mapping[str, Any], ...]

    @property
    def began(self) -> float:
        """Start of the session in seconds of the epoch; 0 if it is not stored."""
        return self.info.get("time_start_unix") or 0.0


def read(path: Path, since: float = 0.0) -> Iterator[StoredSession]:
    """Yield the sessions of a database in the order in which they were stored; each is read on demand.

    The database is opened for writing, so that SQLite can undo the unfinished work of a killed writer. Nothing else is
    written. A line on standard error names each session that is left out.

    :param since: seconds of the epoch: sessions that began earlier are left out.
    :raises DatabaseError: there is no database, or it is not one of ReFrame's.
    :raises Damaged: the file is damaged.
    """
    if not path.exists():
        raise DatabaseError(f"there is no results database {path}: {typed('run')} or {typed('nightly')} writes it")
    # If the file is not writable, SQLite opens it for reading.
    name = f"file:{urllib.parse.quote(str(path.absolute()))}?mode=rw"
    try:
        with contextlib.closing(sqlite3.connect(name, uri=True, timeout=BUSY)) as database:
            yield from _sessions(database, path, since)
    except sqlite3.OperationalError as error:
        advice = "another process may hold it, you may lack the permission, or it is not a database of ReFrame"
        raise DatabaseError(f"cannot read the results database {path} ({error}): {advice}") from None
    except sqlite3.DatabaseError as error:
        raise Damaged(
            f"cannot read the results database {path} ({error}): sqlite3 {path} .recover prints the readable part; "
            "move the file away, and the next session begins a new one"
        ) from None


def set_aside(path: Path) -> Path:
    """Rename a damaged database, so that ReFrame begins a new one, and return the new path.

    SQLite's journals are renamed too, because SQLite would apply them to the new database.

    :raises OSError: it cannot be renamed.
    """
    now = datetime.datetime.now().strftime("%Y%m%dT%H%M%S")
    aside = path.with_name(f"{path.name}.damaged-{now}")
    # The journals come first: after an interruption, no journal is left for a new database.
    for ending in (*JOURNALS, ""):
        with contextlib.suppress(FileNotFoundError):
            os.replace(path.with_name(path.name + ending), aside.with_name(aside.name + ending))
    return aside


def _sessions(database: sqlite3.Connection, path: Path, since: float) -> Iterator[StoredSession]:
    """Yield the sessions one by one; print a line for each session that cannot be read."""
    listed = database.execute("SELECT rowid, uuid, session_start_unix FROM sessions ORDER BY rowid").fetchall()
    for row, uuid, began in listed:
        if (began or 0.0) < since:
            continue
        # One query for each session: a writer waits for one query only.
        blob = database.execute("SELECT json_blob FROM sessions WHERE rowid = ?", (row,)).fetchone()
        if blob is None:
            # Another process has just deleted it.
            continue
        try:
            session = _session(blob[0])
        except ValueError as error:
            print(f"session {uuid} in {path} is left out: {error}", file=sys.stderr, flush=True)
            continue
        yield session


def _session(text: str) -> StoredSession:
    """Return a session from its JSON text.

    :raises ValueError: it is not a session, or a later version of the library stored it.
    """
    report = json.loads(text)
    try:
        info = report["session_info"]
        testcases = tuple(case for run in report["runs"] for case in run["testcases"])
        if not isinstance(info, dict) or not all(case.keys() >= NEEDED for case in testcases):
            raise TypeError
    except (KeyError, TypeError, AttributeError):
        raise ValueError("it is JSON, and not a report of ReFrame") from None
    for case in testcases:
        require_readable(case.get("results") or ())
    return StoredSession(info, testcases)
