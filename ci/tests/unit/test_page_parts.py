"""Parts of the page by themselves: states of cases, commands that repeat them, the matrix, plots and their colors."""

from __future__ import annotations

import shlex
from xml.etree import ElementTree

import made
import pytest
from containercheck.history.nights import Night
from containercheck.report.page import applications, drawing, wording
from containercheck.report.page import cases as page_cases
from containercheck.report.page.drawing import Chart, Value
from containercheck.results.cases import COMMON_FILE, collect
from hypothesis import given
from hypothesis import strategies as st

#: As ReFrame logs a metric that has a reference.
REFERENCED = [9.0, 10.0, -0.1, None, "x", "pass"]
FAILED = {"result": "fail", "fail_reason": "slow"}
SVG = "{http://www.w3.org/2000/svg}"


def cases(*raw):
    return collect([{"runs": [{"testcases": list(raw)}]}])


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({"rows": [made.row()]}, page_cases.PASS),
        ({"rows": [made.row(), made.row("other", verdict="inconclusive")]}, page_cases.OPEN),
        ({"rows": [made.opened("noisy"), made.opened("slower", "other")]}, page_cases.SLOWER),
        ({"rows": [made.opened("close"), made.opened("faster", "other")]}, page_cases.FASTER),
        ({"rows": [made.row(), made.opened("noisy"), made.opened("close", "other")]}, page_cases.CLOSE),
        ({"rows": [made.row(), made.opened("noisy", "other")]}, page_cases.NOISY),
        ({"rows": [made.row(expected=True)]}, page_cases.KNOWN),
        ({"result": "xfail"}, page_cases.KNOWN),
        ({"rows": [made.row(verdict="emulated", expected=True)]}, page_cases.EMULATED),
        ({"rows": [made.alone()], "variant": "bare"}, page_cases.BARE),
        ({"rows": [made.alone()], "variant": "bare", "perfvalues": {"s:p:rate": REFERENCED}}, page_cases.PASS),
        ({"result": "skip", "skip_reason": "no image"}, page_cases.SKIP),
        ({**FAILED, "fail_phase": "performance"}, page_cases.FAIL),
        ({**FAILED, "fail_phase": "sanity"}, page_cases.FAIL),
        ({**FAILED, "fail_phase": "compile_wait"}, page_cases.UNMEASURED),
        ({"result": "abort"}, page_cases.UNMEASURED),
        ({}, page_cases.PASS),
    ],
)
def test_a_case_has_one_of_these_states(facts, state):
    (case,) = cases(made.case(**facts))
    assert page_cases.state(case) is state


def test_no_two_states_share_word_or_sign():
    for what in ("word", "sign", "meaning"):
        assert len({getattr(state, what) for state in page_cases.ALL}) == len(page_cases.ALL)


def test_a_command_names_what_is_needed_and_no_more():
    short, full = cases(made.case("A", axes=" %size=1.5"), made.case("A", axes=" %who=x@y-z", tags=["full"]))
    assert page_cases.command([short], [short]) == (
        "containercheck run --system=cluster:compute -n '^A%variant=generic%num_nodes=1%size=1\\.5$'"
    )
    assert page_cases.command([full], [full]).endswith("%who=x.y-z$' -S full=yes")
    (other,) = cases(made.case("A", environ="gnu", axes=" %size=1.5"))
    assert "-p '^builtin$' -n" in page_cases.command([short], [short, other])
    assert page_cases.command([], [short]) == ""


def report(words, *raw, files=("<builtin>",)):
    """Return a report of a session with these arguments of ReFrame's."""
    info = {"cmdline": shlex.join(["/venv/bin/reframe", "-r", "-c", "checks/", *words]), "config_files": [*files]}
    return {"session_info": info, "runs": [{"testcases": [*raw]}]}


def again(*reports):
    """Return the command of the only case of some reports."""
    (case,) = collect(reports)
    return page_cases.command([case], [case])


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
def test_a_shell_reads_the_words_of_a_command(value, name):
    words = shlex.split(again(report(["-S", f"x={value}"], made.case("A"), files=["<builtin>", f"/{name}"])))
    assert words[:3] == [f"RFM_CONFIG_FILES=/{name}", "containercheck", "run"]
    assert words[-2:] == ["-S", f"x={value}"]


