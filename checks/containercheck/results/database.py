"""ReFrame's results database, read by sqlite3 and json, a session at a time.

ReFrame 4.10 finds sessions in it with a regular expression that ends at the first ``}``. One session with such a
character on its command line, and none of its queries works any more. Here only that is left out which is damaged. Who
keeps little of each session (``make`` of :func:`read`) never has all of them in memory.
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

#: Version of the tables that this reads: that of ReFrame 4.10.
SCHEMA = "1.0"
#: Seconds to wait while somebody writes.
BUSY = 60.0
#: The file beside it that ReFrame locks, and what SQLite keeps beside it of a writer that was killed.
LOCK, JOURNALS = ".db.lock", ("-journal", "-wal", "-shm")
#: Seconds in which nobody may have written to it, where it cannot be locked.
STILL = 5.0
#: What a test case must say, to be one.
NEEDED = {"name", "result", "partition", "environ", "unique_name"}
#: What to do with a damaged database.
SAVING = "move it away, and the next session begins another one; sqlite3 {} .recover prints what can be saved"
#: Seconds by which sessions that end together may be stored in another order.
TOGETHER = 60.0


class DatabaseError(Exception):
    """The database cannot be read; the message says in one line what is wrong, where, and what to do."""


class Damaged(DatabaseError):
    """The file is no database any more."""


@dataclass(frozen=True)
class StoredSession:
    """A run of reframe.

    :ivar info: ReFrame's ``session_info``, with what ``--session-extras`` added.
    :ivar testcases: as ReFrame wrote them, of all its runs, in their order.
    """

    info: Mapping[str, Any]
    testcases: tuple[Mapping[str, Any], ...]

    @property
    def began(self) -> float:
        """Seconds of the epoch; 0 where it does not say."""
        return self.info.get("time_start_unix") or 0.0


#: What is made of the sessions: themselves, or nights.
Made = TypeVar("Made")


@dataclass(frozen=True)
class Stored(Generic[Made]):
    """What could be read.

    :ivar made: what was made of the sessions.
    :ivar problems: a line for each thing that could not be read, or looks wrong.
    :ivar damage: those of them that could not be read; the others do not matter to who does not ask for the order.
    :ivar is_cut: whether the file itself is damaged, so that ReFrame cannot write to it either.
    """

    made: Made
    problems: tuple[str, ...]
    damage: tuple[str, ...] = ()
    is_cut: bool = False

    @property
    def sessions(self) -> Made:
        """The sessions themselves, where nothing else was made of them."""
        return self.made


def read(path: Path, since: float = 0.0, make: Callable[[Iterator[StoredSession]], Made] = tuple) -> Stored[Made]:
    """Return the sessions of a database, or what is made of them.

    It is opened for writing, and nothing is written: so SQLite takes back what a killed writer left half done.

    :param since: seconds of the epoch: sessions that began before are left out.
    :param make: takes all sessions, in the order in which they were stored, whatever the clock said. Each is read when
        it is asked for. Where the file turns out to be damaged, it is called once more, with what can be saved.
    :raises DatabaseError: there is none, or it is not one of ReFrame's.
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
        # Where locks of a file system hold nobody off, what is half written looks damaged.
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
                f"{path} was locked by somebody who writes for more than {BUSY:g} s: try again later"
            ) from None
        raise DatabaseError(f"cannot open the results database {path} ({error}): may you read and write it?") from None
    except sqlite3.DatabaseError as error:
        raise Damaged(f"cannot read the results database {path} ({error}): {SAVING.format(path)}") from None


@contextlib.contextmanager
def _nobody_writing(path: Path, alone: bool = False) -> Iterator[None]:
    """Hold ReFrame's own lock on a database; where that cannot be had, see that nobody writes to it for a while.

    :param alone: keep those away too who only read.
    :raises DatabaseError: somebody writes to it, and goes on.
    """
    lock = fasteners.InterProcessReaderWriterLock(path.with_name(LOCK))
    acquire, release = lock.acquire_read_lock, lock.release_read_lock
    if alone:
        acquire, release = lock.acquire_write_lock, lock.release_write_lock
    try:
        # ReFrame makes the file when it makes the database, with the mode that the site wants.
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
        raise DatabaseError(f"{path} was written to by somebody for more than {BUSY:g} s: try again later")
    try:
        yield
    finally:
        if release:
            release()


def _state(path: Path) -> list[tuple[int, int]]:
    """Return what changes when somebody writes to a database."""
    paths = [path, *(path.with_name(path.name + ending) for ending in JOURNALS)]
    found = (one.stat() for one in paths if one.exists())
    return [(one.st_mtime_ns, one.st_size) for one in found]


def set_aside(path: Path) -> Path | None:
    """Keep a damaged database under another name, so that a new one is begun, and return that name.

    What SQLite keeps of a killed writer goes with it: it would be applied to the new one.

    :returns: None where it turns out that it is not damaged, once nobody writes to it.
    :raises DatabaseError: somebody writes to it.
    :raises OSError: it cannot be renamed.
    """
    with _nobody_writing(path, alone=True):
        try:
            _stored(path, 0.0, lambda sessions: sum(1 for _ in sessions))
            return None
        except sqlite3.OperationalError as error:
            raise DatabaseError(f"{path} is locked by somebody who writes: it stays where it is") from error
        except sqlite3.DatabaseError:
            pass
        now = datetime.datetime.now().strftime("%Y%m%dT%H%M%S")
        aside = path.with_name(f"{path.name}.damaged-{now}")
        # The journal first: whatever happens in between, none is left for a new database.
        for ending in (*JOURNALS, ""):
            with contextlib.suppress(FileNotFoundError):
                os.replace(path.with_name(path.name + ending), aside.with_name(aside.name + ending))
        return aside


def _stored(
    path: Path, since: float, make: Callable[[Iterator[StoredSession]], Made], damaged: bool = False
) -> Stored[Made]:
    # Without creating it; a file that nobody may write to is opened for reading, by SQLite itself.
    name = f"file:{urllib.parse.quote(str(path.absolute()))}?mode=rw"
    with contextlib.closing(sqlite3.connect(name, uri=True, timeout=BUSY)) as database:
        if damaged:
            # Of a file that is cut off SQLite reads nothing, unless it is told that it is to be mended.
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
    # None: ReFrame is just making it.
    if versions and versions[0] != SCHEMA:
        raise DatabaseError(
            f"the results database {path} has schema version {versions[0]}, not {SCHEMA}: another version of ReFrame "
            "wrote it. Use the library that goes with it, or name another file (storage, sqlite_db_file)"
        )


def _sessions(
    database: sqlite3.Connection, path: Path, since: float, problems: list[str], damage: list[str]
) -> Iterator[StoredSession]:
    """Yield the sessions, one by one, and add what is wrong with the others to the problems or the damage."""
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
            # Each by itself, so that no writer waits for all of them, and what is damaged takes nothing else along.
            found = database.execute("SELECT json_blob FROM sessions WHERE rowid = ?", (row,)).fetchone()
            session = _session(found[0]) if found else None
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
        # None: somebody has just deleted it.
        if session is not None:
            yield session


def _listed(database: sqlite3.Connection, path: Path, damage: list[str]) -> Iterator[tuple[int, str, float, float]]:
    """Return row, name, begin and end of the sessions; as many as can be read."""
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
    """Read a session.

    :raises ValueError: it is none.
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
