"""The report as a page: its content, that it stands for itself, and that nothing in a result becomes markup."""

from __future__ import annotations

import re
import shlex
from xml.etree import ElementTree

import made
import pytest
from conftest import run_command
from containercheck.history.change_points import LevelChange
from containercheck.history.nights import nights
from containercheck.history.series import BARE, OVERHEAD, series
from containercheck.report.page import cases as page_cases
from containercheck.report.page import contents
from containercheck.report.page.cases import plain
from containercheck.report.table import by_reason
from containercheck.results import states
from containercheck.results.cases import collect
from containercheck.results.database import StoredSession
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

NASTY = "<script>alert('1')</script> & \"quoted\" \x1b[31mred\x1b[0m \x00 ]]> {{ 7 * 7 }}"
LEFT = "the node is down"
FAILED = {"result": "fail", "fail_phase": "sanity", "fail_reason": "wrong"}


def read(sessions):
    """Return the nights of sessions, as if they came from a database."""
    return nights(
        StoredSession(session["session_info"], tuple(session["runs"][0]["testcases"])) for session in sessions
    )


def night(*cases):
    return read([made.session(0, cases)])


def rendered(found, changes=(), problems=()):
    """Return the page of these nights, as text and parsed."""
    html = contents.html(found, series(found), changes, problems)
    return html, ElementTree.fromstring(html.partition("\n")[2])


def text(element):
    """Return the text of an element, with single spaces."""
    return " ".join("".join(element.itertext()).split())


def part(root, name):
    """Return the text of the part of the page with this heading."""
    (found,) = [section for section in root.iter("section") if section.get("aria-labelledby") == name]
    return text(found)


def failures(root):
    return [details for details in root.iter("details") if details.get("id", "").startswith("failure-")]


def moved(found, kind=OVERHEAD, worse=True, confirmed=True):
    """Return a change of one metric in the fourth of five nights."""
    wanted = (kind, "PingPong", "" if kind == BARE else "generic", 2, "metric_1")
    (metric,) = [
        metric
        for metric in series(found)
        if (metric.kind, metric.application, metric.variant, metric.nodes, metric.metric) == wanted
    ]
    return LevelChange(metric, 3, 3.0, 15.0, 12.0, 1e-6, worse, confirmed)


def odd():
    """Return one case of everything that is not a pass."""
    return [
        made.case("Odd", result="fail", fail_phase="sanity", fail_reason=NASTY, axes=' %kind=a&b\'s "c" <i>'),
        made.case("Odd", nodes=2, result="abort", axes=" %kind=plain"),
        made.case("Odd", "integrated", result="skip", skip_reason=LEFT),
        made.case("Odd", "integrated", 2, [made.row(verdict="inconclusive", rounds_needed=30)]),
        made.case("Known", rows=[made.row(expected=True, accepted=[20.0, 40.0], overhead=30.0, low=28.0, high=33.0)]),
        made.case("Memory", rows=[made.row(unit="MB", overhead_unit="MB", overhead=9.0, high=None, low=None)]),
    ]


def sessions():
    """Return five nights with a regression in the fourth, and one of everything that is not a pass in the last."""
    all_nights = [made.session(number, made.nightly(number, 1, worse=12.0 * (number > 2))) for number in range(5)]
    return [*all_nights, made.session(4, odd())]


@pytest.fixture(scope="module")
def shown():
    found = read(sessions())
    return rendered(found, [moved(found)], ["the last session was cut in half"])


def test_the_page_stands_for_itself_and_every_link_leads_somewhere(shown):
    html, root = shown
    assert html.startswith('<!DOCTYPE html>\n<html lang="en">')
    tags = {element.tag for element in root.iter()}
    assert not tags & {"script", "link", "iframe", "object", "embed", "base", "form"}
    for name, value in (item for element in root.iter() for item in element.attrib.items()):
        assert not name.startswith("on") and name not in ("srcset", "action")
        assert name != "src" or value.startswith("data:image/svg+xml;base64,")
        if name.endswith("href"):
            assert re.fullmatch(r"#[\w-]+", value)
        assert not re.search(r"url\((?!#)", value)
    assert not re.search(r"@import|url\((?!#)|https?://(?!www\.w3\.org/)", html)
    anchors = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(anchors) == len(set(anchors))
    inner = {element.get("href")[1:] for element in root.iter() if element.get("href", "").startswith("#")}
    assert inner and inner <= set(anchors)


