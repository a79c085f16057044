"""Plots over the axes of a check, with the published values beside ours."""

from __future__ import annotations

import made
import pytest
from containercheck.report.page import over_axis, published
from containercheck.results.cases import collect


def cases(*raw):
    return collect([{"runs": [{"testcases": list(raw)}]}])


def drawn(*raw):
    return list(over_axis.over_axes("Code, compute", cases(*raw)))


def test_a_metric_over_numbers_is_a_curve_for_each_side():
    raw = [made.case(axes=f" %ranks={ranks}", rows=[made.row(bare=100.0 * ranks)]) for ranks in (1, 2, 8)]
    (chart,) = drawn(*raw)
    assert chart.title == "Code, compute: rate over ranks"
    assert [row[:2] for row in chart.table.rows] == [
        (side, place) for side in ("bare", "generic") for place in ("1", "2", "8")
    ]
    assert "bare: 100 at 1 to 800 at 8" in chart.description


def test_bare_is_that_of_most_rounds_and_not_a_run_at_another_time():
    """On a machine of two speeds DGEMM's bare run was 40 % faster than both sides in the rounds of its container."""
    contained = [made.case(axes=f" %block={block}", rows=[made.row(bare=7.0)]) for block in (64, 256)]
    alone = [made.case(variant="bare", axes=f" %block={block}", rows=[made.alone("rate", 10.0)]) for block in (64, 256)]
    (chart,) = drawn(*alone, *contained)
    assert "bare: 7 at 64 to 7 at 256" in chart.description


def test_a_metric_over_names_has_them_in_their_order():
    raw = [made.case(axes=f" %use_case={name}", rows=[made.row()]) for name in ("two", "one", "five")]
    (chart,) = drawn(*raw)
    assert {row[1] for row in chart.table.rows} == {"two", "one", "five"} and len(chart.table.rows) == 6


def test_cases_that_differ_in_another_axis_are_not_mixed():
    raw = [made.case(axes=f" %size={size} %mode={mode}", rows=[made.row()]) for size, mode in ((1, "a"), (2, "b"))]
    assert drawn(*raw) == []


def test_metrics_at_many_sizes_are_a_curve_over_bytes_and_few_are_none():
    rows = [made.row(f"bandwidth_{size}KiB") for size in (8, 64, 512, 4096)]
    (chart,) = drawn(made.case(rows=rows))
    assert chart.title == "Code, compute: bandwidth over the size of a message"
    assert [row[1] for row in chart.table.rows][:4] == ["8192", "65536", "524288", "4194304"]
    assert drawn(made.case(rows=rows[:3])) == []


def test_published_values_are_hollow_and_have_their_machine():
    raw = [
        made.case("HPL", "bare", 2, axes=f" %size={size}", rows=[made.alone("HPL", unit="GFLOPS")])
        for size in (8000, 96000)
    ]
    (chart,) = drawn(*raw)
    values = {row[:2]: row[2] for row in chart.table.rows}
    # MIPT's largest matrix, on bare metal and in the container.
    assert values["published: mipt, bare", "96000"].startswith("450.2")
    assert values["published: mipt, generic", "96000"].startswith("452.2")


def test_overheads_and_references_of_ours_are_no_published_values():
    names = {(value.partition, value.metric) for value in published.of("IMB")}
    assert ("volta:compute", "bandwidth_peak") in names
    assert not any(partition.startswith("virtual") or name.endswith("_overhead") for partition, name in names)
    assert published.of("Nothing") == ()


@pytest.mark.parametrize(("value", "numeric"), [("1", True), ("2.5", True), ("0", False), ("all", False)])
def test_a_positive_number_stands_for_itself(value, numeric):
    assert over_axis.is_number(value) is numeric


def on(value, ranks, threads=1, nodes=1, axis="ranks", amount=1000.0, application="Code", **facts):
    """Return a case with a value of an axis, and the layout and work that it came to."""
    expected = {"ranks": ranks * nodes, "threads": threads, "amount": amount}
    rows = [made.row(facts.pop("metric", "rate"))]
    return made.case(application, nodes=nodes, axes=f" %{axis}={value}", rows=rows, expected=expected, **facts)


def placed(*raw, axis="ranks"):
    return over_axis.places(axis, cases(*raw))


def test_a_default_of_ranks_stands_where_its_ranks_are():
    """HPCC over processes: the usual case has one on each core."""
    raw = [on(0, 28), *(on(ranks, ranks) for ranks in (1, 2, 14))]
    (chart,) = drawn(*raw)
    assert [row[1] for row in chart.table.rows][:4] == ["1", "2", "14", "28 (0)"]
    assert "ns/day over ranks (on a node)" in chart.description


