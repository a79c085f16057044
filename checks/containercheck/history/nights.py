"""Sessions as nights: of each case the last run of a night that says something."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from containercheck.results.cases import Case, Key, collect
from containercheck.results.database import StoredSession
from containercheck.results.row import VERSION

#: What ci/nightly says of its sessions (``--session-extras``): the night's name, which pass of it they are, and what
#: was changed on purpose before it.
NIGHT, PASS, CHANGED = "nightly", "nightly_pass", "changed"
#: The pass that runs again what is proposed as a change, with fresh rounds.
CONFIRMATION = "confirmation"
#: What is kept of an earlier night: of a session; of a test case, what tells it from others, and how it ended; of what
#: it was expected to take, what its values depend on; and of a figure, what becomes a point.
OF_SESSION = (NIGHT, PASS, CHANGED, "time_start_unix")
OF_CASE = (
    "system",
    "partition",
    "environ",
    "name",
    "display_name",
    "unique_name",
    "fixture",
    "variant",
    "num_nodes",
    "result",
    "fail_phase",
    "runtimes",
    "compared_images",
)
OF_WORK = ("ranks", "amount")
OF_FIGURE = (
    VERSION,
    "figure",
    "unit",
    "better",
    "baseline_label",
    "baseline",
    "baseline_error",
    "subject_label",
    "subject",
    "overhead",
    "overhead_unit",
    "accepted",
    "spread",
    "rounds",
    "emulated",
    "duet",
)


@dataclass(frozen=True)
class Night:
    """What one night measured.

    :ivar name: as ci/nightly named it; else the date on which it began: from noon to noon, of this machine's time.
    :ivar began: seconds of the epoch at which its first session began.
    :ivar changed: what was changed on purpose before it, so that series begin anew; empty for nothing.
    :ivar cases: the last run of each, confirmations included.
    :ivar confirmed: the cases of which that is a confirmation.
    :ivar number: its place among all nights, in the order in which they were stored.
    :ivar is_nightly: whether ci/nightly ran it. Other sessions are shown, and are part of no series: somebody may have
        run them with another input, or a few rounds only.
    """

    name: str
    began: float
    changed: str
    cases: tuple[Case, ...]
    confirmed: frozenset[Key]
    number: int = 0
    is_nightly: bool = True


def nights(sessions: Iterable[StoredSession], whole: str = "") -> list[Night]:
    """Return the nights, in the order in which their first sessions were stored.

    A session that compares runtimes or images (ci/acceptance) is none of a night's. The last night has all that was
    stored of it; earlier ones have what series are made of, without what was skipped: a hundred nights of a large site
    are gigabytes of JSON, of which a session at a time is in memory.

    :param sessions: in the order in which they were stored; read once.
    :param whole: name of another night that has all.
    """
    found: dict[str, list[StoredSession]] = {}
    provenances: dict[str, Any] = {}
    last = ""
    for session in sessions:
        if session.testcases and not _told(session):
            continue
        name = name_of(session)
        if name not in found:
            if last not in ("", whole):
                found[last] = [_lasting(one, provenances) for one in found[last]]
            last = name
        found.setdefault(name, []).append(session if name in (last, whole) else _lasting(session, provenances))
    return [_night(name, own, number) for number, (name, own) in enumerate(found.items())]


def name_of(session: StoredSession) -> str:
    """Return the name of the night that a session belongs to."""
    noon_before = datetime.fromtimestamp(session.began) - timedelta(hours=12)
    return str(session.info.get(NIGHT) or noon_before.date())


def _lasting(session: StoredSession, provenances: dict[str, Any]) -> StoredSession:
    """Return what is kept of a session of an earlier night.

    :param provenances: those that there are so far, by their text: most nights have the same ones.
    """
    told = (raw for raw in session.testcases if raw["result"] != "skip")
    return StoredSession(_only(session.info, OF_SESSION), tuple(_lasting_case(raw, provenances) for raw in told))


def _lasting_case(raw: Mapping[str, Any], provenances: dict[str, Any]) -> dict[str, Any]:
    provenance = raw.get("provenance") or {}
    return {
        **_only(raw, OF_CASE),
        "fail_info": {"exc_type": (raw.get("fail_info") or {}).get("exc_type")},
        "expected": _only(raw.get("expected") or {}, OF_WORK),
        "results": [_only(row, OF_FIGURE) for row in raw.get("results") or ()],
        "provenance": provenances.setdefault(json.dumps(provenance, sort_keys=True), provenance),
    }


def _only(facts: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: facts[name] for name in names if name in facts}


def _night(name: str, sessions: list[StoredSession], number: int) -> Night:
    reports = [{"session_info": one.info, "runs": [{"testcases": _told(one)}]} for one in sessions]
    cases = tuple(collect(reports))
    return Night(
        name,
        min(session.began for session in sessions),
        "; ".join(dict.fromkeys(str(one.info[CHANGED]) for one in sessions if one.info.get(CHANGED))),
        cases,
        frozenset(case.key for case in cases if case.nightly_pass == CONFIRMATION),
        number,
        any(session.info.get(NIGHT) for session in sessions),
    )


def _told(session: StoredSession) -> list[Mapping[str, Any]]:
    which, compared = session.info.get(PASS, ""), ("runtimes", "compared_images")
    return [{**raw, PASS: which} for raw in session.testcases if not any(map(raw.get, compared))]
