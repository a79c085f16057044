"""Sessions as nights, and nights as series: which runs count, and what a series is broken by."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime

import pytest
from containercheck.history.nights import ARGUMENTS, expected, nights
from containercheck.history.series import BARE, LEAST, OVERHEAD, series
from containercheck.results import selections
from made_nights import DAY, NOON, confirming, raw, row, session


def of(sessions, kind=OVERHEAD):
    """Return the only series of a kind that there is."""
    (found,) = [metric for metric in series(nights(sessions)) if metric.kind == kind]
    return found


def values(metric):
    return [point.value for point in metric.points]


def test_a_retry_in_the_same_night_replaces():
    first = session(raw(row(overhead=9.0), result="fail"), began=NOON + 3600)
    second = session(raw(row(overhead=1.0)), began=NOON + 7200)
    (night,) = nights([first, second])
    (case,) = night.cases
    assert (case.result, [run.result for run in case.earlier]) == ("pass", ["fail"])
    assert values(of([first, second])) == [1.0]
    assert values(of([second, first])) == [9.0]


def test_nights_go_from_noon_to_noon_and_ci_nightly_has_its_own_names():
    hours = (-1, 1, 23, 25)
    found = nights([session(raw(row()), began=NOON + 3600 * hour, nightly="") for hour in hours])
    day = datetime.fromtimestamp(NOON).date().isoformat()
    assert [night.name for night in found][1] == day
    assert [night.began for night in found] == [NOON - 3600, NOON + 3600, NOON + 25 * 3600]
    named = [session(raw(row()), began=NOON + number * DAY, nightly="tonight") for number in range(3)]
    (night,) = nights(named)
    assert (night.name, night.began) == ("tonight", NOON)
    # They stand in the order of storing, whatever the clock was.
    found = nights([session(raw(row()), began=NOON + DAY), session(raw(row()), began=NOON)])
    assert [(night.began, night.number) for night in found] == [(NOON + DAY, 0), (NOON, 1)]


def test_what_somebody_runs_between_nights_is_shown_and_makes_no_series():
    """A larger input at noon would begin the series anew, and a standing alarm would be gone."""
    slow = [raw(row(overhead=value)) for value in (1.0, 1.2, 8.0)]
    every = [session(case, began=NOON + number * DAY, nightly=f"n{number}") for number, case in enumerate(slow)]
    larger = raw(row(overhead=2.0), expected={"ranks": 2, "amount": 10})
    found = nights([*every[:2], session(larger, began=NOON + 2 * DAY - 60, nightly=""), every[2]])
    assert [night.is_nightly for night in found] == [True, True, False, True]
    (metric,) = [metric for metric in series(found) if metric.kind == OVERHEAD]
    assert (values(metric), metric.earlier) == ([1.0, 1.2, 8.0], ())
    # The same where it comes last: the page shows it, and what stands still stands.
    found = nights([*every, session(larger, began=NOON + 3 * DAY, nightly="")])
    assert values(next(metric for metric in series(found) if metric.kind == OVERHEAD)) == [1.0, 1.2, 8.0]
    assert (found[-1].is_nightly, found[-1].cases[0].expected["amount"]) == (False, 10)


def test_acceptance_of_a_runtime_is_no_night():
    other = raw(row(overhead=9.0, subject_label="new"), runtimes={"old": "a", "new": "b"})
    assert nights([session(other)]) == []
    assert values(of([session(raw(row())), session(other)])) == [1.0]


def test_a_confirmation_counts_and_what_it_confirms_is_kept():
    first = session(raw(row(overhead=7.0, bare=11.0)))
    found = nights([first, confirming(raw(row(overhead=3.0, bare=12.0)))])
    for metric, value, before in zip(series(found), (3.0, 12.0), (7.0, 11.0)):
        (point,) = metric.points
        assert (point.value, point.unconfirmed, point.confirmation) == (value, before, True)
    assert of([first]).points[0].unconfirmed is None


def test_an_error_comes_from_the_rounds():
    assert of([session(raw(row(spread=3.0, rounds=9)))]).points[0].error == pytest.approx(1.0)
    assert of([session(raw(row(spread=None, rounds=1)))]).points[0].error is None
    assert of([session(raw(row(baseline_error=0.5)))], BARE).points[0].error == 0.5
    alone = row(overhead=None)
    assert of([session(raw(alone, variant="bare"))], BARE).points[0].error is None


def test_bare_is_what_container_cases_measured_beside_theirs():
    own = raw(row(overhead=None, bare=20.0), variant="bare")
    contained = [
        raw(row(bare=bare, subject_label=variant), variant=variant)
        for bare, variant in ((9.0, "integrated"), (10.0, "generic"))
    ]
    found = of([session(own, *contained)], BARE)
    assert values(found) == [9.5]
    assert found.points[0].error == pytest.approx(0.1 / math.sqrt(2))
    assert [key[-1] for key in found.cases] == [case["unique_name"] for case in contained]
    assert values(of([session(own)], BARE)) == [20.0]
    # Where one of two is confirmed, bare is of that one.
    (point,) = of([session(*contained), confirming(raw(row(bare=13.0), variant="generic"))], BARE).points
    assert (point.value, point.unconfirmed, point.confirmation) == (13.0, 9.5, True)


def test_each_case_has_a_series_whatever_the_order_of_its_axes():
    others = [{}, {"axes": " %size=2"}, {"nodes": 2}, {"partition": "two"}, {"environ": "gnu"}, {"name": "Other"}]
    cases = [raw(row(), **other) for other in others]
    assert len([metric for metric in series(nights([session(*cases)])) if metric.kind == OVERHEAD]) == len(others)
    orders = (" %size=2 %kind=a", " %kind=a %size=2")
    sessions = [session(raw(row(), axes=axes), began=NOON + number * DAY) for number, axes in enumerate(orders)]
    first, second = (night.cases[0] for night in nights(sessions))
    assert first.axes == second.axes
    assert list(first.axes) != list(second.axes)
    assert first.identity == second.identity
    found = of(sessions)
    assert len(found.points) == 2
    facts = (found.system, found.partition, found.environ, found.application, found.variant, found.nodes)
    assert (*facts, tuple(found.axes.items())) == first.identity


def test_a_night_says_the_same_once_others_follow():
    """Its points, and whether its cases failed."""
    slow = {"result": "fail", "fail_phase": "performance", "fail_info": {"exc_type": "PerformanceError"}}
    sessions, ends = [], []
    for number in range(4):
        facts = {"nightly": f"night {number}", "began": NOON + number * DAY}
        provenance = {"host": f"n{number % 2}", "runtimes": {"subject": {"version": f"1.{number}"}}}
        own = raw(row(overhead=1.0 + number, accepted=[None, 0.5], overhead_unit="s"), provenance=provenance)
        alone = raw(row(overhead=None), variant="bare", **(slow if number == 1 else {}))
        sessions.append(session(own, alone, **facts))
        if number == 2:
            sessions.append(confirming(raw(row(overhead=9.0, accepted=[None, 0.5], overhead_unit="s")), **facts))
        ends.append(len(sessions))
    of_all = nights(sessions)
    for number, end in enumerate(ends):
        own = nights(sessions[:end])
        for then, now in zip(series(own), series(of_all)):
            assert replace(then.points[-1], night=None) == replace(now.points[number], night=None)
            assert (then.label, then.least) == (now.label, now.least)
        failed = [[selections.failure(case) is not None for case in found[number].cases] for found in (own, of_all)]
        assert failed[0] == failed[1] == [False, number == 1]


@pytest.mark.parametrize(
    "change",
    [
        {"expected": {"ranks": 4, "amount": 5}},
        {"expected": {"ranks": 2, "amount": 6}},
        {"provenance": {"input": "another"}},
        {"results": [row(overhead=2.0, unit="y")]},
    ],
)
def test_another_amount_of_work_input_or_unit_breaks_a_series(change):
    sessions = [session(raw(row()), began=NOON + number * DAY) for number in range(3)]
    changed = [session({**raw(row(overhead=2.0)), **change}, began=NOON + number * DAY) for number in range(3, 5)]
    for kind in (OVERHEAD, BARE):
        found = of([*sessions, *changed], kind)
        assert (len(found.earlier), len(found.points)) == (3, 2)


def test_what_was_changed_on_purpose_breaks_all_series_even_those_not_measured_that_night():
    def night(number, *cases, **extras):
        return session(*cases, began=NOON + number * DAY, **extras)

    often, seldom = raw(row()), raw(row(), name="Seldom")
    sessions = [night(0, often, seldom), night(1, often, changed="a new image"), night(2, often, seldom)]
    assert nights(sessions)[1].changed == "a new image"
    found = {metric.application: metric for metric in series(nights(sessions)) if metric.kind == OVERHEAD}
    assert [len(found["Fine"].earlier), len(found["Fine"].points)] == [1, 2]
    assert [len(found["Seldom"].earlier), len(found["Seldom"].points)] == [1, 1]


@pytest.mark.parametrize(
    ("accepted", "unit", "least"),
    [([None, 5.0], "%", LEAST), ([None, 0.5], "s", 0.05), ([2.0, 6.0], "s", 0.4), ([None, math.inf], "s", 0.198)],
)
def test_the_least_change_of_a_difference_is_a_part_of_what_is_accepted(accepted, unit, least):
    made = row(overhead=1.0, accepted=accepted, overhead_unit=unit)
    assert of([session(raw(made))]).least == pytest.approx(least)


def test_emulated_processors_duets_and_values_that_are_not_numbers():
    """Nothing there is an alarm; in a duet, bare has half of the node."""
    for no_series in (row(verdict="emulated", emulated=True), row(overhead=math.nan, bare=math.inf)):
        assert series(nights([session(raw(no_series))])) == []
    assert series(nights([session(raw(result="fail"))])) == []
    assert [metric.kind for metric in series(nights([session(raw(row(duet=True)))]))] == [OVERHEAD]


def test_bare_has_the_provenance_of_its_side():
    """By it the differences of a change are found; nights before the last keep it too."""
    sees = {"bare": {"libc": "a"}, "generic": {"libc": "b"}}
    known = {"runtimes": {"subject": {"version": "1"}}, "mpi": {"baseline": ["a"], "subject": ["b"]}, "host": "n1"}
    case = raw(row(), provenance={**known, "sees": sees})
    overhead, bare = series(nights([session(case), session(case, began=NOON + DAY)]))
    of_bare = {"host": "n1", "mpi": {"baseline": ["a"]}, "sees": {"bare": {"libc": "a"}}}
    assert [point.provenance for point in bare.points] == [of_bare] * 2
    assert overhead.points[0].provenance == {**known, "sees": sees}


def test_what_a_night_has_to_measure_again():
    def lost(known, now=(), arguments="all", changed=""):
        (tonight,) = nights([session(*now)]) if now else [None]
        cases = expected(nights(known), arguments, changed)
        return [(case.application, case.reason) for case in selections.lost(cases, tonight.cases if now else ())]

    def stored(number, *cases, **facts):
        return session(*cases, began=NOON + number * DAY, **{ARGUMENTS: "all", **facts})

    both, skipped = [raw(row(), name=name) for name in "AB"], raw(name="B", result="skip", skip_reason="no spack")
    first, second = stored(0, *both), stored(1, both[0], skipped)
    assert lost([first], both) == []
    # Every night, until it is measured again; and not by nights with other arguments.
    assert lost([first], [both[0], skipped]) == lost([first, second], [both[0], skipped]) == [("B", "no spack")]
    assert lost([first, second], [both[0]]) == [("B", selections.GONE)]
    assert lost([first, second], [both[0]], arguments="-n A") == []
    # What is declared is compared with the last night only, and later nights with what came after it.
    assert lost([first], [both[0]], changed="no B any more") == [("B", selections.GONE)]
    assert lost([first, stored(1, both[0], changed="no B any more")], [both[0]]) == []
    # What was never measured is not lost, and what fails now has a status of its own.
    unset = raw(name="B", result="fail", fail_phase="setup", fail_info={"exc_type": "ReframeError"})
    assert lost([stored(0, both[0], unset)], [both[0]]) == lost([first], [both[0], unset]) == []