def test_full_axes_are_asked_for_once():
    assert again(report(["-S", "full=yes"], made.case("A", tags=["full"]))).endswith("=1$' -S full=yes")


def test_a_continued_session_is_not_asked_again():
    first = report(["-S", "x=1"], made.case("A"))
    later = report(["-S", "x=1", "-S", "A.seconds=9", "-S", "earlier=/gone.json"], made.case("A"))
    assert again(first, later).endswith("=1$' -S x=1")
    # Nor is a confirmation, which has more rounds.
    confirming = report(["-S", "x=1", "-S", "A.rounds=9"], made.case("A", nightly_pass="confirmation"))
    assert again(first, later, confirming).endswith("=1$' -S x=1")
    assert again(later).endswith("=1$' -S x=1 -S A.seconds=9")


@pytest.mark.parametrize("info", [{}, {"cmdline": "reframe -S 'x", "config_files": None}, {"cmdline": "reframe -S"}])
def test_what_a_session_does_not_record_is_left_out(info):
    assert again({**report([], made.case("A")), "session_info": info}).endswith("=1$'")


def test_scripts_are_found_among_the_commands_of_a_job():
    commands = ["# Of a person's own", "# bare runs: a", "# bare runs: b", "# generic runs: c runs: d", "e"]
    (case,) = cases(made.case(prerun_cmds=commands))
    assert page_cases.scripts(case) == [("bare", "a\nb"), ("generic", "c runs: d")]


def test_cases_are_named_as_short_as_possible():
    everything = cases(
        *(made.case(name, variant) for name in "AB" for variant in made.VARIANTS), made.case("B", nodes=2)
    )
    assert wording.share_of(everything, everything) == "all 7 cases"
    contained = [case for case in everything if case.variant != "bare"]
    assert wording.share_of(contained, everything) == "all cases: integrated, generic"
    assert wording.share_of(everything[:3], everything) == "A"
    assert wording.share_of(everything[1:3], everything) == "A: integrated, generic"
    assert wording.share_of(everything[2:4], everything) == "A generic, 1 node, B bare, 1 node"


def test_a_matrix_has_a_cell_for_variant_and_nodes_and_reasons_of_skips():
    full = made.case("A", "generic", 1, axes=" %size=9", result="skip", skip_reason="full")
    down = made.case("B", "generic", 2, result="skip", skip_reason="down")
    shown = cases(made.case("A", "bare", 1, [made.alone()]), made.case("A", "generic", 1, [made.row()]), full, down)
    reasons = page_cases.skips(shown)
    (table,) = page_cases.matrices(shown, reasons, {"A": "application-1"})
    assert table.partition == "cluster:compute"
    assert table.groups == (("bare", (1,)), ("generic", (1, 2)))
    words = {row.name: [[entry.state.word for entry in cell] for cell in row.cells] for row in table.rows}
    # A case of the full axes makes no row of its own.
    assert words == {"A": [["measured"], ["pass"], []], "B": [[], [], ["skipped"]]}
    assert table.rows[1].cells[2][0].target == reasons["down"].anchor
    assert [(skip.reason, skip.count) for skip in reasons.values()] == [("full", 1), ("down", 1)]


def plots(*raw, most=8):
    """Return the plots of an application."""
    (application,) = applications.applications([Night("1", 0.0, "", tuple(cases(*raw)), frozenset())], most)
    return list(application.charts)


def test_plots_are_drawn_where_they_show_something():
    pair = [made.case("A", variant, 1, [made.row()]) for variant in ("integrated", "generic")]
    assert [chart.title for chart in plots(*pair)] == ["A, cluster:compute: overhead in %"]
    more = [made.case("A", "generic", nodes, [scaling(100.0 / nodes)]) for nodes in (1, 2, 4)]
    titles = [chart.title.rpartition(": ")[2] for chart in plots(*more)]
    assert titles == ["overhead in %", "speed-up of rate", "rate over nodes"]
    assert len(plots(*more, most=1)) == 1
    # A metric of which the check does not say that it scales.
    latency = [made.case("A", "generic", nodes, [made.row(unit="us", better="lower")]) for nodes in (1, 2)]
    assert not any("speed-up" in chart.title for chart in plots(*latency))


