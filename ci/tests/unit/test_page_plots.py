"""Plots of an application on the page: over nodes, axes and messages."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from xml.etree import ElementTree

import made
import pytest
from containercheck.report.page import applications, contents, plots
from containercheck.report.page.plots import Chart, Panel, PlotValue


def cases(*raw):
    return made.cases(raw)


def titles(*raw):
    """Return the plots of an application, by the end of their titles."""
    (application,) = applications.applications(cases(*raw))
    return {chart.title.rpartition(": ")[2]: chart for chart in application.charts}


def drawn(*raw):
    return list(applications.over_axes("Code, compute", cases(*raw)))


def values(chart):
    """Return the value of each side at each place."""
    return {row[:2]: row[2].partition(" ")[0] for row in chart.table.rows}


def test_plots_are_drawn_where_they_show_something():
    pair = [made.case("A", variant, 1, [made.row()]) for variant in ("integrated", "generic")]
    assert list(titles(*pair)) == []
    rows = [made.row(), made.row("other")]
    more = [made.case("A", "generic", nodes, rows) for nodes in (1, 2, 4)]
    assert list(titles(*more)) == ["rate over nodes", "other over nodes"]
    many = [made.case("A", "generic", nodes, [made.row(f"m{n}") for n in range(20)]) for nodes in (1, 2)]
    assert len(titles(*many)) == applications.MOST


def test_a_metric_over_numbers_has_its_sides_and_other_axes_are_not_mixed():
    raw = [made.case(axes=f" %ranks={ranks}", rows=[made.row(bare=100.0 * ranks)]) for ranks in (8, 1, 2)]
    (chart,) = drawn(*raw)
    assert chart.title == "Code, compute: rate over ranks"
    assert [row[:2] for row in chart.table.rows] == [
        (side, place) for side in ("bare", "generic") for place in ("1", "2", "8")
    ]
    assert "bare: 100 at 1 to 800 at 8" in chart.description
    assert drawn(*(made.case(axes=f" %size={n} %mode={n}", rows=[made.row()]) for n in (1, 2))) == []


@pytest.mark.parametrize(
    ("names", "places"), [(("two", "one"), ["one", "two"]), (("0", "14", "1"), ["1", "14", "default"])]
)
def test_values_of_an_axis_that_are_not_all_numbers_are_names(names, places):
    raw = [made.case(axes=f" %use_case={name}", rows=[made.row()]) for name in names]
    (chart,) = drawn(*raw)
    assert [at for side, at in values(chart) if side == "bare"] == places


def test_bare_is_that_of_the_rounds_and_not_a_run_at_another_time():
    """On a machine of two speeds DGEMM's bare run was 40 % faster than both sides in the rounds of its container."""
    contained = [made.case(axes=f" %block={block}", rows=[made.row(bare=7.0)]) for block in (64, 256)]
    alone = [made.case(variant="bare", axes=f" %block={block}", rows=[made.alone("rate", 10.0)]) for block in (64, 256)]
    (chart,) = drawn(*alone, *contained)
    assert "bare: 7 at 64 to 7 at 256" in chart.description


def test_a_metric_is_drawn_over_the_sizes_of_messages_between_most_nodes():
    rows = [made.row(f"latency_{size}B", unit="us", better="lower") for size in (8, 16, 32, 64)]
    (chart,) = drawn(*(made.case("IMB", nodes=nodes, rows=rows) for nodes in (1, 2)))
    assert chart.title.endswith(": latency over the size of a message in bytes")
    assert [at for side, at in values(chart) if side == "bare"] == ["8", "16", "32", "64"]
    # Three sizes are not a curve.
    assert drawn(made.case("IMB", nodes=2, rows=rows[:3])) == []


def _luminance(color):
    parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(color, other):
    """Return the ratio of two colors' luminances, as WCAG 2.1 defines it: from 1 to 21."""
    brighter, darker = sorted((_luminance(color), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def test_texts_and_drawings_stand_out_from_their_ground():
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    style = (Path(contents.TEMPLATES) / "style.css").read_text()
    light, dark = (dict(re.findall(r"--([a-z]+): (#\w{6});", block)) for block in style.split(":root {")[1:3])
    for colors in (light, dark):
        for ground in ("ground", "raised"):
            ratios = [
                contrast(colors[name], colors[ground]) for name in ("text", "muted", "link", "bad", "good", "doubt")
            ]
            assert min(ratios) >= 4.5
    # Plots have a white ground.
    assert (
        min(contrast(color, "#ffffff") for color in (*(look[0] for look in plots.LOOKS[:4]), plots.BAD, plots.EDGE))
        >= 3
    )


def test_sides_differ_by_more_than_their_color():
    for part in range(3):
        assert len({str(look[part]) for look in plots.LOOKS}) == len(plots.LOOKS)


@pytest.mark.parametrize("label", ["<b> & $x$ \\frac", "\x00\x1b[1m", "", "é 漢 \ud800", "_x"])
@pytest.mark.parametrize("at", [1.0, None])
def test_a_plot_holds_any_label(label, at):
    place = label if at is None else at
    panel = Panel(label, [PlotValue(label, place, 2.0, 1.0, 3.0), PlotValue("bare", place, 9.0)])
    chart = Chart.of(label, "Words about it.", [panel], label, [place])
    ElementTree.fromstring(base64.b64decode(chart.image.partition(",")[2]))
