"""The report as a page: what is in it, that it stands for itself, and that nothing in a result becomes markup."""

from __future__ import annotations

import csv
import re
import shlex
from xml.etree import ElementTree

import made
import pytest
from containercheck.history.change_points import Change
from containercheck.history.nights import nights
from containercheck.history.series import OVERHEAD, series
from containercheck.job.explain import explanation
from containercheck.report import page
from containercheck.report.page import contents
from containercheck.report.page.wording import plain
from containercheck.results.cases import write_file
from containercheck.results.database import StoredSession
from hypothesis import given, settings
from hypothesis import strategies as st

SVG = "{http://www.w3.org/2000/svg}"
NASTY = "<script>alert('1')</script> & \"quoted\" \x1b[31mred\x1b[0m \x00 ]]> {{ 7 * 7 }}"
LEFT = "the node is down"


def read(sessions):
    """Return the nights of sessions, as if they came from a database."""
    return nights(
        StoredSession(session["session_info"], tuple(session["runs"][0]["testcases"])) for session in sessions
    )


def rendered(found, changes=(), problems=()):
    """Return the page of these nights, as text and parsed."""
    html = contents.html(found, series(found), changes, problems, ("f.csv", "s.csv"))
    return html, ElementTree.fromstring(html.partition("\n")[2])


def text(element):
    """Return what can be read in an element, with single spaces."""
    return " ".join("".join(element.itertext()).split())


def part(root, name):
    """Return what can be read in the part of the page with this heading."""
    (found,) = [section for section in root.iter("section") if section.get("aria-labelledby") == name]
    return text(found)


def moved(found):
    """Return the change of one overhead in the fourth of five nights."""
    (metric,) = [
        metric
        for metric in series(found)
        if (metric.kind, metric.application, metric.variant, metric.nodes, metric.metric)
        == (OVERHEAD, "PingPong", "generic", 2, "metric_1")
    ]
    return Change(metric, 3, 3.0, 15.0, 12.0, 1e-6, True, True)


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
    all_nights = [made.session(night, made.nightly(night, 1, worse=12.0 * (night > 2))) for night in range(5)]
    return [*all_nights, made.session(4, odd())]


@pytest.fixture(scope="module")
def shown():
    found = read(sessions())
    return rendered(found, [moved(found)], ["the last session was cut in half"])


def test_the_page_stands_for_itself(shown):
    html, root = shown
    assert html.startswith('<!DOCTYPE html>\n<html lang="en">')
    tags = {element.tag for element in root.iter()}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form", f"{SVG}script"}
    for element in root.iter():
        for name, value in element.attrib.items():
            assert not name.startswith("on"), (element.tag, name)
            assert name not in ("src", "srcset", "action")
            assert not name.endswith("href") or re.fullmatch(
                r"#[\w-]+|[\w.%-]+\.csv|data:image/png;.*", value, re.DOTALL
            ), value
            assert not re.search(r"url\((?!#)", value), value
    assert not re.search(r"@import|url\((?!#)|https?://(?!www\.w3\.org/)", html)


def test_identities_are_unique_and_every_link_leads_somewhere(shown):
    _, root = shown
    found = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(found) == len(set(found))
    inner = [element.get("href") for element in root.iter() if element.get("href", "").startswith("#")]
    assert inner
    assert {link[1:] for link in inner} <= set(found)


def test_headings_come_in_order(shown):
    _, root = shown
    levels = [int(element.tag[1]) for element in root.iter() if re.fullmatch("h[1-6]", str(element.tag))]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in zip(levels, levels[1:]))


def test_every_plot_says_what_it_shows_and_has_its_data_as_a_table(shown):
    _, root = shown
    known = {element.get("id"): element for element in root.iter() if element.get("id")}
    drawings = [element for element in root.iter("figure") if element.find(f".//{SVG}svg") is not None]
    assert len(drawings) == len(list(root.iter(f"{SVG}svg"))) > 20
    for metric in drawings:
        svg = metric.find(f".//{SVG}svg")
        assert svg.get("role") == "img"
        title, description = (known[name] for name in svg.get("aria-labelledby").split())
        assert (title.tag, description.tag) == (f"{SVG}title", f"{SVG}desc")
        assert min(len(text(title)), len(text(description))) > 10
        assert len(list(metric.find("details/div/table/tbody"))) > 0