def test_headings_plots_and_tables_can_be_read_aloud(shown):
    _, root = shown
    levels = [int(element.tag[1]) for element in root.iter() if re.fullmatch("h[1-6]", str(element.tag))]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in zip(levels, levels[1:]))
    plots = [element for element in root.iter("figure") if element.find(".//img") is not None]
    assert len(plots) == len(list(root.iter("img"))) > 5
    for plot in plots:
        assert min(len(plot.find(".//img").get("alt")), len(text(plot.find("figcaption")))) > 10
        assert plot.find("details/div/table/tbody/tr") is not None or plot.find("p") is not None
    captions = [text(table.find("caption")) for table in root.iter("table")]
    assert len(captions) == len(set(captions))
    assert all(cell.get("scope") for cell in root.iter("th"))
    # Boxes that scroll can be reached by keyboard, and have a name.
    boxes = [element for element in root.iter() if element.get("class") == "scroll" or element.tag == "pre"]
    assert all((box.get("tabindex"), box.get("role")) == ("0", "group") and box.get("aria-label") for box in boxes)


def test_a_result_is_never_markup(shown):
    html, root = shown
    assert "<script" not in html and "<i>" not in html
    reason = "<script>alert('1')</script> & \"quoted\" red \N{REPLACEMENT CHARACTER} ]]> {{ 7 * 7 }}"
    assert reason in part(root, "failed")
    assert 'Odd kind=a&b\'s "c" <i> generic, 1 node, cluster:compute' in part(root, "failed")


@given(st.text(st.characters()))
def test_any_text_fits_into_a_page(value):
    shown = ElementTree.fromstring(f"<p>{escape(plain(value))}</p>").text or ""
    # A parser reads every end of a line as one character.
    assert shown == plain(value).replace("\r", "\n")


def test_changes_come_first_with_their_cause_since_when_and_a_command(shown):
    html, root = shown
    assert part(root, "problems") == "Problems the last session was cut in half"
    changed = part(root, "changed")
    assert changed.startswith("Changes ✗ Regression: ")
    assert "PingPong generic, 2 nodes, cluster:compute, since 2026-11-04; worse, confirmed by a paired rerun" in changed
    assert "overhead of generic +3 % → +15 %" in changed
    assert "containercheck run --system=cluster:compute -n '^PingPong%variant=generic%num_nodes=2$'" in changed
    assert html.index('id="changed"') < html.index('id="failed"') < html.index('id="matrix"')


def test_a_cause_has_the_heading_of_its_worst_change():
    found = read(sessions())
    better, worse = moved(found, BARE, worse=False), moved(found, confirmed=False)
    _, root = rendered(found, [better, worse])
    assert part(root, "changed").startswith("Changes ? Proposed, not confirmed: bare and overhead both moved ")


def test_a_night_like_the_others_has_a_sentence_in_each_part():
    fine = [made.session(number, [made.case(rows=[made.row()])]) for number in range(3)]
    _, root = rendered(read(fine))
    assert "Nothing changed in 2 series over 3 nights" in part(root, "changed")
    assert "No measured case failed." in part(root, "failed")
    assert "Everything was measured, and every verdict is closed." in part(root, "open")
    fine[2]["session_info"]["changed"] = "another kernel"
    assert "Series begin anew with the night 2026-11-03: another kernel." in part(rendered(read(fine))[1], "trends")
    _, root = rendered(read(fine[:1]))
    assert "this is the only night." in part(root, "changed")
    assert "Trends begin with the second night." in part(root, "trends")


def test_of_very_many_failures_only_the_first_are_shown_in_full():
    down = [made.case("Odd", nodes=nodes, result="abort", fail_reason="down") for nodes in range(1, 101)]
    _, root = rendered(night(*down))
    assert len(failures(root)) == 40
    assert "60 more, with their reasons only" in part(root, "open")
    assert "Odd generic, 100 nodes, cluster:compute: down" in part(root, "open")


def test_a_cause_is_in_the_line_of_its_case_and_its_proof_in_the_message():
    sentence = "the stack is smaller in the container"
    reason = "slower\nproven: with Max stack size at 8388608 the overhead is +0.4 %\ndo: raise it (D12.6 4.4.3)"
    rows = [made.row(verdict="fail")]
    _, root = rendered(night(made.case(result="fail", fail_reason=reason, rows=rows, causes=[made.cause(sentence)])))
    (details,) = failures(root)
    assert text(details.find("summary")).endswith(f": slowerpossible cause: {sentence}; to try: unset it")
    assert " ".join(reason.split()) in text(details)


