"""Read ReFrame's results database with sqlite3 and json, a session at a time.

ReFrame 4.10 finds sessions in it with a regular expression that ends at the first ``}``: one session with such a
character on its command line, and none of its queries works any more. Here only damaged sessions are left out. Callers
that keep little of each session (``make`` of :func:`read`) never have all of them in memory.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import sqlite3
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import fasteners

from containercheck.results.formatting import typed
from containercheck.results.row import RowError, require_readable

#: Version of the tables that this module reads: that of ReFrame 4.10.
SCHEMA = "1.0"
#: Most seconds to wait for a writer.
BUSY = 60.0
#: The lock file that ReFrame keeps beside the database, and suffixes of the files that a killed writer may leave there.
LOCK, JOURNALS = ".db.lock", ("-journal", "-wal", "-shm")
#: Seconds without a change after which a database that cannot be locked counts as not being written.
STILL = 5.0
#: Keys that every test case has.
NEEDED = {"name", "result", "partition", "environ", "unique_name"}
#: Remedy in messages about a damaged database.
SAVING = "move it away, and the next session begins another one; sqlite3 {} .recover prints what can be saved"
#: Most seconds between the ends of two sessions that may be stored in the other order.
TOGETHER = 60.0


class DatabaseError(Exception):
    """The database cannot be read; the message says in one line what is wrong, where, and what to do."""


class Damaged(DatabaseError):
    """The file is damaged so that nothing in it can be read."""


@dataclass(frozen=True)
class StoredSession:
    """A session of ReFrame, as stored.

    :ivar info: ReFrame's ``session_info``, with what ``--session-extras`` added.
    :ivar testcases: those of all its runs, in their order, as ReFrame wrote them.
    """

    info: Mapping[str, Any]
    testcases: tuple[Mapping[str, Any], ...]

    @property
    def began(self) -> float:
        """Seconds of the epoch; 0 where they are not stored."""
        return self.info.get("time_start_unix") or 0.0


#: What ``make`` of :func:`read` returns: sessions, or nights.
Made = TypeVar("Made")


@dataclass(frozen=True)
class Stored(Generic[Made]):
    """The readable content of a database.

    :ivar made: what ``make`` returned for the sessions.
    :ivar problems: a line for each thing that could not be read, or looks wrong.
    :ivar damage: those about what could not be read; the others only matter where the order of sessions does.
    :ivar is_cut: whether the file itself is damaged, so that ReFrame cannot write to it either.
    """

    made: Made
    problems: tuple[str, ...]
    damage: tuple[str, ...] = ()
    is_cut: bool = False

    @property
    def sessions(self) -> Made:
        """The sessions, where :func:`read` was called without ``make``."""
        return self.made


def read(path: Path, since: float = 0.0, make: Callable[[Iterator[StoredSession]], Any] = tuple) -> Stored[Made]:
    """Return the sessions of a database, or what ``make`` makes of them.

    It is opened for writing, although nothing is written, so that SQLite undoes the unfinished work of a killed writer.

    :param since: seconds of the epoch: sessions that began earlier are left out.
    :param make: called with an iterator over the sessions, in the order in which they were stored, whatever the clock
        said. Each is read on demand. Where the file turns out to be damaged, it is called once more, with what is left.
    :raises DatabaseError: there is no database, or it is not one of ReFrame's.
    :raises Damaged: nothing in it can be read.
    """
    if not path.exists():
        raise DatabaseError(f"there is no results database {path}: run {typed('run')} first")
    try:
        try:
            return _stored(path, since, make)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            pass
        # On file systems whose locks do not work, a file that is being written looks damaged.
        try:
            with _nobody_writing(path):
                return _stored(path, since, make)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            line = f"{path} is damaged ({error}): what can be read of it counts; {SAVING.format(path)}"
            saved = _stored(path, since, make, damaged=True)
            return Stored(saved.made, (line, *saved.problems), (line, *saved.damage), is_cut=True)
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise DatabaseError(
                f"{path} was locked by another process for more than {BUSY:g} s: try again later"
            ) from None
        raise DatabaseError(f"cannot open the results database {path} ({error}): may you read and write it?") from None
    except sqlite3.DatabaseError as error:
        raise Damaged(f"cannot read the results database {path} ({error}): {SAVING.format(path)}") from None


@contextlib.contextmanager
def _nobody_writing(path: Path, alone: bool = False) -> Iterator[None]:
    """Hold ReFrame's own lock on a database; where there is none, wait to see that the database does not change.

    :param alone: exclude readers too.
    :raises DatabaseError: another process keeps writing to it.
    """
    lock = fasteners.InterProcessReaderWriterLock(path.with_name(LOCK))
    acquire, release = lock.acquire_read_lock, lock.release_read_lock
    if alone:
        acquire, release = lock.acquire_write_lock, lock.release_write_lock
    try:
        # Not made here: ReFrame makes the file together with the database, with the mode that the site wants.
        usable = path.with_name(LOCK).exists()
        held = acquire(timeout=BUSY) if usable else None
    except (OSError, threading.ThreadError):
        held = None
    if held is None:
        before = _state(path)
        time.sleep(STILL)
        held = _state(path) == before
        release = None
    if not held:
        raise DatabaseError(f"{path} was written to by another process for more than {BUSY:g} s: try again later")
    try:
        yield
    finally:
        if release:
            release()


def _state(path: Path) -> list[tuple[int, int]]:
    """Return times and sizes of a database's files, which change when it is written."""
    paths = [path, *(path.with_name(path.name + ending) for ending in JOURNALS)]
    states = (existing.stat() for existing in paths if existing.exists())
    return [(state.st_mtime_ns, state.st_size) for state in states]