def test_tables_can_be_read_aloud(shown):
    _, root = shown
    captions = [text(table.find("caption")) for table in root.iter("table")]
    assert len(captions) == len(set(captions))
    assert all(cell.get("scope") for cell in root.iter("th"))
    # What scrolls can be reached by keyboard, and has a name.
    boxes = [element for element in root.iter() if element.get("class") == "scroll" or element.tag == "pre"]
    assert all((box.get("tabindex"), box.get("role")) == ("0", "group") and box.get("aria-label") for box in boxes)


def test_what_a_result_says_is_never_markup(shown):
    html, root = shown
    assert "<script" not in html
    assert "<i>" not in html
    said = "<script>alert('1')</script> & \"quoted\" red \N{REPLACEMENT CHARACTER} ]]> {{ 7 * 7 }}"
    assert said in part(root, "failed")
    assert 'Odd kind=a&b\'s "c" <i> generic, 1 node, cluster:compute' in part(root, "failed")


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters()), st.text(st.characters(exclude_characters="%"), min_size=1))
def test_any_text_comes_back_as_it_was_but_for_what_no_page_can_hold(reason, value):
    skipped = made.case("Odd", result="skip", skip_reason=reason, axes=f" %kind={value}")
    _, root = rendered(read([made.session(0, [skipped])]), (), [reason])
    assert " ".join(plain(reason).split()) in part(root, "problems")


def test_what_changed_comes_first_with_its_cause_since_when_and_a_command(shown):
    html, root = shown
    assert part(root, "problems") == "What went wrong the last session was cut in half"
    said = part(root, "changed")
    assert said.startswith("What changed ✗ Regression: ")
    assert "PingPong generic, 2 nodes, cluster:compute, since 2026-11-04; worse, confirmed by a paired rerun" in said
    assert "overhead of generic +3 % → +15 %" in said
    assert "containercheck run --system=cluster:compute -n '^PingPong%variant=generic%num_nodes=2$'" in said
    assert html.index('id="changed"') < html.index('id="failed"') < html.index('id="matrix"')


def test_a_night_like_the_others_says_so_in_a_sentence_each():
    fine = [made.session(night, [made.case(rows=[made.row()])]) for night in range(3)]
    _, root = rendered(read(fine))
    assert "Nothing changed: none of 2 series over 3 nights" in part(root, "changed")
    assert "Nothing that was measured failed." in part(root, "failed")
    assert "Everything was measured, and every verdict is closed." in part(root, "open")
    _, root = rendered(read(fine[:1]))
    assert "this is the only night." in part(root, "changed")
    assert "They begin with the second night." in part(root, "trends")


def test_of_very_many_failures_only_the_first_are_told_in_full():
    down = [made.case("Odd", nodes=nodes, result="abort", fail_reason="down") for nodes in range(1, 101)]
    _, root = rendered(read([made.session(0, down)]))
    assert len([details for details in root.iter("details") if details.get("id", "").startswith("failure-")]) == 40
    assert "60 more, with their reasons only" in part(root, "open")
    assert "Odd generic, 100 nodes, cluster:compute: down" in part(root, "open")


def test_what_explains_a_failure_is_seen_before_it_is_opened():
    cause = {"rule": "limit", "about": "stack", "sentence": "the stack is smaller in the container", "result": None}
    failed = made.case(result="fail", fail_reason="slower\nmore", rows=[made.row(verdict="fail")], causes=[cause])
    _, root = rendered(read([made.session(0, [failed])]))
    (summary,) = [
        details.find("summary") for details in root.iter("details") if details.get("id", "").startswith("failure-")
    ]
    assert text(summary).endswith("what differs, and may be the cause: the stack is smaller in the container")


