"""What policies of sharing cores gain, from the rows of cases with programs beside each other, and its plots."""

from __future__ import annotations

import made
from containercheck.report import policies, table
from containercheck.report.page import over_axis

#: Seconds of the whole without DLB and under two policies, bare and in the container.
BARE = {"no DLB": 30.0, "isolation": 20.0, "full sharing": 15.0}
INSIDE = {"no DLB": 33.0, "isolation": 22.0, "full sharing": 30.0}


def compared(metric, baseline, subject, labels):
    """Return the row of two sides, with their seconds."""
    facts = {"unit": "s", "better": "lower", "baseline_label": labels[0]}
    return {**made.row(metric, baseline, **facts), "subject": subject, "subject_label": labels[1]}


def case(variant, rows, use_case="two"):
    raw = made.case("Collocation", variant, axes=f" %use_case={use_case}")
    # The labels are the sides' own.
    return {**raw, "results": rows}


def bare(metrics=("seconds_whole",), **facts):
    none, *others = BARE
    rows = [compared(name, BARE[none], BARE[other], (none, other)) for name in metrics for other in others]
    return case("bare", rows, **facts)


def integrated(metrics=("seconds_whole",), **facts):
    rows = []
    for name in metrics:
        for policy, seconds in INSIDE.items():
            twin = "bare" if policy == "no DLB" else f"bare, {policy}"
            rows.append(compared(name, BARE[policy], seconds, (twin, f"integrated, {policy}")))
        shm = ("bare, isolation", "integrated, full sharing, a /dev/shm each")
        rows.append(compared(name, BARE["isolation"], 22.0, shm))
    return case("integrated", rows, **facts)


def read(*raw):
    return made.cases(raw)


def test_a_container_s_policy_is_compared_with_no_dlb_in_the_same_container():
    cases = read(bare(), integrated())
    lines = [
        "Collocation bare: speed-up against no DLB: isolation 1.5, full sharing 2",
        "Collocation integrated: speed-up against no DLB: isolation 1.5 (bare 1.5), full sharing 1.1 (bare 2), "
        "full sharing, a /dev/shm each 1.5",
    ]
    assert policies.lines(cases) == lines
    assert [line for line in table.lines(cases) if "speed-up against" in line] == lines


def test_seconds_and_speed_up_of_each_policy_are_bars_of_bare_and_container():
    seconds, gain = over_axis.over_policies("Collocation, compute", read(bare(), integrated()))
    assert seconds.title == "Collocation, compute use_case=two: seconds_whole under each policy"
    assert gain.title == "Collocation, compute use_case=two: speed-up of seconds_whole against no DLB"
    values = {row[:2]: row[2] for row in seconds.table.rows}
    assert values["bare", "no DLB"].startswith("30 (") and values["integrated", "full sharing"].startswith("30 (")
    gains = {row[:2]: row[2].partition(" ")[0] for row in gain.table.rows}
    assert gains == {
        ("bare", "isolation"): "1.5",
        ("integrated", "isolation"): "1.5",
        ("bare", "full sharing"): "2",
        ("integrated", "full sharing"): "1.1",
        ("integrated", "full sharing, a /dev/shm each"): "1.5",
    }


def test_over_use_cases_are_the_sides_without_a_policy():
    """As D12.5 figure 11; the policies have plots of their own."""
    cases = read(*(make(use_case=name) for name in ("1 of 2x12", "1 of 8x3") for make in (bare, integrated)))
    (chart,) = over_axis.over_axes("Collocation", cases)
    assert chart.title == "Collocation: seconds_whole over use_case"
    assert [row[:2] for row in chart.table.rows] == [
        (side, name) for side in ("bare", "integrated") for name in ("1 of 2x12", "1 of 8x3")
    ]


def test_other_checks_have_no_policies():
    rows = [made.row("seconds_whole", unit="s", better="lower")]
    cases = read(made.case(rows=rows), made.case(variant="bare", rows=[made.alone("seconds_whole", unit="s")]))
    assert policies.lines(cases) == [] and list(over_axis.over_policies("Collocation, compute", cases)) == []
