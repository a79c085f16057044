"""The documents' figures: their data, and whether the results of a night agree with each."""

from __future__ import annotations

import importlib
import re
from dataclasses import replace

import made
import pytest
from conftest import REPOSITORY
from containercheck.history.nights import nights
from containercheck.job import architectures
from containercheck.report.page import as_published
from containercheck.report.page.as_published import Course, Outcome, Statement
from made_nights import DAY, NOON, session

STATEMENTS = as_published.statements()
STATEMENT = Statement("D12.6", "figure 1", "a code", "Code")


def outcome(statement, *raw):
    return judged(statement, *raw).word


def judged(statement, *raw):
    return as_published.outcome(statement, made.cases(raw))


@pytest.mark.parametrize(
    ("says", "facts", "expected"),
    [
        ("as fast", {"overhead": 1.0}, "agrees"),
        ("as fast", {"overhead": 30.0, "verdict": "fail"}, "differs"),
        ("as fast", {"overhead": 9.0, "verdict": "inconclusive"}, "not certain"),
        ("slower", {"overhead": 80.0}, "agrees"),
        ("slower", {"overhead": 1.0}, "not certain"),
        ("slower", {"overhead": -20.0}, "differs"),
        ("faster", {"overhead": -20.0}, "agrees"),
        ("faster", {"overhead": 20.0}, "differs"),
        # An overhead that a reference expects is not as fast: IMB's 60.5 % on Volta, of a slow network.
        ("as fast", {"expected": True, "overhead": 60.0, "accepted": [None, 66.6]}, "differs"),
        ("as fast", {"expected": True, "overhead": 4.0, "accepted": [None, 20.0]}, "not certain"),
        ("as fast", {"expected": True, "overhead": 2.0, "accepted": [None, 20.0]}, "agrees"),
        # CHPCE's "less than 3 %" is as fast.
        ("as fast", {"expected": True, "overhead": 2.0, "accepted": [None, 3.0]}, "agrees"),
        ("as fast", {"expected": True, "overhead": 3.0, "accepted": [0.4, 4.4], "overhead_unit": "s"}, "differs"),
        ("as fast", {"expected": True, "overhead": 0.1, "accepted": [None, 2.4], "overhead_unit": "s"}, "not certain"),
    ],
)
def test_a_statement_agrees_or_not(says, facts, expected):
    assert outcome(replace(STATEMENT, says=says), made.case(rows=[made.row(**facts)])) == expected


def test_one_overhead_that_says_the_opposite_is_enough():
    raw = made.case(rows=[made.row("rate", overhead=-20.0), made.row("time", overhead=20.0)])
    result = judged(replace(STATEMENT, says="faster", note="the same build"), raw)
    reason = "1 of 2 overheads certain to be faster, the opposite: 1; the same build"
    assert result == Outcome("differs", "2 overheads: -20 to +20 %", reason)
    assert judged(replace(STATEMENT, note="the same build"), made.case(rows=[made.row()])).reason == ""


def test_other_variants_nodes_metrics_and_machines_do_not_count():
    raw = made.case(rows=[made.row(overhead=1.0), made.row("time", overhead=90.0, verdict="fail")])
    assert outcome(replace(STATEMENT, metrics=("rate",), system="cluster"), raw) == "agrees"
    assert outcome(replace(STATEMENT, variant="integrated"), raw) == "not run"
    assert outcome(replace(STATEMENT, nodes=2), raw) == "not run"
    assert judged(replace(STATEMENT, system="thunderx"), raw) == Outcome("not run", reason="of thunderx only")


