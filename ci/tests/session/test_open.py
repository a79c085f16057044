"""Sessions of ci/run that go on with what is open: with ReFrame, and with checks made here."""

from __future__ import annotations

import json
import re
import signal

import pytest
from conftest import alive_below, eventually, write_site
from places import place, run, start, table  # noqa: F401

HERE = "open_checks.py"


@pytest.fixture
def opened(place, request):
    """Make a place with checks whose verdicts are open."""
    source = request.path.parents[1] / HERE
    (place.directory / "checks" / "made.py").write_text(source.read_text())
    return place


def passes(output):
    """Return which checks ran in each run of ReFrame, in its order."""
    found = []
    for line in output.splitlines():
        if line.startswith("[ReFrame Setup]"):
            found.append([])
        match = re.match(r"\[ RUN      \] (\w+)", line)
        if match:
            found[-1].append(match[1])
    return [sorted(names) for names in found]


def measured(place):
    """Return of each run in the final report the checks, and the seconds that each of their rounds was given."""
    return [
        {case["name"].split()[0]: [each["seconds"] for each in case["measured"]] for case in run["testcases"]}
        for run in json.loads(place.report.read_text())["runs"]
    ]


def test_minutes_are_spent_on_what_they_close(opened):
    status, output = run(opened, "--minutes", "3", "-n", "Quick|Soon|Late|Long|Never", "-S", "mark=seen")
    assert status == 0, output
    # A fair part of two minutes for five checks is 14 s, two rounds; and no time is left for the 38 more of Long.
    assert "5 case(s), 14 s each: 2 minutes if nothing fails or has to be built" in output
    assert passes(output) == [["Late", "Long", "Never", "Quick", "Soon"], ["Late", "Soon"]]
    first, second = measured(opened)
    assert first == {"Quick": [14] * 2, "Soon": [14] * 2, "Late": [14] * 2, "Long": [14] * 2, "Never": [14] * 14}
    assert second == {"Soon": [14] * 2 + [16] * 3, "Late": [14] * 2 + [55] * 11}
    assert "the open cases need more time than is left" in output
    assert table(output)[-1] == (
        "2 of 5 verdicts open; 5 more minutes would close 1: containercheck run --minutes 5 --resume"
    )
    # The person's arguments stay.
    cases = [case for each in json.loads(opened.report.read_text())["runs"] for case in each["testcases"]]
    assert {case["mark"] for case in cases} == {"seen"}


@pytest.mark.parametrize(
    ("words", "rounds"),
    [
        # Without minutes the session has the usual ones; with seconds each check has these, and one pass.
        (("-n", "Known"), [{"Known": [60] * 12}, {"Known": [60] * 12 + [31] * 6}]),
        (("-n", "Known", "-S", "seconds=60"), [{"Known": [60] * 12}]),
        # A pass that closes nothing ends it.
        (("--minutes", "2", "-n", "Stubborn", "-S", "seconds=10"), [{"Stubborn": [10] * 2}, {"Stubborn": [10] * 4}]),
        # A fixed number of rounds is one pass.
        (("--minutes", "2", "-n", "Soon", "-S", "rounds=3"), [{"Soon": [60] * 3}]),
    ],
)
def test_a_session_goes_on_as_long_as_its_words_allow(opened, words, rounds):
    status, output = run(opened, *words)
    assert (status, measured(opened)) == (0, rounds), output
    assert ("1 case(s), 60 s each: 1 minutes if nothing fails" in output) == (words == ("-n", "Known"))
    assert ("0 of 1 open verdict(s) closed" in output) == ("Stubborn" in words)


def test_slowness_that_shows_later_is_a_failure(opened):
    status, output = run(opened, "--minutes", "3", "-n", "Worsens", "-S", "seconds=10")
    assert status == 1, output
    assert passes(output) == [["Worsens"]] * 2
    assert [len(run["Worsens"]) for run in measured(opened)] == [2, 4]
    assert "FAILED: Worsens generic: " in output


def test_a_case_goes_on_only_on_the_partition_where_it_is_open(opened):
    write_site(opened.config, dict.fromkeys(("one", "second"), {"launcher": "local"}))
    assert run(opened, "-n", "Elsewhere|Quick", "-S", "seconds=10")[0] == 0
    status, output = run(opened, "--resume")
    assert (status, passes(output)) == (0, [["Elsewhere"]]), output
    assert "@here:second+builtin" in output and "@here:one+builtin" not in output
    assert table(output)[-1].endswith("4 verdicts closed, none open")


def test_a_pass_that_is_stopped_leaves_what_was_there_before(opened):
    process = start(opened, "--minutes", "9", "-n", "Waits", "-S", "seconds=10")
    stage = opened.directory / "stage"
    assert eventually(lambda: any("alive" in path.read_text() for path in stage.rglob("rfm_job.out")), of=process)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert (process.returncode, table(output)[-1]) == (1, "run: error: stopped by SIGTERM")
    assert not alive_below(stage)
    assert "containercheck run --minutes 1 --resume" in table(output)[-2]
    assert measured(opened)[0] == {"Waits": [10] * 2}


