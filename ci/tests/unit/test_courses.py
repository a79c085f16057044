"""The course of a metric over an axis, held against what a document says of it."""

from __future__ import annotations

import made
import pytest
from containercheck.report.page import courses
from containercheck.report.page.courses import FALLS, NODES, RISES, SIDES, VARIES, Course
from containercheck.results.cases import collect

KERNELS = Course("rate", "simd", RISES, places=("C", "SSE2", "AVX_256"), ratios=True)


def judge(course, *raw):
    return courses.judge(course, collect([{"runs": [{"testcases": list(raw)}]}]))


def over(axis, values, more="", **facts):
    """Return a bare case for each value of an axis."""
    return [
        made.case("Code", "bare", axes=f" %{axis}={place}{more}", rows=[made.alone("rate", value, **facts)])
        for place, value in values.items()
    ]


@pytest.mark.parametrize(
    ("trend", "values", "holds"),
    [
        # MIPT's HPL: the last matrix is 1.1 % below the one before.
        (RISES, {8000: 203.6, 16000: 315.7, 32000: 397.9, 64000: 455.3, 96000: 450.2}, True),
        (RISES, {8000: 203.6, 16000: 180.0, 32000: 397.9}, False),
        (RISES, {8000: 300.0, 16000: 200.0}, False),
        (RISES, {8000: 300.0, 16000: 303.0}, None),
        (FALLS, {1: 40.0, 2: 22.0, 4: 12.0}, True),
        (FALLS, {1: 40.0, 2: 22.0, 4: 30.0}, False),
        (FALLS, {1: 12.0, 2: 12.1, 4: 12.2}, None),
        (VARIES, {16: 10.0, 64: 20.0, 256: 12.0}, True),
        (VARIES, {16: 10.0, 64: 10.1, 256: 10.2}, False),
    ],
)
def test_a_trend_holds_or_not(trend, values, holds):
    # The order of the cases is not that of the axis.
    raw = over("size", dict(reversed(values.items())))
    assert judge(Course("rate", "size", trend), *raw).holds is holds


@pytest.mark.parametrize(("cores", "holds"), [(4, True), (2, None)])
def test_a_default_has_the_number_that_its_case_had(cores, holds):
    """``ranks=0`` is a rank on each core: the last value of a course over ranks, or none of its own."""
    raw = [
        made.case("Code", "bare", axes=f" %ranks={ranks}", rows=[made.alone("rate", value)], expected=layout(number))
        for ranks, number, value in ((0, cores, 12.0), (2, 2, 22.0))
    ]
    part = judge(Course("rate", "ranks", FALLS), *raw)
    assert (part and part.holds) is holds
    assert part is None or part.ours == "22, 12 ns/day at ranks 2, 4"


def layout(ranks):
    return {"ranks": ranks, "threads": 1, "amount": 100.0}


def test_the_reason_names_where_a_trend_breaks():
    part = judge(Course("rate", "size", RISES), *over("size", {8000: 203.6, 16000: 180.0, 32000: 397.9}))
    assert (part.ours, part.reason) == (
        "204, 180, 398 ns/day at size 8000, 16000, 32000",
        "it falls from 8000 to 16000",
    )


@pytest.mark.parametrize(
    ("values", "holds", "ours", "why"),
    [
        ({"AVX_256": 61.0, "C": 10.0, "SSE2": 49.0}, True, "1 : 4.9 : 6.1 (C, SSE2, AVX_256)", ""),
        ({"AVX_256": 50.0, "C": 10.0, "SSE2": 49.0}, None, "1 : 4.9 : 5 (C, SSE2, AVX_256)", "SSE2 and AVX_256 are"),
        ({"AVX_256": 40.0, "C": 10.0, "SSE2": 49.0}, False, "1 : 4.9 : 4 (C, SSE2, AVX_256)", "it falls from SSE2"),
        # What D12.6 does not have does not count.
        ({"SSE4.1": 99.0, "C": 10.0, "SSE2": 49.0}, True, "1 : 4.9 (C, SSE2)", ""),
    ],
)
def test_over_names_each_is_larger_than_the_last(values, holds, ours, why):
    part = judge(KERNELS, *over("simd", values))
    assert (part.holds, part.ours) == (holds, ours)
    assert part.reason.startswith(why)


@pytest.mark.parametrize(
    ("values", "better", "holds"),
    [
        ({1: 27.54, 2: 19.87, "all": 15.55}, "lower", True),
        ({1: 27.54, 2: 15.45, "all": 15.55}, "lower", None),
        ({1: 27.54, 2: 10.0, "all": 15.55}, "lower", False),
        ({1: 27.54, 2: 10.0, "all": 15.55}, "higher", False),
    ],
)
def test_no_place_is_better_than_the_best(values, better, holds):
    assert judge(Course("rate", "ranks", best="all"), *over("ranks", values, better=better)).holds is holds


