"""Sessions as nights: of each case the last run of a night that says something."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from report.cases import Case, Key, collect

from history.database import StoredSession

#: What ci/nightly says of its sessions (``--session-extras``): the night's name, which pass of it they are, and what
#: was changed on purpose before it.
NIGHT, PASS, CHANGED = "nightly", "nightly_pass", "changed"
#: The pass that runs again what is proposed as a change, with fresh rounds.
CONFIRMATION = "confirmation"


@dataclass(frozen=True)
class Night:
    """What one night measured.

    :ivar name: as ci/nightly named it; else the date on which it began: from noon to noon, of this machine's time.
    :ivar began: seconds of the epoch at which its first session began.
    :ivar changed: what was changed on purpose before it, so that series begin anew; empty for nothing.
    :ivar cases: the last run of each, confirmations included.
    :ivar confirmed: the cases of which that is a confirmation.
    :ivar number: its place among all nights, in the order in which they were stored.
    """

    name: str
    began: float
    changed: str
    cases: tuple[Case, ...]
    confirmed: frozenset[Key]
    number: int = 0


def nights(sessions: Iterable[StoredSession]) -> list[Night]:
    """Return the nights, in the order in which their first sessions were stored.

    A session that compares runtimes or images (ci/acceptance) is none of a night's.
    """
    found: dict[str, list[StoredSession]] = {}
    for session in sessions:
        if session.testcases and not _told(session):
            continue
        found.setdefault(name_of(session), []).append(session)
    return [_night(name, own, number) for number, (name, own) in enumerate(found.items())]


def name_of(session: StoredSession) -> str:
    """Return the name of the night that a session belongs to."""
    noon_before = datetime.fromtimestamp(session.began) - timedelta(hours=12)
    return str(session.info.get(NIGHT) or noon_before.date())


def _night(name: str, sessions: list[StoredSession], number: int) -> Night:
    reports = [{"runs": [{"testcases": _told(session)}]} for session in sessions]
    cases = tuple(collect(reports))
    return Night(
        name,
        min(session.began for session in sessions),
        "; ".join(dict.fromkeys(str(one.info[CHANGED]) for one in sessions if one.info.get(CHANGED))),
        cases,
        frozenset(case.key for case in cases if case.nightly_pass == CONFIRMATION),
        number,
    )


def _told(session: StoredSession) -> list[Mapping[str, Any]]:
    which, compared = session.info.get(PASS, ""), ("runtimes", "compared_images")
    return [{**raw, PASS: which} for raw in session.testcases if not any(map(raw.get, compared))]