def test_a_failure_has_its_reason_its_command_and_that_of_one_run():
    failed = made.case("Odd", reproducer="/scratch/code/reproduce.sh", **FAILED)
    _, root = rendered(night(failed, made.case("Odd", nodes=2, result="abort")))
    (shown, _) = failures(root)
    blocks = [text(block) for block in shown.iter("pre")]
    assert any(block.startswith("containercheck run --system=cluster:compute -n ") for block in blocks)
    assert "to repeat Odd generic: bash /scratch/code/reproduce.sh subject, while ReFrame keeps it" in text(shown)
    assert "! not run Odd generic, 2 nodes" in part(root, "open")


def test_doubtful_cases_come_first_and_open_and_skipped_ones_have_a_reason(shown):
    rows = [made.row("HPL"), made.opened("slower", "DGEMM", overhead=75.0, rounds=2)]
    cases = [
        made.case("Noisy", rows=[made.opened("noisy")]),
        made.case("HPCC", rows=rows),
        made.case("Half", rows=[made.opened("faster", answer="87 % better than bare: does it compute the same?")]),
        made.case("Bad", rows=[made.row(), made.row("other", verdict="fail")], **FAILED),
    ]
    _, root = rendered(night(*cases))
    failed, opened = part(root, "failed"), part(root, "open")
    slow = "TOO SLOW, not yet certain: HPCC generic, 1 node(s): DGEMM +75 ± 2 %"
    fast = "QUESTION, does it compute the same: Half generic, 1 node(s): rate +1 ± 2 %"
    assert failed.index(slow) < failed.index(fast) < failed.index("Bad generic")
    assert "Of its metrics: 1 of 2 fail, 1 pass." in failed
    assert "▲ too slow? HPCC generic, 1 node, cluster:compute, 1 of 2 pass, 1 open: DGEMM: too slow" in opened
    assert opened.index("HPCC") < opened.index("Half") < opened.index("Noisy")
    opened = part(shown[1], "open")
    assert "1 case with open verdicts" in opened
    assert "2 nodes, cluster:compute, open: rate: open (12 rounds)" in opened
    assert f"{LEFT} (1 case: Odd integrated, 1 node)" in opened


def test_provenance_names_runtimes_images_and_differences():
    cases = [made.case("A", rows=[made.row()]), made.case("B", "bare", rows=[made.alone()]), made.case("C")]
    sizes = {"image": "/images/hpcc.sif", "image_bytes": 142 << 20}
    sees = {"bare": {"libc": "glibc 2.36", "other variable": {"SOME_NAME": "0123abcd"}}}
    cases[2]["provenance"] = {**made.provenance("generic", "1.4.5"), **sizes, "host": "node2", "sees": sees}
    _, root = rendered(night(*cases))
    cells = {
        text(table.find("caption")): [[text(cell) for cell in row] for row in table.find("tbody")]
        for table in root.iter("table")
    }
    a, c = "A generic, 1 node", "C generic, 1 node"
    assert cells["Images"] == [
        ["code-bookworm.sif", "bookworm", "", "ab" * 32, a],
        ["hpcc.sif", "bookworm", "142 MiB", "ab" * 32, c],
    ]
    library = "/usr/lib/libmpi.so.40.30.4"
    assert ["mpi baseline", library] in cells["The same in all cases"]
    assert cells["Differences between cases"] == [
        ["host", "node1", f"{a}, B bare, 1 node"],
        ["host", "node2", c],
        ["mpi subject", library, f"{a}, {c}"],
        ["runtimes subject command", "apptainer", f"{a}, {c}"],
        ["runtimes subject version", "apptainer version 1.3.4", a],
        ["runtimes subject version", "apptainer version 1.4.5", c],
        # But not the fingerprints of variables that no rule knows.
        ["sees bare libc", "glibc 2.36", c],
    ]


def test_the_page_is_one_file(tmp_path):
    found = read([made.session(number, odd()) for number in range(5)])
    # The series are those that are handed in: they are not put together once more.
    metric, *_ = series(found)
    contents.write(found, [metric], [], tmp_path / "night.html")
    assert [path.name for path in tmp_path.iterdir()] == ["night.html"]
    assert "5 nights of history, 1 series" in " ".join((tmp_path / "night.html").read_text().split())


#: As ReFrame logs a metric that has a reference.
REFERENCED = [9.0, 10.0, -0.1, None, "x", "pass"]


def collected(*raw):
    return made.cases(raw)


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
        (FAILED, states.FAIL),
        ({**FAILED, "fail_phase": "compile_wait"}, states.UNMEASURED),
        ({"result": "abort"}, states.UNMEASURED),
        ({}, states.PASS),
    ],
)
def test_a_case_has_one_of_these_states(facts, state):
    (case,) = collected(made.case(**facts))
    assert states.state_of(case) is state