@pytest.mark.parametrize(
    ("says", "variant", "facts", "expected"),
    [
        ("works", "bare", {}, "agrees"),
        ("works", "bare", {"rows": [made.alone("seconds_push")]}, "agrees"),
        ("works", "bare", {"result": "fail", "fail_phase": "sanity"}, "differs"),
        # Without the tools that it needs, nothing was tried.
        ("works", "bare", {"result": "fail", "fail_phase": "compile_wait"}, "not certain"),
        ("works", "bare", {"result": "skip", "skip_reason": "no umoci"}, "not run"),
        # Of containers, bare values say nothing; and a container without metrics is not a fast one.
        ("works", "", {"rows": [made.alone()]}, "not run"),
        ("as fast", "", {"rows": [made.alone()]}, "not run"),
        ("as fast", "", {"variant": "generic", "result": "fail", "fail_phase": "sanity"}, "differs"),
        ("as fast", "", {"variant": "generic"}, "not certain"),
    ],
)
def test_a_check_that_compares_nothing_is_judged_by_its_cases(says, variant, facts, expected):
    raw = made.case(**{"variant": "bare", **facts})
    assert outcome(replace(STATEMENT, says=says, variant=variant), raw) == expected


FASTER_CODE = made.case(rows=[made.row(overhead=1.0)])
UNSURE = made.case(rows=[made.row(overhead=9.0, verdict="inconclusive")])
SLOW = made.case(rows=[made.row(overhead=30.0, verdict="fail")])
OTHER = made.case("OtherCode", rows=[made.row()])


@pytest.mark.parametrize(
    ("cases", "expected", "reason"),
    [
        ([FASTER_CODE, OTHER], "agrees", "in the night 1"),
        ([FASTER_CODE, SLOW, UNSURE, OTHER], "differs", "in the night 2; 0 of 1 overhead certain to be as fast"),
        ([SLOW, FASTER_CODE], "agrees", ""),
        ([UNSURE, UNSURE], "not certain", "0 of 1 overhead certain to be as fast"),
        ([OTHER, OTHER], "not run", ""),
    ],
)
def test_a_statement_that_a_night_leaves_open_is_as_the_last_that_decided_it(cases, expected, reason):
    found = nights([session(case, began=NOON + number * DAY) for number, case in enumerate(cases, start=1)])
    decided = as_published.decided(STATEMENT, found)
    assert (decided.word, decided.reason[: len(reason)]) == (expected, reason)


def test_nights_before_a_change_on_purpose_decide_nothing():
    before, after = session(FASTER_CODE), session(OTHER, began=NOON + DAY, changed="new Apptainer")
    later = session(OTHER, began=NOON + 2 * DAY)
    assert as_published.decided(STATEMENT, nights([before, after, later])).word == "not run"
    assert as_published.decided(STATEMENT, nights([after, before, later])).word == "agrees"


def test_a_figure_that_did_not_run_has_a_reason():
    skipped = made.case(result="skip", skip_reason="no software: DLB")
    assert judged(STATEMENT, skipped) == Outcome("not run", reason="no software: DLB")
    missing = replace(STATEMENT, not_repeated="no virtualisation")
    assert judged(missing) == Outcome("not repeated", reason="no virtualisation")


def test_our_values_stand_next_to_theirs():
    raw = made.case(rows=[made.row("latency", bare=2.0, unit="us"), made.row("rate", overhead=-3.0)])
    result = judged(replace(STATEMENT, value="latency"), raw)
    assert result.ours == "2 overheads: -3 to +1 %; bare 2, generic 1.98 us"


@pytest.mark.parametrize(
    ("place", "check", "expected"),
    [
        ("section 3", "HPL", "mipt:pair, bare 203.6, 315.7, 397.9, 455.3, 450.2 GFLOPS"),
        ("figure 3", "IMB", "volta:compute, generic 7.5 us"),
        ("figures 4.1, 4.2", "GROMACSKernels", "rate: C < SSE2 < AVX_256 < AVX2_256; 1 : 4.8 : 6.1 : 7.8 on Haswell"),
        ("figure 6.8, table 6.3", "BTMZ", "seconds: best at all (ranks)"),
        ("figure 6.8, table 6.3", "BTMZ", "lenox:nodes, bare 27.54, 19.87, 19.94, 24.06, 19.8, 15.55 s"),
        ("figure 4.4", "GROMACS", "rate generic rises over nodes up to 8"),
        ("figure 5", "HPCG", "HPCG generic against its baseline falls over nodes"),
    ],
)
def test_the_statement_of_a_document_is_shown(place, check, expected):
    shown = [
        as_published.theirs(statement)
        for statement in STATEMENTS
        if (statement.place, statement.check) == (place, check)
    ]
    assert any(expected in text for text in shown)


