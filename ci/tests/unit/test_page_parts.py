"""Parts of the page by themselves: what a case came to, the command that repeats it, colors, plots."""

from __future__ import annotations

import re
import shlex
from xml.etree import ElementTree

import made
import pytest
from containercheck.report.page import drawing, matrix, palette, plots, rerun, shapes, states, wording
from containercheck.report.page.svg import part_of_page
from containercheck.results.cases import COMMON_FILE, collect
from hypothesis import given
from hypothesis import strategies as st

#: As ReFrame logs a figure that has a reference.
REFERENCED = [9.0, 10.0, -0.1, None, "x", "pass"]
FAILED = {"result": "fail", "fail_reason": "slow"}


#: Name, style and height of two bars, each above a name of its own.
BARS = (("bare", 0, 10.0), ("generic", 1, -5.0))


def cases(*raw):
    return collect([{"runs": [{"testcases": list(raw)}]}])


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({"rows": [made.row()]}, states.PASS),
        ({"rows": [made.row(), made.row("other", verdict="inconclusive")]}, states.OPEN),
        ({"rows": [made.opened("noisy"), made.opened("slower", "other")]}, states.SLOWER),
        ({"rows": [made.opened("close"), made.opened("faster", "other")]}, states.FASTER),
        ({"rows": [made.row(), made.opened("noisy"), made.opened("close", "other")]}, states.CLOSE),
        ({"rows": [made.row(), made.opened("noisy", "other")]}, states.NOISY),
        ({"rows": [made.row(expected=True)]}, states.KNOWN),
        ({"result": "xfail"}, states.KNOWN),
        ({"rows": [made.row(verdict="emulated", expected=True)]}, states.EMULATED),
        ({"rows": [made.alone()], "variant": "bare"}, states.BARE),
        ({"rows": [made.alone()], "variant": "bare", "perfvalues": {"s:p:rate": REFERENCED}}, states.PASS),
        ({"result": "skip", "skip_reason": "no image"}, states.SKIP),
        ({**FAILED, "fail_phase": "performance"}, states.FAIL),
        ({**FAILED, "fail_phase": "sanity"}, states.FAIL),
        ({**FAILED, "fail_phase": "compile_wait"}, states.UNMEASURED),
        ({"result": "abort"}, states.UNMEASURED),
        ({}, states.PASS),
    ],
)
def test_a_case_comes_to_one_of_these_things(facts, state):
    (case,) = cases(made.case(**facts))
    assert states.state(case) is state


def test_no_two_states_share_word_or_sign():
    for what in ("word", "sign", "meaning"):
        assert len({getattr(known, what) for known in states.ALL}) == len(states.ALL)


def test_a_command_names_what_is_needed_and_no_more():
    short, full = cases(made.case("A", axes=" %size=1.5"), made.case("A", axes=" %who=x@y-z", tags=["full"]))
    assert rerun.command([short], [short]) == (
        "containercheck run --system=cluster:compute -n '^A%variant=generic%num_nodes=1%size=1\\.5$'"
    )
    assert rerun.command([full], [full]).endswith("%who=x.y-z$' -S full=yes")
    (other,) = cases(made.case("A", environ="gnu", axes=" %size=1.5"))
    assert "-p '^builtin$' -n" in rerun.command([short], [short, other])
    assert rerun.command([], [short]) == ""


def report(words, *raw, files=("<builtin>",)):
    """Return a report of a session with these arguments of ReFrame's."""
    info = {"cmdline": shlex.join(["/venv/bin/reframe", "-r", "-c", "checks/", *words]), "config_files": [*files]}
    return {"session_info": info, "runs": [{"testcases": [*raw]}]}


def again(*reports):
    """Return the command of the only case of some reports."""
    (case,) = collect(reports)
    return rerun.command([case], [case])


@pytest.mark.parametrize(
    ("words", "files", "first", "last"),
    [
        ([], [COMMON_FILE], "", ""),
        ([], [COMMON_FILE, "/my site/a.py"], "RFM_CONFIG_FILES='/my site/a.py' ", ""),
        # What is common has a place of the person's.
        ([], ["/a.py", COMMON_FILE, "/b.py"], f"RFM_CONFIG_FILES=/a.py:{COMMON_FILE}:/b.py ", ""),
        (["-C", "a.py"], ["/here/a.py"], "", " -C /here/a.py"),
        (["--config-file=a.py", "-C", "b c.py"], ["/a.py", "/b c.py"], "", " -C /a.py -C '/b c.py'"),
        (["-S", "x=$HOME", "--setvar=A.y=1"], [COMMON_FILE], "", " -S 'x=$HOME' -S A.y=1"),
        (["-S", "y=it's", "-n", "^A|B$", "--session-extras=nightly=1"], [COMMON_FILE], "", " -S 'y=it'\"'\"'s'"),
    ],
)
def test_a_command_has_the_configuration_and_the_variables_of_its_session(words, files, first, last):
    selection = "containercheck run --system=cluster:compute -n '^A%variant=generic%num_nodes=1$'"
    assert again(report(words, made.case("A"), files=["<builtin>", *files])) == f"{first}{selection}{last}"