def test_a_mix_that_fills_a_node_stands_where_its_ranks_are_on_several_nodes():
    """BT-MZ: fewer ranks have more threads each."""
    raw = [on("all", 28, nodes=4), *(on(ranks, ranks, 28 // ranks, nodes=4) for ranks in (1, 7, 14))]
    assert placed(*raw).numbers == {"all": 28, "1": 1, "7": 7, "14": 14}


def test_threads_for_all_cores_stand_where_they_are():
    """One rank on the node in both cases, whose threads differ."""
    raw = [on(1, 1, 1, axis="openmp"), on("all", 1, 28, axis="openmp")]
    assert placed(*raw, axis="openmp") == over_axis.Places("threads of a rank", {"1": 1, "all": 28})


def test_workers_are_threads():
    raw = [on(0, 1, 8, axis="workers"), on(2, 1, 2, axis="workers"), on(4, 1, 4, axis="workers")]
    assert placed(*raw, axis="workers").numbers == {"0": 8, "2": 2, "4": 4}


def test_all_slots_are_the_cores_where_the_layout_does_not_tell():
    raw = [on(slots, 1, 28, axis="slots") for slots in ("1", "14", "all")]
    assert placed(*raw, axis="slots").numbers == {"1": 1, "14": 14, "all": 28}


def test_ranks_in_all_are_no_ranks_of_a_node():
    raw = [on(0, 28, nodes=2), *(on(2 * ranks, ranks, nodes=2) for ranks in (1, 2))]
    assert placed(*raw) == over_axis.Places("in all", {"0": 56, "2": 2, "4": 4})


def test_another_problem_is_no_part_of_the_curve():
    """HPCG: the usual run has a smaller problem for each rank."""
    raw = [on("plain", 28, amount=28 * 32.0**3), *(on(ranks, ranks, amount=ranks * 120.0**3) for ranks in (1, 14))]
    assert placed(*raw).left_out == (("plain", "another amount of work"),)
    (chart,) = drawn(*raw)
    assert "Not drawn: ranks=plain (another amount of work)." in chart.description
    raw.append(on("all", 28, amount=28 * 120.0**3))
    assert placed(*raw).numbers == {"1": 1, "14": 14, "all": 28}


def test_what_no_layout_tells_stays_a_name():
    assert placed(on(60, 4, axis="runs"), on(0, 4, axis="runs"), axis="runs") is None
    assert placed(on("few", 4, axis="sizes"), on("all", 4, axis="sizes"), axis="sizes") is None
    old = [on(ranks, 4) for ranks in (0, 1)]
    for raw in old:
        del raw["expected"]
    assert placed(*old) is None


def test_published_mixes_stand_at_the_cores_of_their_machine():
    """Lenox has 28 cores a node, by its file in config/."""
    size = " %size=C"
    raw = [
        on(ranks, count, 8 // count, nodes=4, application="BTMZ", metric="seconds")
        for ranks, count in (("all", 8), ("1", 1), ("2", 2))
    ]
    for case in raw:
        case["display_name"] += size
    (chart,) = [chart for chart in drawn(*raw) if chart.title.endswith("over ranks")]
    rows = {row[:2]: row[2] for row in chart.table.rows}
    assert rows["published: lenox, bare", "28 (all)"].startswith("15.55")
    assert rows["published: lenox, bare", "14"].startswith("19.8")
    assert ("generic", "8 (all)") in rows


def test_published_values_of_other_nodes_or_another_class_are_not_drawn():
    for nodes, size in ((1, "C"), (4, "B")):
        raw = [on(ranks, ranks, nodes=nodes, application="BTMZ", metric="seconds") for ranks in (1, 2)]
        for case in raw:
            case["display_name"] += f" %size={size}"
        assert not any("published" in row[0] for chart in drawn(*raw) for row in chart.table.rows)


def test_a_metric_that_scales_has_speed_up_and_efficiency_over_cores():
    """As D12.6 figures 8.9 and 8.10, from cases with fewer ranks."""
    raw = [on(ranks, ranks) for ranks in (1, 2, 8)]
    for case, seconds in zip(raw, (80.0, 40.0, 20.0)):
        facts = {"unit": "s", "better": "lower", "scaling": "strong"}
        case["results"] = [made.row(bare=seconds, overhead=0.0, **facts)]
    up, efficiency, values = drawn(*raw)
    assert (up.title, efficiency.title) == (
        "Code, compute: speed-up of rate over cores",
        "Code, compute: efficiency of rate over cores",
    )
    assert [(row[1], row[2].partition(" ")[0], row[2].rpartition(", ")[2]) for row in up.table.rows[:3]] == [
        ("1", "1", "efficiency 100 %"),
        ("2", "2", "efficiency 100 %"),
        ("8", "4", "efficiency 50 %"),
    ]
    assert "bare: efficiency 50 %" in efficiency.description
    assert values.title.endswith("rate over ranks")


def test_published_values_are_marks_over_the_sizes_of_messages():
    """SANDIA figure 3: 1.3 us for 8 bytes on Volta, between two nodes; a plot of one node has none."""
    rows = [made.row(f"latency_{size}B", unit="us", better="lower") for size in (8, 16, 32, 64)]
    between, inside = ([chart for chart in drawn(made.case("IMB", nodes=nodes, rows=rows))] for nodes in (2, 1))
    marks = {row[:2]: row[2] for row in between[0].table.rows if row[0].startswith("published")}
    assert marks["published: volta, bare", "8"] == "1.3 us" and marks["published: ec2, generic", "8"] == "57.5 us"
    assert not any("published" in row[0] for row in inside[0].table.rows)
