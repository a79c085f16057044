"""The documents' figures, with what a night says of each."""

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
from containercheck.report.page.as_published import (
    AGREES,
    AS_FAST,
    DIFFERS,
    FASTER,
    NOT_REPEATED,
    NOT_RUN,
    NOTHING,
    OPEN,
    SLOWER,
    WORKS,
    Outcome,
    Statement,
)
from containercheck.report.page.courses import FALLS, NODES, RISES, SIDES, VARIES, Course
from containercheck.results.cases import collect
from made_nights import DAY, NOON, session

STATEMENTS = as_published.statements()
STATEMENT = Statement("D12.6", "figure 1", "a code", "Code")


def outcome(statement, *raw):
    return judged(statement, *raw).word


def judged(statement, *raw):
    return as_published.outcome(statement, collect([{"runs": [{"testcases": list(raw)}]}]))


@pytest.mark.parametrize(
    ("says", "facts", "expected"),
    [
        (AS_FAST, {"overhead": 1.0}, AGREES),
        (AS_FAST, {"overhead": 30.0, "verdict": "fail"}, DIFFERS),
        (AS_FAST, {"overhead": 9.0, "verdict": "inconclusive"}, OPEN),
        (SLOWER, {"overhead": 80.0}, AGREES),
        (SLOWER, {"overhead": 1.0}, OPEN),
        (SLOWER, {"overhead": -20.0}, DIFFERS),
        (FASTER, {"overhead": -20.0}, AGREES),
        (FASTER, {"overhead": 20.0}, DIFFERS),
    ],
)
def test_a_statement_agrees_or_not(says, facts, expected):
    assert outcome(replace(STATEMENT, says=says), made.case(rows=[made.row(**facts)])) == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        # Of a slow network, IMB's 60.5 % on Volta: it passes as expected, and is not as fast.
        ({"overhead": 60.0, "accepted": [None, 66.6]}, DIFFERS),
        ({"overhead": 4.0, "accepted": [None, 20.0]}, OPEN),
        ({"overhead": 2.0, "accepted": [None, 20.0]}, AGREES),
        # CHPCE's "less than 3 %" is as fast.
        ({"overhead": 2.0, "accepted": [None, 3.0]}, AGREES),
        ({"overhead": 1.2, "low": 0.7, "high": 1.7, "accepted": [0.4, 2.4], "overhead_unit": "s"}, DIFFERS),
        ({"overhead": 0.1, "low": -0.4, "high": 0.6, "accepted": [None, 2.4], "overhead_unit": "s"}, OPEN),
    ],
)
def test_an_overhead_that_a_reference_expects_is_not_as_fast(facts, expected):
    assert outcome(STATEMENT, made.case(rows=[made.row(expected=True, **facts)])) == expected


def test_of_what_is_not_certain_it_is_known_how_much_slower_it_may_be():
    unsure = {"overhead": 9.0, "verdict": "inconclusive"}
    rows = [made.row(**unsure), made.row("time", overhead=1.0), made.row("start", overhead_unit="s", **unsure)]
    known = "1 of 3 overheads certain to be as fast, none over 11 % worse, none over 11 s worse"
    assert judged(STATEMENT, made.case(rows=rows)).reason == known
    endless = made.row("load", high=None, **unsure)
    assert "%" not in judged(STATEMENT, made.case(rows=[*rows, endless])).reason


def test_one_overhead_that_says_the_opposite_is_enough():
    rows = [made.row("rate", overhead=-20.0), made.row("time", overhead=20.0)]
    assert outcome(replace(STATEMENT, says=FASTER), made.case(rows=rows)) == DIFFERS


def test_other_variants_nodes_and_metrics_do_not_count():
    raw = made.case(rows=[made.row(overhead=1.0), made.row("time", overhead=90.0, verdict="fail")])
    assert outcome(replace(STATEMENT, metrics=("rate",)), raw) == AGREES
    assert outcome(replace(STATEMENT, variant="integrated"), raw) == NOT_RUN
    assert outcome(replace(STATEMENT, nodes=2), raw) == NOT_RUN


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, AGREES),
        ({"rows": [made.alone("seconds_push")]}, AGREES),
        ({"rows": [made.alone("seconds_push")], "result": "fail", "fail_phase": "sanity"}, DIFFERS),
        # Without the tools it needs, nothing was tried.
        ({"result": "fail", "fail_phase": "compile_wait"}, OPEN),
        ({"result": "skip", "skip_reason": "no umoci"}, NOT_RUN),
    ],
)
def test_a_check_that_compares_nothing_is_judged_by_its_cases(facts, expected):
    raw = made.case(variant="bare", **facts)
    assert outcome(replace(STATEMENT, says=WORKS, variant="bare"), raw) == expected


def test_a_container_without_metrics_is_no_fast_container():
    raw = made.case(result="fail", fail_phase="sanity", fail_reason="wrong answer")
    assert outcome(STATEMENT, raw) == DIFFERS
    assert outcome(STATEMENT, made.case()) == OPEN


