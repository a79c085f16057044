"""Speed-up and parallel efficiency over nodes and cores, and of policies, from the cases of a session."""

from __future__ import annotations

import math
import re

import made
import pytest
from containercheck.report import scaling, view
from hypothesis import given
from hypothesis import strategies as st

#: Units with their better direction, and whether they count the work themselves.
UNITS = [
    ("s", "lower", False),
    ("us", "lower", False),
    ("ns/day", "higher", False),
    ("steps/s", "higher", False),
    ("GFLOPS", "higher", True),
    ("GFLOP/s", "higher", True),
    ("images/s", "higher", True),
]
FAILED = {"result": "fail", "fail_phase": "sanity", "fail_reason": "energy differs"}
SLOW = {"result": "fail", "fail_phase": "performance", "fail_reason": "rate is worse"}


def ran(variant, values, bare=None, amounts=None, unit="ns/day", better="higher", kind="strong", **facts):
    """Return test cases of a variant.

    :param values: of the variant, by nodes.
    :param bare: of its baseline; the same by default.
    :param amounts: of work, by nodes; the same for all by default, and 0 for what nobody knows.
    """
    found = []
    for nodes, value in values.items():
        told = {"unit": unit, "better": better, "scaling": kind}
        if variant == "bare":
            row = made.alone("rate", value, **told)
        else:
            row = made.row(bare=(bare or values)[nodes], subject=value, **told)
        work = {"amount": 1000.0 if amounts is None else amounts[nodes]}
        found.append(made.case("Code", variant, nodes, [row], expected=work, **facts))
    return found


def told(*raw):
    """Return the lines about these test cases."""
    return scaling.lines(made.cases(raw))


def test_a_variant_has_a_line_beneath_the_table():
    raw = ran("integrated", {1: 12.3, 2: 21.9}, bare={1: 12.5, 2: 22.75})
    line = "Code integrated, rate: 1 node 12.3 ns/day, 2 nodes 21.9 ns/day: speed-up 1.78, efficiency 89 % (bare 91 %)"
    assert told(*raw) == [line]
    # A heading and two metrics are above it.
    assert view.lines(made.cases(raw))[3] == line
    assert told(*ran("bare", {1: 10.0, 2: 19.0, 4: 36.0})) == [
        "Code bare, rate: 1 node 10 ns/day, 2 nodes 19 ns/day, 4 nodes 36 ns/day: "
        "speed-up 1.9 and 3.6, efficiency 95 % and 90 %"
    ]


@pytest.mark.parametrize("amounts", [{1: 500.0, 2: 1000.0}, {1: 0.0, 2: 0.0}], ids=["known", "unknown"])
def test_weak_scaling_is_the_quotient_of_the_times(amounts):
    """With as much work on each node; where nobody knows how much that is, the declaration says it."""
    raw = ran("bare", {1: 10.0, 2: 12.5}, amounts=amounts, unit="s", better="lower", kind="weak")
    (line,) = told(*raw)
    assert line.endswith("1 node 10 s, 2 nodes 12.5 s (2 times the work): speed-up 1.6, efficiency 80 %")


def test_an_embedded_input_that_grew_counts_whatever_the_document_had():
    raw = ran("bare", {1: 10.0, 2: 10.0, 4: 10.0}, amounts={1: 1.0, 2: 1.0, 4: 2.0})
    (line,) = told(*raw)
    assert "2 nodes 10 ns/day, 4 nodes 10 ns/day (2 times the work): speed-up 1 and 2, efficiency 50 % and 50 %" in line


@given(
    st.sampled_from(UNITS),
    st.lists(st.integers(1, 512), min_size=2, max_size=6, unique=True),
    st.floats(1e-6, 1e6),
    st.sampled_from(["strong", "weak"]),
    st.booleans(),
)
def test_ideal_scaling_has_an_efficiency_of_one(unit, nodes, speed, kind, known):
    """In any unit, of a time or a rate, from any number of nodes on, and whether the work is known or not."""
    name, better, counts_work = unit
    work = {n: 100.0 * n if kind == "weak" else 100.0 for n in nodes}
    seconds = {n: work[n] / (speed * n) for n in nodes}
    rates = {n: (work[n] if counts_work else 1.0) / seconds[n] for n in nodes}
    values = seconds if better == "lower" else rates
    amounts = work if known else dict.fromkeys(nodes, 0.0)
    (line,) = told(*ran("bare", values, amounts=amounts, unit=name, better=better, kind=kind))
    assert re.findall(r"(\d+) %", line) == ["100"] * (len(nodes) - 1)


