"""A program that is killed while it writes into a database of results."""

from __future__ import annotations

KILLED = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
# So little memory that pages get to the file before the end of the transaction.
connection.execute("PRAGMA cache_size = 1")
connection.execute("PRAGMA cache_spill = 1")
connection.execute("BEGIN")
for number in range(200):
    connection.execute("UPDATE sessions SET json_blob = ? || json_blob", ("x" * 1000,))
print("ready", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