def test_bare_values_are_nothing_that_a_container_does():
    raw = made.case(variant="bare", rows=[made.alone()])
    assert outcome(STATEMENT, raw) == NOT_RUN
    assert outcome(replace(STATEMENT, says=WORKS), raw) == NOT_RUN


def test_the_way_of_an_image_has_bare_rows_only():
    rows = [made.alone(f"seconds_{step}") for step in ("build", "push", "pull", "convert", "start")]
    found = nights([session(made.case("ImageTransfer", "bare", rows=rows))])
    (row,) = [row for row in as_published.table(found).rows if row[2] == "ImageTransfer"]
    assert AGREES in row


FASTER_CODE = made.case(rows=[made.row(overhead=1.0)])
UNSURE = made.case(rows=[made.row(overhead=9.0, verdict="inconclusive")])
SLOW = made.case(rows=[made.row(overhead=30.0, verdict="fail")])
OTHER = made.case("OtherCode", rows=[made.row()])


@pytest.mark.parametrize(
    ("cases", "expected", "reason"),
    [
        ([FASTER_CODE, UNSURE], AGREES, "in the night 1"),
        ([FASTER_CODE, OTHER], AGREES, "in the night 1"),
        ([FASTER_CODE, SLOW, UNSURE, OTHER], DIFFERS, "in the night 2; 0 of 1 overhead certain to be as fast"),
        ([SLOW, FASTER_CODE], AGREES, ""),
        ([UNSURE, UNSURE], OPEN, "0 of 1 overhead certain to be as fast"),
        ([OTHER, OTHER], NOT_RUN, ""),
    ],
)
def test_what_a_night_leaves_open_is_as_the_last_that_decided_it(cases, expected, reason):
    found = nights([session(case, began=NOON + number * DAY) for number, case in enumerate(cases, start=1)])
    decided = as_published.decided(STATEMENT, found)
    assert (decided.word, decided.reason[: len(reason)]) == (expected, reason)


def test_nights_before_a_change_on_purpose_decide_nothing():
    before, after = session(FASTER_CODE), session(OTHER, began=NOON + DAY, changed="new Apptainer")
    assert as_published.decided(STATEMENT, nights([before, after])).word == NOT_RUN
    later = session(OTHER, began=NOON + 2 * DAY)
    assert as_published.decided(STATEMENT, nights([before, after, later])).word == NOT_RUN
    assert as_published.decided(STATEMENT, nights([after, before, later])).word == AGREES


def test_a_course_of_an_earlier_night_is_as_it_was_in_that_night():
    statement = replace(STATEMENT, says=NOTHING, course=Course("rate", "threads", RISES))
    # Its default is as many threads as the case had.
    cases = [
        made.case("Code", "bare", axes=f" %threads={text}", expected={"ranks": 1, "threads": number}, rows=[rate])
        for text, number, rate in (("2", 2, made.alone()), ("0", 8, made.alone(bare=190.0)))
    ]
    last = as_published.decided(statement, nights([session(*cases)]))
    earlier = as_published.decided(statement, nights([session(*cases), session(OTHER, began=NOON + DAY)]))
    assert (last.word, earlier.word, earlier.ours) == (AGREES, AGREES, last.ours)
    assert "threads 2, 8" in last.ours


def test_what_did_not_run_says_why():
    skipped = made.case(result="skip", skip_reason="no software: DLB")
    assert judged(STATEMENT, skipped) == Outcome(NOT_RUN, reason="no software: DLB")
    assert judged(replace(STATEMENT, not_repeated="no virtualisation")) == Outcome(
        NOT_REPEATED, reason="no virtualisation"
    )


SIZES = Course("rate", "size", RISES)


def sized(overhead, *values):
    """Return containers with these bare values, each with the overhead."""
    rows = [[made.row(bare=value, overhead=overhead, verdict="pass" if overhead < 10 else "fail")] for value in values]
    return [made.case(axes=f" %size={place}", rows=row) for place, row in enumerate(rows, 1)]


@pytest.mark.parametrize(
    ("raw", "expected", "reason"),
    [
        (sized(1.0, 10.0, 20.0), AGREES, ""),
        (sized(1.0, 20.0, 10.0), DIFFERS, "it falls from 1 to 2"),
        (sized(80.0, 10.0, 20.0), DIFFERS, "0 of 2 overheads certain to be as fast, the opposite: 2"),
        (sized(1.0, 10.0), OPEN, "no two values over size"),
        (
            [made.case(axes=f" %size={place}", variant="bare", rows=[made.alone(bare=place)]) for place in (1, 2)],
            OPEN,
            "nothing compared",
        ),
    ],
)
def test_both_the_overheads_and_the_course_have_to_hold(raw, expected, reason):
    result = judged(replace(STATEMENT, course=SIZES), *raw)
    assert (result.word, result.reason) == (expected, reason)


def test_a_course_alone_is_enough_where_nothing_is_said_of_containers():
    assert outcome(replace(STATEMENT, says=NOTHING, course=SIZES), *sized(80.0, 10.0, 20.0)) == AGREES
    assert outcome(replace(STATEMENT, says=NOTHING, course=SIZES)) == NOT_RUN


