"""A night of ci/nightly: what it runs first, what moved, what it leaves, how it ends. With ReFrame, and made checks."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import made
import pytest
from containercheck.results import database
from places import NIGHT, lines, night, night_place, steady, summary  # noqa: F401


@pytest.fixture
def place(night_place):
    return night_place


def test_a_clean_night_ends_well_and_leaves_all_reports(place):
    for seed, name in enumerate(("Steady", "Moving", "Other")):
        lines(place, name, steady(1, seed))
    status, output = night(place)
    assert status == 0, output
    assert (summary(place)["ran"], summary(place)["alarms"], summary(place)["changed"]) == (3, [], [])
    left = {path.name for path in (place.directory / "reports" / "nightly").iterdir()}
    assert {"run-report.json", "nightly.json", "junit.xml", "report.html", "session.log"} <= left
    suites = ElementTree.parse(place.directory / "reports" / "nightly" / "junit.xml").getroot()
    assert sorted(suite.get("name") for suite in suites) == ["Moving", "Other", "Steady"]


def test_a_regression_in_the_fourth_night_is_run_again_and_is_an_alarm_with_its_cause_until_it_is_declared(place):
    for seed, name in enumerate(("Steady", "Other")):
        lines(place, name, steady(7, seed))
    # From the fourth night on 6 % more, with another runtime; each time it is looked at again, it is so again.
    slower = [(overhead, 10.0, "1.4.5") for overhead in (7.1, 6.8, 7.0, 6.9, 7.0)]
    lines(place, "Moving", [*steady(3, 7), *slower])
    assert [night(place)[0] for _ in range(3)] == [0, 0, 0]
    status, output = night(place)
    assert status == 1, output
    assert output.count("RUN      ] Moving") == 2
    assert output.count("RUN      ] Steady") == 1
    (alarm,) = summary(place)["alarms"]
    assert re.search(r"Moving generic rate\d by \+[56]", alarm)
    assert "1.3.4 -> 1.4.5" in alarm
    # And what decided on it, as values.
    change = next(each for each in summary(place)["changes"] if each["confirmed"])
    assert (change["application"], change["kind"], change["worse"], change["nights"]) == ("Moving", "overhead", True, 1)
    assert change["after"] - change["before"] == pytest.approx(change["size"]) and change["p"] < 0.05
    assert "a regression (status 1)" in output.splitlines()[-1]
    # It stands, and is not run again.
    status, output = night(place)
    assert status == 1, output
    assert output.count("RUN      ] Moving") == 1
    # An acknowledged change is not an alarm any more.
    assert night(place, "--acknowledge", "Apptainer 1.4.5, for {reasons}")[0] == 0


@pytest.mark.long
def test_a_budget_is_spent_on_what_never_ran_then_what_failed_then_the_oldest(place):
    for seed, name in enumerate(("Steady", "Moving", "Other")):
        lines(place, name, steady(9, seed))

    def ran(*arguments):
        _, output = night(place, "--node-hours", "0.11", *arguments)
        return [name for name in ("Steady", "Moving", "Other") if f"RUN      ] {name}" in output]

    first = ran()
    second = ran()
    third = ran()
    assert sorted([*first, *second, *third]) == ["Moving", "Other", "Steady"]
    # All ran once: the first is the oldest, unless another failed.
    lines(place, third[0], [])
    assert ran() == first
    assert ran() == second
    assert ran() == third
    assert ran() == third, "it failed"


def test_what_could_not_be_measured_is_another_status(place):
    lines(place, "Steady", steady(1))
    broken = (
        "import nowhere\nimport reframe as rfm\n\n@rfm.simple_test\nclass Broken(rfm.RunOnlyRegressionTest): pass\n"
    )
    (place.directory / "checks" / "broken.py").write_text(broken)
    status, output = night(place, "-n", "Steady")
    assert status == 2, output
    assert "a check file does not load" in output
    assert summary(place)["problems"]
    (place.directory / "checks" / "broken.py").unlink()
    assert night(place, "-n", "Nowhere")[0] == 2
    assert night(place, "-n", "Steady", "--no-such-option")[0] == 64
    # What came to a bad result is a regression; a check that is skipped is neither.
    assert night(place, "-n", "Steady")[0] == 1


def test_what_is_not_measured_any_more_is_told_first_with_its_reason(place):
    for seed, name in enumerate(("Steady", "Moving", "Other")):
        lines(place, name, steady(3, seed))
    assert night(place)[0] == 0
    (place.directory / "Other.lacks").write_text("no software: spack is not on the PATH")
    checks = place.directory / "checks" / "made.py"
    checks.write_text(checks.read_text().replace("class Moving", "class Renamed"))
    lines(place, "Renamed", steady(1))
    status, output = night(place)
    assert status == 2, output
    lost = summary(place)["lost"]
    assert lost["Other generic, 1 node(s), default"] == "no software: spack is not on the PATH"
    assert "does not generate it any more" in lost["Moving generic, 1 node(s), default"] and len(lost) == 2
    # Before the table, and all else that the night has to say.
    said = "nightly: measured before, and not this time: Other (1 case(s)): no software: spack is not on the PATH"
    assert said in output.partition("\napplication ")[0], output
    page = (place.directory / "reports" / "nightly" / "report.html").read_text()
    assert "no software: spack is not on the PATH" in page.partition("Changes</h2>")[0]
    # Whoever asks for one check has not lost the others.
    status, output = night(place, "-n", "Steady")
    assert (status, summary(place)["lost"]) == (0, {}), output


def test_a_night_that_takes_too_long_is_stopped_and_keeps_what_it_has(place):
    source = (place.directory / "checks" / "made.py").read_text()
    slow = source.replace("sed -n", "[ {type(self).__name__} != Other ] || sleep 100; sed -n")
    (place.directory / "checks" / "made.py").write_text(slow)
    for name in ("Steady", "Other"):
        lines(place, name, steady(1))
    status, output = night(place, "-n", "Steady|Other", "--timeout", "0.4", "--exec-policy=serial")
    assert status == 2, output
    assert "stopped after 0.4 minutes (--timeout)" in output
    assert "Steady" in output.rpartition("\n\n")[2]
    assert junit_of(place, "session")[0].find("error") is not None


def junit_of(place, name):
    suites = ElementTree.parse(place.directory / "reports" / "nightly" / "junit.xml").getroot()
    return next(suite for suite in suites if suite.get("name") == name)


def test_a_damaged_database_is_set_aside_and_a_new_one_begun(place):
    lines(place, "Steady", steady(1))
    path = place.directory / "reports" / "results.db"
    path.parent.mkdir()
    data = made.store(path, [made.session(number, made.nightly(number)) for number in range(3)]).read_bytes()
    path.write_bytes(data[: len(data) // 2])
    status, output = night(place, "-n", "Steady")
    assert status == 2, output
    (aside,) = path.parent.glob("results.db.damaged-*")
    assert str(aside) in output
    assert aside.read_bytes() == data[: len(data) // 2]
    (session,) = database.read(path)
    assert [case["result"] for case in session.testcases] == ["pass"]