def test_a_cause_with_its_proof_is_on_the_page():
    """The cause in the line of the case; where the time went, the proof and the remedy in its message."""
    metric = {"helps": "fail", "rest": "pass", "overhead": 0.4, "interval": [-0.9, 1.8], "without": 34.0, "unit": "%"}
    cause = {
        "rule": "interface",
        "about": "of messages",
        "sentence": "MPI talks over eth0 in the container, over fab0 on the host",
        "remedy": '"binds": ["/etc/openmpi"] in the site\'s file',
        "source": "D12.6 4.4.3",
        "kinds": ["network"],
        "experiment": {"kind": "bind", "value": "/etc/openmpi"},
        "result": {"name": "remedy1", "failed": "", "took_effect": True, "metrics": {"rate": metric}},
    }
    went = "where the time went: of 34 % that a run takes longer, 31 waiting, 2 in the kernel, 1 computing"
    reason = "\n".join(["rate is 34 % worse than bare", went, *explanation.lines([cause])])
    sees = {"generic": {"libc": "glibc 2.36", "other variable": {"SOME_NAME": "0123abcd"}}}
    facts = {
        "causes": [cause],
        "where_time_went": went,
        "provenance": {"sees": sees, "uses": {"generic": {"threads": 4}}},
    }
    failed = made.case(
        result="fail", fail_phase="performance", fail_reason=reason, rows=[made.row(verdict="fail")], **facts
    )
    _, root = rendered(read([made.session(0, [failed])]))
    (details,) = [each for each in root.iter("details") if each.get("id", "").startswith("failure-")]
    assert text(details.find("summary")).endswith(
        "the cause: MPI talks over eth0 in the container, over fab0 on the host"
    )
    shown = text(details)
    assert went in shown
    assert (
        "proven: with /etc/openmpi of the host bound the overhead of rate is +0.4 (-0.9 to +1.8) %, and +34 %" in shown
    )
    assert 'do: "binds": ["/etc/openmpi"] in the site\'s file (D12.6 4.4.3)' in shown
    # What the sides saw and used is in the tables, but not the fingerprints of variables that no rule knows.
    whole = text(root)
    assert "sees generic libcglibc 2.36" in whole and "uses generic threads4" in whole
    assert "SOME_NAME" not in whole


def test_a_series_that_was_broken_on_purpose_says_why():
    broken = [made.session(night, [made.case(rows=[made.row()])]) for night in range(3)]
    broken[2]["session_info"]["changed"] = "another kernel"
    _, root = rendered(read(broken))
    assert "series begin anew: another kernel" in part(root, "trends")


def test_a_failure_has_its_reason_its_command_and_what_its_job_ran(shown):
    _, root = shown
    (failed,) = [details for details in root.iter("details") if details.get("id") == "failure-1"]
    blocks = [text(block) for block in failed.iter("pre")]
    assert any(block.startswith("containercheck run --system=cluster:compute -n ") for block in blocks)
    assert 'mpirun apptainer exec image.sif code "$HOME" && true' in blocks
    assert {text(heading).split()[0] for heading in failed.iter("h3")} == {"bare", "subject"}
    assert "/scratch/stage/code" in text(failed)
    assert "! not run Odd kind=plain generic, 2 nodes" in part(root, "open")


def test_a_command_has_the_configuration_of_its_session():
    asked = {"cmdline": "reframe -r -S x=1", "config_files": ["<builtin>", "/site/settings.py"]}
    failed = made.case("Odd", result="fail", fail_phase="sanity", fail_reason="wrong")
    _, root = rendered(read([made.session(0, [failed], **asked)]))
    (block,) = [block for block in map(text, root.iter("pre")) if "containercheck run " in block]
    assert block.startswith("RFM_CONFIG_FILES=/site/settings.py containercheck run --system=cluster:compute -n ")
    assert block.endswith(" -S x=1")


def test_what_is_open_or_skipped_is_told_with_what_it_takes_or_why(shown):
    _, root = shown
    assert "1 case with verdicts that are open" in part(root, "open")
    assert "2 nodes, cluster:compute, open: rate: open (after 12 rounds, 30 are expected to be enough)" in part(
        root, "open"
    )
    assert f"{LEFT} (1 case: Odd integrated, 1 node)" in part(root, "open")


def test_what_may_be_wrong_comes_first_and_cases_are_told_by_their_metrics():
    rows = [made.row("HPL"), made.opened("slower", "DGEMM", overhead=75.0, above=2, rounds=2)]
    cases = [
        made.case("Noisy", rows=[made.opened("noisy")]),
        made.case("HPCC", rows=rows),
        made.case("Half", rows=[made.opened("faster", answer="87 % better than bare: does it compute the same?")]),
        made.case(
            "Bad",
            rows=[made.row(), made.row("other", verdict="fail")],
            **{"result": "fail", "fail_phase": "sanity", "fail_reason": "slow"},
        ),
    ]
    _, root = rendered(read([made.session(0, cases)]))
    failed, opened = part(root, "failed"), part(root, "open")
    slow = "TOO SLOW, not yet certain: HPCC generic, 1 node(s): DGEMM +75 %, above 10 % in 2 of 2 rounds"
    fast = "QUESTION: Half generic, 1 node(s): rate is 87 % better than bare: does it compute the same?"
    assert failed.index(slow) < failed.index(fast) < failed.index("Bad generic")
    assert "Of its metrics: 1 of 2 fail, 1 pass." in failed
    assert "▲ too slow? HPCC generic, 1 node, cluster:compute, 1 of 2 pass, 1 open: DGEMM: too slow" in opened
    assert opened.index("HPCC") < opened.index("Half") < opened.index("Noisy")


