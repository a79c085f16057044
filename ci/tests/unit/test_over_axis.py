"""Plots over the axes of a check, with the published values beside ours."""

from __future__ import annotations

import made
import pytest
from containercheck.report.page import over_axis, published
from containercheck.results.cases import collect


def cases(*raw):
    return collect([{"runs": [{"testcases": list(raw)}]}])


def drawn(*raw):
    return list(over_axis.charts("axis", "Code, compute", cases(*raw)))


def test_a_figure_over_numbers_is_a_curve_for_each_side():
    raw = [made.case(axes=f" %ranks={ranks}", rows=[made.row(bare=100.0 * ranks)]) for ranks in (1, 2, 8)]
    (chart,) = drawn(*raw)
    assert chart.title == "Code, compute: rate over ranks"
    assert [row[:2] for row in chart.table.rows] == [
        (side, place) for side in ("bare", "generic") for place in ("1", "2", "8")
    ]
    assert "bare: 100 to 800" in chart.description


def test_a_figure_over_names_has_them_in_their_order():
    raw = [made.case(axes=f" %use_case={name}", rows=[made.row()]) for name in ("two", "one", "five")]
    (chart,) = drawn(*raw)
    assert {row[1] for row in chart.table.rows} == {"two", "one", "five"} and len(chart.table.rows) == 6


def test_cases_that_differ_in_another_axis_are_not_mixed():
    raw = [made.case(axes=f" %size={size} %mode={mode}", rows=[made.row()]) for size, mode in ((1, "a"), (2, "b"))]
    assert drawn(*raw) == []


def test_figures_at_many_sizes_are_a_curve_over_bytes_and_few_are_none():
    rows = [made.row(f"bandwidth_{size}KiB") for size in (8, 64, 512, 4096)]
    (chart,) = drawn(made.case(rows=rows))
    assert chart.title == "Code, compute: bandwidth over the size of a message"
    assert [row[1] for row in chart.table.rows][:4] == ["8192", "65536", "524288", "4194304"]
    assert drawn(made.case(rows=rows[:3])) == []


def test_published_values_are_hollow_and_have_their_machine():
    raw = [
        made.case("HPL", variant="bare", axes=f" %size={size}", rows=[made.alone("HPL", unit="GFLOPS")])
        for size in (8000, 96000)
    ]
    (chart,) = drawn(*raw)
    values = {row[:2]: row[2] for row in chart.table.rows}
    # MIPT's largest matrix, on bare metal and in the container.
    assert values["published: mipt, bare", "96000"].startswith("450.2")
    assert values["published: mipt, generic", "96000"].startswith("452.2")


def test_overheads_and_references_of_ours_are_no_published_values():
    names = {(value.partition, value.figure) for value in published.of("IMB")}
    assert ("volta:compute", "bandwidth_peak") in names
    assert not any(partition.startswith("virtual") or name.endswith("_overhead") for partition, name in names)
    assert published.of("Nothing") == ()


@pytest.mark.parametrize(("places", "numeric"), [(["1", "2.5"], True), (["0", "2"], False), (["all", "2"], False)])
def test_an_axis_of_positive_numbers_is_numeric(places, numeric):
    assert over_axis.is_numeric(places) is numeric