def test_no_two_values_are_no_course():
    course = Course("rate", "ranks", best="all")
    assert judge(course, *over("ranks", {1: 27.54, 2: 19.87})) is None
    assert judge(KERNELS, *over("simd", {"C": 10.0})) is None
    # Zero stands for a default, such as a rank on each core.
    assert judge(Course("rate", "ranks", FALLS), *over("ranks", {0: 10.0, 4: 5.0})) is None
    assert judge(Course("rate", "ranks", RISES, up_to=4), *over("ranks", {2: 1.0, 8: 5.0})) is None


def test_each_curve_has_to_have_the_course():
    raw = [*over("block", {16: 1.0, 64: 2.0}, " %size=1"), *over("block", {16: 2.0, 64: 1.0}, " %size=2")]
    part = judge(Course("rate", "block", RISES), *raw)
    assert (part.holds, part.ours) == (False, "1 of 2 curves; 2, 1 ns/day at block 16, 64")
    assert judge(Course("rate", "block", RISES, where={"size": "1"}), *raw).holds is True


def nodes(variant, overheads):
    return [made.case("Code", variant, count, rows=[made.row("rate", overhead=o)]) for count, o in overheads.items()]


def test_the_speed_of_a_container_falls_over_nodes():
    falls = Course("rate", NODES, FALLS, side="generic", relative=True)
    part = judge(falls, *nodes("generic", {1: 0.5, 32: 18.1}))
    assert (part.holds, part.ours) == (True, "99.5, 81.9 % at 1, 32 nodes")
    assert judge(falls, *nodes("generic", {1: 18.1, 32: 0.5})).holds is False
    assert judge(falls, *nodes("integrated", {1: 0.5, 32: 18.1})) is None


def test_the_values_of_a_variant_are_its_own():
    raw = [*nodes("generic", {2: 50.0, 4: 80.0}), *nodes("integrated", {2: 0.0, 4: 0.0})]
    assert judge(Course("rate", NODES, FALLS, side="generic"), *raw).ours == "50, 20 ns/day at 2, 4 nodes"
    assert judge(Course("rate", NODES, FALLS, side="integrated"), *raw).holds is None


def test_bare_by_itself_comes_before_bare_of_a_container():
    raw = [*nodes("generic", {1: 0.0}), *over("size", {}), made.case("Code", "bare", rows=[made.alone("rate", 10.0)])]
    raw.append(made.case("Code", "bare", 2, rows=[made.alone("rate", 20.0)]))
    assert judge(Course("rate", NODES, RISES), *raw).ours == "10, 20 ns/day at 1, 2 nodes"


def test_policies_are_an_axis_too():
    labels = {"isolation": -10.0, "full sharing": -20.0, "full sharing + post-mortem": -50.0}
    raw = made.case("Code", "bare", axes=" %use_case=five")
    facts = {"bare": 10.0, "better": "lower", "unit": "s"}
    raw["results"] = [
        made.row("rate", subject=10 * (1 + o / 100), subject_label=label, **facts) for label, o in labels.items()
    ]
    best = Course("rate", SIDES, best="full sharing + post-mortem", relative=True, where={"use_case": "five"})
    assert judge(best, raw).holds is True
    assert judge(best, raw).ours.endswith("111, 125, 200 % at isolation, full sharing, full sharing + post-mortem")
    assert judge(Course("rate", SIDES, best="isolation", relative=True), raw).holds is False
    assert judge(Course("rate", SIDES, best="isolation", relative=True, where={"use_case": "two"}), raw) is None


def test_of_many_values_the_ends_are_listed():
    part = judge(Course("rate", "size", RISES), *over("size", {place: float(place) for place in range(1, 12)}))
    assert part.ours == "1, 2, 3, 4, 8, 9, 10, 11 ns/day at size 1, 2, 3, 4, 8, 9, 10, 11"


def test_a_course_is_said_in_words():
    assert KERNELS.words == "rate: C < SSE2 < AVX_256"
    assert Course("rate", NODES, RISES, up_to=8, side="generic").words == "rate, generic, rises over nodes up to 8"
    falls = Course("HPCG", NODES, FALLS, side="generic", relative=True)
    assert falls.words == "HPCG, generic against its baseline, falls over nodes"
    assert Course("seconds", "ranks", best="all").words == "seconds: best at all (ranks)"