def test_provenance_names_runtimes_images_and_what_differs():
    cases = [made.case("A", rows=[made.row()]), made.case("B", rows=[made.row()])]
    cases[1]["provenance"] = {**made.provenance("generic", "1.4.5"), "host": "node2"}
    sizes = {"image": "/images/hpcc.sif", "image_bytes": 142 << 20, "image_content_bytes": 278 << 20}
    cases[1]["provenance"].update(sizes)
    _, root = rendered(read([made.session(0, cases)]))
    cells = {
        text(table.find("caption")): [[text(cell) for cell in row] for row in table.find("tbody")]
        for table in root.iter("table")
    }
    used = [["apptainer version 1.3.4", "apptainer", "A"], ["apptainer version 1.4.5", "apptainer", "B"]]
    assert cells["Container runtimes"] == used
    assert cells["Images"] == [
        ["code-bookworm.sif", "bookworm", "", "", "ab" * 32, "A"],
        ["hpcc.sif", "bookworm", "142 MiB", "278 MiB", "ab" * 32, "B"],
    ]
    assert cells["What differs between cases"] == [["host", "node1", "A"], ["host", "node2", "B"]]


def test_start_up_is_drawn_for_each_version_of_the_runtime():
    def night(number, version, seconds):
        start = made.row("start", 0.003, seconds, unit="s", overhead_unit="s", subject=seconds, better="lower")
        ran = made.provenance("generic", version)
        return made.session(number, [made.case("StartUp", rows=[start], provenance=ran)])

    found = read([night(0, "1.3.4", 0.12), night(1, "1.3.4", 0.14), night(2, "1.4.5", 0.2)])
    html, root = rendered(found)
    assert "StartUp, cluster:compute: start under each version of the runtime" in part(root, "applications")
    assert "generic: 0.13 at apptainer version 1.3.4 to 0.2 at apptainer version 1.4.5." in html


def test_ramp_and_db12_are_drawn_for_each_version_by_the_place_of_the_image():
    """D12.6 figures 9.1 to 9.7: what a container adds in seconds and in percent, and the score."""

    def night(number, version, seconds, score):
        ran = {"provenance": made.provenance("generic", version)}
        facts = {"unit": "s", "overhead_unit": "s", "better": "lower", "subject": seconds}
        outside = made.row("outside", 20.0, seconds - 20, **facts)
        db12 = made.row("DB12", 12.3, 1.0, unit="DB12", subject=score)
        places = [made.case("RAMP", rows=[outside], axes=f" %image_in={place}", **ran) for place in ("shared", "ram")]
        return made.session(number, [*places, made.case("DB12", rows=[db12], axes=" %slots=all", **ran)])

    html, root = rendered(read([night(0, "2.6.1", 22.0, 12.1), night(1, "3.3.0", 21.0, 12.3)]))
    plots = part(root, "applications")
    for heading in (
        "RAMP image_in=shared, cluster:compute: outside under each version of the runtime",
        "RAMP image_in=ram, cluster:compute: outside under each version of the runtime, more than bare",
        "DB12, cluster:compute: DB12 under each version of the runtime",
    ):
        assert heading in plots
    assert "bare: 20 at bare; generic: 22 at apptainer version 2.6.1 to 21 at apptainer version 3.3.0." in html
    assert "generic: 10 at apptainer version 2.6.1 to 5 at apptainer version 3.3.0." in html
    assert "bare: 12.3 at bare; generic: 12.1 at apptainer version 2.6.1" in html


def test_one_version_is_no_plot():
    row = made.row("start", 0.003, 0.1, unit="s", overhead_unit="s", subject=0.1, better="lower")
    session = made.session(0, [made.case("StartUp", rows=[row], provenance=made.provenance("generic"))])
    assert "version of the runtime" not in part(rendered(read([session]))[1], "applications")


