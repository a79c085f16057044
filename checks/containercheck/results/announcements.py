"""Rows that a check tells its session as soon as it has them: ReFrame writes its report when all checks have ended."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Variable of ReFrame's environment that names the file; without it nothing is told.
FILE = "CONTAINERCHECK_ROWS"


def announce(case: str, rows: Sequence[Any]) -> None:
    """Tell the rows of a case, as they are stored.

    :param case: as :func:`named` returns it.
    """
    path = os.environ.get(FILE)
    if path:
        # In one write, which an appended line is told by. The session's file is a convenience: its loss fails nothing.
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"case": case, "rows": rows}) + "\n")
        except OSError:
            return


def named(hashcode: str, partition: str, environ: str) -> str:
    """Return how ReFrame calls a case in what it prints.

    :param partition: with the name of the system.
    """
    return f"/{hashcode} @{partition}+{environ}"


def told(path: Path, case: str) -> list[Any]:
    """Return the rows that a case told last; none where it told nothing."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    for line in reversed(lines):
        # On a full disk a line is cut.
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if entry["case"] == case:
                return entry["rows"]
    return []