def test_no_two_states_share_word_or_sign():
    for field in ("word", "sign", "meaning"):
        assert len({getattr(state, field) for state in states.ALL}) == len(states.ALL)


def test_a_matrix_has_a_cell_for_variant_and_nodes_and_reasons_of_skips():
    full = made.case("A", "generic", 1, axes=" %size=9", result="skip", skip_reason="full")
    down = made.case("B", "generic", 2, result="skip", skip_reason="down")
    cases = collected(made.case("A", "bare", 1, [made.alone()]), made.case("A", "generic", 1, [made.row()]), full, down)
    links = page_cases.links([], by_reason(cases))
    (table,) = page_cases.matrices(cases, links)
    assert table.partition == "cluster:compute"
    assert table.groups == (("bare", (1,)), ("generic", (1, 2)))
    words = {row.name: [[entry.state.word for entry in cell] for cell in row.cells] for row in table.rows}
    # A case of the full axes makes no row of its own.
    assert words == {"A": [["measured"], ["pass"], []], "B": [[], [], ["skipped"]]}
    assert table.rows[1].cells[2][0].link == links[cases[3].key]


def report(words, *raw):
    """Return a report of a session with these arguments of ReFrame's."""
    info = {"cmdline": shlex.join(["/venv/bin/reframe", "-r", "-c", "checks/", *words])}
    return {"session_info": info, "runs": [{"testcases": [*raw]}]}


def again(*reports):
    """Return the command of the only case of some reports."""
    (case,) = collect(reports)
    return page_cases.command([case], [case])


@pytest.mark.parametrize(
    ("words", "last"),
    [
        ([], ""),
        (["--config-file=a.py", "-C", "b c.py"], " -C a.py -C 'b c.py'"),
        (["-S", "x=$HOME", "--setvar=A.y=1"], " -S 'x=$HOME' -S A.y=1"),
        (["-S", "y=it's", "-n", "^A|B$", "--session-extras=nightly=1"], " -S 'y=it'\"'\"'s'"),
    ],
)
def test_a_command_has_the_configuration_and_the_variables_of_its_session(words, last):
    selection = "containercheck run --system=cluster:compute -n '^A%variant=generic%num_nodes=1$'"
    assert again(report(words, made.case("A"))) == f"{selection}{last}"


@given(st.text())
def test_a_shell_reads_the_words_of_a_command(value):
    words = shlex.split(again(report(["-S", f"x={value}"], made.case("A"))))
    assert (words[:2], words[-2:]) == (["containercheck", "run"], ["-S", f"x={value}"])


def test_a_command_selects_its_case_as_it_was_first_asked_for():
    full = made.case("A", axes=" %who=x@y-z", tags=["full"])
    assert again(report(["-S", "full=yes"], full)).endswith("%who=x.y-z$' -S full=yes")
    first = report(["-S", "x=1"], made.case("A"))
    later = report(["-S", "x=1", "-S", "A.seconds=9", "-S", "earlier=/gone.json"], made.case("A"))
    confirming = report(["-S", "x=1", "-S", "A.rounds=9"], made.case("A", nightly_pass="confirmation"))
    assert again(first, later, confirming).endswith("=1$' -S x=1")
    assert again(later).endswith("=1$' -S x=1 -S A.seconds=9")
    for info in ({}, {"cmdline": "reframe -S 'x"}, {"cmdline": "reframe -S"}):
        assert again({**report([], made.case("A")), "session_info": info}).endswith("=1$'")
    case, other = collected(made.case("A"), made.case("A", environ="gnu"))
    assert "-p '^builtin$' -n" in page_cases.command([case], [case, other])


def test_commands_are_one_line_and_select_one_case(shown):
    _, root = shown
    names = [
        case["display_name"].replace(" ", "") for session in sessions() for case in session["runs"][0]["testcases"]
    ]
    blocks = [block for block in map(text, root.iter("pre")) if block.startswith("containercheck run ")]
    assert len(blocks) > 2
    for block in blocks:
        words = shlex.split(block)
        # As ReFrame's filters do it.
        assert len({name for name in names if re.search(words[words.index("-n") + 1], name)}) == 1


def test_a_database_becomes_a_page_by_one_command(tmp_path):
    path = made.store(
        tmp_path / "results.db", [made.session(number, [made.case(rows=[made.row()])]) for number in range(2)]
    )
    # Its directory is made where there is none.
    page = tmp_path / "pages" / "today" / "night.html"
    result = run_command("report", "--html", page, "--database", path)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"written: {page}\n"
    assert "2 nights of history" in page.read_text()
