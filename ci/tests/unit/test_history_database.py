"""Reading ReFrame's results database, with real files: whatever was written is there, and what is not is told."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest
from containercheck.results import database
from containercheck.results.database import Damaged, DatabaseError
from made_nights import DAY, NOON, raw, report, row
from reframe.core.runtime import runtime
from reframe.frontend.reporting.storage import StorageBackend

#: Writes to a database, and dies before it is done, so that SQLite's own files stay beside it.
DIES = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = " + sys.argv[2])
# So little memory that pages get to the file before the end of the transaction.
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN")
for number in range(200):
    connection.execute("UPDATE sessions SET json_blob = ? || json_blob", ("x" * 1000,))
os._exit(9)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results.db"


@pytest.fixture
def store(path):
    """Store a report as ReFrame does."""

    def of(*cases, **more):
        runtime().site_config.add_sticky_option("storage/sqlite_db_file", str(path))
        return StorageBackend.default().store(report(*(cases or [raw(row())]), **more))

    return of


def stored(path, since=0.0):
    """Return the names of the sessions' first test cases."""
    return [session.testcases[0]["name"].split()[0] for session in database.read(path, since)]


def altered(path, statement, *values):
    with sqlite3.connect(path) as connection:
        connection.execute(statement, values)
    connection.close()


def test_a_period_and_a_brace_on_the_command_line(path, store):
    """With a brace ReFrame's own queries fail: they are not used."""
    store(raw(name="Old"), began=NOON)
    store(raw(name="New"), began=NOON + DAY, cmdline="reframe -r -S 'x={a}' -E 'name == \"}\"'")
    assert stored(path) == ["Old", "New"]
    assert stored(path, since=NOON + 1) == ["New"]


def test_what_a_killed_writer_left_half_done_is_taken_back(path, store):
    for name in ("First", "Second"):
        store(raw(row(), name=name, notes=["n" * 5000]))
    before = path.read_bytes()
    subprocess.run([sys.executable, "-c", DIES, str(path), "DELETE"])
    journal = path.with_name("results.db-journal")
    assert journal.exists()
    assert path.read_bytes() != before
    assert stored(path) == ["First", "Second"]
    assert not journal.exists()


def test_a_session_that_is_no_json_is_named_and_the_others_are_read(path, store, capsys):
    idents = [store(raw(name=name)) for name in ("First", "Second", "Third", "Fourth")]
    altered(path, "UPDATE sessions SET json_blob = substr(json_blob, 1, 100) WHERE uuid = ?", idents[1])
    altered(path, "UPDATE sessions SET json_blob = '{\"runs\": [1]}' WHERE uuid = ?", idents[2])
    assert stored(path) == ["First", "Fourth"]
    problems = capsys.readouterr().err.splitlines()
    assert len(problems) == 2
    for problem, ident in zip(problems, idents[1:]):
        assert problem.startswith(f"session {ident} in {path} is left out: ")


def test_a_file_that_was_cut_is_damaged(path, store):
    for number in range(20):
        store(raw(row(), name=f"Check{number}", notes=["n" * 20000]))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Damaged, match=rf"cannot read the results database {path} \(.*\): sqlite3 .* .recover prints"):
        stored(path)


def test_what_is_no_database_of_reframe_is_told_and_stays_as_it_is(path):
    with pytest.raises(DatabaseError, match=rf"there is no results database {path}: containercheck run or"):
        stored(path)
    assert not path.exists()
    for content, why in (
        (b"", r"no such table: sessions\): .*not a database of ReFrame"),
        (b"no database at all\n" * 100, "file is not a database"),
    ):
        path.write_bytes(content)
        with pytest.raises(DatabaseError, match=why):
            stored(path)
        assert path.read_bytes() == content
    path.unlink()
    path.mkdir()
    with pytest.raises(DatabaseError, match=rf"cannot read the results database {path} \(unable to open"):
        stored(path)


def test_a_lock_that_stays_is_told(path, store, monkeypatch):
    store()
    monkeypatch.setattr(database, "BUSY", 0.2)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DatabaseError, match=rf"{path} \(database is locked\): another process may hold it"):
        stored(path)
    writer.execute("ROLLBACK")
    writer.close()
    assert stored(path) == ["Fine"]


def test_a_file_that_nobody_may_write_to_is_read(path, store):
    store()
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        assert stored(path) == ["Fine"]
    finally:
        path.parent.chmod(0o755)


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_journal_goes_with_the_damaged_database(mode, path, store):
    """Of a writer that was killed: SQLite would apply it to the new database of that name."""
    store(raw(row(), name="First"))
    subprocess.run([sys.executable, "-c", DIES, str(path), mode], check=False)
    left = {file.name.rpartition("-")[2] for file in path.parent.glob("results.db-*")}
    assert left == ({"journal"} if mode == "DELETE" else {"wal", "shm"})
    path.write_bytes(b"no database at all" * 1000)
    aside = database.set_aside(path)
    assert aside.exists() and not list(path.parent.glob("results.db-*"))
    store(raw(row(), name="Second"))
    assert stored(path) == ["Second"]
