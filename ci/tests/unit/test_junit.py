"""JUnit of a night: what is a failure, what an error, and that skips are skips."""

from __future__ import annotations

from xml.etree import ElementTree

from containercheck.report import junit
from containercheck.results.cases import Case


def case(variant, result="pass", **facts):
    return Case(
        ("here", "only", "builtin", variant), "Code", {"size": "1"}, "Code", "only", variant, 2, result, **facts
    )


def written(tmp_path, cases, alarms=(), problems=()):
    junit.write(tmp_path / "junit.xml", cases, alarms, problems)
    assert [path.name for path in tmp_path.iterdir()] == ["junit.xml"]
    return ElementTree.parse(tmp_path / "junit.xml").getroot()


def test_each_result_is_what_junit_calls_it(tmp_path):
    cases = [
        case("bare", job_seconds=12.5),
        case("integrated", "fail", phase="performance", error="PerformanceError", reason="rate is 20 % worse\nmore"),
        case("generic", "fail", phase="sanity", error="NotMeasured", reason="the job ended after 2 runs"),
        case("other", "skip", reason="no image"),
    ]
    (suite,) = written(tmp_path, cases)
    assert {name: suite.get(name) for name in ("name", "tests", "failures", "errors", "skipped", "time")} == {
        "name": "Code",
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
        "time": "12.500",
    }
    bare, integrated, generic, other = suite
    assert (bare.get("classname"), bare.get("name")) == ("Code", "bare 2 node(s) size=1 @here:only+builtin")
    assert (integrated.find("failure").get("message"), list(bare)) == ("rate is 20 % worse", [])
    assert integrated.find("failure").text == "rate is 20 % worse\nmore"
    assert generic.find("error").text == "the job ended after 2 runs"
    assert other.find("skipped").get("message") == "no image"


def test_alarms_and_problems_are_there_though_no_check_failed(tmp_path):
    history, session = written(tmp_path, [], ["the machine changed"], ["stopped by SIGTERM"])
    assert (history.get("name"), history.get("failures")) == ("history", "1")
    assert (session.get("name"), session.get("errors")) == ("session", "1")


def test_what_xml_cannot_hold_does_not_break_it(tmp_path):
    (suite,) = written(tmp_path, [case("bare", "fail", phase="sanity", reason="a \x1b[31mred\x00 <&> line")])
    assert suite[0].find("failure").get("message") == "a ?[31mred? <&> line"