@given(st.text(), st.text(min_size=1))
def test_a_shell_reads_of_a_command_what_was_asked(value, name):
    words = shlex.split(again(report(["-S", f"x={value}"], made.case("A"), files=["<builtin>", f"/{name}"])))
    assert words[:3] == [f"RFM_CONFIG_FILES=/{name}", "containercheck", "run"]
    assert words[-2:] == ["-S", f"x={value}"]


def test_full_axes_are_asked_for_once():
    assert again(report(["-S", "full=yes"], made.case("A", tags=["full"]))).endswith("=1$' -S full=yes")


def test_what_went_on_from_another_session_is_not_asked_again():
    first = report(["-S", "x=1"], made.case("A"))
    later = report(["-S", "x=1", "-S", "A.seconds=9", "-S", "earlier=/gone.json"], made.case("A"))
    assert again(first, later).endswith("=1$' -S x=1")
    # Nor is a confirmation, which has more rounds.
    confirming = report(["-S", "x=1", "-S", "A.rounds=9"], made.case("A", nightly_pass="confirmation"))
    assert again(first, later, confirming).endswith("=1$' -S x=1")
    assert again(later).endswith("=1$' -S x=1 -S A.seconds=9")


@pytest.mark.parametrize("info", [{}, {"cmdline": "reframe -S 'x", "config_files": None}, {"cmdline": "reframe -S"}])
def test_what_a_session_does_not_tell_is_left_out(info):
    assert again({**report([], made.case("A")), "session_info": info}).endswith("=1$'")


def test_scripts_are_found_among_what_a_job_does():
    commands = ["# Of a person's own", "# bare runs: a", "# bare runs: b", "# generic runs: c runs: d", "e"]
    (case,) = cases(made.case(prerun_cmds=commands))
    assert rerun.scripts(case) == [("bare", "a\nb"), ("generic", "c runs: d")]


def test_cases_are_named_as_short_as_that_can_be_said():
    found = cases(*(made.case(name, variant) for name in "AB" for variant in made.VARIANTS), made.case("B", nodes=2))
    assert wording.share_of(found, found) == "all 7 cases"
    contained = [case for case in found if case.variant != "bare"]
    assert wording.share_of(contained, found) == "all cases: integrated, generic"
    assert wording.share_of(found[:3], found) == "A"
    assert wording.share_of(found[1:3], found) == "A: integrated, generic"
    assert wording.share_of(found[2:4], found) == "A generic, 1 node, B bare, 1 node"


def test_a_matrix_has_a_cell_for_variant_and_nodes_and_reasons_for_what_is_not_there():
    full = made.case("A", "generic", 1, axes=" %size=9", result="skip", skip_reason="full")
    down = made.case("B", "generic", 2, result="skip", skip_reason="down")
    found = cases(made.case("A", "bare", 1, [made.alone()]), made.case("A", "generic", 1, [made.row()]), full, down)
    reasons = matrix.skips(found)
    (table,) = matrix.matrices(found, reasons, {"A": "application-1"})
    assert table.partition == "cluster:compute"
    assert table.groups == (("bare", (1,)), ("generic", (1, 2)))
    words = {row.name: [[entry.state.word for entry in cell] for cell in row.cells] for row in table.rows}
    # A case of the full axes makes no row of its own.
    assert words == {"A": [["measured"], ["pass"], []], "B": [[], [], ["skipped"]]}
    assert table.rows[1].cells[2][0].target == reasons["down"].anchor
    assert [(skip.reason, skip.count) for skip in reasons.values()] == [("full", 1), ("down", 1)]