SIZES = Course("rate", "size", "rises")


def over(axis, values, more="", variant="bare", **facts):
    """Return a bare case for each value of an axis."""
    return [
        made.case("Code", variant, axes=f" %{axis}={place}{more}", rows=[made.alone("rate", value, **facts)])
        for place, value in values.items()
    ]


def sized(overhead, *values):
    """Return containers with these bare values, each with the overhead."""
    rows = [[made.row(bare=value, overhead=overhead, verdict="pass" if overhead < 10 else "fail")] for value in values]
    return [made.case(axes=f" %size={place}", rows=row) for place, row in enumerate(rows, 1)]


@pytest.mark.parametrize(
    ("raw", "expected", "reason"),
    [
        (sized(1.0, 10.0, 20.0), "agrees", ""),
        (sized(1.0, 20.0, 10.0), "differs", "it falls from 1 to 2"),
        (sized(80.0, 10.0, 20.0), "differs", "0 of 2 overheads certain to be as fast, the opposite: 2"),
        (sized(1.0, 10.0), "not certain", "no two values over size"),
        (over("size", {1: 1.0, 2: 2.0}), "not certain", "nothing compared"),
    ],
)
def test_both_the_overheads_and_the_course_have_to_hold(raw, expected, reason):
    result = judged(replace(STATEMENT, course=SIZES), *raw)
    assert (result.word, result.reason) == (expected, reason)


def follows(course, *raw):
    """Return the outcome of a statement that has a course only."""
    return judged(replace(STATEMENT, says="nothing", course=course), *raw)


@pytest.mark.parametrize(
    ("trend", "values", "expected"),
    [
        # MIPT's HPL: the last matrix is 1.1 % below the one before.
        ("rises", {8000: 203.6, 16000: 315.7, 32000: 397.9, 64000: 455.3, 96000: 450.2}, "agrees"),
        ("rises", {8000: 203.6, 16000: 180.0, 32000: 397.9}, "differs"),
        ("rises", {8000: 300.0, 16000: 303.0}, "not certain"),
        ("falls", {1: 40.0, 2: 22.0, 4: 12.0}, "agrees"),
        ("falls", {1: 40.0, 2: 22.0, 4: 30.0}, "differs"),
        ("falls", {1: 12.0, 2: 12.1, 4: 12.2}, "not certain"),
        ("varies", {16: 10.0, 64: 20.0, 256: 12.0}, "agrees"),
        ("varies", {16: 10.0, 64: 10.1, 256: 10.2}, "differs"),
        # Zero stands for a default, whose number nobody knows here.
        ("falls", {0: 10.0, 4: 5.0}, "not run"),
        ("rises", {}, "not run"),
    ],
)
def test_a_trend_holds_or_not(trend, values, expected):
    # The order of the cases is not that of the axis.
    raw = over("size", dict(reversed(values.items())))
    assert follows(Course("rate", "size", trend), *raw).word == expected


def test_a_reason_names_the_place_where_a_trend_breaks():
    result = follows(SIZES, *over("size", {8000: 203.6, 16000: 180.0, 32000: 397.9}))
    ours = "204, 180, 398 ns/day at size 8000, 16000, 32000"
    assert result == Outcome("differs", ours, "it falls from 8000 to 16000")
    many = follows(SIZES, *over("size", {place: float(place) for place in range(1, 12)}))
    assert many.ours == "1, 2, 3, 4, …, 8, 9, 10, 11 ns/day at size 1, 2, 3, 4, …, 8, 9, 10, 11"


@pytest.mark.parametrize(("cores", "ours"), [(4, "22, 12 ns/day at ranks 2, 4"), (2, "")])
def test_a_default_has_the_number_that_its_case_had(cores, ours):
    """``ranks=0`` is a rank on each core: the last value of a course over ranks, or none of its own."""
    raw = [*over("ranks", {0: 12.0}), *over("ranks", {2: 22.0})]
    for case, ranks in zip(raw, (cores, 2)):
        case["expected"] = {"ranks": ranks, "threads": 1, "amount": 100.0}
    assert follows(Course("rate", "ranks", "falls"), *raw).ours == ours
    assert follows(Course("rate", "ranks", "falls", up_to=2), *raw).word == "not run"