def test_published_values_are_marks_over_nodes_with_their_machine():
    """D12.6 table 6.3b: BT-MZ of class C on four nodes of Lenox, as 4 x 28; of another class there is none."""
    tables = []
    for size in ("C", "A"):
        runs = [
            made.case("BTMZ", nodes=nodes, rows=[made.row("seconds", unit="s")], axes=f" %size={size} %ranks=1")
            for nodes in (1, 2)
        ]
        (chart,) = [chart for chart in plots(*runs) if "over nodes" in chart.title]
        tables.append([row for row in chart.table.rows if row[0].startswith("published")])
    published = [("published: lenox, bare", "4", "27.54 s"), ("published: lenox, integrated", "4", "27.55 s")]
    assert tables == [published, []]


def scaling(bare, **facts):
    """Return a row of a metric that scales, without overhead."""
    return made.row(bare=bare, overhead=0.0, scaling="strong", **facts)


def speed_up(*raw):
    (chart,) = [chart for chart in plots(*raw) if "speed-up" in chart.title]
    return chart


def test_a_speed_up_counts_the_work():
    """Twice the atoms at the same rate, on twice the nodes, is twice the speed."""
    chart = speed_up(*(made.case("A", "generic", nodes, [scaling(100.0)]) for nodes in (1, 2, 4)))
    assert chart.table.headings == ("side", "nodes", "value, speed-up")
    bare = [row[1:] for row in chart.table.rows if row[0] == "bare"]
    assert [(at, value.partition(" ")[0], value[-6:]) for at, value in bare] == [
        (nodes, nodes, " 100 %") for nodes in ("1", "2", "4")
    ]
    assert "A run works on more with more nodes, which counts." in chart.description


def test_an_input_of_unknown_size_has_a_speed_up():
    known = {"unit": "", "amount": 0.0}
    runs = [made.case("A", "bare", n, [made.alone(bare=90.0 * n, scaling="strong")], expected=known) for n in (1, 2)]
    chart = speed_up(*runs)
    assert chart.table.rows[-1][:2] == ("bare", "2") and chart.table.rows[-1][2].startswith("2 ")
    assert "works on more" not in chart.description


def test_a_variant_without_the_smallest_run_begins_on_the_line_of_the_ideal():
    work = {"amount": 1.0}
    runs = [made.case("A", "bare", n, [made.alone(bare=10.0 * n, scaling="strong")], expected=work) for n in (1, 2, 4)]
    runs += [made.case("A", "generic", n, [scaling(10.0 * n)], expected=work) for n in (2, 4)]
    runs.append(made.case("A", "generic", 1, [], expected=work, **FAILED))
    chart = speed_up(*runs)
    values = {row[:2]: row[2].partition(" ")[0] for row in chart.table.rows}
    assert values == {
        (side, at): at for side in ("bare", "generic") for at in ("1", "2", "4") if (side, at) != ("generic", "1")
    }
    assert "generic is compared with 2 nodes, and begins on the line of the ideal." in chart.description
    assert "generic: left out: 1 node (failed)." in chart.description


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


@pytest.mark.parametrize("place", [0, 1], ids=["light", "dark"])
def test_texts_and_drawings_stand_out_from_their_ground(place):
    for ground in ("ground", "raised"):
        for names, least in ((WRITTEN, 4.5), (DRAWN, 3.0)):
            for name in names:
                ratio = contrast(drawing.COLORS[name][place], drawing.COLORS[ground][place])
                assert ratio >= least or (name.startswith("series") and ground == "raised"), (name, ground, ratio)