def test_what_is_open_goes_on_later(opened):
    assert run(opened, "-n", "Quick|Soon|Long", "-S", "seconds=10", "-S", "mark=seen")[0] == 0
    status, output = run(opened, "--resume", "--minutes", "1")
    assert (status, passes(output)) == (0, [["Soon"]]), output
    assert measured(opened)[1:] == [{"Soon": [10] * 2 + [16] * 3}]
    status, output = run(opened, "--resume")
    assert (status, passes(output)) == (0, [["Long"]]), output
    assert table(output)[-1].endswith("3 verdicts closed, none open")
    assert [line.split()[0] for line in table(output)[1:4]] == ["Quick", "Soon", "Long"]
    assert measured(opened)[2:] == [{"Long": [10] * 2 + [247] * 49}]
    # The first session's arguments hold.
    assert json.loads(opened.report.read_text())["runs"][-1]["testcases"][0]["mark"] == "seen"
    status, output = run(opened, "--resume")
    assert (status, output.startswith("run: nothing is open in the last session, with these results\n")) == (0, True)


def lacking(place, name):
    (place.directory / f"{name}.lacks").write_text("no software: apptainer is not on the PATH")
    return f"run: measured before, and not this time: {name} (1 case(s)): no software: apptainer is not on the PATH"


def test_what_was_measured_before_and_cannot_run_is_lost(opened):
    chosen = ("-n", "Quick|Soon", "-S", "seconds=10")
    assert run(opened, *chosen)[0] == 0
    said = lacking(opened, "Soon")
    status, output = run(opened, "--resume")
    assert (status, said in output) == (2, True), output
    status, output = run(opened, *chosen)
    assert (status, said in output) == (2, True), output
    # The last session did not measure it either; and other arguments select other cases.
    assert run(opened, *chosen)[0] == 0
    (opened.directory / "Soon.lacks").unlink()
    assert run(opened, *chosen)[0] == 0
    lacking(opened, "Soon")
    assert run(opened, "-n", "Quick|So+n", "-S", "seconds=10")[0] == 0


def test_an_acceptance_that_lost_a_case_is_undecided(opened):
    program = COMPARING.replace(
        "run.conclude_with_metrics", "lambda *all: acceptance.conclude(dict(generic='1'), *all)"
    )
    chosen = ("1.4", "-n", "Quick|Known", "-S", "rounds=20")
    status, output = run(opened, *chosen, program=program)
    assert status == 0, output
    said = lacking(opened, "Known").replace("run: ", "run: error: ")
    status, output = run(opened, *chosen, program=program)
    assert (status, said in output, "run: undecided: " in output) == (2, True, True), output


COMPARING = """
import sys
from containercheck.command import acceptance, run
from pathlib import Path
place = run.Workplace(Path({directory!r}), config=Path({config!r}))
_, color, new, *arguments = sys.argv
arguments = [color, "--verbose", "--table", *arguments]
sys.exit(run.session(arguments, place, run.conclude_with_metrics, dict(old="one", new=new)))
"""


def test_what_another_comparison_closed_is_closed_for_that_one_only(opened):
    """ci/acceptance OLD NEW1, then OLD NEW2 --resume: NEW2 passed before it ran."""
    assert run(opened, "-n", "Quick", "-S", "seconds=10")[0] == 0
    status, output = run(opened, "1.4", "--resume", "-n", "Quick|Soon", "-S", "seconds=10", program=COMPARING)
    assert "the last session compared bare and containers only, and not old one, new 1.4" in output
    assert (status, passes(output)) == (0, [["Quick", "Soon"]]), output
    status, output = run(opened, "1.5", "--resume", "-n", "Quick|Soon", "-S", "seconds=10", program=COMPARING)
    assert "run: the last session compared old one, new 1.4, and not old one, new 1.5: this one begins anew" in output
    assert (status, passes(output)) == (0, [["Quick", "Soon"]]), output
    # What is open of the same one goes on, with its arguments.
    status, output = run(opened, "1.5", "--resume", program=COMPARING)
    assert (status, passes(output)) == (0, [["Soon"]]), output
    # Where nothing is open, what was found out is said again: it may have been rejected.
    status, output = run(opened, "1.5", "--resume", program=COMPARING)
    assert (status, passes(output)) == (0, [])
    assert [line.split()[0] for line in table(output)[1:3]] == ["Quick", "Soon"]


def test_without_an_earlier_session_nothing_is_open(opened):
    status, output = run(opened, "--resume")
    assert status == 2
    assert output == f"run: error: no session was run here yet: there is no {opened.report}\n"
