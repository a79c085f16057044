"""Nights from the database to their causes, as ci/nightly and the report use them."""

from __future__ import annotations

import numpy as np
import pytest
from containercheck.command import nightly
from containercheck.history.causes import causes
from containercheck.history.change_points import LevelChange, standing
from containercheck.history.nights import nights
from containercheck.history.series import OVERHEAD, series
from made_nights import DAY, NOON, confirming, raw, row, session

OLD, NEW = ({"runtimes": {"subject": {"version": f"apptainer version 1.{n}"}}} for n in (3, 4))


def cases(number, applications, overheads=None, bare=1.0):
    """Return the container cases of a night.

    :param overheads: by application, more than it has of its own; another runtime where there is any.
    :param bare: by what the machine is faster.
    """
    draw = np.random.default_rng(1000 + number)
    overheads = overheads or {}
    made = []
    for place in range(applications):
        name = f"App{place}"
        overhead = place + 0.5 * draw.standard_normal() + overheads.get(name, 0.0)
        own = row(bare=bare * (10 + 0.05 * draw.standard_normal()), overhead=overhead, spread=0.6)
        made.append(raw(own, name=name, provenance=NEW if overheads else OLD))
    return made


def stored(count, applications=12, since=99, until=99, confirmed=True, **change):
    """Return the sessions of so many nights, with a change in some of them, which is confirmed in the first."""
    sessions = []
    for number in range(count):
        more = change if since <= number < until else {}
        facts = {"nightly": f"night {number}", "began": NOON + number * DAY}
        sessions.append(session(*cases(number, applications, **more), **facts))
        if number == since and confirmed:
            sessions.append(confirming(*cases(100 + number, applications, **more), **facts))
    return sessions


def told(sessions):
    found = standing(series(nights(sessions)))
    return [
        (change.series.kind, change.series.application, change.first.night.name, change.worse, change.confirmed)
        for change in found
    ]


@pytest.mark.parametrize("applications", [1, 12])
def test_five_clean_nights_have_no_alarm(applications):
    for count in range(1, 6):
        assert told(stored(count, applications)) == []


@pytest.mark.parametrize("applications", [1, 12])
def test_a_regression_in_the_fourth_night_is_an_alarm_in_the_fourth_and_the_fifth(applications):
    change = {"since": 3, "overheads": {"App0": 15.0}}
    assert told(stored(3, applications)) == []
    alarm = (OVERHEAD, "App0", "night 3", True)
    assert told(stored(4, applications, confirmed=False, **change)) == [(*alarm, False)]
    for count in (4, 5):
        assert told(stored(count, applications, **change)) == [(*alarm, True)]
    (cause,) = causes(standing(series(nights(stored(5, applications, **change)))))
    began = "runtime, image or MPI changed on here:one since night 3: the overhead moved (App0 "
    assert cause.sentence.startswith(began)
    assert cause.differences == ("runtime: apptainer version 1.3 -> apptainer version 1.4",)
    # What a rerun has to run.
    (change,) = cause.changes
    assert [key[-1] for key in change.series.cases] == ["App0_variant=generic_num_nodes=1"]


def test_a_slower_machine_is_one_cause_of_all_that_it_slows():
    found = standing(series(nights(stored(5, since=3, bare=0.8))))
    (cause,) = causes(found)
    assert (len(cause.changes), {change.confirmed for change in cause.changes}) == (12, {True})
    assert cause.sentence.startswith("the machine changed on here:one since night 3: bare moved (App")


def test_what_was_repaired_is_no_alarm_any_more():
    assert told(stored(6, since=3, until=4, overheads={"App0": 15.0})) == []


@pytest.mark.parametrize(
    ("size", "confirmed", "status"),
    [(10.0, True, nightly.BROKEN), (10.0, False, nightly.FINE), (-10.0, True, nightly.FINE)],
)
def test_only_a_confirmed_change_for_the_worse_is_a_regression(size, confirmed, status):
    (own,) = [metric for metric in series(nights(stored(1, 1))) if metric.kind == OVERHEAD]
    change = LevelChange(own, 0, 1.0, 1.0 + size, size, 1e-4, size > 0, confirmed)
    (night,) = nights(stored(1, 1))
    assert nightly.Result("tonight", cases=night.cases, changes=[change]).status == status
