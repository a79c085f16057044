"""Plots of an application on the page: over nodes, axes, messages and versions, with published values; and drawing."""

from __future__ import annotations

from xml.etree import ElementTree

import made
import pytest
from containercheck.history.nights import Night
from containercheck.report.page import axis_values, drawing, over_axis
from containercheck.report.page.applications import applications
from containercheck.report.page.drawing import Chart, PlotValue

SVG = "{http://www.w3.org/2000/svg}"
FAILED = {"result": "fail", "fail_phase": "sanity", "fail_reason": "wrong"}


def cases(*raw):
    return made.cases(raw)


def night(*raw):
    return Night("1", 0.0, "", tuple(cases(*raw)), frozenset())


def plots(*raw, most=8):
    """Return the plots of an application, by the end of their titles."""
    (application,) = applications([night(*raw)], most)
    return {chart.title.rpartition(": ")[2]: chart for chart in application.charts}


def scaling(bare, **facts):
    """Return a row of a metric that scales, without overhead."""
    return made.row(bare=bare, overhead=0.0, scaling="strong", **facts)


def test_plots_are_drawn_where_they_show_something():
    pair = [made.case("A", variant, 1, [made.row()]) for variant in ("integrated", "generic")]
    assert list(plots(*pair)) == ["overhead in %"]
    more = [made.case("A", "generic", nodes, [scaling(100.0 / nodes)]) for nodes in (1, 2, 4)]
    assert list(plots(*more)) == ["overhead in %", "speed-up of rate", "rate over nodes"]
    assert len(plots(*more, most=1)) == 1
    # A metric that does not scale, by its check.
    latency = [made.case("A", "generic", nodes, [made.row(unit="us", better="lower")]) for nodes in (1, 2)]
    assert "speed-up of rate" not in plots(*latency)


def test_a_speed_up_counts_the_work():
    """Twice the atoms at the same rate, on twice the nodes, is twice the speed."""
    raw = [made.case("A", "generic", n, [scaling(100.0)], expected={"amount": 1000.0 * n}) for n in (1, 2, 4)]
    chart = plots(*raw)["speed-up of rate"]
    bare = [row[1:] for row in chart.table.rows if row[0] == "bare"]
    assert [(at, value.partition(" ")[0], value[-6:]) for at, value in bare] == [(n, n, " 100 %") for n in "124"]
    assert "A run works on more with more nodes, which counts." in chart.description


def test_a_variant_without_the_smallest_run_begins_on_the_line_of_the_ideal():
    work = {"amount": 1.0}
    raw = [made.case("A", "bare", n, [made.alone(bare=10.0 * n, scaling="strong")], expected=work) for n in (1, 2, 4)]
    raw += [made.case("A", "generic", n, [scaling(10.0 * n)], expected=work) for n in (2, 4)]
    raw.append(made.case("A", "generic", 1, [], expected=work, **FAILED))
    chart = plots(*raw)["speed-up of rate"]
    values = {row[:2]: row[2].partition(" ")[0] for row in chart.table.rows}
    assert values == {(side, at): at for side, ats in (("bare", "124"), ("generic", "24")) for at in ats}
    assert "generic is compared with 2 nodes, and begins on the line of the ideal." in chart.description
    assert "generic: left out: 1 node (failed)." in chart.description


def drawn(*raw):
    return list(over_axis.over_axes("Code, compute", cases(*raw)))


def test_a_metric_over_numbers_is_a_curve_for_each_side_and_other_axes_are_not_mixed():
    raw = [made.case(axes=f" %ranks={ranks}", rows=[made.row(bare=100.0 * ranks)]) for ranks in (1, 2, 8)]
    (chart,) = drawn(*raw)
    assert chart.title == "Code, compute: rate over ranks"
    assert [row[:2] for row in chart.table.rows] == [
        (side, place) for side in ("bare", "generic") for place in ("1", "2", "8")
    ]
    assert "bare: 100 at 1 to 800 at 8" in chart.description
    assert drawn(*(made.case(axes=f" %size={n} %mode={n}", rows=[made.row()]) for n in (1, 2))) == []