@pytest.mark.parametrize(
    "raw",
    [
        [],
        ran("bare", {2: 10.0}),
        ran("bare", {1: 10.0}) + ran("generic", {2: 10.0}),
        ran("bare", {1: 10.0, 2: 20.0}, kind=None),
        ran("bare", {1: 10.0}, axes=" %size=1") + ran("bare", {2: 20.0}, axes=" %size=2"),
        ran("bare", {1: 10.0}) + ran("bare", {2: 20.0}, **FAILED),
    ],
    ids=["nothing", "one number", "two variants", "not declared", "two sizes", "one that failed"],
)
def test_of_one_number_of_nodes_nothing_is_shown(raw):
    assert told(*raw) == []


def changed(place, **facts):
    """Return the cases of a container that scales, of which one has other facts."""
    raw = ran("generic", {1: 10.0, 2: 19.0, 4: 36.0})
    return [*raw[:place], {**raw[place], **facts}, *raw[place + 1 :]]


def valued(value):
    """Return the results of two nodes in which the container has this value."""
    told = {"unit": "ns/day", "better": "higher", "scaling": "strong"}
    return [{**made.row(bare=19.0, **told), "subject": value}]


WITHOUT_TWO = "1 node 10 ns/day, 4 nodes 36 ns/day: speed-up 3.6, efficiency 90 % (bare 90 %)"


@pytest.mark.parametrize(
    ("raw", "end"),
    [
        # Without the smallest run the next one is the measure.
        (changed(0, **FAILED), "1.89 against 2 nodes, efficiency 95 % (bare 95 %)"),
        (changed(1, **FAILED), WITHOUT_TWO),
        (changed(1, results=valued(None)), WITHOUT_TWO),
        (changed(1, results=valued(0.0)), WITHOUT_TWO),
        (changed(1, results=valued(math.nan)), WITHOUT_TWO),
        (changed(1, results=valued(math.inf)), WITHOUT_TWO),
        # A container that does not scale fails, and its efficiency says why.
        (changed(2, **SLOW), "speed-up 1.9 and 3.6, efficiency 95 % and 90 % (bare 95 % and 90 %)"),
    ],
)
def test_what_failed_or_has_no_value_is_left_out_and_named_and_what_is_only_slow_is_shown(raw, end):
    (line,) = told(*raw)
    assert line.endswith(end)


def test_lines_that_differ_in_metric_axes_or_partition_say_so():
    values = {1: 10.0, 2: 20.0}
    names = [line.partition(":")[0] for line in told(*ran("bare", values), *ran("bare", values, partition="other"))]
    assert names == ["Code bare, rate, compute", "Code bare, rate, other"]
    raw = [raw_case for size in (1, 2) for raw_case in ran("bare", values, axes=f" %size={size}")]
    assert [line.partition(":")[0] for line in told(*raw)] == ["Code size=1 bare, rate", "Code size=2 bare, rate"]
    raw = ran("generic", values)
    for raw_case in raw:
        raw_case["results"] = [{**raw_case["results"][0], "subject_label": name} for name in ("old", "new")]
    assert [line.partition(":")[0] for line in told(*raw)] == ["Code generic (old), rate", "Code generic (new), rate"]


def on(ranks, value, threads=1, nodes=1, axis="ranks", named=None, variant="bare", **facts):
    """Return a case with a layout, and seconds that scale; the axis is its ranks on a node, or its threads."""
    stated = (ranks if axis == "ranks" else threads) if named is None else named
    told = {"unit": "s", "better": "lower", "scaling": "strong"}
    row = made.alone("rate", value, **told) if variant == "bare" else made.row(bare=value, subject=value, **told)
    work = {"ranks": ranks * nodes, "threads": threads, "amount": 1000.0, **facts.pop("work", {})}
    return made.case("Code", variant, nodes, [row], axes=f" %{axis}={stated}", expected=work, **facts)


