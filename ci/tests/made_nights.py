"""Made sessions, nights and series: what ReFrame would have stored, without running anything."""

from __future__ import annotations

import random
import uuid
from datetime import datetime

import numpy as np
from containercheck.history.nights import CONFIRMATION, NIGHT, PASS, Night
from containercheck.history.series import BARE, LEAST, OVERHEAD, Point, Series
from containercheck.results.database import StoredSession

#: Noon of a day; nights go from noon to noon.
NOON = datetime(2026, 3, 2, 12).timestamp()
DAY = 86400.0


def row(metric="rate", bare=10.0, overhead=1.0, **more):
    """Return a row of the results: of a comparison, or of a bare run where the overhead is None."""
    made = {"metric": metric, "unit": "x", "better": "higher", "baseline": bare, "baseline_label": "bare"}
    if overhead is not None:
        made.update(subject=bare * (1 - overhead / 100), subject_label="generic", overhead=overhead, overhead_unit="%")
        made.update(accepted=[None, 5.0], verdict="pass", rounds=4, spread=2.0, baseline_error=0.1)
    return {**made, **more}


def raw(*rows, name="Fine", variant="generic", nodes=1, axes="", partition="one", **more):
    """Return a test case as ReFrame writes it."""
    full = f"{name} %variant={variant} %num_nodes={nodes}{axes}"
    made = {"name": full, "unique_name": full.replace(" %", "_"), "system": "here", "partition": partition}
    made.update(environ="builtin", result="pass", variant=variant, num_nodes=nodes, results=list(rows))
    made.update(expected={"ranks": 2, "amount": 5}, provenance={}, fixture=False)
    made.update(measured=[{}], job_completion_time_unix=NOON)
    return {**made, **more}


def session(*cases, began=NOON, **extras):
    """Return a session of these test cases, of a night from noon to noon where the extras name no other one."""
    info = {"uuid": str(uuid.uuid4()), "time_start_unix": began, NIGHT: str(int((began - NOON) // DAY)), **extras}
    return StoredSession(info, cases)


def confirming(*cases, **more):
    """Return a session that confirms."""
    return session(*cases, **{PASS: CONFIRMATION}, **more)


def report(*cases, began=NOON, ended=None, cmdline="reframe -r"):
    """Return a report of ReFrame's, to be stored."""
    ident = str(uuid.uuid4())
    info = {"uuid": ident, "cmdline": cmdline, "time_start_unix": began, "time_end_unix": ended or began + 60}
    told = [{**case, "uuid": f"{ident}:0:{number}"} for number, case in enumerate(cases)]
    return {"session_info": info, "runs": [{"testcases": told}], "restored_cases": []}


def night(number, changed=""):
    """Return a night without cases."""
    return Night(f"night {number}", NOON + number * DAY, changed, (), number)


def made_series(values, errors=None, kind=OVERHEAD, metric="rate", again=None, better="higher", **more):
    """Return a series with these values, one a night.

    :param errors: a standard error for all of them, one for each, or none.
    :param again: what confirmations said, by night.
    :param more: other facts of the series; ``provenance`` is a function of the night.
    """
    again = again or {}
    provenance = more.pop("provenance", lambda number: {})
    points = []
    for number, value in enumerate(values):
        if value is None:
            continue
        first = float(value) if number in again else None
        own = float(again.get(number, value))
        error = errors[number] if isinstance(errors, list) else errors
        points.append(Point(night(number), own, error, number in again, provenance(number), first))
    facts = {"system": "here", "partition": "one", "environ": "builtin", "application": "Fine", "nodes": 1, "axes": {}}
    facts.update(variant="" if kind == BARE else "generic", label="Fine", unit="x" if kind == BARE else "%")
    facts.update({"least": LEAST, **more})
    return Series(kind=kind, metric=metric, better=better, points=tuple(points), **facts)


def noisy_series(count, nights, spread=1.0, seed=0, **more):
    """Return series of normal nights, whose spread is in the unit of the values."""
    draw = np.random.default_rng(seed)
    values = spread * draw.standard_normal((count, nights))
    return [made_series(own, spread / 2, metric=f"metric{number}", **more) for number, own in enumerate(values)]


def shuffled(sequence, seed=0):
    """Return them in another order."""
    return random.Random(seed).sample(sequence, len(sequence))