def set_aside(path: Path) -> Path | None:
    """Rename a damaged database, so that ReFrame begins a new one, and return the new path.

    SQLite's journals are renamed with it: they would be applied to the new one.

    :returns: None where it is not damaged after all, once no process writes to it.
    :raises DatabaseError: another process writes to it.
    :raises OSError: it cannot be renamed.
    """
    with _nobody_writing(path, alone=True):
        try:
            _stored(path, 0.0, lambda sessions: sum(1 for _ in sessions))
            return None
        except sqlite3.OperationalError as error:
            raise DatabaseError(f"{path} is locked by another process: it stays where it is") from error
        except sqlite3.DatabaseError:
            pass
        now = datetime.datetime.now().strftime("%Y%m%dT%H%M%S")
        aside = path.with_name(f"{path.name}.damaged-{now}")
        # The journals first: even if this is interrupted, none is left for a new database.
        for ending in (*JOURNALS, ""):
            with contextlib.suppress(FileNotFoundError):
                os.replace(path.with_name(path.name + ending), aside.with_name(aside.name + ending))
        return aside


def _stored(
    path: Path, since: float, make: Callable[[Iterator[StoredSession]], Made], damaged: bool = False
) -> Stored[Made]:
    # Never create it; SQLite itself opens a file that is not writable for reading.
    name = f"file:{urllib.parse.quote(str(path.absolute()))}?mode=rw"
    with contextlib.closing(sqlite3.connect(name, uri=True, timeout=BUSY)) as database:
        if damaged:
            # Without this, SQLite reads nothing of a truncated file.
            database.execute("PRAGMA writable_schema = ON")
        _check_schema(database, path)
        problems: list[str] = []
        damage: list[str] = []
        made = make(_sessions(database, path, since, problems, damage))
        return Stored(made, (*problems, *damage), tuple(damage))


def _check_schema(database: sqlite3.Connection, path: Path) -> None:
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        raise DatabaseError(f"the results database {path} is empty, and ReFrame would not fill it: remove it")
    if not {"metadata", "sessions"} <= tables:
        raise DatabaseError(f"{path} is no results database of ReFrame's (tables: {', '.join(sorted(tables))})")
    versions = [version for (version,) in database.execute("SELECT schema_version FROM metadata")]
    # None yet: ReFrame is just making the database.
    if versions and versions[0] != SCHEMA:
        raise DatabaseError(
            f"the results database {path} has schema version {versions[0]}, not {SCHEMA}: another version of ReFrame "
            "wrote it. Use the library that goes with it, or name another file (storage, sqlite_db_file)"
        )


def _sessions(
    database: sqlite3.Connection, path: Path, since: float, problems: list[str], damage: list[str]
) -> Iterator[StoredSession]:
    """Yield the sessions, one by one, and append what is wrong with others to ``problems`` or ``damage``."""
    latest = 0.0
    for row, uuid, began, ended in _listed(database, path, damage):
        if (ended or 0.0) < latest - TOGETHER:
            problems.append(
                f"session {uuid} in {path} was stored after one that ended later, by the clock: was it put back? "
                "Nights are kept in the order in which they were stored"
            )
        latest = max(latest, ended or 0.0)
        if (began or 0.0) < since:
            continue
        try:
            # One query each, so that no writer waits for all of them, and a damaged session does not affect others.
            blob = database.execute("SELECT json_blob FROM sessions WHERE rowid = ?", (row,)).fetchone()
            session = _session(blob[0]) if blob else None
        except (ValueError, sqlite3.DatabaseError) as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            damage.append(f"session {uuid} in {path} is damaged, and left out: {error}")
            continue
        try:
            for case in session.testcases if session else ():
                require_readable(case.get("results") or ())
        except RowError as error:
            damage.append(f"session {uuid} in {path} is left out: {error}")
            continue
        # None: another process has just deleted it.
        if session is not None:
            yield session


def _listed(database: sqlite3.Connection, path: Path, damage: list[str]) -> Iterator[tuple[int, str, float, float]]:
    """Return rowid, name, begin and end of all sessions that can be read."""
    query = "SELECT rowid, uuid, session_start_unix, session_end_unix FROM sessions ORDER BY rowid"
    listed: list[tuple[int, str, float, float]] = []
    try:
        for row in database.execute(query):
            listed.append(row)
    except sqlite3.DatabaseError as error:
        if not listed:
            raise
        damage.append(f"{path} is damaged: no session after the first {len(listed)} can be read ({error})")
    return iter(listed)


def _session(text: str) -> StoredSession:
    """Return a session from its JSON text.

    :raises ValueError: it is no session.
    """
    report = json.loads(text)
    try:
        info = report["session_info"]
        testcases = tuple(case for run in report["runs"] for case in run["testcases"])
        if not isinstance(info, dict) or not all(case.keys() >= NEEDED for case in testcases):
            raise TypeError
    except (KeyError, TypeError, AttributeError):
        raise ValueError("it is JSON, and no report of ReFrame's") from None
    return StoredSession(info, testcases)