KERNELS = Course("rate", "simd", "rises", places=("C", "SSE2", "AVX_256"))


@pytest.mark.parametrize(
    ("values", "expected", "reason"),
    [
        ({"AVX_256": 61.0, "C": 10.0, "SSE2": 49.0}, "agrees", ""),
        ({"AVX_256": 50.0, "C": 10.0, "SSE2": 49.0}, "not certain", "SSE2 and AVX_256 are the same"),
        ({"AVX_256": 40.0, "C": 10.0, "SSE2": 49.0}, "differs", "it falls from SSE2 to AVX_256"),
        # A place that D12.6 does not have does not count.
        ({"SSE4.1": 99.0, "C": 10.0, "SSE2": 49.0}, "agrees", ""),
        ({"C": 10.0}, "not run", ""),
    ],
)
def test_over_names_each_is_larger_than_the_last(values, expected, reason):
    result = follows(KERNELS, *over("simd", values))
    assert (result.word, result.reason) == (expected, reason)


@pytest.mark.parametrize(
    ("values", "better", "expected"),
    [
        ({1: 27.54, 2: 19.87, "all": 15.55}, "lower", "agrees"),
        ({1: 27.54, 2: 15.45, "all": 15.55}, "lower", "not certain"),
        ({1: 27.54, 2: 10.0, "all": 15.55}, "lower", "differs"),
        ({1: 27.54, 2: 10.0, "all": 15.55}, "higher", "differs"),
        ({1: 27.54, 2: 19.87}, "lower", "not run"),
    ],
)
def test_no_place_is_better_than_the_best(values, better, expected):
    assert follows(Course("rate", "ranks", best="all"), *over("ranks", values, better=better)).word == expected


def test_each_curve_has_to_have_the_course():
    raw = [*over("block", {16: 1.0, 64: 2.0}, " %size=1"), *over("block", {16: 2.0, 64: 1.0}, " %size=2")]
    result = follows(Course("rate", "block", "rises"), *raw)
    assert (result.word, result.ours) == ("differs", "1 of 2 curves; 2, 1 ns/day at block 16, 64")
    assert follows(Course("rate", "block", "rises", where={"size": "1"}), *raw).word == "agrees"


def nodes(variant, overheads):
    return [made.case("Code", variant, count, rows=[made.row("rate", overhead=o)]) for count, o in overheads.items()]


def test_a_course_is_that_of_one_side():
    relative = Course("rate", "nodes", "falls", side="generic", relative=True)
    raw = [*nodes("generic", {2: 50.0, 4: 80.0}), *nodes("integrated", {2: 0.0, 4: 0.0})]
    assert follows(relative, *raw).ours == "50, 20 % at nodes 2, 4"
    assert follows(relative, *nodes("integrated", {2: 50.0, 4: 80.0})).word == "not run"
    assert follows(Course("rate", "nodes", "falls", side="generic"), *raw).ours == "50, 20 ns/day at nodes 2, 4"
    assert follows(Course("rate", "nodes", "falls", side="integrated"), *raw).word == "not certain"
    # Bare by itself comes before bare of a container.
    bare = [made.case("Code", "bare", n, rows=[made.alone("rate", 10.0 * n)]) for n in (2, 4)]
    assert follows(Course("rate", "nodes", "rises"), *raw, *bare).ours == "20, 40 ns/day at nodes 2, 4"


def test_policies_are_an_axis_too():
    labels = {"isolation": -10.0, "full sharing": -20.0, "full sharing + post-mortem": -50.0}
    raw = made.case("Code", "bare", axes=" %use_case=five")
    facts = {"bare": 10.0, "better": "lower", "unit": "s"}
    raw["results"] = [
        made.row("rate", subject=10 * (1 + o / 100), subject_label=label, **facts) for label, o in labels.items()
    ]
    best = Course("rate", "policies", best="full sharing + post-mortem", relative=True, where={"use_case": "five"})
    result = follows(best, raw)
    assert result.word == "agrees"
    assert result.ours.endswith("111, 125, 200 % at policies isolation, full sharing, full sharing + post-mortem")
    assert follows(replace(best, best="isolation"), raw).word == "differs"
    assert follows(replace(best, best="isolation", where={"use_case": "two"}), raw).word == "not run"