def test_bare_is_that_of_most_rounds_and_not_a_run_at_another_time():
    """On a machine of two speeds DGEMM's bare run was 40 % faster than both sides in the rounds of its container."""
    contained = [made.case(axes=f" %block={block}", rows=[made.row(bare=7.0)]) for block in (64, 256)]
    alone = [made.case(variant="bare", axes=f" %block={block}", rows=[made.alone("rate", 10.0)]) for block in (64, 256)]
    (chart,) = drawn(*alone, *contained)
    assert "bare: 7 at 64 to 7 at 256" in chart.description


def test_a_metric_that_scales_has_speed_up_and_efficiency_over_cores():
    """As D12.6 figures 8.9 and 8.10, from cases with fewer ranks."""
    raw = [on(ranks, ranks) for ranks in (1, 2, 8)]
    for case, seconds in zip(raw, (80.0, 40.0, 20.0)):
        case["results"] = [scaling(seconds, unit="s", better="lower")]
    up, efficiency, values = drawn(*raw)
    assert up.title.endswith(": speed-up of rate over cores")
    assert [(row[1], row[2].partition(" ")[0], row[2].rpartition(", ")[2]) for row in up.table.rows[:3]] == [
        ("1", "1", "efficiency 100 %"),
        ("2", "2", "efficiency 100 %"),
        ("8", "4", "efficiency 50 %"),
    ]
    assert efficiency.title.endswith(": efficiency of rate over cores")
    assert "bare: efficiency 50 %" in efficiency.description
    assert values.title.endswith(": rate over ranks")


def on(value, ranks, threads=1, nodes=1, axis="ranks", amount=1000.0, application="Code", **facts):
    """Return a case with a value of an axis, and the layout and work that it came to."""
    expected = {"ranks": ranks * nodes, "threads": threads, "amount": amount}
    rows, size = [made.row(facts.pop("metric", "rate"))], facts.pop("size", "")
    return made.case(application, nodes=nodes, axes=f" %{axis}={value}{size}", rows=rows, expected=expected, **facts)