def test_our_values_stand_beside_theirs():
    raw = made.case(rows=[made.row("latency", bare=2.0, unit="us"), made.row("rate", overhead=-3.0)])
    result = judged(replace(STATEMENT, value="latency"), raw)
    assert result.ours == "2 overheads: -3 to +1 %; bare 2, generic 1.98 us"


@pytest.mark.parametrize(
    ("place", "check", "expected"),
    [
        ("section 3", "HPL", "mipt:pair, bare 203.6, 315.7, 397.9, 455.3, 450.2 GFLOPS"),
        ("figure 3", "IMB", "volta:compute, generic 7.5 us"),
        ("figure 2", "IMB", "volta:compute, integrated 11928 MB/s"),
        ("figures 4.1, 4.2", "GROMACSKernels", "rate: C < SSE2 < AVX_256 < AVX2_256; 1 : 4.8 : 6.1 : 7.8 on Haswell"),
        ("figure 6.8, table 6.3", "BTMZ", "lenox:nodes, bare 27.54, 19.87, 19.94, 24.06, 19.8, 15.55 s"),
    ],
)
def test_what_a_document_has_is_shown(place, check, expected):
    shown = [
        as_published.theirs(statement)
        for statement in STATEMENTS
        if (statement.place, statement.check) == (place, check)
    ]
    assert any(expected in text for text in shown)


def test_what_is_said_of_a_machine_counts_there():
    raw = made.case(rows=[made.row()])
    assert outcome(replace(STATEMENT, system="cluster"), raw) == AGREES
    assert judged(replace(STATEMENT, system="thunderx"), raw) == Outcome(NOT_RUN, reason="of thunderx only")


def test_a_note_says_why_a_statement_may_differ():
    raw = made.case(rows=[made.row(overhead=-20.0)])
    assert judged(replace(STATEMENT, says=SLOWER, note="the same build"), raw).reason.endswith("; the same build")
    assert judged(replace(STATEMENT, says=FASTER, note="the same build"), raw).reason == ""


def test_documents_come_one_after_the_other():
    assert list(dict.fromkeys(statement.document for statement in STATEMENTS)) == [
        "D12.5",
        "D12.6",
        "MIPT",
        "SANDIA",
        "CHPCE",
    ]
    assert len({(statement.document, statement.place, statement.shows) for statement in STATEMENTS}) == len(STATEMENTS)
    assert {statement.says for statement in STATEMENTS} <= {AS_FAST, SLOWER, FASTER, WORKS, NOTHING}
    assert {statement.course.trend for statement in STATEMENTS if statement.course} <= {RISES, FALLS, VARIES, ""}
    places = [re.match(r"figures? (\d+)\.(\d+)", statement.place) for statement in STATEMENTS]
    metrics = [(int(match[1]), int(match[2])) for match in places if match]
    assert metrics == sorted(metrics)


#: Metrics that show a measurement, by document; the others are drawings. MIPT has none.
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


def test_every_course_is_over_an_axis_of_its_check():
    for statement in STATEMENTS:
        if not statement.course or statement.course.axis in (NODES, SIDES):
            continue
        parameters = check_of(statement.check).param_space.params
        values = {str(value) for value in parameters[statement.course.axis].values}
        wanted = {*statement.course.places, statement.course.best} - {"", *x86_kernels()}
        assert wanted <= values, statement
        for axis, beginning in statement.course.where.items():
            assert any(str(value).startswith(beginning) for value in parameters[axis].values)


def x86_kernels():
    """Return the instruction sets that only some machines have."""
    return [kernel for known in architectures.KNOWN.values() for kernel in known.kernels]


def check_of(name):
    """Return the class of a check."""
    modules = [importlib.import_module(path.stem) for path in (REPOSITORY / "checks").glob("*.py")]
    return next(getattr(module, name) for module in modules if hasattr(module, name))


def test_every_metric_that_is_named_is_one_of_its_check():
    for statement in STATEMENTS:
        if statement.check and not statement.check.endswith("DLB"):
            names = known_metrics(statement.check)
            wanted = [*statement.metrics, *([statement.course.metric] if statement.course else [])]
            assert [word for word in wanted if not any(name.startswith(word) for name in names)] == [], statement


def known_metrics(name):
    """Return the names of a check's metrics, with those that it adds for some of its cases."""
    names = {metric.name for metric in check_of(name).metrics}
    more = {
        "IOzone": {"random_write", "stride_read"},
        "BTMZCollocation": {"seconds_program1"},
        "PingPong": {f"{what}_dispersion_within_socket" for what in ("latency", "bandwidth")},
    }
    return names | more.get(name, set())


def test_every_statement_names_a_check_or_a_reason():
    known = {path.stem: importlib.import_module(path.stem) for path in (REPOSITORY / "checks").glob("*.py")}
    names = {name for module in known.values() for name in vars(module)}
    assert [statement for statement in STATEMENTS if bool(statement.check) == bool(statement.not_repeated)] == []
    assert {statement.check for statement in STATEMENTS if statement.check} <= names
    assert len(as_published.table([]).rows) == len(STATEMENTS)