def test_plots_are_drawn_where_they_say_something():
    pair = [made.case("A", variant, 1, [made.row()]) for variant in ("integrated", "generic")]
    titles = [chart.title for chart in plots.plots("p", "A", cases(*pair), 9)]
    assert titles == ["A: overhead in %"]
    more = [made.case("A", "generic", nodes, [scaling(100.0 / nodes)]) for nodes in (1, 2, 4)]
    titles = [chart.title for chart in plots.plots("p", "A", cases(*more), 9)]
    assert titles == ["A: overhead in %", "A: speed-up of rate", "A: rate over nodes"]
    assert len(plots.plots("p", "A", cases(*more), 1)) == 1
    # A figure of which the check does not say that it scales.
    latency = [made.case("A", "generic", nodes, [made.row(unit="us", better="lower")]) for nodes in (1, 2)]
    assert not any("speed-up" in chart.title for chart in plots.plots("p", "A", cases(*latency), 9))


def test_published_values_are_marks_over_nodes_with_their_machine():
    """D12.6 table 6.3b: BT-MZ of class C on four nodes of Lenox, as 4 x 28; of another class there is none."""
    tables = []
    for size in ("C", "A"):
        runs = [
            made.case("BTMZ", nodes=nodes, rows=[made.row("seconds", unit="s")], axes=f" %size={size} %ranks=1")
            for nodes in (1, 2)
        ]
        (chart,) = [chart for chart in plots.plots("p", "BTMZ", cases(*runs), 9) if "over nodes" in chart.title]
        tables.append([row for row in chart.table.rows if row[0].startswith("published")])
    published = [("published: lenox, bare", "4", "27.54 s"), ("published: lenox, integrated", "4", "27.55 s")]
    assert tables == [published, []]


def scaling(bare, **facts):
    """Return a row of a figure that scales, without overhead."""
    return made.row(bare=bare, overhead=0.0, scaling="strong", **facts)


def test_a_speed_up_counts_the_work():
    """Twice the atoms at the same rate, on twice the nodes, is twice the speed."""
    runs = [made.case("A", "generic", nodes, [scaling(100.0)]) for nodes in (1, 2, 4)]
    chart = plots.plots("p", "A", cases(*runs), 9)[1]
    assert chart.table.headings == ("side", "nodes", "speed-up", "efficiency")
    ideal = [("1", "1", "100 %"), ("2", "2", "100 %"), ("4", "4", "100 %")]
    assert [row[1:] for row in chart.table.rows if row[0] == "bare"] == ideal
    assert "A run works on more with more nodes, which counts." in chart.description


def test_a_document_s_own_input_of_which_nobody_knows_the_size_has_a_speed_up():
    known = {"unit": "", "amount": 0.0}
    runs = [made.case("A", "bare", n, [made.alone(bare=90.0 * n, scaling="strong")], expected=known) for n in (1, 2)]
    chart = plots.plots("p", "A", cases(*runs), 9)[0]
    assert chart.table.rows[-1] == ("bare", "2", "2", "100 %")
    assert "works on more" not in chart.description


def test_a_variant_without_the_smallest_run_begins_on_the_line_of_the_ideal(monkeypatch):
    draw, curves = drawing.over_nodes, {}

    def over_nodes(found, label, ideal=False, **facts):
        if ideal:
            curves.update({curve.label: curve.points for curve in found})
        return draw(found, label, ideal, **facts)

    monkeypatch.setattr(drawing, "over_nodes", over_nodes)
    work = {"amount": 1.0}
    runs = [made.case("A", "bare", n, [made.alone(bare=10.0 * n, scaling="strong")], expected=work) for n in (1, 2, 4)]
    runs += [made.case("A", "generic", n, [scaling(10.0 * n)], expected=work) for n in (2, 4)]
    runs.append(made.case("A", "generic", 1, [], expected=work, **FAILED))
    (chart,) = [drawn for drawn in plots.plots("p", "A", cases(*runs), 9) if "speed-up" in drawn.title]
    assert [point[:2] for point in curves["bare"]] == [(1, 1.0), (2, 2.0), (4, 4.0)]
    assert [point[:2] for point in curves["generic"]] == [(2, 2.0), (4, 4.0)]
    assert "generic is compared with 2 nodes, where it begins on that line." in chart.description
    assert chart.description.endswith("generic: left out: 1 node (failed).")
    # In the table each side is compared with its own.
    assert [row[1:] for row in chart.table.rows if row[0] == "generic"] == [("2", "1", "100 %"), ("4", "2", "100 %")]


@pytest.mark.parametrize("place", [0, 1], ids=["light", "dark"])
def test_what_is_written_or_drawn_stands_out_from_its_ground(place):
    for ground in palette.GROUNDS:
        for names, least in ((palette.WRITTEN, 4.5), (palette.DRAWN, 3.0)):
            for name in names:
                ratio = palette.contrast(palette.COLORS[name][place], palette.COLORS[ground][place])
                assert ratio >= least or (name.startswith("series") and ground == "raised"), (name, ground, ratio)


