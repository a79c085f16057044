"""containercheck compare: the metrics of two sessions, hosts, sites or months, and what they differ in."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import made
import pytest
from conftest import REPOSITORY
from containercheck.command import compare, main
from containercheck.report import push
from containercheck.results import exported, sides_seen
from containercheck.results.cases import ReportError, collect
from containercheck.session.reframe_process import Workplace
from test_explain_command import RAW, cases


def differing_of(old, new):
    return [line for lines in compare.differences(compare.of_reports(old, new)).values() for line in lines]


def test_two_sessions_are_compared():
    old, new = (
        {"machine": {"kernel": "6.1.0"}, sides_seen.SEES: {"generic": seen}}
        for seen in ({"libc": "glibc", "limit": {"Max a": "1"}}, {"libc": "musl", "variable": {"UCX_TLS": "tcp"}})
    )
    assert differing_of(cases(provenance=old), cases(provenance=new)) == [
        "sees generic libc: glibc -> musl",
        "sees generic limit Max a: 1 -> none",
        "sees generic variable UCX_TLS: none -> tcp",
    ]
    assert differing_of(cases(provenance=old), cases(provenance=old)) == []
    with pytest.raises(ReportError, match="no case in common"):
        differing_of(cases(provenance=old), cases())


def test_two_hosts_are_compared_by_check_and_axes():
    old, new = ({sides_seen.SEES: {"generic": {"libc": libc}}} for libc in ("glibc 2.36", "glibc 2.41"))
    elsewhere = cases(provenance=new, system="there", partition="other")
    assert differing_of(cases(provenance=old), elsewhere) == ["sees generic libc: glibc 2.36 -> glibc 2.41"]
    # What has the same place comes first: then another partition is no partner.
    both = [*cases(provenance=old), *elsewhere]
    assert differing_of(both, cases(provenance=old)) == []
    other_axes = cases(provenance=new, num_nodes=2, name="HPCC %variant=generic %num_nodes=2")
    with pytest.raises(ReportError, match="no check with the same axes"):
        differing_of(cases(provenance=old), other_axes)


def test_words_name_reports(tmp_path, capsys):
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    for path, libc in zip(paths, "ab"):
        case = {**RAW, "provenance": {sides_seen.SEES: {"bare": {"libc": libc}, "generic": {"libc": "x"}}}}
        path.write_text(json.dumps({"runs": [{"testcases": [case]}]}))
    assert main.run("compare", [*map(str, paths)], None) == 0
    assert "sees bare libc: a -> b" in capsys.readouterr().out
    assert main.run("compare", [str(paths[0]), "generic"], None) == 2
    assert "no report generic: name a report, exported lines, a results database, " in capsys.readouterr().err
    assert main.run("compare", [str(paths[0]), str(tmp_path / "gone.json")], None) == 2
    assert "no report" in capsys.readouterr().err


# Metrics


def session(*rows, **facts):
    return collect([{"runs": [{"testcases": [made.case("HPCC", "generic", 1, rows, **facts)]}]}])


def metrics(before, after):
    (pair,) = compare.of_reports(session(before), session(after))
    return compare._metrics(pair)


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        (made.row(overhead=1.0), made.row(overhead=9.0), compare.WORSE),
        (made.row(overhead=9.0), made.row(overhead=1.0), compare.BETTER),
        # Each is known within two: both within three.
        (made.row(overhead=1.0), made.row(overhead=3.8), compare.SAME),
        (made.row(overhead=1.0), made.row(overhead=3.8, interval=None), compare.UNKNOWN),
        (made.alone(), made.alone(), ""),
    ],
)
def test_only_a_change_beyond_both_intervals_is_one(before, after, direction):
    (metric,) = metrics(before, after)
    assert metric.direction == direction


def test_a_baseline_that_is_worse_is_positive_whichever_direction_is_better():
    (rate,) = metrics(made.row(bare=100.0), made.row(bare=80.0))
    (seconds,) = metrics(made.row(bare=80.0, better="lower"), made.row(bare=100.0, better="lower"))
    assert (rate.baseline, seconds.baseline) == (pytest.approx(20), pytest.approx(25))


def test_the_table_has_what_is_worse_first_and_both_overheads(tmp_path, capsys):
    paths = [tmp_path / name for name in ("old.json", "new.json")]
    for path, overhead in zip(paths, (1.0, 9.0)):
        rows = [made.row("FFT"), made.row("HPL", overhead=overhead)]
        path.write_text(json.dumps({"runs": [{"testcases": [made.case("HPCC", "generic", 1, rows)]}]}))
    assert main.run("compare", [*map(str, paths)], None) == 1
    head, first, second, told, *_ = capsys.readouterr().out.splitlines()
    expected = "worse HPCC generic, 1 node(s) HPL +1 ± 2 % +9 ± 2 % +8 +0 %"
    assert first.split() == expected.split()
    assert second.startswith("~ ")
    assert told.startswith("2 metric(s): 1 worse, 0 better; positive is worse in ")
    assert main.run("compare", [*map(str, reversed(paths))], None) == 0


def test_the_page_has_plain_columns_and_folds_away_those_for_experts(tmp_path, capsys):
    paths = [tmp_path / name for name in ("old.json", "new.json")]
    for path, overhead in zip(paths, (1.0, 9.0)):
        rows = [made.row("<i>FFT</i>"), made.row("HPL", overhead=overhead)]
        provenance = made.provenance("generic", f"1.{overhead:g}")
        raw = made.case("HPCC", "generic", 1, rows, provenance=provenance)
        path.write_text(json.dumps({"runs": [{"testcases": [raw]}]}))
    page = tmp_path / "pages" / "page.html"
    assert main.run("compare", [*map(str, paths), "--html", str(page)], None) == 1
    assert capsys.readouterr().out.splitlines()[-1] == f"written: {page}"
    html = page.read_text()
    assert html.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert "<i>" not in html and "<script" not in html
    root = ElementTree.fromstring(html.partition("\n")[2])
    plain, experts = root.iter("table")
    cells = [["".join(cell.itertext()) for cell in row] for row in plain.iter("tr")]
    assert cells[0] == ["result", "case", "metric", f"overhead: {paths[0]}", str(paths[1]), "change"]
    assert cells[1] == ["worse", "HPCC generic, 1 node(s)", "HPL", "+1 ± 2 %", "+9 ± 2 %", "+8"]
    assert [row[:3] for row in cells[2:]] == [["~", "HPCC generic, 1 node(s)", "<i>FFT</i>"]]
    folded, recorded = root.iter("details")
    assert experts in folded.iter() and plain not in folded.iter() and folded.get("open") is None
    assert "12" in [cell.text for cell in experts.iter("td")], "the rounds"
    assert [line.text for line in recorded.iter("li")] == ["runtime: apptainer version 1.1 -> apptainer version 1.9"]
    assert main.run("compare", [*map(str, paths), "--html", "/proc/none/page.html"], None) == 2
    assert "No such file or directory: '/proc/none" in capsys.readouterr().err


def test_months_and_databases_are_compared_by_the_last_run_of_each_case(tmp_path, capsys):
    """A night is a day: 40 nights from November on."""
    overheads = [1.0] * 20 + [2.0] * 10 + [9.0] * 10
    nights = [
        made.session(night, [made.case("HPCC", "generic", 1, [made.row(overhead=overhead)])])
        for night, overhead in enumerate(overheads)
    ]
    path = made.store(tmp_path / "results.db", nights)
    assert main.run("compare", ["2026-11", "2026-12", "--database", str(path)], None) == 1
    assert "+2 ± 2 %" in capsys.readouterr().out
    (tmp_path / "here.json").write_text(json.dumps(nights[0]))
    assert main.run("compare", [str(tmp_path / "here.json"), str(path)], None) == 1
    assert "+9 ± 2 %" in capsys.readouterr().out
    assert main.run("compare", ["2026-11", "2027-01", "--database", str(path)], None) == 2
    assert "has no night or session of 2027-01" in capsys.readouterr().err


def test_exported_lines_are_read_as_they_were_written(tmp_path, capsys):
    found = session(made.row("HPL", overhead=1.0), made.row("FFT"), axes=" %size=big")
    path = tmp_path / "site.jsonl"
    outcome = push.Outcome("nightly", 0, "fine", found, tmp_path)
    path.write_text(push.json_lines(outcome))
    (read,) = exported.read(path)
    assert read.rows == found[0].rows
    assert [*exported.lines([read])] == [{**line, "host": ""} for line in exported.lines(found)]
    elsewhere = tmp_path / "there.json"
    facts = {"axes": " %size=big", "system": "there"}
    raw = made.case("HPCC", "generic", 1, [made.row("HPL", overhead=9.0)], **facts)
    elsewhere.write_text(json.dumps({"runs": [{"testcases": [raw]}]}))
    assert main.run("compare", [str(path), str(elsewhere)], Workplace(tmp_path)) == 1
    assert "worse" in capsys.readouterr().out
    path.write_text('{"metric": "HPL"}\n')
    assert main.run("compare", [str(path), str(elsewhere)], Workplace(tmp_path)) == 2
    assert "a line is not a result of containercheck" in capsys.readouterr().err


def test_lines_of_a_real_session_fit_the_schema_and_are_read():
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((REPOSITORY / "ci/docs/result.schema.json").read_text())
    path = REPOSITORY / "ci/tests/golden/results.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        jsonschema.validate(line, schema)
    read = json.loads(json.dumps([*exported.lines(exported.read(path))]))
    assert [line.items() <= {**stored, "host": ""}.items() for line, stored in zip(read, lines)] == [True] * len(lines)