def test_fewer_ranks_on_a_node_have_speed_up_and_efficiency_over_cores():
    """As D12.6 figure 8.9: the base is one rank on one core; the usual case has all."""
    raw = [on(28, 1.0, named=0), on(1, 20.0), on(14, 1.6)]
    assert told(*raw) == [
        "Code bare, rate: 1 core 20 s, 14 cores 1.6 s, 28 cores 1 s: speed-up 12.5 and 20, efficiency 89 % and 71 %"
    ]
    # Threads are no other.
    (line,) = told(on(1, 8.0, 1, axis="workers"), on(1, 1.6, 8, axis="workers", named=0))
    assert line == "Code bare, rate: 1 core 8 s, 8 cores 1.6 s: speed-up 5, efficiency 62 %"


def test_scaling_over_cores_names_the_nodes_and_keeps_them_apart():
    raw = [on(ranks, 8.0 / ranks / nodes, nodes=nodes) for nodes in (1, 2) for ranks in (1, 4)]
    lines = told(*raw)
    assert "Code bare, rate, 2 nodes: 2 cores 4 s, 8 cores 1 s: speed-up 4 against 2 cores, efficiency 100 %" in lines
    assert "Code bare, rate: 1 core 8 s, 4 cores 2 s: speed-up 4, efficiency 100 %" in lines
    # And over nodes, for each number of ranks.
    assert "Code ranks=4 bare, rate: 1 node 2 s, 2 nodes 1 s: speed-up 2, efficiency 100 %" in lines


@pytest.mark.parametrize(
    "raw",
    [
        [on(1, 8.0, 28), on(14, 7.0, 2), on(28, 6.0, named="all")],
        [on(4, 8.0, named=0), on(4, 8.0)],
        [on(1, 8.0, work={"threads": None}), on(4, 2.0, work={"threads": None})],
        [on(1, 8.0), on(4, 2.0, variant="generic")],
    ],
    ids=["mixes", "the same cores", "an old report", "two variants"],
)
def test_what_has_no_other_cores_has_no_scaling_over_them(raw):
    assert told(*raw) == []


#: Seconds of the whole without DLB and under two policies, bare and in the container.
BARE_SECONDS = {"no DLB": 30.0, "isolation": 20.0, "full sharing": 15.0}
INSIDE_SECONDS = {"no DLB": 33.0, "isolation": 22.0, "full sharing": 30.0}


def compared(metric, baseline, subject, labels):
    """Return the row of two sides, with their seconds."""
    facts = {"unit": "s", "better": "lower", "baseline_label": labels[0]}
    return {**made.row(metric, baseline, **facts), "subject": subject, "subject_label": labels[1]}


def sharing(variant, rows, use_case="two"):
    raw = made.case("Collocation", variant, axes=f" %use_case={use_case}")
    # The labels are the sides' own.
    return {**raw, "results": rows}


def bare_policies():
    none, *others = BARE_SECONDS
    pairs = [(BARE_SECONDS[none], BARE_SECONDS[other], (none, other)) for other in others]
    return sharing("bare", [compared("seconds_whole", *pair) for pair in pairs])


def policies_inside():
    rows = []
    for policy, seconds in INSIDE_SECONDS.items():
        twin = "bare" if policy == "no DLB" else f"bare, {policy}"
        rows.append(compared("seconds_whole", BARE_SECONDS[policy], seconds, (twin, f"integrated, {policy}")))
    shm = ("bare, isolation", "integrated, full sharing, a /dev/shm each")
    return sharing("integrated", [*rows, compared("seconds_whole", BARE_SECONDS["isolation"], 22.0, shm)])


def test_a_container_s_policy_is_compared_with_no_dlb_in_the_same_container():
    cases = made.cases([bare_policies(), policies_inside()])
    lines = [
        "Collocation bare: speed-up against no DLB: isolation 1.5, full sharing 2",
        "Collocation integrated: speed-up against no DLB: isolation 1.5 (bare 1.5), full sharing 1.1 (bare 2), "
        "full sharing, a /dev/shm each 1.5",
    ]
    assert scaling.lines(cases) == lines
    assert [line for line in view.lines(cases) if "speed-up against" in line] == lines


def test_other_checks_have_no_policies():
    rows = [made.row("seconds_whole", unit="s", better="lower")]
    alone = made.case(variant="bare", rows=[made.alone("seconds_whole", unit="s")])
    assert told(made.case(rows=rows), alone) == []
