"""The file with the known spreads of rounds for the checks of a session, from earlier nights and from this session."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from containercheck.history import spreads
from containercheck.results import database
from containercheck.session import reframe_process
from containercheck.session.reframe_process import Workplace
from containercheck.session.usage import UsageError

#: Days of the database that are read: machines change.
DAYS = 90


class KnownSpreads:
    """The known spreads of one session, in a file.

    :param arguments: arguments for ReFrame, which may set its database.
    """

    def __init__(self, arguments: Sequence[str], place: Workplace) -> None:
        """Read nothing yet."""
        self._arguments, self._place = arguments, place
        self._nights: spreads.Known | None = None

    def options(self, report: Mapping[str, Any]) -> list[str]:
        """Write the file anew, and return ReFrame's options that name it; none without known spreads.

        :param report: the session's report so far; empty before its first pass.
        """
        if self._nights is None:
            self._nights = self._read()
        cases = [case for run in report.get("runs", ()) for case in run["testcases"]]
        known = spreads.merged(spreads.kept(cases), spreads.merged(self._nights, spreads.from_variants(cases)))
        if not known:
            return []
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(known, indent=1))
        return ["-S", f"known_spreads={self._path}"]

    @property
    def _path(self) -> Path:
        return self._place.reports / "known-spreads.json"

    def _read(self) -> spreads.Known:
        """Return the spreads of the nights; nothing without nights, or if they cannot be read, which others report."""
        try:
            path = reframe_process.configuration(self._arguments, self._place).database
            since = time.time() - 86400 * DAYS
            return database.read(path, since, spreads.from_nights).made if path.exists() else {}
        except (database.DatabaseError, reframe_process.ReframeFailed, UsageError):
            return {}