def test_documents_come_one_after_the_other():
    documents = list(dict.fromkeys(statement.document for statement in STATEMENTS))
    assert documents == ["D12.5", "D12.6", "MIPT", "SANDIA", "CHPCE"]
    assert len({(statement.document, statement.place, statement.shows) for statement in STATEMENTS}) == len(STATEMENTS)
    assert {statement.says for statement in STATEMENTS} <= {"as fast", "slower", "faster", "works", "nothing"}
    assert {statement.course.trend for statement in STATEMENTS if statement.course} <= {"rises", "falls", "varies", ""}
    places = [re.match(r"figures? (\d+)\.(\d+)", statement.place) for statement in STATEMENTS]
    figures = [(int(match[1]), int(match[2])) for match in places if match]
    assert figures == sorted(figures)


#: Figures that show a measurement, by document; the others are drawings. MIPT has none.
MEASURED = {
    "D12.5": ["9", "11", "13", "14", "15", *map(str, range(17, 24))],
    "D12.6": [
        *(f"4.{number}" for number in range(1, 6)),
        "5.1",
        *(f"6.{number}" for number in range(5, 14)),
        *(f"7.{number}" for number in range(1, 6)),
        *(f"8.{number}" for number in range(4, 14)),
        *(f"9.{number}" for number in range(1, 8)),
    ],
    "SANDIA": ["1", "2", "3", "4", "5"],
    "CHPCE": [str(number) for number in range(2, 20)],
}


def numbers(place):
    """Yield the numbers of the figures of a place, such as ``figures 8.4, 8.6 to 8.8``."""
    words = re.search(r"figures? ((?:[\d.]+(?:, | to )?)+)", place)
    for part in words[1].rstrip(", ").split(", ") if words else ():
        first, _, last = part.partition(" to ")
        chapter, _, number = first.rpartition(".")
        for counted in range(int(number), int((last or first).rpartition(".")[2]) + 1):
            yield f"{chapter}.{counted}" if chapter else str(counted)


@pytest.mark.parametrize("document", MEASURED)
def test_no_figure_of_a_document_is_missing(document):
    there = {
        number for statement in STATEMENTS if statement.document == document for number in numbers(statement.place)
    }
    assert sorted(there) == sorted(MEASURED[document])


def check_of(name):
    """Return the class of a check."""
    modules = [importlib.import_module(path.stem) for path in (REPOSITORY / "checks").glob("*.py")]
    return next(getattr(module, name) for module in modules if hasattr(module, name))


#: Metrics that a check adds for some of its cases.
ADDED = {
    "IOzone": {"random_write", "stride_read"},
    "BTMZCollocation": {"seconds_program1"},
    "PingPong": {f"{what}_dispersion_within_socket" for what in ("latency", "bandwidth")},
}


def test_every_statement_has_a_reason_or_names_a_check_with_its_metrics_and_axes():
    kernels = {kernel for known in architectures.KNOWN.values() for kernel in known.kernels}
    for statement in STATEMENTS:
        assert bool(statement.check) != bool(statement.not_repeated), statement
        if not statement.check:
            continue
        check, course = check_of(statement.check), statement.course
        if not statement.check.endswith("DLB"):
            names = {metric.name for metric in check.metrics} | ADDED.get(statement.check, set())
            wanted = [*statement.metrics, *([course.metric] if course else [])]
            assert [word for word in wanted if not any(name.startswith(word) for name in names)] == [], statement
        if course and course.axis not in ("nodes", "policies"):
            axes = {name: {str(value) for value in axis.values} for name, axis in check.param_space.params.items()}
            # Only some machines have an instruction set.
            assert {*course.places, course.best} - {"", *kernels} <= axes[course.axis], statement
            for axis, beginning in course.where.items():
                assert any(value.startswith(beginning) for value in axes[axis]), statement
    assert len(as_published.table([]).rows) == len(STATEMENTS)
