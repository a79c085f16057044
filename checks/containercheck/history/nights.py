"""Combine sessions into nights: the last run with a measurement counts for each case."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from containercheck.results import database
from containercheck.results.cases import Case, collect
from containercheck.results.database import StoredSession

#: Keys that ci/nightly adds to its sessions (``--session-extras``): the night's name, the pass, and the changes on
#: purpose before the night.
NIGHT, PASS, CHANGED = "nightly", "nightly_pass", "changed"
#: Key for the identity of ReFrame's arguments of a night: other arguments select other cases.
ARGUMENTS = "nightly_arguments"
#: The pass that runs cases with proposed changes again, with fresh rounds.
CONFIRMATION = "confirmation"
#: Keys of a test case that are dropped for earlier nights, as they are long: rounds, scripts, ReFrame's own values.
LONG = ("measured", "prerun_cmds", "perfvalues", "compared", "causes")


@dataclass(frozen=True)
class Night:
    """The results of one night.

    :ivar name: the name that ci/nightly gave it; else the date of its start: from noon to noon, local time.
    :ivar began: seconds of the epoch at the start of its first session.
    :ivar changed: changes on purpose before it, which begin new series; empty for none.
    :ivar cases: the last run of each case, confirmations included.
    :ivar number: its place among all nights, in the order of storage.
    :ivar is_nightly: whether ci/nightly ran it. Other sessions are shown, but do not enter series, as they may have
        another input or only a few rounds.
    :ivar arguments: identity of ReFrame's arguments; empty for nights that an older library stored.
    """

    name: str
    began: float
    changed: str
    cases: tuple[Case, ...]
    number: int = 0
    is_nightly: bool = True
    arguments: str = ""


def stored(path: Path, since: float = 0.0, whole: str = "") -> list[Night]:
    """Return the nights of a database.

    :param since, whole: see :func:`database.read` and :func:`nights`.
    :raises DatabaseError: the database cannot be read.
    """
    return nights(database.read(path, since), whole)


def nights(sessions: Iterable[StoredSession], whole: str = "") -> list[Night]:
    """Return the nights, in the order in which their first sessions were stored.

    Sessions that compare runtimes or images (ci/acceptance) do not belong to a night. The last night is complete. A
    hundred nights of a large site are gigabytes of JSON, so only one session at a time is in memory as a whole.

    :param sessions: sessions in the order of storage; read once.
    :param whole: name of another night to keep complete.
    """
    by_name: dict[str, list[StoredSession]] = {}
    provenances: dict[str, Any] = {}
    last = ""
    for session in sessions:
        if session.testcases and not _not_comparing(session):
            continue
        name = name_of(session)
        if name not in by_name:
            if last not in ("", whole):
                by_name[last] = [_reduced(earlier, provenances) for earlier in by_name[last]]
            last = name
        by_name.setdefault(name, []).append(session if name in (last, whole) else _reduced(session, provenances))
    return [_night(name, group, number) for number, (name, group) in enumerate(by_name.items())]


def expected(known: Iterable[Night], arguments: str, changed: str) -> list[Case]:
    """Return the cases that a night has to measure again: the cases of all nights since the last change on purpose.

    :param known: earlier nights.
    :param arguments: identity of the night's arguments; nights with other arguments do not count.
    :param changed: changes on purpose before the night: with any, only the last night counts.
    """
    own = [night for night in known if night.is_nightly and night.arguments == arguments]
    changes = [place for place, night in enumerate(own) if night.changed]
    since = -1 if changed else max(changes, default=0)
    return [case for night in own[since:] for case in night.cases]


def name_of(session: StoredSession) -> str:
    """Return the name of a session's night."""
    noon_before = datetime.fromtimestamp(session.began) - timedelta(hours=12)
    return str(session.info.get(NIGHT) or noon_before.date())


def _reduced(session: StoredSession, provenances: dict[str, Any]) -> StoredSession:
    """Return a session without skipped cases, and without the long parts of the others.

    :param provenances: all provenances so far, by their text, as most nights share them; new ones are added.
    """
    cases = []
    for raw in session.testcases:
        if raw["result"] != "skip":
            provenance = raw.get("provenance") or {}
            shared = provenances.setdefault(json.dumps(provenance, sort_keys=True), provenance)
            rest = {name: value for name, value in raw.items() if name not in LONG}
            cases.append({**rest, "provenance": shared})
    return StoredSession(session.info, tuple(cases))


def _night(name: str, sessions: list[StoredSession], number: int) -> Night:
    reports = [{"session_info": session.info, "runs": [{"testcases": _not_comparing(session)}]} for session in sessions]
    cases = tuple(collect(reports))
    return Night(
        name,
        min(session.began for session in sessions),
        "; ".join(dict.fromkeys(str(session.info[CHANGED]) for session in sessions if session.info.get(CHANGED))),
        cases,
        number,
        any(session.info.get(NIGHT) for session in sessions),
        next((session.info[ARGUMENTS] for session in sessions if session.info.get(ARGUMENTS)), ""),
    )


def _not_comparing(session: StoredSession) -> list[Mapping[str, Any]]:
    """Return the test cases that do not compare runtimes or images, with their pass."""
    nightly_pass, compared = session.info.get(PASS, ""), ("runtimes", "compared_images", "ready_image")
    return [{**raw, PASS: nightly_pass} for raw in session.testcases if not any(map(raw.get, compared))]