@pytest.mark.parametrize(
    ("axis", "raw", "meaning", "numbers"),
    [
        # HPCC: the usual case has a rank on each core. BT-MZ: fewer ranks have more threads each, on several nodes.
        ("ranks", [on(0, 28), on(1, 1), on(14, 14)], "on a node", {"0": 28, "1": 1, "14": 14}),
        (
            "ranks",
            [on("all", 28, nodes=4), *(on(ranks, ranks, 28 // ranks, nodes=4) for ranks in (1, 14))],
            "on a node",
            {"all": 28, "1": 1, "14": 14},
        ),
        ("ranks", [on(0, 28, nodes=2), *(on(2 * n, n, nodes=2) for n in (1, 2))], "in all", {"0": 56, "2": 2, "4": 4}),
        # One rank on the node in all cases, whose threads differ.
        ("threads", [on(1, 1, 1, axis="threads"), on("all", 1, 28, axis="threads")], "threads of", {"1": 1, "all": 28}),
        # Slots that the layout does not have: all of them are the cores.
        ("slots", [on(n, 1, 28, axis="slots") for n in ("1", "14", "all")], "cores of", {"1": 1, "14": 14, "all": 28}),
    ],
)
def test_a_default_stands_at_the_number_that_its_case_had(axis, raw, meaning, numbers):
    placed = axis_values.places(axis, cases(*raw))
    assert placed.meaning.startswith(meaning)
    assert placed.numbers == numbers


def test_a_default_that_no_layout_has_stays_a_name():
    assert axis_values.places("runs", cases(on(60, 4, axis="runs"), on(0, 4, axis="runs"))) is None
    old = [on(ranks, 4) for ranks in (0, 1)]
    for raw in old:
        del raw["expected"]
    assert axis_values.places("ranks", cases(*old)) is None
    raw = [made.case(axes=f" %use_case={name}", rows=[made.row()]) for name in ("two", "one", "five")]
    (chart,) = drawn(*raw)
    assert {row[1] for row in chart.table.rows} == {"two", "one", "five"} and len(chart.table.rows) == 6


def test_another_problem_is_not_a_part_of_the_curve():
    """HPCG: the usual run has a smaller problem for each rank."""
    raw = [on("plain", 28, amount=28 * 32.0**3), *(on(ranks, ranks, amount=ranks * 120.0**3) for ranks in (1, 14))]
    (chart,) = drawn(*raw)
    assert "Not drawn: ranks=plain (another amount of work)." in chart.description
    assert "ns/day over ranks (on a node)" in chart.description
    raw.append(on("all", 28, amount=28 * 120.0**3))
    assert axis_values.places("ranks", cases(*raw)).numbers == {"1": 1, "14": 14, "all": 28}


def published(charts):
    return {row[:2]: row[2] for chart in charts for row in chart.table.rows if row[0].startswith("published")}


def test_published_values_stand_on_each_axis_with_their_machine():
    """MIPT's largest matrix; BT-MZ of class C on Lenox, which has 28 cores a node (its file in config/)."""
    sizes = [
        made.case("HPL", "bare", 2, axes=f" %size={size}", rows=[made.alone("HPL", unit="GFLOPS")])
        for size in (8000, 96000)
    ]
    marks = published(drawn(*sizes))
    assert marks["published: mipt, bare", "96000"] == "450.2 GFLOPS"
    assert marks["published: mipt, generic", "96000"] == "452.2 GFLOPS"

    def mixes(nodes=4, size=" %size=C"):
        facts = {"nodes": nodes, "application": "BTMZ", "metric": "seconds", "size": size}
        return [on(ranks, count, 8 // count, **facts) for ranks, count in (("all", 8), ("1", 1), ("2", 2))]

    marks = published(drawn(*mixes()))
    assert marks["published: lenox, bare", "28 (all)"].startswith("15.55")
    assert marks["published: lenox, bare", "14"].startswith("19.8")
    # Other nodes, or another class.
    assert published(drawn(*mixes(nodes=1))) == published(drawn(*mixes(size=" %size=B"))) == {}


def test_published_values_stand_over_nodes_and_over_the_sizes_of_messages():
    """D12.6 table 6.3b: BT-MZ of class C on four nodes, as 4 x 28. SANDIA figure 3: 1.3 us for 8 bytes on Volta."""
    for size, values in (("C", ["27.54 s", "27.55 s"]), ("A", [])):
        axes, rows = f" %size={size} %ranks=1", [made.row("seconds", unit="s")]
        raw = [made.case("BTMZ", nodes=nodes, rows=rows, axes=axes) for nodes in (1, 2)]
        marks = published([plots(*raw)["seconds over nodes"]])
        assert list(marks.values()) == values
        assert {at for _, at in marks} <= {"4"}
    rows = [made.row(f"latency_{size}B", unit="us", better="lower") for size in (8, 16, 32, 64)]
    (chart,) = drawn(made.case("IMB", nodes=2, rows=rows))
    assert chart.title.endswith(": latency over the size of a message")
    assert published([chart])["published: volta, bare", "8"] == "1.3 us"
    # Between two nodes, and not within one; and three sizes are not a curve.
    assert published(drawn(made.case("IMB", nodes=1, rows=rows))) == {}
    assert drawn(made.case("IMB", nodes=2, rows=rows[:3])) == []


def test_overheads_and_references_of_ours_are_not_published_values():
    names = {(value.partition, value.metric) for value in axis_values.published("IMB")}
    assert ("volta:compute", "bandwidth_peak") in names
    assert not any(partition.startswith("virtual") or name.endswith("_overhead") for partition, name in names)
    assert axis_values.published("Nothing") == ()


def test_a_metric_is_drawn_for_each_version_of_the_runtime():
    """D12.6 figures 9.1 to 9.7, by the place of the image; medians of the nights, and of one version nothing."""

    def ran(version, seconds):
        facts = {"unit": "s", "overhead_unit": "s", "better": "lower", "subject": seconds}
        rows, provenance = [made.row("outside", 20.0, seconds - 20, **facts)], made.provenance("generic", version)
        axes = (" %image_in=shared", " %image_in=ram")
        return night(*(made.case("RAMP", rows=rows, axes=place, provenance=provenance) for place in axes))

    shared, ram = over_axis.over_versions("RAMP", [ran("2.6.1", 22.0), ran("2.6.1", 24.0), ran("3.3.0", 21.0)])
    assert ram.title == "RAMP image_in=ram, cluster:compute: outside under each version of the runtime"
    versions = "generic: 23 at apptainer version 2.6.1 to 21 at apptainer version 3.3.0."
    assert f"bare: 20 at bare; {versions}" in shared.description
    assert list(over_axis.over_versions("RAMP", [ran("2.6.1", 22.0)])) == []


def _luminance(color):
    parts = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(color, other):
    """Return the ratio of two colors' luminances, as WCAG 2.1 defines it: from 1 to 21."""
    brighter, darker = sorted((_luminance(color), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


WRITTEN = ("text", "muted", "link", "bad", "good", "doubt")
DRAWN = ("text", "edge", "bad", "series-1", "series-2", "series-3", "series-4")


def test_texts_and_drawings_stand_out_from_their_ground():
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    for place in (0, 1):
        for ground, names, least in (
            ("ground", WRITTEN, 4.5),
            ("raised", WRITTEN, 4.5),
            ("ground", DRAWN, 3.0),
            ("raised", DRAWN[:3], 3.0),
        ):
            ratios = {name: contrast(drawing.COLORS[name][place], drawing.COLORS[ground][place]) for name in names}
            assert min(ratios.values()) >= least, (ground, place, ratios)


def test_series_differ_by_more_than_their_color():
    for part in range(3):
        assert len({str(look[part]) for look in drawing.LOOKS}) == len(drawing.LOOKS)
    assert len(set(drawing.HATCHES.values())) == len(drawing.LOOKS) - 1
    # Light colors are replaced with the names of the page's colors.
    light = [values[0] for values in drawing.COLORS.values()]
    assert len(light) == len(set(light))


def svg(figure, title="A plot"):
    """Return a figure as SVG of the page, parsed."""
    return ElementTree.fromstring(Chart.of(title, "Words about it.", figure, ("side",), [("bare",)]).svg)


def test_a_long_legend_fits_into_the_plot():
    several = [PlotValue(f"published: machine-{number}, integrated", 1.0, 2.0, published=True) for number in range(5)]
    plot = svg(drawing.over_numbers(several, "ranks", "s"))
    texts = {element.text: float(element.get("x")) for element in plot.iter(f"{SVG}text")}
    ends = [x + 6 * len(text) for text, x in texts.items() if text.startswith("published")]
    assert len(ends) == 5 and max(ends) < float(plot.get("viewBox").split()[2])


def test_names_have_a_bar_for_each_side_and_published_ones_are_outlines():
    bars = [PlotValue(side, name, 4.0, 3.0, 5.0) for side in ("bare", "generic") for name in ("SSE2", "many words")]
    bars += [PlotValue("published: m, bare", "SSE2", 9.0, published=True), PlotValue("generic", "alone", -5.0)]
    axes = drawing.over_names(bars, "ns/day").axes[0]
    faces = [(patch.get_facecolor()[3], bool(patch.get_hatch())) for patch in axes.patches]
    # Bare is filled, the container hatched, and the published value hollow.
    assert faces == [(0.4, False)] * 2 + [(0.0, True)] * 3 + [(0.0, False)]
    # A bar alone stands above its name, and one below zero is whole.
    alone = next(patch for patch in axes.patches if patch.get_height() == -5)
    assert alone.get_x() + alone.get_width() / 2 == pytest.approx(2)
    assert axes.get_ylim()[0] < -5


def test_an_interval_that_is_open_reaches_the_edge():
    (case,) = cases(made.case(rows=[made.row(overhead=2.0, low=None, high=4.0)]))
    axes = drawing.overheads([("rate", "generic", case.rows[0])], "%").axes[0]
    segment = axes.collections[-1].get_segments()[0]
    assert segment[:, 0] == pytest.approx([axes.get_xlim()[0], 4.0])


@pytest.mark.parametrize("label", ["<b> & $x$ \\frac", "\x00\x1b[1m", "", "é 漢 \ud800", "_x"])
def test_a_plot_holds_any_label(label):
    svg(drawing.over_numbers([PlotValue(label, 1.0, 2.0, 1.0, 3.0)], label, label), label)
    svg(drawing.over_names([PlotValue(label, label, 2.0)], label), label)