def test_contrast_is_that_of_the_guidelines():
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_series_differ_by_more_than_their_color():
    for what in range(3):
        assert len({str(look[what]) for look in drawing.LOOKS}) == len(drawing.LOOKS)
    assert len(set(drawing.HATCHES.values())) == len(drawing.LOOKS) - 1
    light = [values[0] for values in drawing.COLORS.values()]
    assert len(light) == len(set(light))


def drawn(metric, title="A plot"):
    """Return a metric as SVG of the page, parsed."""
    return ElementTree.fromstring(Chart.of(title, "Words about it.", metric, ("side",), [("bare",)]).svg)


def texts(svg):
    """Return the texts of a plot with their horizontal place, in pixels."""
    return {element.text: float(element.get("x")) for element in svg.iter(f"{SVG}text")}


def test_a_long_legend_fits_into_the_plot():
    several = [Value(f"published: machine-{number}, integrated", 1.0, 2.0, published=True) for number in range(5)]
    svg = drawn(drawing.over_numbers(several, "ranks", "s"))
    ends = [x + 6 * len(text) for text, x in texts(svg).items() if text.startswith("published")]
    assert len(ends) == 5 and max(ends) < float(svg.get("viewBox").split()[2])


def test_names_have_a_bar_for_each_side_and_published_ones_are_outlines():
    bars = [
        Value(side, name, 4.0, 3.0, 5.0) for side in ("bare", "generic") for name in ("SSE2", "many words in lines")
    ]
    bars.append(Value("published: m, bare", "SSE2", 9.0, published=True))
    metric = drawing.over_names(bars, "ns/day")
    faces = [patch.get_facecolor()[3] for patch in metric.axes[0].patches]
    # Bare is filled, the container hatched, and the published value hollow.
    assert faces == [0.4, 0.4, 0.0, 0.0, 0.0]
    assert [bool(patch.get_hatch()) for patch in metric.axes[0].patches] == [False, False, True, True, False]
    assert {"SSE2", "ns/day", "generic"} <= set(texts(drawn(metric)))


def test_a_bar_alone_stands_above_its_name_and_one_below_zero_is_whole():
    metric = drawing.over_names([Value("bare", "without", 10.0), Value("generic", "1.3.4", -5.0)], "%")
    middles = [patch.get_x() + patch.get_width() / 2 for patch in metric.axes[0].patches]
    assert middles == pytest.approx([0, 1])
    assert metric.axes[0].get_ylim()[0] < -5


def test_an_interval_that_is_open_reaches_the_edge():
    (case,) = cases(made.case(rows=[made.row(overhead=2.0, low=None, high=4.0)]))
    axes = drawing.overheads([("rate", "generic", case.rows[0])], "%").axes[0]
    segment = axes.collections[-1].get_segments()[0]
    assert segment[:, 0] == pytest.approx([axes.get_xlim()[0], 4.0])


def test_a_plot_has_the_colors_of_the_page_and_identifiers_of_its_own():
    svg = drawn(drawing.over_numbers([Value("integrated", 1.0, 2.0), Value("integrated", 2.0, 3.0)], "nodes", "s"))
    text = ElementTree.tostring(svg, encoding="unicode")
    assert "var(--series-1)" in text and "#0072b2" not in text
    names = [element.get("id") for element in svg.iter() if element.get("id")]
    assert len({name.rpartition("-")[0] for name in names}) == 1 and names[0].startswith("plot-")
    assert not any(size in svg.attrib for size in ("width", "height"))


@pytest.mark.parametrize("label", ["<b> & $x$ \\frac", "\x00\x1b[1m", "", "é 漢 \ud800", "_x"])
def test_a_plot_holds_any_label(label):
    values = [Value(label, 1.0, 2.0, 1.0, 3.0)]
    drawn(drawing.over_numbers(values, label, label), label)
    drawn(drawing.over_names([Value(label, label, 2.0)], label), label)


@given(st.text())
def test_plain_text_stays_as_it_is(text):
    assert wording.plain(wording.plain(text)) == wording.plain(text)
    ElementTree.fromstring(f"<a>{wording.plain(text).translate({38: None, 60: None, 62: None})}</a>")