def test_contrast_is_that_of_the_guidelines():
    assert palette.contrast("#ffffff", "#000000") == pytest.approx(21)
    assert palette.contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_series_differ_by_more_than_their_color():
    for what in range(3):
        assert len({str(look[what]) for look in palette.SERIES}) == len(palette.SERIES)
    light = [values[0] for values in palette.COLORS.values()]
    assert len(light) == len(set(light))


def drawn(label):
    found = [shapes.Interval(label, label, 1, 1.0, None, 2.0, (None, 5.0))]
    return part_of_page(drawing.intervals(found, label), "one", label, label)


def box(svg):
    """Return width and height of a drawing, in pixels."""
    return [float(number) for number in ElementTree.fromstring(svg).get("viewBox").split()[2:]]


def test_a_long_legend_gets_lines_and_the_drawing_room_for_them():
    names = [f"published: machine-{number}, integrated" for number in range(5)]
    several = [shapes.Curve(name, 1, ((1.0, 2.0, None, None),)) for name in names]
    short, long = drawing.over_numbers(several[:1], "s", "ranks"), drawing.over_numbers(several, "s", "ranks")
    assert box(long)[1] == pytest.approx(box(short)[1] + 2 * drawing.LEGEND_LINE, abs=0.1)
    texts = re.findall(r'x="([\d.]+)"[^>]*>(published[^<]+)<', long)
    ends = [float(x) + drawing.LETTER * len(text) for x, text in texts]
    assert len(ends) == 5 and max(ends) < drawing.WIDTH


def test_a_name_is_a_bar_for_each_side_with_its_mark_and_an_outline_where_it_was_published():
    measured = [
        shapes.Curve(side, place, ((0.0, 4.0, 3.0, 5.0), (1.0, 8.0, None, None))) for place, side in enumerate("ab")
    ]
    published = shapes.Curve("published: m, bare", 0, ((1.0, 9.0, None, None),), hollow=True)
    svg = drawing.over_names([*measured, published], ["SSE2", "a name of many words that needs lines"], "ns/day")
    color = palette.light("text")
    # Two bars of a, which have its color, and the outline of the published value.
    assert svg.count(f"fill: {color}; opacity: 0.45") == 2
    assert svg.count(f"fill: none; stroke-dasharray: 3,2; stroke-dashoffset: 0; stroke: {color}") == 1
    assert "ns/day" in svg and ">SSE2<" in svg


def test_a_bar_alone_stands_above_its_name_and_one_below_zero_is_whole():
    bare, slower = (shapes.Curve(name, style, ((float(style), value, None, None),)) for name, style, value in BARS)
    svg = drawing.over_names([bare, slower], ["without", "1.3.4"], "%")
    bars = re.findall(r"M ([\d.]+) ([\d.]+) \nL ([\d.]+) \2 \nL \3 ([\d.]+) \nL \1 \4 \nz", svg)
    ticks = [float(x) for x in re.findall(r'x="([\d.]+)"[^>]*>(?:without|1\.3\.4)<', svg)]
    # The page's ground is a box of that shape too.
    middles = [(float(left) + float(right)) / 2 for left, _, right, _ in bars[-2:]]
    assert middles == pytest.approx(ticks, abs=0.1)
    zero, (top, bottom) = float(bars[-1][1]), (float(bars[-2][3]), float(bars[-1][3]))
    assert top < zero < bottom < drawing.HEIGHT


def test_a_drawing_follows_the_page():
    svg = drawn("rate")
    assert "var(--series-1)" in svg
    assert "#0072b2" not in svg
    assert "font-family" not in svg
    root = ElementTree.fromstring(svg)
    names = [element.get("id") for element in root.iter() if element.get("id")]
    assert all(name.startswith("one-") for name in names)
    assert "width" not in root.attrib


@pytest.mark.parametrize("label", ["<b> & $x$ \\frac", "\x00\x1b[1m", "", "é 漢 \ud800"])
def test_a_drawing_holds_any_label(label):
    ElementTree.fromstring(drawn(wording.plain(label)))


@given(st.text())
def test_what_is_plain_stays_so(text):
    assert wording.plain(wording.plain(text)) == wording.plain(text)
    ElementTree.fromstring(f"<a>{wording.plain(text).translate({38: None, 60: None, 62: None})}</a>")