def test_the_data_lie_beside_the_page_as_csv(tmp_path):
    found = read([made.session(4, odd())])
    files = page.write(found, series(found), [], tmp_path / "night.html")
    assert [path.name for path in files] == ["night.html", "night-metrics.csv", "night-series.csv"]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    rows = list(csv.DictReader(files[1].open()))
    assert len(rows) == sum(max(1, len(case.rows)) for case in found[-1].cases)
    assert ('kind=a&b\'s "c" <i>', "fail") in {(row["axes"], row["state"]) for row in rows}
    points = list(csv.DictReader(files[2].open()))
    assert len(points) == sum(len(metric.points) for metric in series(found))
    for path in files[1:]:
        assert f'href="{path.name}"' in files[0].read_text()


@pytest.mark.parametrize(
    "text", ['=HYPERLINK("http://evil/")', "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", " =1", "\t=1"]
)
def test_no_cell_is_a_formula(text, tmp_path):
    """A reason is what a program printed, and a spreadsheet computes what begins like that."""
    found = read([made.session(0, [made.case("A", result="fail", fail_phase="sanity", fail_reason=text)])])
    metrics = page.write(found, series(found), [], tmp_path / "night.html")[1]
    (row,) = csv.DictReader(metrics.open())
    assert row["reason"] in (f"'{text}", f"'{text.strip()}")


def test_numbers_stay_numbers_in_cells(tmp_path):
    found = read([made.session(0, [made.case("A", rows=[made.row(overhead=-1.0)])])])
    metrics = page.write(found, series(found), [], tmp_path / "night.html")[1]
    (row,) = csv.DictReader(metrics.open())
    assert float(row["overhead"]) < 0


def test_series_are_those_that_are_handed_in(tmp_path):
    """Who writes the page has judged them: they are not put together once more."""
    found = read([made.session(night, odd()) for night in range(5)])
    metric, *_ = series(found)
    files = page.write(found, [metric], [], tmp_path / "night.html")
    assert len(list(csv.DictReader(files[2].open()))) == len(metric.points) == 5
    assert "5 nights of history, 1 series" in " ".join(files[0].read_text().split())


def test_the_data_and_the_plots_say_how_a_metric_scales(tmp_path):
    """Of one application, whose largest case failed; and nothing of the other, which declares none."""
    work = {"amount": 1000.0}
    raw = [made.case("B", nodes=nodes, rows=[made.row()]) for nodes in (1, 2)]
    for nodes in (1, 2):
        row = made.row(bare=100.0 * nodes, subject=80.0 * nodes**0.5, scaling="strong")
        raw.append(made.case("A", nodes=nodes, rows=[row], expected=work))
    raw.append(made.case("A", nodes=4, result="fail", fail_phase="sanity", fail_reason="energy differs"))
    found = read([made.session(0, raw)])
    _, root = rendered(found)
    said = part(root, "applications")
    assert "A, cluster:compute: speed-up of rate" in said
    assert "generic: left out: 4 nodes (failed)" in said
    assert "B, cluster:compute: speed-up" not in said
    metrics = page.write(found, series(found), [], tmp_path / "night.html")[1]
    rows = {(row["application"], row["nodes"]): row for row in csv.DictReader(metrics.open())}
    last = rows["A", "2"]
    assert (last["scaling"], float(last["baseline_speed_up"]), float(last["baseline_efficiency"])) == ("strong", 2, 1)
    assert float(last["subject_speed_up"]) == pytest.approx(2**0.5)
    assert float(last["subject_efficiency"]) == pytest.approx(0.5**0.5)
    assert {(rows[key]["scaling"], rows[key]["subject_speed_up"]) for key in rows if key[0] == "B"} == {("", "")}
    assert rows["A", "4"]["scaling"] == ""


def test_a_file_that_cannot_be_written_leaves_what_was_there(tmp_path):
    path = tmp_path / "night.html"
    path.mkdir()
    with pytest.raises(OSError):
        write_file(path, "new")
    assert list(tmp_path.iterdir()) == [path]


def test_commands_are_one_line_of_a_shell_and_select_one_case(shown):
    _, root = shown
    names = [
        case["display_name"].replace(" ", "") for session in sessions() for case in session["runs"][0]["testcases"]
    ]
    blocks = [block for block in map(text, root.iter("pre")) if block.startswith("containercheck run ")]
    assert len(blocks) > 2
    for block in blocks:
        words = shlex.split(block)
        # As ReFrame's filters do it.
        selected = {name for name in names if re.search(words[words.index("-n") + 1], name)}
        assert len(selected) == 1
